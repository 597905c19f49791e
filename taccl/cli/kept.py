"""What a search found, kept and shown where no file can be made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from taccl.cli.output import STDOUT, Attempts, output_name, write_output
from taccl.cli.signals import undisturbed
from taccl.errors import CheckError, FileInterrupted
from taccl.synthesis.result import Result


@contextmanager
def keeping(schedule: Path | None, show: Callable[[Result, Path | None], None]) -> Iterator[None]:
    """What has no file, or is interrupted on the way to one, is written as a schedule and shown all the same.

    `show` gets it with where its schedule was written. The error that says why there is no file comes last.
    """
    try:
        yield
    except (CheckError, FileInterrupted) as fault:
        found = fault.kept
        if isinstance(found, Result):
            attempts = Attempts()
            with undisturbed():
                kept = None if schedule is None else attempts.of(lambda: write_schedule(found, schedule))
                attempts.of(lambda: show(found, kept))
            told = [] if kept is None else [f"the schedule is kept in {output_name(kept)}"]
            _tell_too(fault, [*told, *map(str, attempts.failures)])
        raise


def _tell_too(fault: CheckError | FileInterrupted, told: Sequence[str]) -> None:
    """Have the error say what became of the schedule."""
    if not told:
        return
    if isinstance(fault, CheckError):
        fault.hint = "; ".join([fault.hint or "--no-file", *told])
    else:
        fault.message = "; ".join([fault.message, *told])


def write_schedule(result: Result, path: Path) -> Path:
    """Write the schedule to a file, or to standard output; where it went."""
    if path == STDOUT:
        write_output(path, result.schedule_text())
    else:
        result.write_schedule(path)
    return path
