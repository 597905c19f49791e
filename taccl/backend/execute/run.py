"""Execute a program for real: on NumPy arrays, with bounded connections, checked against NumPy."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace

import numpy as np

from taccl.backend.execute.block import LocalExchange, RunningBlock
from taccl.backend.execute.call import Call, make_call
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.memory import Memory, check_executable, check_memory, fill, memory_elements
from taccl.backend.execute.outcome import (
    Execution,
    Share,
    best_root,
    conclude,
    findings_of,
    left_over_pieces,
    stuck_blocks,
    wrong_by_root,
)
from taccl.backend.execute.plan import Workload, make_plan
from taccl.backend.execute.processes import run_processes
from taccl.backend.execute.reference import Answer
from taccl.backend.execute.threads import Blocking, run_threads
from taccl.backend.execute.turns import take_turns
from taccl.backend.program import Program
from taccl.errors import TacclError
from taccl.model.collective import Collective

RANKS_AS = ("threads", "processes", "turns")


def execute(
    program: Program,
    *,
    in_place: bool | None = None,
    size_bytes: int | None = None,
    dtype: str = "float32",
    op: str = "sum",
    collective: Collective | None = None,
    root: int | None = None,
    ranks_as: str = "threads",
    slots: int | None = None,
    piece_bytes: int | None = None,
    seed: int = 0,
    check: bool = True,
    timeout_s: float = 60.0,
    deadline: Deadline | None = None,
) -> Execution:
    """Run a program once.

    Parameters
    ----------
    in_place : None: as the program claims; out of place if it claims both.
    size_bytes : nccl-tests' size; None: about 1 MB, within the range that the program serves.
    dtype, op : see `call.DTYPES` and `call.OPS`.
    collective : what it computes, where its `coll` does not say so.
    root : of broadcast, reduce, gather, scatter; None: any that fits.
    ranks_as : `threads`: one per thread block of every rank. `processes`: one per rank, which runs its
        thread blocks by turns. `turns`: all by turns in this thread, in an order that `seed` repeats.
    slots : pieces that a connection holds; piece_bytes : what a piece holds at most. None: those of
        the protocol.
    seed : of the inputs and of the random delays and orders.
    check : whether to compare with NumPy's answer.
    timeout_s : seconds for the whole call: for making the inputs, running and comparing the result.
    deadline : in its place, that of a call that began before, or that is counted on another clock.

    Raises
    ------
    TacclError : the call does not fit the program.
    VerificationError : the program cannot be executed at all, or there was no time left. A wrong result, and
        blocks that are stuck, are no errors here but in what is returned.
    """
    if ranks_as not in RANKS_AS:
        raise TacclError(f"ranks cannot run as {ranks_as!r}", hint="one of " + ", ".join(RANKS_AS))
    deadline = Deadline(timeout_s) if deadline is None else deadline
    call = make_call(
        program,
        in_place=default_mode(program) if in_place is None else in_place,
        size_bytes=size_bytes,
        dtype=dtype,
        op=op,
        collective=collective,
        root=root,
        slots=slots,
        piece_bytes=piece_bytes,
        seed=seed,
    )
    check_executable(call, program)
    check_memory(call, program, range(call.num_ranks))
    prepared = Prepared(program, make_plan(program), Answer(call, deadline.look))
    deadline.begins("making the inputs", prepared.plan, call, lambda: 0)
    began = time.monotonic()
    if ranks_as == "processes":
        return run_processes(program, prepared.plan, prepared.answer, check, deadline)
    memories = prepared.memories(range(call.num_ranks))
    exchange, blocks = _run_here(prepared, memories, ranks_as, deadline)
    deadline.turns_to("comparing the result")
    share = Share(
        pieces=sum(block.pieces for block in blocks),
        stuck=stuck_blocks(blocks, prepared.plan, call),
        left_over=left_over_pieces(exchange.left_over(), prepared.plan),
    )
    findings: tuple[str, ...] = ()
    if check and not share.stuck:
        share = replace(share, wrong=wrong_by_root(prepared.answer, memories))
        findings = findings_of(prepared.answer, memories, best_root(call, share.wrong))
    seconds = time.monotonic() - began
    return conclude(prepared.plan, prepared.answer, ranks_as, share, findings, check, seconds)


def default_mode(program: Program) -> bool:
    """Whether to call a program in place, when nobody says: only if that is all that it claims."""
    return program.in_place and not program.out_of_place


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program, folded, and what its call gives and wants."""

    program: Program
    plan: Workload
    answer: Answer

    def memories(self, ranks: range) -> dict[int, Memory]:
        """The buffers of these ranks, with their inputs in them."""
        call: Call = self.answer.call
        made = {}
        for rank in ranks:
            data = np.empty(memory_elements(call, self.program, rank), dtype=call.dtype)
            given = self.answer.input_of(rank)
            made[rank] = fill(call, self.program, rank, data, given, self.answer.look)
        return made


def _run_here(
    prepared: Prepared, memories: dict[int, Memory], ranks_as: str, deadline: Deadline
) -> tuple[LocalExchange, list[RunningBlock]]:
    call, plan = prepared.answer.call, prepared.plan
    exchange = LocalExchange(plan, call.slots) if ranks_as == "turns" else Blocking(plan, call.slots)
    blocks = [RunningBlock(each, call, memories[each.rank], exchange) for each in plan.blocks]
    deadline.begins("moving data", plan, call, lambda: sum(block.pieces for block in blocks))
    if isinstance(exchange, Blocking):
        run_threads(blocks, exchange, call.seed, deadline)
    else:
        take_turns(blocks, exchange, random.Random(call.seed), look=deadline.look)
    return exchange, blocks
