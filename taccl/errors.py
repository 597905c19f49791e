"""What can go wrong, by meaning.

Every error that a user can cause or must act on is a `TacclError`. It says what is wrong, where
(file and line, for YAML, XML and JSON) and what to try, and it knows the exit code of the command line:
2 for bad input, 3 when no schedule exists or none was found in time, 4 when a check failed.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

#: How the loader of shared libraries ends where there is no memory for one of them. Other reasons, such as a
#: folder that nothing may be run from, follow after a colon.
_NO_ROOM = ("failed to map segment from shared object", "Cannot allocate memory")


class TacclError(Exception):
    """Root of all errors raised on purpose by this package.

    Parameters
    ----------
    message : what the user did, or what cannot be done, in one sentence.
    path, line : the place in the user's file, where there is one (lines count from 1).
    hint : what to try instead.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else str(path)
        self.line = line
        self.hint = hint

    def __str__(self) -> str:
        place = ""
        if self.path is not None:
            place = f"{self.path}: " if self.line is None else f"{self.path}:{self.line}: "
        elif self.line is not None:
            place = f"line {self.line}: "
        advice = "" if self.hint is None else f"\n  try: {self.hint}"
        return f"{place}{self.message}{advice}"


class FileError(TacclError):
    """A file cannot be read or written."""


class UnitError(TacclError):
    """A size, bandwidth or time that cannot be understood."""


class TopologyError(TacclError):
    """A machine description that is wrong or incomplete."""


class MeasurementError(TacclError):
    """A benchmark's output that no reader knows, that is damaged, or that cannot tell what is requested."""


class SketchError(TacclError):
    """A communication sketch that is wrong, or that does not fit its topology."""


class CollectiveError(TacclError):
    """A collective that is unknown, ill-formed, or does not fit the ranks or the size."""


class TooLargeError(CollectiveError):
    """A collective on more ranks, or in more chunks, than can be built whole."""


class SolverError(TacclError):
    """A solver or engine that is unknown or not installed, or that failed."""


class ClusterError(TacclError):
    """A cluster that cannot be reached, or whose workers cannot be used."""


class XmlError(TacclError):
    """A file that is not MSCCL-XML, or that no reader can take apart."""


class PlanError(TacclError):
    """A file that is not an MSCCL++ plan, or that no reader can take apart."""


class InfeasibleError(TacclError):
    """No schedule exists: the message names the chunk, the rank and what stands between them."""

    exit_code = 3


class NoScheduleInTime(TacclError):
    """The time limit passed before any valid schedule was found."""

    exit_code = 3


class OutOfMemory(NoScheduleInTime):
    """Memory ran out before any valid schedule was found, or before what was found could be written."""

    exit_code = TacclError.exit_code


def out_of_memory(why: str = "") -> OutOfMemory:
    """Memory ran out; `why` says where, if that is known."""
    text = f"out of memory: {why}" if why else "out of memory"
    return OutOfMemory(text, hint="fewer ranks or chunks, or a machine with more")


class CheckError(TacclError):
    """Something made by this program, or given to be checked, is not right.

    `findings` holds one sentence for each fault, the first faults first.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        findings: Sequence[str] = (),
        path: str | Path | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, path=path, line=line, hint=hint)
        self.findings = tuple(findings)
        #: What was found before the check failed: of `synthesize`, its `Result` without files.
        self.kept: object = None

    def __str__(self) -> str:
        return super().__str__() + "".join(f"\n  - {finding}" for finding in self.findings)


class FileInterrupted(KeyboardInterrupt):
    """The user stopped the making of a file; `kept` is what was found before, as in `CheckError`."""

    def __init__(self, kept: object) -> None:
        super().__init__(kept)
        self.kept = kept
        self.message = "interrupted; no file was made"


class ScheduleError(CheckError):
    """A schedule that breaks a rule of the cost model or does not compute its collective."""


class ProgramLimitError(CheckError):
    """A program over a limit of a runtime: the limit's name and what to change."""


class VerificationError(CheckError):
    """A file for a runtime that would refuse it, or that computes something else."""


def is_out_of_memory(failure: BaseException | None) -> bool:
    """Whether memory ran out; where it does while a library is loaded, only the loader's words say so."""
    while failure is not None:
        if isinstance(failure, MemoryError | OutOfMemory) or getattr(failure, "errno", None) == errno.ENOMEM:
            return True
        if isinstance(failure, OSError | ImportError) and str(failure).endswith(_NO_ROOM):
            return True
        failure = failure.__cause__ or failure.__context__
    return False
