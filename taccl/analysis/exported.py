"""A file or a schedule as a trace for simulators of others, at one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from taccl.backend.flat_json.document import ActionsProgram
from taccl.backend.flat_json.lowering import lower_flat
from taccl.backend.flat_json.unfolded import Flat
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import unfold_file
from taccl.backend.traces.chakra import to_chakra
from taccl.backend.traces.events import Trace
from taccl.backend.traces.goal import to_goal
from taccl.backend.traces.making import trace_of_actions, trace_of_program
from taccl.errors import TacclError, UnitError
from taccl.model import units
from taccl.model.collectives import chunk_bytes, rounding_notes
from taccl.model.schedule import begins_as_schedule, read_schedule
from taccl.support.arguments import number
from taccl.support.reading import bytes_of

#: By name, the text of a trace, or a file for each rank; the number is what a byte of a sum takes, ns.
FORMATS: dict[str, Callable[[Trace, float], str | tuple[bytes, ...]]] = {"goal": to_goal, "chakra": to_chakra}


@dataclass(frozen=True, slots=True)
class Exported:
    """A trace and its text.

    Parameters
    ----------
    text : of `goal`; of other formats empty. files : of `chakra`, that of each rank.
    size_bytes : of the call, as nccl-tests counts it, rounded down to whole chunks. notes : on that.
    """

    text: str
    trace: Trace
    collective: str
    size_bytes: int
    files: tuple[bytes, ...] = ()
    notes: tuple[str, ...] = ()


def export(
    path: str | Path, format: str = "goal", *, size: str | int | None = None, sum_us_per_mb: float = 0.0
) -> Exported:
    """The sends, receives and sums of a file, with what waits for what.

    Parameters
    ----------
    path : a schedule (JSON or Parquet), a file of actions, an MSCCL-XML, or rings and trees of a library.
    format : `goal` or `chakra`.
    size : of the call, as nccl-tests counts; None: that of the schedule or file.
    sum_us_per_mb : what adding takes, us per MB.

    Raises
    ------
    VerificationError : the file is not right.
    TacclError : it is one-sided, has no size, or is none of these.
    """
    if format not in FORMATS:
        raise TacclError(f"unknown format {format[:40]!r}", hint=f"one of {', '.join(FORMATS)}")
    number(sum_us_per_mb, "the time of a sum", TacclError, most=1e9)
    source = _source(path)
    size = source.size_bytes if size is None else size
    if size is None:
        raise UnitError("the file does not say for which size it was made", path=path, hint="--size 64MB")
    wanted_bytes = units.parse_size(size)
    part_bytes = chunk_bytes(source.parts, wanted_bytes)
    trace = source.trace_of(part_bytes)
    made = FORMATS[format](trace, sum_us_per_mb * 1e3 / units.MB)
    text, files = (made, ()) if isinstance(made, str) else ("", made)
    notes = tuple(rounding_notes(wanted_bytes, part_bytes, source.parts, unequal=source.unequal))
    return Exported(text, trace, source.collective, part_bytes * source.parts, files, notes)


@dataclass(frozen=True)
class _Source:
    """A file, its equal parts of a call, the size that it says, and its trace by the bytes of a part.

    `unequal` : whether its chunks are of unequal sizes; then the parts are elements.
    """

    collective: str
    parts: int
    size_bytes: int | None
    trace_of: Callable[[int], Trace]
    unequal: bool = False


def _source(path: str | Path) -> _Source:
    content = bytes_of(path)
    if begins_as_schedule(content):
        schedule = read_schedule(path).schedule
        program, problem = lower_flat(schedule, LoweringOptions()), schedule.problem
        unequal = problem.sizes is not None  # a call of these has a whole number of elements
        return _of_actions(program, Flat.of(program).made_for_bytes if unequal else problem.size_bytes)
    unfolded = unfold_file(path, content, "exported")
    unfolded.check(None, None)
    if isinstance(unfolded, Flat):
        return _of_actions(unfolded.document.program, unfolded.made_for_bytes)
    if unfolded.two_sided is None:
        raise TacclError(
            "its blocks write into memory of their peers, and a trace has sends and receives",
            path=path,
            hint="taccl synthesize --schedule keeps the schedule, which can be exported",
        )
    trace_of = partial(trace_of_program, unfolded.two_sided)
    return _Source(unfolded.collective, unfolded.chunks_of_size, unfolded.made_for_bytes, trace_of)


def _of_actions(program: ActionsProgram, size_bytes: int) -> _Source:
    trace_of, unequal = partial(trace_of_actions, program), len(set(program.chunk_elements)) > 1
    return _Source(program.collective, program.call_elements, size_bytes, trace_of, unequal)
