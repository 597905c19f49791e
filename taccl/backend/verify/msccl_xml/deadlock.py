"""Deadlocks: does every block end, with connections as deep as a runtime's and at every size of call.

A connection holds a fixed number of pieces (2 for Simple, 8 for LL and LL128), and a step of `cnt`
chunks is cut into ceil(cnt / A) pieces, A being the chunks that fit into a piece, at most 71. The larger the
call the smaller A. A program that ends with few slots and many pieces ends with more slots and with fewer
pieces, so the largest call that the file allows decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taccl.backend.machine.acts import Acts, Names
from taccl.backend.machine.deadlock import deadlock_finding
from taccl.backend.machine.report import Collector
from taccl.backend.machine.run import Run, run_acts
from taccl.backend.program import Program
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.limits import MAX_COUNT, SLOTS, Runtime, group_bytes

Bounded = Callable[[int, int], Run]  # of (slots, chunks per piece)

ITERATIONS = 2


@dataclass(frozen=True, slots=True)
class Depths:
    """What `Facts` says of the same names."""

    slot_depth: int | None = None
    deadlock: bool | None = None
    deadlock_whole: bool | None = None
    deadlock_split: bool | None = None
    safe_bytes: int | None = None


HANGS = Depths(None, True, True, True, None)


def chunks_per_piece(program: Program, runtime: Runtime) -> int | None:
    """A at the largest call that the runtime would give to this file; None if it gives it none."""
    largest = program.max_bytes
    if largest == 0 and runtime.zero_max_bytes == "unlimited":
        return 1
    if not runtime.max_bytes_inclusive:
        largest -= 1
    if largest < max(1, program.min_bytes) or program.chunks_per_loop < 1:
        return None
    chunk_bytes = -(-largest // program.chunks_per_loop)
    return min(MAX_COUNT, max(1, group_bytes(program, runtime) // chunk_bytes))


def check_bounded(
    executed: ExecutedSteps, acts: Acts, names: Names, runtimes: Sequence[Runtime], collector: Collector
) -> Depths:
    """Findings for each runtime whose depth is not enough, for a program that ends with unbounded ones."""
    program = executed.columns.program
    available = SLOTS[program.protocol]
    most_chunks = int(executed.columns.count.max(initial=1))
    runs: dict[tuple[int, int], Run] = {}

    def run(slots: int, per_piece: int) -> Run:
        key = (slots, min(per_piece, most_chunks))
        if key not in runs:
            runs[key] = run_acts(acts, capacity=slots, chunks_per_piece=key[1], iterations=ITERATIONS)
        return runs[key]

    if run(1, 1).ends:
        return Depths(1, False, False, False, None)
    per_piece = {runtime.name: chunks_per_piece(program, runtime) for runtime in runtimes}
    worst = min((each for each in per_piece.values() if each is not None), default=1)
    split, whole = not run(available, 1).ends, not run(available, MAX_COUNT).ends
    hung = not run(available, worst).ends
    if not hung:
        return Depths(_least_depth(run, worst, available), False, whole, split, None)
    safe = None if whole else _least_pieces(run, available)
    for runtime in runtimes:
        each = per_piece[runtime.name]
        if each is not None and not run(available, each).ends:
            limit = None if safe is None else _safe_bytes(program, runtime, safe)
            size = f"{program.max_bytes} bytes" if program.max_bytes else "any size"
            kind = program.protocol.value
            when = f"where a connection holds {available} pieces ({kind}), in calls of {size}"
            hint = "let one of these receive before it sends"
            if limit is not None:
                hint = f'set maxBytes="{limit}", up to which it ends, or send fewer chunks per step'
            stuck = run(available, each).stuck
            collector.add(deadlock_finding(acts, names, stuck, when, hint, runtimes=(runtime.name,)))
    safe_bytes = None
    if safe is not None:
        safe_bytes = min(_safe_bytes(program, runtime, safe) for runtime in runtimes)
    return Depths(None, True, whole, split, safe_bytes)


def _least_depth(run: Bounded, per_piece: int, available: int) -> int:
    """The smallest depth at which it ends; `available` is known to be enough."""
    return bisect_left(range(1, available), True, key=lambda slots: run(slots, per_piece).ends) + 1


def _least_pieces(run: Bounded, available: int) -> int:
    """The smallest A at which it ends; `MAX_COUNT` is known to be enough."""
    return bisect_left(range(1, MAX_COUNT), True, key=lambda per_piece: run(available, per_piece).ends) + 1


def _safe_bytes(program: Program, runtime: Runtime, per_piece: int) -> int:
    """The largest call whose chunks are so small that `per_piece` of them fit in a piece."""
    return program.chunks_per_loop * (group_bytes(program, runtime) // per_piece)


def report_unbounded(
    executed: ExecutedSteps, acts: Acts, names: Names, run: Run, collector: Collector
) -> Depths:
    """Findings for a program that hangs however deep connections are."""
    for index, wait in executed.never:
        message = (
            f"waits for step {wait.step} of thread block {wait.block}, but no step of that thread "
            f"block from there on has hasdep=1, so {executed.name(index)} never starts"
        )
        hint = 'set hasdep="1" on the step that is waited for'
        rule = "endless-wait"
        collector.add(executed.columns.at_step(wait.asker, "concurrency", "error", rule, message, hint))
    if not executed.never:
        hint = "break the cycle: change the order of steps in one of these thread blocks"
        collector.add(deadlock_finding(acts, names, run.stuck, "however much a connection holds", hint))
    return HANGS
