"""The rules of a schedule once more, with plain loops over rows, to hold the vectorised checks against.

Where the checks reason about columns, this plays the transfers: a row happens once its sender has what
it sends. What never happens, or happens too early, twice or in vain, is a fault.
"""

from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np

from taccl.model.schedule import Schedule
from taccl.model.tolerance import ULPS, lasts, over_us


def faults(schedule: Schedule) -> set[str]:
    """The kinds of faults; empty for a valid schedule."""
    return {
        *_local_faults(schedule),
        *(fault for chunk in range(schedule.problem.num_chunks) for fault in _flow_faults(schedule, chunk)),
    }


def _size(schedule: Schedule, row: int) -> Fraction:
    sizes = schedule.problem.sizes
    return Fraction(1) if sizes is None else Fraction(float(sizes[schedule.chunk[row]]))


def _ready_us(schedule: Schedule, chunk: int, rank: int) -> float:
    """From when on an input counts as there."""
    if schedule.problem.ready_us is None:
        return -np.inf
    inputs = schedule.problem.collective.inputs
    row = np.flatnonzero((inputs.chunk == chunk) & (inputs.rank == rank))[0]
    return float(over_us(schedule.problem.ready_us[row], 0.0))


def makespan_us(schedule: Schedule) -> float:
    """When a valid schedule whose sums have no names has ended, with what follows."""
    problem, ends = schedule.problem, [0.0, *schedule.end_us.tolist()]
    inputs, outputs = problem.collective.inputs, problem.collective.outputs
    for wanted in range(len(outputs)):
        at = [schedule.chunk == outputs.chunk[wanted], schedule.dst == outputs.rank[wanted]]
        copies = schedule.end_us[at[0] & at[1] & ~schedule.reduce]
        adds = schedule.end_us[at[0] & at[1] & schedule.reduce]
        own = (inputs.chunk == outputs.chunk[wanted]) & (inputs.rank == outputs.rank[wanted])
        ready = [] if problem.ready_us is None else problem.ready_us[own]
        there = copies[0] if len(copies) else max(adds.max(initial=0.0), max(ready, default=0.0))
        ends.append(there + (0.0 if problem.tail_us is None else problem.tail_us[wanted]))
    return max(ends)


def _sends(schedule: Schedule) -> dict[int, list[int]]:
    rows = defaultdict(list)
    for row, group in enumerate(schedule.group):
        rows[int(group)].append(row)
    return rows


def _local_faults(schedule: Schedule) -> set[str]:
    found, problem = set(), schedule.problem
    topology = problem.topology
    busy = defaultdict(list)
    for rows in _sends(schedule).values():
        equivalent = {(schedule.link[r], schedule.start_us[r], schedule.end_us[r]) for r in rows}
        if (
            len(equivalent) > 1
            or len({schedule.chunk[r] for r in rows}) < len(rows)
            or len(rows) > problem.max_group
        ):
            found.add("group")
        link, start, end, _ = (
            schedule.link[rows[0]],
            schedule.start_us[rows[0]],
            schedule.end_us[rows[0]],
            0,
        )
        units = sum(_size(schedule, row) for row in rows)
        body = topology.beta_us_per_mb[link] * problem.chunk_mb * float(units)
        alpha = topology.alpha_us[link]
        if not lasts(start, end, alpha + body):
            found.add("duration")
        betas = [topology.beta_us_per_mb[link]] * len(topology.ports[link])
        if topology.port_betas is not None:
            betas = topology.port_betas[link]
        for port, beta in zip(topology.ports[link], betas, strict=True):
            takes = Fraction(float(beta)) * Fraction(problem.chunk_mb) * units
            if topology.occupancy == "serial":
                takes += Fraction(float(alpha))
            if takes:
                busy[port].append((Fraction(float(start)), takes))
        for row in rows:
            owner = problem.collective.owner[schedule.chunk[row]]
            if problem.limits.may_use is not None and not problem.limits.may_use[owner, schedule.link[row]]:
                found.add("limit")
        if any(schedule.start_us[r] < -ULPS * np.spacing(schedule.makespan_us) for r in rows):
            found.add("start")
    for served in busy.values():
        if _queue_grows(sorted(served)):
            found.add("port")
    return found


def _queue_grows(served: list[tuple[Fraction, Fraction]]) -> bool:
    """Whether a port that serves these (start, busy time) in turn falls behind by over a billionth."""
    free = served[0][0]
    for start, takes in served:
        if start < free - abs(free) * len(served) / 10**14:  # the clock is made of floats
            return True
        free = max(free, start) + takes * (1 - Fraction(1, 10**9))
    return False


def _arrives_us(schedule: Schedule, row: int) -> float:
    """From when on what a row brings counts as there."""
    start, end = float(schedule.start_us[row]), float(schedule.end_us[row])
    return float(over_us(end, end - start))


