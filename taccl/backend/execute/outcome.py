"""What came of running a program: the facts, what is wrong, and who is stuck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from taccl.backend.execute.block import RunningBlock, describe_wait
from taccl.backend.execute.call import Call
from taccl.backend.execute.memory import Memory
from taccl.backend.execute.plan import Workload
from taccl.backend.execute.reference import Answer
from taccl.errors import VerificationError
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import stamped

Verdict = Literal["right", "wrong", "hangs", "not checked"]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Execution(Reported):
    """One run of a program.

    Parameters
    ----------
    collective, ranks, thread_blocks, steps : of the program; `steps` without nops.
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
    verdict: Verdict
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
class Share:
    """What one rank, or all of them together, have to say when a run is over.

    `wrong[k]` counts wrong elements if the k-th of `Call.roots` is the root.
    """

    pieces: int = 0
    wrong: tuple[int, ...] = ()
    stuck: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()


def stuck_blocks(blocks: list[RunningBlock], plan: Workload, call: Call) -> tuple[str, ...]:
    """A sentence for each thread block that has not ended."""
    return tuple(
        f"{block.name()} has not ended"
        if block.waits_for is None
        else describe_wait(block.name(), block.waits_for, plan, call, block.iteration)
        for block in blocks
        if not block.ended
    )


def left_over_pieces(pieces: list[tuple[int, int]], plan: Workload) -> tuple[str, ...]:
    """A sentence for each connection with pieces that nobody took."""
    return tuple(
        f"{number} pieces on {plan.connection_name(connection)} were sent and never received"
        for connection, number in pieces
    )


def wrong_by_root(answer: Answer, memories: dict[int, Memory]) -> tuple[int, ...]:
    """For each possible root, wrong elements of these ranks."""
    if not answer.call.checkable:
        return ()
    return tuple(
        sum(answer.wrong(rank, root, memory) for rank, memory in memories.items())
        for root in answer.call.roots
    )


def best_root(call: Call, wrong: tuple[int, ...]) -> int | None:
    """The root that explains the outputs best."""
    return call.roots[int(np.argmin(wrong))] if wrong else None


def findings_of(answer: Answer, memories: dict[int, Memory], root: int | None) -> tuple[str, ...]:
    """What is wrong on these ranks."""
    if not answer.call.checkable:
        return ()
    return tuple(text for rank, memory in memories.items() for text in answer.findings(rank, root, memory))


def conclude(
    plan: Workload,
    answer: Answer,
    ranks_as: str,
    share: Share,
    findings: tuple[str, ...],
    check: bool,
    seconds: float,
) -> Execution:
    """The outcome, from the shares of all ranks put together."""
    call = answer.call
    known = check and call.checkable
    root = best_root(call, share.wrong)
    wrong = min(share.wrong, default=0)
    faults = (*findings, *share.left_over)
    verdict: Verdict = "right" if known else "not checked"
    if share.stuck:
        verdict, faults = "hangs", share.stuck
    elif faults:
        verdict = "wrong"
    checked = sum(answer.checked(rank, root) for rank in range(call.num_ranks)) if known else 0
    if len(faults) > _SHOWN:
        faults = (*faults[:_SHOWN], f"and {len(faults) - _SHOWN} more")
    return Execution(
        **describe_call(plan, call),
        ranks_as=ranks_as,
        verdict=verdict,
        pieces=share.pieces,
        checked=0 if share.stuck else checked,
        wrong=0 if share.stuck else wrong,
        root=root,
        findings=faults,
        seconds=seconds,
    )


def describe_call(plan: Workload, call: Call) -> dict[str, Any]:
    """The part of an outcome that is known beforehand."""
    return {
        "collective": call.collective,
        "ranks": plan.num_ranks,
        "thread_blocks": len(plan.blocks),
        "steps": sum(len(block.steps) for block in plan.blocks),
        "mode": call.mode,
        "size_bytes": call.size_bytes,
        "dtype": call.dtype,
        "op": call.op,
        "slots": call.slots,
        "iterations": call.iterations,
        "notes": call.notes,
    }
