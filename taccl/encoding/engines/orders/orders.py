r"""The orders of given sends as difference logic: routes and groups stay, only who goes first is open.

With d_i from start to end of send i, b_ip <= d_i while it keeps port p, b_i the longest of these, b_ij the
longest at a port that i and j both use, and a limit L, all in ticks:

    s_j - s_i >= d_i                            i brings a chunk that j takes on
    s_j - s_i >= b_i                            i carries its sender's own chunks, which j must let go first
    s_j - s_i >= b_ij  or   s_i - s_j >= b_ji   i and j use one port
    h_i <= s_i <= L - t_i                       nothing lets i start before its head h_i, and from its start
                                                to the end of all that waits for it takes its tail t_i

Where h_i + b_ij + t_j > L, i cannot go before j, so j goes first; that makes heads and tails longer, and
decides more. Of the sends on a port p that start no sooner than h and have q to come after them, the first
starts at h, so h, all their b_ip and q must fit into L. What is left is for the solver (Balas 1969; Carlier
and Pinson 1989). One variable stands for the images of a send under a symmetry that the schedule has.

A tick is as coarse as the costs allow: each d_i and b_ip is a whole number of ticks to within a share of
`TOLERANCE_US` so small that the errors of all sends together stay below half of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.timing import Decision, decisions_of, in_order, predecessors, topological
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule

#: More sends, or pairs of them that share a port, take longer to write down than a question is worth.
_MOST_SENDS = 20_000
_MOST_CLASHES = 400_000


@dataclass(frozen=True, eq=False)
class OpenOrder:
    """The sends of a schedule without their times; columns over variables, one for each orbit of sends.

    Parameters
    ----------
    decisions : the sends, in an order in which everything stands after what it waits for.
    variable : shape (num_sends,); the variable of each send.
    tick_us : microseconds in a tick.
    duration : shape (num_variables,); ticks from start to end.
    after : shape (n, 2); pairs (i, j) where j cannot start before i has started, and
    lag : shape (n,); by how much.
    users : for each port, the variables that use it, sorted, and the ticks for which each keeps it; ports
        that are the same in this only once.
    clashes : shape (m, 2); pairs that share a port.
    gaps : shape (m, 2); ticks from the start of the first of a pair to that of the second if it goes first,
        and the other way round.
    """

    decisions: list[Decision]
    variable: IntArray
    tick_us: float
    duration: IntArray
    after: IntArray
    lag: IntArray
    users: tuple[tuple[IntArray, IntArray], ...]
    clashes: IntArray
    gaps: IntArray

    @property
    def is_symmetric(self) -> bool:
        """Whether a variable stands for several sends."""
        return len(self.duration) < len(self.decisions)

    def limit_below(self, time_us: float) -> int:
        """The most ticks that an order may take to be faster than `time_us`."""
        return math.ceil((time_us - TOLERANCE_US / 2) / self.tick_us) - 1


@dataclass(frozen=True, eq=False)
class Windows:
    """What a limit implies before any search.

    Parameters
    ----------
    head, tail : shape (num_variables,); see above.
    first : shape (num_clashes,); 1 where the first of a pair goes first, -1 where the second, 0: open.
    """

    head: IntArray
    tail: IntArray
    first: IntArray


def open_order(schedule: Schedule, symmetry: SymmetryGroup) -> OpenOrder | None:
    """The schedule's sends with their order left open.

    None where there are too many, or where own chunks first makes sends wait for each other in a circle.
    """
    problem = schedule.problem
    if len(schedule.sends) > _MOST_SENDS:
        return None
    decisions = decisions_of(schedule)
    places = topological(predecessors(problem, decisions))
    if len(places) < len(decisions):
        return None
    decisions = [decisions[place] for place in places]
    explicit = any(decision.sums is not None for decision in decisions)
    # An image of a partial sum carries other contributions; such schedules are ordered without symmetry.
    variable = (
        np.arange(len(decisions)) if explicit else _orbits(decisions, _starts(schedule, decisions), symmetry)
    )
    link = np.array([decision.link for decision in decisions], dtype=np.int64)
    size_mb = np.array([len(decision.chunks) for decision in decisions]) * problem.chunk_mb
    topology = problem.topology
    _, one = np.unique(variable, return_index=True)
    send, pair = topology.pairs_of(link)
    busy_us = topology.port_busy_us(pair, size_mb[send])
    duration_us = topology.duration_us(link[one], size_mb[one])
    tick_us, ticks = _ticks(np.concatenate([duration_us, busy_us]), len(decisions))
    duration, busy_at = np.split(ticks, [len(one)])
    takes_time = busy_us > TOLERANCE_US  # what takes none is in nobody's way
    users = _users(
        topology.num_ports,
        *(column[takes_time] for column in (topology.incidence[1][pair], variable[send], busy_at)),
    )
    if sum(len(each) ** 2 for each, _ in users) > 2 * _MOST_CLASHES:
        return None
    busy = np.zeros_like(duration)
    np.maximum.at(busy, variable[send], busy_at)
    after, lag = _waits(problem, decisions, variable, duration, busy)
    clashes, gaps = _clashes(users, len(duration))
    return OpenOrder(decisions, variable, tick_us, duration, after, lag, users, clashes, gaps)


def _waits(
    problem: Problem, decisions: list[Decision], variable: IntArray, duration: IntArray, busy: IntArray
) -> tuple[IntArray, IntArray]:
    """Who starts after whom and by how much, as the columns `after` and `lag`."""
    freely = replace(problem, limits=replace(problem.limits, own_first=None))
    lag: dict[tuple[int, int], int] = {}
    both = zip(predecessors(problem, decisions), predecessors(freely, decisions), strict=True)
    for index, (every, bringing) in enumerate(both):
        for earlier in every:
            one, other = int(variable[earlier]), int(variable[index])
            least = duration[one] if earlier in bringing else busy[one]
            lag[one, other] = max(lag.get((one, other), 0), int(least))
    return np.array(list(lag), dtype=np.int64).reshape(-1, 2), np.array(list(lag.values()), dtype=np.int64)


def _starts(schedule: Schedule, decisions: list[Decision]) -> FloatArray:
    """When each send starts, shape (num_sends,)."""
    rows = zip(schedule.chunk.tolist(), schedule.link.tolist(), schedule.reduce.tolist(), strict=True)
    start = dict(zip(rows, schedule.start_us.tolist(), strict=True))
    return np.array([start[each.chunks[0], each.link, each.reduce] for each in decisions])


def _orbits(decisions: list[Decision], start_us: FloatArray, symmetry: SymmetryGroup) -> IntArray:
    """The orbit of each send, numbered from 0; every send is its own if the schedule is not symmetric."""
    number = {_key(each.chunks, each.link, each.reduce): index for index, each in enumerate(decisions)}
    alone = np.arange(len(decisions))
    least = alone.copy()
    for chunk_map, link_map in zip(symmetry.chunk_map.tolist(), symmetry.link_map.tolist(), strict=True):
        images = (
            _key((chunk_map[chunk] for chunk in each.chunks), link_map[each.link], each.reduce)
            for each in decisions
        )
        image = np.array([number.get(key, -1) for key in images], dtype=np.int64)
        if (image < 0).any() or (np.abs(start_us[image] - start_us) > TOLERANCE_US).any():
            return alone
        least = np.minimum(least, image)
    return np.asarray(np.unique(least, return_inverse=True)[1])


def _key(chunks: Iterable[int], link: int, reduce: bool) -> tuple[tuple[int, ...], int, bool]:
    return tuple(sorted(chunks)), link, reduce


def _ticks(times_us: FloatArray, num_sends: int) -> tuple[float, IntArray]:
    """The coarsest tick that measures all times, if Euclid's algorithm finds one, else a very fine one."""
    error_us = TOLERANCE_US / (2 * (num_sends + 1))
    tick_us = 0.0
    for time_us in np.unique(times_us).tolist():
        rest_us = time_us
        while rest_us > TOLERANCE_US:
            tick_us, rest_us = rest_us, tick_us % rest_us
    longest_us = float(times_us.max())
    tick_us = longest_us / max(1, round(longest_us / tick_us)) if tick_us else longest_us
    ticks = np.rint(times_us / tick_us)
    if (np.abs(ticks * tick_us - times_us) > error_us).any():
        tick_us = 2 * error_us
        ticks = np.rint(times_us / tick_us)
    return tick_us, ticks.astype(np.int64)


