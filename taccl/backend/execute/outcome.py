"""What came of running a program: the facts, what is wrong, and who is stuck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from taccl.backend.execute.agents import End
from taccl.backend.execute.call import Call
from taccl.errors import VerificationError
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import stamped

Outcome = Literal["right", "wrong", "hangs", "not checked"]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Execution(Reported):
    """One run of a program.

    Parameters
    ----------
    collective, ranks, thread_blocks, steps : of the program; `steps` without nops. Over MPI, which knows no
        thread blocks, there are 0, and `steps` are rounds.
    mode : `in place` or `out of place`.
    size_bytes, dtype, op, slots, iterations : of the call; a chunk larger than a piece takes several
        iterations of all steps.
        A plan has no connections, and so no slots.
    calls : one after another, each with new inputs.
    ranks_as : threads, processes, turns or mpi.
    pieces : sent over connections; of a plan, operands written into memory of other ranks.
    checked, wrong : elements looked at, and those of them that are off.
    root : of a rooted collective, given or the one that fits best.
    verdict : `not checked` if it ended and nobody requested, or nobody knows, what the outputs must hold.
    findings : what is wrong, or who is stuck.
    seconds : wall time; it says nothing about a GPU.
    notes : how the call was understood, such as a size that was rounded down.
    """

    collective: str
    ranks: int
    thread_blocks: int
    steps: int
    mode: str
    size_bytes: int
    dtype: str
    op: str
    slots: int | None
    iterations: int
    ranks_as: str
    verdict: Outcome
    calls: int = 1
    pieces: int = 0
    checked: int = 0
    wrong: int = 0
    root: int | None = None
    findings: tuple[str, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.verdict in ("right", "not checked")

    def report(self) -> Report:
        """The run as figures, as one row, and as a table."""
        values = _values(self)
        cells = [
            ("result", f"{self.verdict}, {self.wrong} of {self.checked} elements off"),
            ("wall time", f"{self.seconds:.2f} s here, which says nothing about a GPU"),
            *(("error", finding) for finding in self.findings),
        ]
        title = f"{self.collective}, {self.ranks} ranks, {self.mode}"
        figures = {"ok": self.ok, "path": None, "runs": [values]}
        return Report("taccl.run/1", figures, list(values), [values], Table(title, cells))

    def raise_for_findings(self) -> None:
        """Raise `VerificationError` if it hung or computed something else."""
        if not self.ok:
            what = "hangs: these wait for ever" if self.verdict == "hangs" else "computes something else"
            raise VerificationError(f"{self.mode}, the program {what}", findings=self.findings)


def outcomes_to_dict(runs: Sequence[Execution], path: str | None = None) -> dict[str, object]:
    """What `taccl run --json` prints of the runs of one file."""
    values = {"ok": all(run.ok for run in runs), "path": path, "runs": [_values(run) for run in runs]}
    return stamped("taccl.run/1", values)


def _values(run: Execution) -> dict[str, object]:
    values = asdict(run)
    values["wall_s"] = values.pop("seconds")
    return values


@dataclass(frozen=True, slots=True)
class Subject:
    """What was run: the part of an outcome that is known beforehand.

    Parameters
    ----------
    thread_blocks, steps : of all ranks.
    calls : one after another.
    slots : pieces that a connection holds; None: there are none.
    """

    call: Call
    thread_blocks: int
    steps: int
    calls: int = 1
    slots: int | None = None


def conclude(
    subject: Subject,
    ranks_as: str,
    ends: Sequence[End],
    known: bool,
    seconds: float,
    left_over: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Execution:
    """The outcome, from what all ranks have to say.

    Parameters
    ----------
    known : whether outputs were compared.
    left_over : what is wrong besides outputs, such as pieces that nobody took.
    """
    call, stuck = subject.call, _stuck(ends)
    verdicts = [end.verdict for end in ends if end.verdict is not None and known and not stuck]
    wrong = np.array([verdict.wrong for verdict in verdicts], dtype=np.int64).sum(axis=0)
    best = int(np.argmin(wrong)) if verdicts else 0
    faults = stuck or [*(text for verdict in verdicts for text in verdict.findings[best]), *left_over]
    outcome: Outcome = "hangs" if stuck else "wrong" if faults else "right" if known else "not checked"
    if len(faults) > _SHOWN:
        faults = [*faults[:_SHOWN], f"and {len(faults) - _SHOWN} more"]
    return Execution(
        collective=call.collective,
        ranks=call.num_ranks,
        thread_blocks=subject.thread_blocks,
        steps=subject.steps,
        mode=call.mode,
        size_bytes=call.size_bytes,
        dtype=call.dtype,
        op=call.op,
        slots=subject.slots,
        iterations=call.iterations,
        calls=subject.calls,
        ranks_as=ranks_as,
        verdict=outcome,
        pieces=sum(end.sent for end in ends),
        checked=sum(verdict.checked for verdict in verdicts),
        wrong=int(wrong[best]) if verdicts else 0,
        root=call.roots[best] if verdicts and call.checkable else None,
        findings=tuple(faults),
        seconds=seconds,
        notes=(*call.notes, *(() if stuck else notes)),
    )


def _stuck(ends: Sequence[End]) -> list[str]:
    """What each thread block that is stuck says; empty where all have ended."""
    stuck = [text for end in ends for text in end.stuck]
    if not stuck and not all(end.ended for end in ends):
        return ["nothing goes on, and no thread block says what it waits for"]
    return stuck
