"""A question: one collective on one machine at several sizes, by one sketch or another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from taccl.errors import TacclError, UnitError
from taccl.model import units
from taccl.model.problem import Problem
from taccl.sketch import Sketch, proposed_sketch
from taccl.support.lists import few
from taccl.synthesis.job import Job, formulate
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import AUTO, Request
from taccl.topologies import PhysicalTopology


@dataclass(frozen=True, eq=False)
class Question:
    """What is requested: the fastest algorithm of a collective at each size.

    Parameters
    ----------
    machine : as it is requested, with what executing costs on it if that counts.
    requests : the request without a size, once for each sketch.
    jobs : the same at the largest size that may have a file, with one chunk in each part.
    sizes : bytes, ascending, as nccl-tests counts them; each is a whole number of bytes for each part.
    """

    machine: PhysicalTopology
    requests: tuple[Request, ...]
    jobs: tuple[Job, ...]
    sizes: tuple[int, ...]

    @property
    def collective(self) -> str:
        """Its name."""
        return str(self.requests[0].collective)

    @property
    def name(self) -> str:
        """The collective and the machine."""
        return f"{self.collective} on {self.machine.name}"

    def rounded(self, size_bytes: int) -> int:
        """The size, rounded down to whole bytes of each part."""
        parts = self.jobs[0].inputs.collective.chunks_per_size
        return size_bytes // parts * parts

    def sketch_name(self, way: int) -> str | None:
        """Of the sketch of one way, as the user or a proposal names it; None: all links may be used."""
        sketch = self.requests[way].sketch
        return sketch.name if isinstance(sketch, Sketch) else None if sketch is None else str(sketch)

    @property
    def of_links(self) -> Question:
        """The same by links alone: no file is predicted."""
        return replace(self, jobs=tuple(replace(job, has_predictions=False) for job in self.jobs))

    def problem(self, chunks: int, size_bytes: int, way: int = 0) -> Problem | None:
        """What is requested at one size of this many chunks on links as they are, by one way.

        None where the size is no whole number of such chunks.

        Raises
        ------
        TacclError : more chunks than can be built.
        """
        job = self.jobs[way]
        stated = job.problem(job.configurations[0], job.cut(chunks)).problem
        many = stated.collective.chunks_per_size
        if size_bytes % many:
            return None
        chunk_mb = size_bytes / many / units.MB
        return replace(stated, topology=job.network.topology, chunk_mb=chunk_mb, symmetry=())


def question_of(
    request: Request,
    sketches: Sequence[str | Path | Sketch | None],
    output: OutputOptions,
    sizes: Sequence[int],
) -> tuple[Question, tuple[str, ...]]:
    """The question about the sizes that the collective has on this machine, and what to say of the others.

    A size is what nccl-tests counts, rounded down to whole bytes of each part: one that has not a byte for
    each part is left out.

    Raises
    ------
    TacclError : the machine, the collective, a sketch or the target is wrong.
    """
    requests = tuple(replace(request, sketch=sketch) for sketch in sketches)
    jobs = tuple(_job(each, output, sizes) for each in requests)
    parts = jobs[0].inputs.collective.chunks_per_size
    rounded = [size // parts * parts for size in sizes]
    fitting = tuple(sorted({size for size in rounded if size}))
    question = Question(jobs[0].inputs.topology, requests, jobs, fitting)
    too_small = [size for size, kept in zip(sizes, rounded, strict=True) if not kept]
    changed = [size for size, kept in zip(sizes, rounded, strict=True) if kept not in (0, size)]
    said = []
    if too_small:
        said.append(f"too small for {question.name}: {few(map(units.format_size, too_small))}")
    if changed:
        said.append(
            f"{question.name}: sizes are rounded down to multiples of {parts} bytes, "
            f"{few(map(units.format_size, changed), 3)}"
        )
    return question, tuple(said)


def with_proposal(question: Question, output: OutputOptions) -> Question:
    """The same with one more request: by the sketch that is proposed for the machine, if one is and fits."""
    first = question.requests[0]
    try:
        sketch = proposed_sketch(question.machine)
        if sketch is None:
            return question
        request = replace(first, sketch=sketch, chunks=AUTO)
        job = _job(request, output, question.sizes)
    except TacclError:
        return question
    return replace(question, requests=(*question.requests, request), jobs=(*question.jobs, job))


def _job(way: Request, output: OutputOptions, sizes: Sequence[int]) -> Job:
    """The request at the largest size that its target has a file for: one of them may be none for it."""
    refused: list[UnitError] = []
    for size in reversed(sizes):
        try:
            return formulate(replace(way, size=size, chunks=1), output)
        except UnitError as fault:
            refused.append(fault)
    raise refused[0]