def _users(
    num_ports: int, port: IntArray, variable: IntArray, busy: IntArray
) -> tuple[tuple[IntArray, IntArray], ...]:
    """The variables on each port, where there are several, and for how many ticks each keeps it."""
    on_port: list[dict[int, int]] = [{} for _ in range(num_ports)]
    for place, one, takes in zip(port.tolist(), variable.tolist(), busy.tolist(), strict=True):
        on_port[place][one] = takes
    distinct = {tuple(sorted(users.items())) for users in on_port if len(users) > 1}
    columns = (np.array(users, dtype=np.int64).T for users in sorted(distinct))
    return tuple((users, takes) for users, takes in columns)


def _clashes(users: tuple[tuple[IntArray, IntArray], ...], num_variables: int) -> tuple[IntArray, IntArray]:
    """All pairs that share a port, the lesser variable first, each once; how long each keeps one at most."""
    keys, gaps = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 2), dtype=np.int64)]
    for each, busy in users:
        first, second = np.triu_indices(len(each), 1)
        keys.append(each[first] * num_variables + each[second])
        gaps.append(np.stack([busy[first], busy[second]], axis=1))
    pairs, which = np.unique(np.concatenate(keys), return_inverse=True)
    longest = np.zeros((len(pairs), 2), dtype=np.int64)
    np.maximum.at(longest, which.ravel(), np.concatenate(gaps))
    return np.stack(np.divmod(pairs, num_variables), axis=1), longest


