"""Whether thread blocks and waits leave every send free to start when its schedule says."""

from __future__ import annotations

from taccl.backend.program import Op, Program
from taccl.model.schedule import Schedule

_TOLERANCE_US = 1e-4


def assert_keeps_the_schedules_times(program: Program, schedule: Schedule) -> None:
    """Run a program of one instance with each send at its scheduled start; local steps take no time.

    A send that its thread block, or what it waits for, holds up beyond its start is an error.
    """
    due = _due_times(schedule)
    sent: dict[tuple[int, int], int] = {}
    arrival: dict[tuple[int, int, int], list[float]] = {}
    done: dict[tuple[int, int, int], float] = {}
    at = {(rank.rank, block.id): 0 for rank in program.ranks for block in rank.thread_blocks}
    free = dict.fromkeys(at, 0.0)
    received: dict[tuple[int, int, int], int] = {}
    # Parts of a line follow each other on rising channels, so a line's sends are counted per rank pair.
    moved = True
    while moved:
        moved = False
        for rank in program.ranks:
            for block in sorted(rank.thread_blocks, key=lambda block: block.channel):
                key = (rank.rank, block.id)
                while at[key] < len(block.steps):
                    step = block.steps[at[key]]
                    now = free[key]
                    if step.depends is not None:
                        needed = (rank.rank, *step.depends)
                        if needed not in done:
                            break
                        now = max(now, done[needed])
                    if step.op.receives:
                        line = (block.recv, rank.rank, block.channel)
                        if received.get(line, 0) >= len(arrival.get(line, [])):
                            break
                        now = max(now, arrival[line][received.get(line, 0)])
                        received[line] = received.get(line, 0) + 1
                    if step.op.sends:
                        pair = (rank.rank, block.send)
                        start, free_again, end = due[pair][sent.get(pair, 0)]
                        sent[pair] = sent.get(pair, 0) + 1
                        assert now <= start + _TOLERANCE_US, (
                            f"rank {rank.rank}, block {block.id}, step {at[key]}: the send to {block.send} "
                            f"is due at {start}, but can only start at {now}"
                        )
                        now = free_again
                        arrival.setdefault((*pair, block.channel), []).append(end)
                    done[rank.rank, block.id, at[key]] = now
                    free[key] = now
                    at[key] += 1
                    moved = True
    for rank in program.ranks:
        for block in rank.thread_blocks:
            assert at[rank.rank, block.id] == len(block.steps)
            assert all(step.op is not Op.NOP for step in block.steps[-1:])
    assert max(free.values(), default=0.0) <= schedule.makespan_us + _TOLERANCE_US


def _due_times(schedule: Schedule) -> dict[tuple[int, int], list[tuple[float, float, float]]]:
    """For each pair of ranks, when each send starts, frees its ports, and arrives."""
    sends, topology = schedule.sends, schedule.problem.topology
    busy = topology.slowest_busy_us(sends.link, sends.count * schedule.problem.chunk_mb)
    due: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
    columns = (sends.link, sends.start_us, sends.start_us + busy, sends.end_us)
    for link, *times in sorted(zip(*(column.tolist() for column in columns), strict=True)):
        pair = (int(topology.src[int(link)]), int(topology.dst[int(link)]))
        due.setdefault(pair, []).append((times[0], times[1], times[2]))
    return due