def _flow_faults(schedule: Schedule, chunk: int) -> set[str]:
    collective, found = schedule.problem.collective, set()
    rows = [row for row in range(len(schedule)) if schedule.chunk[row] == chunk]
    adds = [row for row in rows if schedule.reduce[row]]
    copies = [row for row in rows if not schedule.reduce[row]]
    if collective.reduces[chunk] and schedule.sums is not None:
        return _named_faults(schedule, chunk, rows)
    start_at = [rank for rank in range(schedule.problem.num_ranks) if collective.pre[chunk, rank]]
    if collective.reduces[chunk]:
        held = _play_sums(schedule, chunk, adds, start_at, found)
    else:
        held = {rank: _ready_us(schedule, chunk, rank) for rank in start_at}
        if adds:
            found.add("sum")
    _play_copies(schedule, copies, held, found)
    may_copy = schedule.problem.topology.may_copy
    if may_copy is not None:
        uses = Counter([int(schedule.src[row]) for row in copies])
        uses.update(rank for rank in range(schedule.problem.num_ranks) if collective.post[chunk, rank])
        if any(count > 1 and not may_copy[rank] for rank, count in uses.items()):
            found.add("may not copy")
    if any(collective.post[chunk, rank] and rank not in held for rank in range(schedule.problem.num_ranks)):
        found.add("demand")
    return found


def _named_faults(schedule: Schedule, chunk: int, rows: list[int]) -> set[str]:
    """Sums that name their contributions: all sets that a rank can make by some time are listed."""
    collective, found = schedule.problem.collective, set()
    every = frozenset(r for r in range(schedule.problem.num_ranks) if collective.pre[chunk, r])
    named = {
        row: frozenset(np.flatnonzero(schedule.sums.members[schedule.sums.of_row[row]]).tolist())
        for row in rows
    }
    carried = {row: named[row] if schedule.reduce[row] else every for row in rows}
    arrived: dict[int, list[tuple[frozenset[int], float]]] = {
        r: [(frozenset([r]), _ready_us(schedule, chunk, r))] for r in every
    }

    def makes(rank: int, by_us: float) -> set[frozenset[int]]:
        made = {frozenset()}
        for part, when in arrived.get(rank, []):
            if when <= by_us:
                made |= {part | other for other in made if not part & other}
        return made

    waiting = list(rows)
    while True:
        now = [r for r in waiting if carried[r] in makes(int(schedule.src[r]), float(schedule.start_us[r]))]
        if not now:
            break
        waiting.remove(now[0])
        arrived.setdefault(int(schedule.dst[now[0]]), []).append(
            (carried[now[0]], _arrives_us(schedule, now[0]))
        )
    if waiting:
        found.add("not held")
    if len({(schedule.dst[r], schedule.reduce[r], carried[r]) for r in rows}) < len(rows):
        found.add("twice")
    if any(
        collective.post[chunk, r] and every not in makes(r, float("inf"))
        for r in range(schedule.problem.num_ranks)
    ):
        found.add("demand")
    return found


def _play_sums(
    schedule: Schedule, chunk: int, adds: list[int], start_at: list[int], found: set[str]
) -> dict[int, float]:
    """Each rank adds up what reaches it and passes the sum on once; all must meet in one place."""
    value = {rank: Counter([rank]) for rank in start_at}
    ready: dict[int, float] = defaultdict(lambda: -np.inf)
    ready |= {rank: _ready_us(schedule, chunk, rank) for rank in start_at}
    parts = Counter(start_at)
    waiting = list(adds)
    passed_on = set()
    while waiting:
        awaited = {int(schedule.dst[row]) for row in waiting}
        now = [row for row in waiting if int(schedule.src[row]) not in awaited]
        if not now:
            found.add("sum")
            return {}
        row = now[0]
        waiting.remove(row)
        src, dst = int(schedule.src[row]), int(schedule.dst[row])
        if src in passed_on or not value.get(src) or schedule.start_us[row] < ready[src]:
            found.add("sum")
        passed_on.add(src)
        value.setdefault(dst, Counter()).update(value.get(src, Counter()))
        ready[dst] = max(ready[dst], _arrives_us(schedule, row))
        parts[dst] += 1
    may_sum = schedule.problem.topology.may_sum
    if may_sum is not None and any(count > 1 and not may_sum[rank] for rank, count in parts.items()):
        found.add("may not sum")
    ends = [rank for rank in value if rank not in passed_on]
    if len(ends) != 1 or value[ends[0]] != Counter(start_at):
        found.add("sum")
        return {}
    return {ends[0]: ready[ends[0]]}


def _play_copies(schedule: Schedule, copies: list[int], held: dict[int, float], found: set[str]) -> None:
    waiting = list(copies)
    while True:
        now = [
            row for row in waiting if held.get(int(schedule.src[row]), float("inf")) <= schedule.start_us[row]
        ]
        if not now:
            break
        waiting.remove(now[0])
        dst = int(schedule.dst[now[0]])
        if dst in held:
            found.add("twice")
        else:
            held[dst] = _arrives_us(schedule, now[0])
    if waiting:
        found.add("not held")
