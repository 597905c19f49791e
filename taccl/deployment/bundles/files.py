"""The verified files of the windows of a question, or why a window has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from taccl.analysis.exploration.curves import at_size
from taccl.analysis.exploration.envelope import Envelope
from taccl.analysis.exploration.question import Question
from taccl.deployment.bundles.windows import SizeWindow
from taccl.errors import TacclError, UnitError
from taccl.model import units
from taccl.model.collectives import COLLECTIVES
from taccl.synthesis.emit import files_of
from taccl.synthesis.job import formulate
from taccl.synthesis.lowering import OutputFile
from taccl.synthesis.output_options import OutputOptions

#: Of these, files count each rank's part and nccl-tests all parts together.
_SIZED_BY_PART = ("gather", "scatter")
#: MSCCL++ keeps as many letters of a plan's name.
_LONGEST_NAME = 63
_LIBRARY_IS_FASTER = "the library's own algorithm is expected to be faster"
_NOTHING_FOUND = "no algorithm was found in the time"
_NOT_TAKEN = "the file does not take calls of this size"


@dataclass(frozen=True, eq=False)
class BundleFile:
    """What calls of a window take.

    Parameters
    ----------
    name : of its files without their ending; empty for a fallback.
    window : which calls.
    sizes : of the table that lie in it: bytes, time and bound in microseconds. Of a fallback the time is what
        the library expects, None if it does not say.
    kind : `plan` for files, `fallback` for what the runtime does by itself.
    reason : why it is a fallback.
    outputs : the files, each for some runtimes; none for a fallback.
    root : of a collective that has one. No runtime compares it with that of a call.
    unserved : sizes of the table that lie in the window and that its files do not take, and why: calls take
        what the runtime does by itself.
    """

    collective: str
    name: str
    window: SizeWindow
    sizes: tuple[tuple[int, float | None, float], ...]
    kind: Literal["plan", "fallback"]
    reason: str = ""
    outputs: tuple[OutputFile, ...] = field(default=(), repr=False)
    root: int | None = None
    unserved: Mapping[int, str] = field(default_factory=dict)

    @property
    def by_path(self) -> dict[str, OutputFile]:
        """Its files by their paths in the folder."""
        return {path: output for output in self.outputs for path in self._paths(output).values()}

    @property
    def paths(self) -> dict[str, str]:
        """The path of its file for each runtime that has one."""
        return {runtime: path for output in self.outputs for runtime, path in self._paths(output).items()}

    def _paths(self, output: OutputFile) -> dict[str, str]:
        return {runtime: f"{runtime}/{self.name}.{output.format}" for runtime in output.readers}

    def figures(self) -> dict[str, Any]:
        """It as plain values; the time is that of the largest size in the table that it serves."""
        size_bytes, time_us, bound_us = [each for each in self.sizes if each[0] not in self.unserved][-1]
        curve = self.window.curve if self.kind == "plan" else None
        return {
            "path": next(iter(self.paths.values()), None),
            "collective": self.collective,
            "root": self.root,
            "min_bytes": self.window.min_bytes,
            "max_bytes": self.window.max_bytes,
            "size_bytes": size_bytes,
            "time_us": time_us,
            "lower_bound_us": bound_us,
            "kind": self.kind,
            "reason": self.reason,
            "unserved": [{"size_bytes": size, "reason": why} for size, why in self.unserved.items()],
            "protocol": None if curve is None else curve.answer.configuration.protocol,
            "instances": None if curve is None else curve.answer.configuration.instances,
            "chunks_per_rank": None if curve is None else curve.chunks,
        }


def files_of_windows(
    envelope: Envelope, windows: tuple[SizeWindow, ...], library_us: tuple[float | None, ...]
) -> Iterator[BundleFile]:
    """What the calls of each window take: verified files, or what the runtime does by itself.

    Parameters
    ----------
    library_us : for each size, what the runtime's own algorithm is expected to take; None: not known.
    """
    question = envelope.question
    root = question.jobs[0].inputs.collective.root
    for window in windows:
        name = f"{question.collective}-{units.format_size(question.sizes[window.places[0]])}"
        if len(window.places) > 1:
            name += f"-{units.format_size(question.sizes[window.places[-1]])}"
        bounds = [envelope.bounds[place].value_us for place in window.places]
        of_table = [question.sizes[place] for place in window.places]
        own_us = [library_us[place] for place in window.places]
        own = tuple(zip(of_table, own_us, bounds, strict=True))
        if window.curve is None:
            reason = _NOTHING_FOUND if None in own_us else _LIBRARY_IS_FASTER
            yield BundleFile(question.collective, "", window, own, "fallback", reason, root=root)
            continue
        try:
            outputs, refused = _outputs(question, window, name)
        except TacclError as fault:
            yield BundleFile(question.collective, "", window, own, "fallback", fault.message, root=root)
            continue
        each = _parts_in_size(question)
        unserved = {
            size: refused.get(size, _NOT_TAKEN)
            for size in of_table
            if not all(_takes(output, size // each) for output in outputs)
        }
        if len(unserved) == len(of_table):
            reason = unserved[of_table[-1]]
            yield BundleFile(question.collective, "", window, own, "fallback", reason, root=root)
            continue
        times = [window.curve.times_us[place] for place in window.places]
        sizes = tuple(
            (size, from_library if size in unserved else time_us, bound)
            for (size, from_library, bound), time_us in zip(own, times, strict=True)
        )
        yield BundleFile(question.collective, name, window, sizes, "plan", "", outputs, root, unserved)


def _takes(output: OutputFile, size_bytes: int) -> bool:
    return output.target.takes is None or output.target.takes(output.program, size_bytes)


def _parts_in_size(question: Question) -> int:
    """How many times what a file counts of a call is in what nccl-tests counts."""
    return question.machine.num_members if question.collective in _SIZED_BY_PART else 1


def _outputs(
    question: Question, window: SizeWindow, name: str
) -> tuple[tuple[OutputFile, ...], Mapping[int, str]]:
    """The files for the calls of a window, made at the largest of its sizes at which there are any.

    Larger ones come with why not: whatever keeps one size from having a file, such as a number of bytes that
    chunks do not divide, takes it from no other.

    Raises
    ------
    TacclError : there is no file at any size.
    """
    refused: dict[int, TacclError] = {}
    for size in (question.sizes[place] for place in reversed(window.places)):
        try:
            return _at_size(question, window, name, size), {
                larger: fault.message for larger, fault in refused.items()
            }
        except UnitError as fault:
            refused[size] = fault
    raise next(iter(refused.values()))


def _at_size(question: Question, window: SizeWindow, name: str, size: int) -> tuple[OutputFile, ...]:
    """The files for the calls of a window, made at one of its sizes.

    Those for runtimes that leave out the largest size that a file names, name one byte more.
    """
    target = question.jobs[0].target
    leaving, others = target.leaves_out_largest, frozenset(target.runtimes) - target.leaves_out_largest
    made = list(_made(question, window, name, size, left_out=leaving))
    if leaving:
        made += _made(question, window, name, size, left_out=others, more=1)
    return tuple(sorted(made, key=lambda output: target.runtimes.index(output.readers[0])))


def _made(
    question: Question, window: SizeWindow, name: str, size: int, left_out: frozenset[str], more: int = 0
) -> tuple[OutputFile, ...]:
    """The files for all but some runtimes, whose largest call is `more` bytes above that of the window."""
    assert window.curve is not None
    curve, job = window.curve, question.jobs[window.curve.way]
    configuration = curve.answer.configuration
    each = _parts_in_size(question)
    output = OutputOptions(
        protocol=configuration.protocol,
        instances=configuration.instances,
        thread_blocks=configuration.thread_blocks,
        min_bytes=-(-window.min_bytes // each),
        max_bytes=window.max_bytes // each + more,
    )
    request = replace(question.requests[curve.way], size=size, chunks=curve.chunks, target=job.target)
    requested = formulate(request, output)
    schedule = at_size(curve.answer.saved.schedule, size)
    if schedule is None:
        raise UnitError(f"the schedule cannot be cut for {units.format_size(size)}")
    named = f"taccl-{name}-{question.machine.name}"[:_LONGEST_NAME]
    return files_of(
        replace(requested, lowering=requested.lowering.named(named)), schedule, configuration, left_out
    )


def test_program(collective: str) -> str:
    """The program of nccl-tests for a collective."""
    words = {"allgather": "all_gather", "allreduce": "all_reduce", "reducescatter": "reduce_scatter"}
    return f"{words.get(collective, collective)}_perf" if collective in COLLECTIVES else ""
