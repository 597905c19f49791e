"""A one-sided plan as lines that a person reads: for each rank its thread blocks and what they do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from taccl.backend.plan import (
    NO_LARGEST,
    Channel,
    ExecutionPlan,
    Operation,
    OpName,
    PlanBlock,
    Range,
    RankPlan,
)
from taccl.backend.show.text import aligned, check_rank
from taccl.backend.simulate import PlanSimulation
from taccl.model import units
from taccl.model.units import format_count

_Times = dict[tuple[int, int, int], tuple[float, float]]


def plan_facts(plan: ExecutionPlan) -> tuple[tuple[str, str], ...]:
    """(label, value) lines about the whole plan."""
    blocks = [block for rank in plan.ranks for block in rank.blocks]
    operations = sum(1 + len(operation.inner) for block in blocks for operation in block.operations)
    channels = {
        kind: sum(len(rank.peers_of(kind)) for rank in plan.ranks) for kind in (Channel.MEMORY, Channel.PORT)
    }
    largest = "any size" if plan.max_bytes == NO_LARGEST else units.format_size(plan.max_bytes)
    place = "in place" if plan.in_place else "out of place"
    protocol = "LL" if plan.moves_packets else "Simple"
    if plan.double_scratch:
        protocol += ", two halves of scratch"
    parts = [format_count(len(blocks), "thread block"), format_count(operations, "operation")]
    parts += [
        format_count(number, f"{kind.value} channel end") for kind, number in channels.items() if number
    ]
    return (
        ("plan", plan.name),
        ("collective", f"{plan.collective}, {format_count(plan.num_ranks, 'rank')}, {protocol}"),
        ("calls", f"{place}, {units.format_size(plan.min_bytes)} to {largest}"),
        ("program", ", ".join(parts)),
    )


def describe_plan(
    plan: ExecutionPlan,
    rank: int | None = None,
    simulation: PlanSimulation | None = None,
    facts: Iterable[tuple[str, str]] = (),
) -> Iterator[str]:
    """Lines: the summary, then for each rank its thread blocks and their operations.

    Parameters
    ----------
    rank : only this rank.
    simulation : of this plan; with it, each operation has its start and end.
    facts : what else to say in the summary.

    Raises
    ------
    TacclError : there is no such rank.
    """
    check_rank(rank, plan.num_ranks)
    yield from aligned((*plan_facts(plan), *facts))
    times = None if simulation is None else simulation.spans
    for number, each in enumerate(plan.ranks):
        if rank is None or rank == number:
            yield ""
            yield from _rank_lines(number, each, times)


def _rank_lines(number: int, rank: RankPlan, times: _Times | None) -> Iterator[str]:
    sizes = f"{rank.input_chunks} in, {rank.output_chunks} out, {rank.scratch_chunks} scratch"
    yield f"rank {number}: {format_count(len(rank.blocks), 'thread block')}; chunks: {sizes}"
    for block in rank.blocks:
        yield f"  thread block {block.id}"
        header = ("", "op", "from", "to", "with")
        rows = []
        for step, operation in enumerate(block.operations):
            span = () if times is None else _span(times, number, block.id, step)
            rows.append((*span, str(step), *_cells(rank, block, operation)))
            blank = ("",) * len(span)
            rows += [
                (*blank, f"{step}.{place}", *_cells(rank, block, inner))
                for place, inner in enumerate(operation.inner)
            ]
        titles = header if times is None else ("START us", "END us", *header)
        yield from _columns((titles, *rows))


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows below each other; what is empty in all of them takes no room."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    used = [any(row[place] for row in rows[1:]) for place in range(len(widths))]
    for row in rows:
        cells = [
            f"{cell:<{width}}" for cell, width, is_used in zip(row, widths, used, strict=True) if is_used
        ]
        yield f"    {'  '.join(cells)}".rstrip()


def _span(times: _Times, rank: int, block: int, step: int) -> tuple[str, str]:
    start_us, end_us = times[rank, block, step]
    return f"{start_us:.2f}", f"{end_us:.2f}"


def _cells(rank: RankPlan, block: PlanBlock, operation: Operation) -> tuple[str, str, str, str]:
    sources = ", ".join(range_words(rank, block, operation, source) for source in operation.sources)
    targets = ", ".join(range_words(rank, block, operation, target) for target in operation.targets)
    return operation.name.value, sources, targets, ", ".join(detail_words(rank, block, operation))


def range_words(rank: RankPlan, block: PlanBlock, operation: Operation, each: Range) -> str:
    """`i[0..3]`, `rank 2 o[4]`."""
    last = f"..{each.index + each.size - 1}" if each.size > 1 else ""
    if each.buffer is not None:
        whose = each.buffer.value
    elif each.remote is not None:
        ids = () if operation.channel is None else block.remotes_of(operation.channel)
        known = 0 <= each.remote < len(ids) and 0 <= ids[each.remote] < len(rank.remote_buffers)
        remote = rank.remote_buffers[ids[each.remote]] if known else None
        whose = f"remote {each.remote}" if remote is None else f"rank {remote.rank} {remote.buffer.value}"
    else:
        whose = f"switch {each.switch}"
    return f"{whose}[{each.index}{last}]"


def detail_words(rank: RankPlan, block: PlanBlock, operation: Operation) -> Iterator[str]:
    """Channels with who is at their other ends, shares, barriers, semaphores."""
    kind = operation.channel
    if kind in (Channel.MEMORY, Channel.PORT) and operation.channels:
        ids, peers = block.channels_of(kind), rank.peers_of(kind)
        ends = [
            f"{ids[each]} (rank {peers[ids[each]]})"
            if 0 <= each < len(ids) and 0 <= ids[each] < len(peers)
            else f"?{each}"
            for each in operation.channels
        ]
        yield f"{kind.value} channel {', '.join(ends)}"
    elif kind is not None:
        yield kind.value
    if operation.share is not None:
        yield f"part {operation.share.number} of {operation.share.parts}"
    if operation.barrier is not None:
        yield f"barrier {operation.barrier.id} of {format_count(operation.barrier.num_blocks, 'block')}"
    if operation.semaphores:
        yield f"semaphore {', '.join(map(str, operation.semaphores))}"
    if operation.name is OpName.PIPELINE and operation.turns is not None:
        yield f"{operation.turns.num_chunks} chunks in units of {operation.turns.unit_bytes} bytes"
