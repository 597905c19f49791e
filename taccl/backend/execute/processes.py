"""Run every rank in a process of its own, which runs its thread blocks by turns.

Connections and the ranks' buffers lie in shared memory. One lock guards the counters, and every
block that cannot go on writes down there what it waits for; so whoever holds the lock can tell for
certain, from one look, whether anything will ever move again. The parent looks now and then.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import signal
import time
from dataclasses import dataclass, replace
from multiprocessing.heap import BufferWrapper
from typing import Any

import numpy as np

from taccl.backend.execute.block import RunningBlock, Wait, WaitKind
from taccl.backend.execute.call import Call
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.memory import Array, fill, lay_out, memory_elements
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
from taccl.backend.execute.plan import Workload
from taccl.backend.execute.reference import Answer
from taccl.backend.execute.turns import take_turns
from taccl.backend.program import Program
from taccl.errors import TacclError, VerificationError

#: How often the parent looks, and for how long a rank that cannot go on sleeps, at first and at most (s).
_LOOK_S = 0.05
_FIRST_NAP_S, _LONGEST_NAP_S = 1e-4, 2e-3
#: Most bytes that the slots of all connections may take.
_MOST_BYTES = 2**33

_KINDS: tuple[WaitKind, ...] = ("flag", "data", "room")
_RUNNING, _WAITING, _ENDED = 0, 1, 2


#: State, kind of wait, index, mark, step, iteration, pieces sent.
_ROW = 7


@dataclass(frozen=True, eq=False)
class Segments:
    """What the processes share: raw memory that a child process can be handed, and the lock.

    Parameters
    ----------
    counters : sent and taken per connection, flags per block, then per block a row of `_ROW` numbers.
    lengths : elements of the piece in each slot, by connection and slot.
    slots : the pieces. ranks : the buffers of each rank.
    """

    counters: Any
    lengths: Any
    slots: Any
    ranks: tuple[Any, ...]
    lock: Any


class SharedExchange:
    """Connections in shared memory; `Exchange`, for the blocks of one rank, and for the parent's look."""

    def __init__(self, plan: Workload, call: Call, segments: Segments) -> None:
        connections, blocks = len(plan.connections), len(plan.blocks)
        numbers = np.frombuffer(segments.counters, dtype=np.int64)
        self.sent, self.taken = numbers[:connections], numbers[connections : 2 * connections]
        self.flags = numbers[2 * connections :][:blocks]
        self.rows = numbers[2 * connections + blocks : -1].reshape(blocks, _ROW)
        self.lengths = np.frombuffer(segments.lengths, dtype=np.int64).reshape(-1, call.slots)
        pieces = np.frombuffer(segments.slots, dtype=call.dtype)
        shape = (connections, call.slots, slot_elements(plan, call))
        self.pieces: Array = pieces[: math.prod(shape)].reshape(shape)
        self.slots, self.lock, self.plan = call.slots, segments.lock, plan
        self.ends = {
            **{("take", block.incoming): block.index for block in plan.blocks},
            **{("put", block.outgoing): block.index for block in plan.blocks},
        }

    def is_over(self, wait: Wait) -> bool:
        if wait.kind == "flag":  # written by this process alone
            return self._is_over(wait.kind, wait.index, wait.mark)
        with self.lock:
            return self._is_over(wait.kind, wait.index, wait.mark)

    def _is_over(self, kind: str, index: int, value: int) -> bool:
        if kind == "flag":
            return index >= 0 and bool(self.flags[index] >= value)
        held = int(self.sent[index] - self.taken[index])
        return held > 0 if kind == "data" else held < self.slots

    def take(self, connection: int) -> Array:
        slot = int(self.taken[connection]) % self.slots
        piece: Array = self.pieces[connection, slot, : self.lengths[connection, slot]].copy()
        with self.lock:
            self.rows[self.ends["take", connection], 0] = _RUNNING
            self.taken[connection] += 1
        return piece

    def put(self, connection: int, piece: Array) -> None:
        slot = int(self.sent[connection]) % self.slots
        self.lengths[connection, slot] = len(piece)
        self.pieces[connection, slot, : len(piece)] = piece
        with self.lock:
            self.rows[self.ends["put", connection], 0] = _RUNNING
            self.sent[connection] += 1

    def publish(self, block: int, value: int) -> None:
        with self.lock:
            self.flags[block] = value

    def write_down(self, blocks: list[RunningBlock]) -> None:
        """Put what each block does or waits for where the parent looks."""
        with self.lock:
            for block in blocks:
                wait = block.waits_for
                state = _ENDED if block.ended else _RUNNING if wait is None else _WAITING
                row = (
                    (state, 0, 0, 0)
                    if wait is None
                    else (state, _KINDS.index(wait.kind), wait.index, wait.mark)
                )
                self.rows[block.plan.index] = (*row, block.step, block.iteration, block.pieces)

    def nothing_will_move(self) -> bool:
        """Whether every block has ended or waits for what only another of those could do."""
        if not self.lock.acquire(timeout=1.0):  # a process that was killed may hold it
            return False
        try:
            return all(
                state == _ENDED or (state == _WAITING and not self._is_over(_KINDS[kind], index, value))
                for state, kind, index, value in self.rows[:, :4].tolist()
            )
        finally:
            self.lock.release()

    def read_back(self, blocks: list[RunningBlock]) -> None:
        """Give the parent's copies of the blocks the state that was written down."""
        for block in blocks:
            state, kind, index, value, block.step, block.iteration, block.pieces = self.rows[
                block.plan.index
            ].tolist()
            block.ended = state == _ENDED
            block.waits_for = Wait(_KINDS[kind], index, value) if state == _WAITING else None

    def left_over(self) -> list[tuple[int, int]]:
        """Connections that still hold pieces, and how many."""
        held = (self.sent - self.taken).tolist()
        return [(connection, number) for connection, number in enumerate(held) if number]