def windows(order: OpenOrder, limit: int) -> Windows | None:
    """What ending within `limit` ticks implies; None if that is impossible."""
    one, other = order.clashes.T
    head, tail = np.zeros_like(order.duration), order.duration.copy()
    first = np.zeros(len(one), dtype=np.int64)
    while True:
        pairs, lag = _decided(order, first)
        if not (_longest(head, pairs, lag, limit) and _longest(tail, pairs[:, ::-1], lag, limit)):
            return None
        if (head + tail > limit).any() or not _ports_have_room(order, head, tail, limit):
            return None
        forward = head[one] + order.gaps[:, 0] + tail[other] <= limit
        backward = head[other] + order.gaps[:, 1] + tail[one] <= limit
        if not (forward | backward).all():
            return None
        decided = (first == 0) & (forward != backward)
        if not decided.any():
            return Windows(head, tail, first)
        first[decided] = np.where(forward[decided], 1, -1)


def _ports_have_room(order: OpenOrder, head: IntArray, tail: IntArray, limit: int) -> bool:
    """Whether, for all h and q, what a port gets no sooner than h and must end by L - q fits in between."""
    for users, busy in order.users:
        rest = tail[users] - busy
        longest_first = np.argsort(-rest, kind="stable")
        sends, rest = users[longest_first], rest[longest_first]
        since = head[sends][:, None]
        load = np.cumsum((head[sends] >= since) * busy[longest_first], axis=1)  # (h, q)
        if ((since + load + rest > limit) & (load > 0)).any():
            return False
    return True


def _decided(order: OpenOrder, first: IntArray) -> tuple[IntArray, IntArray]:
    """All pairs (i, j) with s_j >= s_i + lag: given ones, and those of decided clashes."""
    forward, backward = order.clashes[first > 0], order.clashes[first < 0][:, ::-1]
    pairs = np.concatenate([order.after, forward, backward])
    return pairs, np.concatenate([order.lag, order.gaps[first > 0, 0], order.gaps[first < 0, 1]])


def _longest(length: IntArray, pairs: IntArray, lag: IntArray, limit: int) -> bool:
    """Raise lengths until length[j] >= length[i] + lag for each pair (i, j); False once past the limit."""
    sources, targets = pairs.T
    while True:
        reached = length[sources] + lag
        longer = reached > length[targets]
        if not longer.any():
            return True
        np.maximum.at(length, targets[longer], reached[longer])
        if length.max() > limit:
            return False


def difference_logic(order: OpenOrder, limit: int, known: Windows) -> str:
    """What is left to decide, as SMT-LIB: satisfiable if and only if an order ends within `limit` ticks."""
    lines = [f"(declare-fun s{i} () Int)" for i in range(len(order.duration))]
    for i, (head, tail) in enumerate(zip(known.head.tolist(), known.tail.tolist(), strict=True)):
        lines.append(f"(assert (>= s{i} {head}))(assert (<= s{i} {limit - tail}))")
    pairs, lag = _decided(order, known.first)
    lines += [f"(assert {_later(i, j, by)})" for (i, j), by in zip(pairs.tolist(), lag.tolist(), strict=True)]
    still_open = known.first == 0
    for (i, j), (by, back) in zip(
        order.clashes[still_open].tolist(), order.gaps[still_open].tolist(), strict=True
    ):
        lines.append(f"(assert (or {_later(i, j, by)} {_later(j, i, back)}))")
    return "\n".join(lines)


def _later(one: int, other: int, lag: int) -> str:
    """The other starts at least `lag` ticks after the one."""
    return f"(>= (- s{other} s{one}) {lag})"


def in_order_of(order: OpenOrder, schedule: Schedule, start: IntArray) -> Schedule:
    """The sends in the order of these starts of variables, each as early as that allows.

    Shape of `start`: (num_variables,). `schedule` says what problem it is.
    """
    places = np.lexsort((np.arange(len(order.decisions)), start[order.variable]))
    return in_order(schedule.problem, [order.decisions[place] for place in places])
