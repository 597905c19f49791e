"""A schedule becomes the files of a target: lowered once, verified, and kept even where no file can be made.

It knows targets, ways to make a file, and results; how a schedule or a way is found it must not know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

from taccl.backend.target import FEWER_CHUNKS, AnyTarget, Lowered, LoweringOptions
from taccl.errors import CheckError, ProgramLimitError, TacclError
from taccl.model.collective import Collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.synthesis.autotune import Way
from taccl.synthesis.output_file import OutputFile
from taccl.synthesis.result import Result

#: Reasons that are written out.
_FINDINGS = 8


class Lowering:
    """What a target makes of schedules, in any way to make its file.

    Whether a file can hold a schedule is asked before the file is made, and takes as long. So what was made
    last is not made again, and whatever was refused is refused again at once.
    """

    def __init__(self, target: AnyTarget, options: LoweringOptions) -> None:
        """`options` : what is the same whatever the way is."""
        self._target, self._options = target, options
        self._last = lru_cache(maxsize=1)(self._lowered)
        self._refusals: dict[tuple[Schedule, Way], TacclError] = {}

    def check(self, problem: Problem) -> None:
        """Raise TacclError for a problem whose schedules have no file, whatever they are."""
        self._target.check_problem(problem, self._options)

    def __call__(self, schedule: Schedule, way: Way) -> Sequence[Lowered[Any]]:
        """The programs of a schedule. Raises TacclError where there are none."""
        if (schedule, way) in self._refusals:
            raise copy(self._refusals[schedule, way])
        try:
            return self._last(schedule, way)
        except TacclError as fault:
            self._refusals[schedule, way] = copy(fault)  # without what was made so far
            raise

    def _lowered(self, schedule: Schedule, way: Way) -> Sequence[Lowered[Any]]:
        options = replace(
            self._options, protocol=way.protocol, instances=way.instances, thread_blocks=way.thread_blocks
        )
        return self._target.lower(schedule, options)


def with_files(
    result: Result,
    target: AnyTarget,
    lower: Callable[[], Sequence[Lowered[Any]]],
    chunks_that_fit: Callable[[], int],
) -> Result:
    """The result with the verified files of its schedule, if any are asked for.

    Parameters
    ----------
    lower : the programs of the schedule. Raises TacclError where there are none.
    chunks_that_fit : of a file that is too large, how many chunks would fit; 0: not known.

    Raises
    ------
    CheckError : no file could be made, or it failed its own check; the result is kept in it.
    """
    if not result.asked_for_file:
        return result
    began = time.monotonic()
    try:
        if result.files_tried and result.execution is None:
            raise _no_way_fits(result, target)
        try:
            files = _files(target, lower(), result.collective)
        except KeyboardInterrupt:  # it asks for what there is, which takes a file; the next one ends that too
            files = _files(target, lower(), result.collective)
    except CheckError as fault:
        if isinstance(fault, ProgramLimitError):
            _tell_what_fits(fault, chunks_that_fit())
        fault.kept = result
        raise
    except Exception as fault:  # whatever a target does, and memory that runs out: the schedule is kept
        text = str(fault) or type(fault).__name__
        failed = CheckError(f"no file could be made: {text}", hint="--no-xml keeps the schedule")
        if isinstance(fault, TacclError):
            _tell_what_fits(failed, chunks_that_fit())
        failed.kept = result
        raise failed from fault
    return replace(result, files=files, file_seconds=time.monotonic() - began)


def _no_way_fits(result: Result, target: AnyTarget) -> CheckError:
    findings = [f"{each.name}: {each.remark}" for each in result.files_tried[:_FINDINGS]]
    if target.as_plan is not None:  # which always ends, and is refused however it is asked for
        return ProgramLimitError(
            "no way to make the plan fits", findings=findings, hint="--no-xml keeps the schedule"
        )
    return CheckError(
        "no way to make the file fits the machine and ends",
        findings=findings,
        hint="--protocol and --instances make the file all the same",
    )


def _tell_what_fits(fault: CheckError, chunks: int) -> None:
    """Say in a refusal how many chunks would fit; 0: not known."""
    if chunks:
        fault.message += f"; fewer chunks: {chunks} fit{'s' if chunks == 1 else ''}"
        others = [] if fault.hint in (None, FEWER_CHUNKS) else [fault.hint]
        fault.hint = ", or ".join([f"--chunks {chunks}", *others])


def _files(
    target: AnyTarget, programs: Iterable[Lowered[Any]], collective: Collective
) -> tuple[OutputFile, ...]:
    """The verified texts of the programs, that for most runtimes first."""
    files = (
        OutputFile(target.verified_text(each, collective), each.program, each.readers, target)
        for each in programs
    )
    return tuple(sorted(files, key=lambda file: -len(file.readers)))