def slot_elements(plan: Workload, call: Call) -> int:
    """Elements of the longest piece."""
    counts = [step.count for block in plan.blocks for step in block.steps]
    return min(call.piece, call.chunk) * min(call.chunks_per_piece, max(counts, default=1))


def run_processes(
    program: Program, plan: Workload, answer: Answer, check: bool, deadline: Deadline
) -> Execution:
    """Run a program with a process per rank. However it ends, no process is left.

    Raises
    ------
    VerificationError : it is not at an end in time, though not stuck; or a step failed.
    TacclError : the slots of its connections take too much memory.
    """
    call = answer.call
    context = _context()
    segments = _allocate(context, program, plan, call, deadline)
    memories = {}
    for rank in range(call.num_ranks):
        data, given = _rank_data(segments, program, call, rank), answer.input_of(rank)
        memories[rank] = fill(call, program, rank, data, given, deadline.look)
    exchange = SharedExchange(plan, call, segments)
    exchange.flags[:] = -1
    deadline.begins("moving data", plan, call, lambda: int(exchange.rows[:, -1].sum()))
    failures = context.SimpleQueue()
    processes = [
        context.Process(target=_run_rank, args=(rank, program, plan, call, segments, failures), daemon=True)
        for rank in range(call.num_ranks)
    ]
    began = time.monotonic()
    try:
        for process in processes:
            process.start()
        _watch(processes, exchange, failures, deadline)
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
    blocks = [RunningBlock(each, call, memories[each.rank], exchange) for each in plan.blocks]
    exchange.read_back(blocks)
    deadline.turns_to("comparing the result")
    share = Share(
        pieces=sum(block.pieces for block in blocks),
        stuck=stuck_blocks(blocks, plan, call),
        left_over=left_over_pieces(exchange.left_over(), plan),
    )
    findings: tuple[str, ...] = ()
    if check and not share.stuck:
        share = replace(share, wrong=wrong_by_root(answer, memories))
        findings = findings_of(answer, memories, best_root(call, share.wrong))
    return conclude(plan, answer, "processes", share, findings, check, time.monotonic() - began)


def _context() -> Any:
    """Processes that start from a clean one, not from this one with its threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _allocate(context: Any, program: Program, plan: Workload, call: Call, deadline: Deadline) -> Segments:
    number = len(plan.connections)
    slots = number * call.slots * slot_elements(plan, call) * call.item_bytes
    if slots > _MOST_BYTES:
        raise TacclError(f"the connections would take {slots} bytes", hint="a smaller --size or --piece")
    ranks = []
    for rank in range(call.num_ranks):
        deadline.look()
        # A RawArray is this memory set to zero, which takes seconds for a GB, without a look.
        ranks.append(BufferWrapper(max(1, memory_elements(call, program, rank)) * call.item_bytes))
    return Segments(
        counters=context.RawArray("q", 2 * number + (1 + _ROW) * len(plan.blocks) + 1),
        lengths=context.RawArray("q", (number + 1) * call.slots),
        slots=context.RawArray("b", slots + call.item_bytes),
        ranks=tuple(ranks),
        lock=context.Lock(),
    )


def _rank_data(segments: Segments, program: Program, call: Call, rank: int) -> Array:
    data: Array = np.frombuffer(segments.ranks[rank].create_memoryview(), dtype=call.dtype)
    return data[: memory_elements(call, program, rank)]


def _watch(processes: list[Any], exchange: SharedExchange, failures: Any, deadline: Deadline) -> None:
    """Come back when all ranks have ended or nothing will ever move."""
    while True:
        codes = [process.exitcode for process in processes]
        if not failures.empty():
            message, hint = failures.get()
            raise VerificationError(message, hint=hint)
        for rank, code in enumerate(codes):
            if code:
                raise VerificationError(f"the process of rank {rank} died with exit code {code}")
        if exchange.nothing_will_move():
            return
        deadline.look()
        time.sleep(_LOOK_S)


def _run_rank(
    rank: int, program: Program, plan: Workload, call: Call, segments: Segments, failures: Any
) -> None:
    """What the process of a rank does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    exchange = SharedExchange(plan, call, segments)
    memory = lay_out(call, program, rank, _rank_data(segments, program, call, rank))
    blocks = [RunningBlock(each, call, memory, exchange) for each in plan.of_rank(rank)]
    nap = _Nap(exchange, blocks)
    try:
        take_turns(blocks, exchange, random.Random(f"{call.seed} {rank}"), nap)
    except TacclError as error:
        failures.put((error.message, error.hint))
    exchange.write_down(blocks)


class _Nap:
    """Sleep for a while, longer each time that nothing has happened since."""

    def __init__(self, exchange: SharedExchange, blocks: list[RunningBlock]) -> None:
        self.exchange, self.blocks = exchange, blocks
        self.seen: list[tuple[int, int, int]] = []
        self.seconds = _FIRST_NAP_S

    def __call__(self) -> bool:
        now = [(block.iteration, block.step, block.pieces) for block in self.blocks]
        self.seconds = min(2 * self.seconds, _LONGEST_NAP_S) if now == self.seen else _FIRST_NAP_S
        self.seen = now
        self.exchange.write_down(self.blocks)
        time.sleep(self.seconds)
        return True
