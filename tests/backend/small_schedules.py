"""Hand-made schedules on small networks for the tests of the lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.lower import lower
from taccl.backend.program import Op, Program, RankProgram, Step
from taccl.model.collective import Collective
from taccl.model.collectives import make_collective
from taccl.model.executor import SHAPES, Executor, ProtocolCosts
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends

#: Sends as (start, source, destination, chunks, reduce).
Row = tuple[float, int, int, tuple[int, ...], bool]


def network(
    ranks: int, links: Sequence[tuple[int, int]], alpha_us: float = 1.0, beta_us_per_mb: float = 1.0
) -> LogicalTopology:
    """Plain links, each its own port; a chunk of 1 MB takes alpha + beta."""
    return LogicalTopology(
        name="small",
        node_of=np.zeros(ranks, dtype=np.int64),
        src=np.array([a for a, _ in links], dtype=np.int64),
        dst=np.array([b for _, b in links], dtype=np.int64),
        alpha_us=np.full(len(links), alpha_us),
        beta_us_per_mb=np.full(len(links), beta_us_per_mb),
        ports=tuple((link,) for link in range(len(links))),
        port_names=tuple(f"{a}-{b}" for a, b in links),
    )


def by_hand(
    collective: Collective, rows: Sequence[Row], alpha_us: float = 1.0, beta_us_per_mb: float = 1.0
) -> Schedule:
    """A valid schedule from rows, on the links that the rows use."""
    links = sorted({(src, dst) for _, src, dst, _, _ in rows})
    topology = network(collective.num_ranks, links, alpha_us, beta_us_per_mb)
    problem = Problem(topology, collective, chunk_mb=1.0)
    schedule = schedule_from_sends(
        problem, [Send(chunks, links.index((src, dst)), start, add) for start, src, dst, chunks, add in rows]
    )
    schedule.check()
    return schedule


def ring_allgather(ranks: int, pieces: int = 1) -> Schedule:
    """Every part goes round the ring, its pieces as one group."""
    took = 1.0 + pieces
    rows: list[Row] = []
    for step in range(ranks - 1):
        for rank in range(ranks):
            part = (rank - step) % ranks
            chunks = tuple(range(part * pieces, (part + 1) * pieces))
            rows.append((step * took, rank, (rank + 1) % ranks, chunks, False))
    return by_hand(make_collective("allgather", ranks, pieces), rows)


def ring_allreduce(ranks: int, pieces: int = 1) -> Schedule:
    """Sums go round the ring, then their copies do; pieces one after the other."""
    rows: list[Row] = []
    for step in range(2 * (ranks - 1)):
        for rank in range(ranks):
            for piece in range(pieces):
                chunk = (rank - step) % ranks * pieces + piece
                start = (step * pieces + piece) * 2.0
                rows.append((start, rank, (rank + 1) % ranks, (chunk,), step < ranks - 1))
    return by_hand(make_collective("allreduce", ranks, pieces), rows)


def direct_allgather(ranks: int, pieces: int = 1) -> Schedule:
    """Every rank sends its part to every other, all at once, piece by piece."""
    rows: list[Row] = [
        (2.0 * piece, a, b, (a * pieces + piece,), False)
        for piece in range(pieces)
        for a in range(ranks)
        for b in range(ranks)
        if a != b
    ]
    return by_hand(make_collective("allgather", ranks, pieces), rows)


def direct_reducescatter(ranks: int) -> Schedule:
    """Everybody sends its contributions to their owners."""
    rows: list[Row] = [
        (2.0 * ((b - a) % ranks), a, b, (b,), True) for a in range(ranks) for b in range(ranks) if a != b
    ]
    return by_hand(make_collective("reducescatter", ranks), rows)


def on_nodes(schedule: Schedule, *node_of: int) -> Schedule:
    """The schedule on the same links, by rank the node."""
    topology = replace(schedule.problem.topology, node_of=np.array(node_of))
    return replace(schedule, problem=replace(schedule.problem, topology=topology))


def relayed_alltoall(grouped: bool) -> Schedule:
    """Ranks 0, 1 and 2, 3: all that crosses goes from 0 to 2 and from 2 to 0, as one group or singly."""
    chunk = [[source * 4 + target for target in range(4)] for source in range(4)]
    rows: list[Row] = []
    for near, far in ((0, 1), (1, 0), (2, 3), (3, 2)):
        rows.append((0.0, near, far, (chunk[near][far],), False))
    for relay, other, relay_far, other_far in ((0, 1, 2, 3), (2, 3, 0, 1)):
        rows.append((2.0, other, relay, (chunk[other][relay_far],), False))
        rows.append((4.0, other, relay, (chunk[other][other_far],), False))
        crossing = [chunk[a][b] for a in (relay, other) for b in (relay_far, other_far)]
        for group in [crossing] if grouped else [[c] for c in crossing]:
            start = 6.0 + (0.0 if grouped else 2.0 * crossing.index(group[0]))
            rows.append((start, relay, relay_far, tuple(group), False))
        handed_on = [chunk[a][other_far] for a in (relay, other)]
        for group in [handed_on] if grouped else [[c] for c in handed_on]:
            start = 20.0 + 2.0 * handed_on.index(group[0])
            rows.append((start, relay_far, other_far, tuple(group), False))
    return by_hand(make_collective("alltoall", 4), rows)


def program_of(schedule: Schedule, runtimes: str = "all", instances: int = 1) -> Program:
    """The one program that the schedule is lowered to."""
    (lowered,) = lower(schedule, runtimes=runtimes, instances=instances)
    return lowered.program


def steps_of(rank: RankProgram) -> list[Step]:
    """All steps of a rank, block after block."""
    return [step for block in rank.thread_blocks for step in block.steps]


def ops_of(rank: RankProgram) -> list[str]:
    """The words of all steps of a rank, block after block."""
    return [step.op.value for step in steps_of(rank)]


def count_ops(program: Program, op: Op) -> int:
    """How many steps of the program do this."""
    return sum(step.op is op for rank in program.ranks for step in steps_of(rank))


def executor_of(reduce_us: float = 5.0, thread_blocks: int | None = None) -> Executor:
    """A machine's executor; sums and copies move 20 GB/s."""
    costs = ProtocolCosts(5.0, 1.0, 1.0, 20.0, 2**21, SHAPES["Simple"])
    return Executor({"Simple": costs}, reduce_us, 20.0, thread_blocks=thread_blocks)
