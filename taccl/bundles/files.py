"""The verified files of the windows of a question, or why a window has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from taccl.bundles.windows import Window
from taccl.errors import TacclError
from taccl.exploration.curves import at_size
from taccl.exploration.envelope import Envelope
from taccl.exploration.question import Question
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
    """

    collective: str
    name: str
    window: Window
    sizes: tuple[tuple[int, float | None, float], ...]
    kind: Literal["plan", "fallback"]
    reason: str = ""
    outputs: tuple[OutputFile, ...] = field(default=(), repr=False)
    root: int | None = None

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
        """It as plain values; the time is that of its largest size in the table."""
        size_bytes, time_us, bound_us = self.sizes[-1]
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
            "protocol": None if curve is None else curve.answer.configuration.protocol,
            "instances": None if curve is None else curve.answer.configuration.instances,
            "chunks_per_rank": None if curve is None else curve.chunks,
        }


def files_of_windows(
    envelope: Envelope, windows: tuple[Window, ...], library_us: tuple[float | None, ...]
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
        own = tuple(zip(of_table, (library_us[place] for place in window.places), bounds, strict=True))
        if window.curve is None:
            expected = all(library_us[place] is not None for place in window.places)
            reason = _LIBRARY_IS_FASTER if expected else _NOTHING_FOUND
            yield BundleFile(question.collective, "", window, own, "fallback", reason, root=root)
            continue
        try:
            outputs = _outputs(question, window, name)
        except TacclError as fault:
            yield BundleFile(question.collective, "", window, own, "fallback", fault.message, root=root)
            continue
        times = [window.curve.times_us[place] for place in window.places]
        sizes = tuple(zip(of_table, times, bounds, strict=True))
        yield BundleFile(question.collective, name, window, sizes, "plan", outputs=outputs, root=root)


def _outputs(question: Question, window: Window, name: str) -> tuple[OutputFile, ...]:
    """The files for the calls of a window. Raises TacclError where there are none.

    Files for runtimes that leave out the largest size that a file names, name one byte more.
    """
    target = question.jobs[0].target
    leaving, others = target.leaves_out_largest, frozenset(target.runtimes) - target.leaves_out_largest
    made = list(_made(question, window, name, left_out=leaving))
    if leaving:
        made += _made(question, window, name, left_out=others, more=1)
    return tuple(sorted(made, key=lambda output: target.runtimes.index(output.readers[0])))


def _made(
    question: Question, window: Window, name: str, left_out: frozenset[str], more: int = 0
) -> tuple[OutputFile, ...]:
    """The files for all but some runtimes, whose largest call is `more` bytes above that of the window."""
    assert window.curve is not None
    curve, job = window.curve, question.jobs[window.curve.way]
    size = question.sizes[window.places[-1]]
    schedule = at_size(curve.answer.saved.schedule, size)
    if schedule is None:
        raise TacclError(f"the schedule cannot be cut for {units.format_size(size)}")
    configuration = curve.answer.configuration
    each = question.machine.num_members if question.collective in _SIZED_BY_PART else 1
    output = OutputOptions(
        protocol=configuration.protocol,
        instances=configuration.instances,
        thread_blocks=configuration.thread_blocks,
        min_bytes=-(-window.min_bytes // each),
        max_bytes=window.max_bytes // each + more,
    )
    request = replace(question.ways[curve.way], size=size, chunks=curve.chunks, target=job.target)
    asked = formulate(request, output)
    lowering = asked.lowering.named(program_name(name, question.machine.name))
    return files_of(replace(asked, lowering=lowering), schedule, configuration, left_out)


def program_name(name: str, machine: str) -> str:
    """What the program in a file of this name is called, as logs have it."""
    return f"taccl-{name}-{machine}"[:_LONGEST_NAME]


def test_program(collective: str) -> str:
    """The program of nccl-tests for a collective."""
    words = {"allgather": "all_gather", "allreduce": "all_reduce", "reducescatter": "reduce_scatter"}
    return f"{words.get(collective, collective)}_perf" if collective in COLLECTIVES else ""
