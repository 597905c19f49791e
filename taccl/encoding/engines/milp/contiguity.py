r"""Contiguity and exact times: which neighbours share one send, when every order is given.

A schedule fixes an order of its transfers on every port. Transfers i and next(i) that follow each
other over one link, with nothing between them on its ports, may be *joined* into one send. With
start s_i, end e_i, size of its send g_i, place in its send k_i, join j_i in {0, 1} (i with next(i)), U the
time of the given schedule, n the most chunks per send, and a link's cost c = s * beta per chunk:

    minimise T
    (finish)     T >= e_i
    (duration)   e_i >= s_i + alpha + c g_i
    (presence)   s_i >= e_p                                   for what brings its chunk to the sender
    (ports)      s_b >= busy end of a                         for neighbours a, b on a port over two links
    (apart)      s_next(i) >= busy end of i - U j_i
    (together)   s_i <= s_next(i) <= s_i + U (1 - j_i),   e_i >= e_next(i) - U (1 - j_i)
    (size)       k_next(i) >= k_i + 1 - n (1 - j_i),  g_i >= k_i,  g_i >= g_next(i) - n (1 - j_i),  g_i <= n

The busy end is s_i + c g_i, plus alpha under serial occupancy, with the c of the slowest port that the two
share: for neighbours on a port that is faster than the link it is what a chunk takes there. One variable
stands for an orbit of transfers where the schedule is symmetric. TACCL (Shah et al., NSDI 2023), section
5.2 step 3, with the sizes of sends exact and without its relaxation of who waits for whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.linear import LinearModel, Solution, Values, solve
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

#: More transfers than this make a program too large, and so many for each second that is left take a
#: noticeable part of it to write down; images under a symmetry cost some more.
_MOST_TRANSFERS = 100_000
_TRANSFERS_PER_S = 20_000
_WRITTEN_PER_UNIT = 100


@dataclass(frozen=True, eq=False)
class _Order:
    """What a schedule fixes: pairs of transfers, as columns, by their place in its sorted rows.

    Parameters
    ----------
    variable : shape (num_rows,); the orbit that each transfer belongs to.
    presence : pairs (earlier, later): the earlier brings the chunk that the later sends on.
    neighbours : pairs that follow each other on a port, over different links or not joinable.
    cost_us : shape (num_neighbours,); the longest that a chunk of the first keeps such a port busy.
    joinable : pairs that follow each other over one link and on all of its ports.
    """

    variable: IntArray
    presence: IntArray
    neighbours: IntArray
    cost_us: FloatArray
    joinable: IntArray


def rejoined(
    schedule: Schedule, symmetry: SymmetryGroup, options: SearchOptions, budget: Budget
) -> Schedule | None:
    """The same transfers in the same orders, joined into sends anew; None if that is no faster.

    `symmetry` is used as far as the schedule has it. Only for compact schedules without mixed groups, and for
    those whose program is written in a part of the budget. Where groups save nothing (`core.grouping`), every
    transfer goes by itself, and no program is needed.
    """
    mixed = (schedule.reduce != schedule.sends.reduce[schedule.sends.of_row]).any()
    if not len(schedule) or schedule.sums is not None or mixed:
        return None
    if one_by_one(schedule.problem.topology)[schedule.link].all():
        better: Schedule | None = _apart(schedule)
    else:
        size = len(schedule) * (1 + len(symmetry) / 4)
        if size > min(_MOST_TRANSFERS, _TRANSFERS_PER_S * budget.remaining_s()):
            return None
        budget.spend(size / _WRITTEN_PER_UNIT)
        program = build(schedule, symmetry)
        solution = solve(program.model, options.solver, budget, seed=options.seed, start=program.given())
        better = program.read(solution)
    if better is None or better.makespan_us >= schedule.makespan_us - TOLERANCE_US:
        return None
    return better


def build(schedule: Schedule, symmetry: SymmetryGroup) -> JoiningProgram:
    """The program of the module's docstring for a compact schedule without mixed groups."""
    schedule = schedule.sorted()
    order = _order(schedule, symmetry)
    model = LinearModel()
    columns = _columns(model, schedule, order)
    _everything_ends_in_time(model, columns)
    _a_send_takes_its_duration(model, schedule, order, columns)
    _a_chunk_is_present_before_it_leaves(model, order, columns)
    _ports_serve_one_at_a_time(model, schedule, order, columns)
    _joined_transfers_go_together(model, schedule, order, columns)
    _sends_count_their_chunks(model, schedule, order, columns)
    return JoiningProgram(schedule, model, order, columns)


def _apart(schedule: Schedule) -> Schedule:
    """Each transfer a send of its own, in the same orders."""
    rows = schedule.sorted()
    columns = rows.chunk.tolist(), rows.link.tolist(), rows.reduce.tolist()
    decisions = [Decision((chunk,), link, reduce) for chunk, link, reduce in zip(*columns, strict=True)]
    return in_order(schedule.problem, decisions)


@dataclass(frozen=True, eq=False)
class _Columns:
    """The variables: one each per orbit of transfers, one join per orbit of joinable pairs."""

    finish: IntArray
    start: IntArray
    end: IntArray
    place: IntArray
    size: IntArray
    join: IntArray  # per row of order.joinable
    row: IntArray  # a transfer of each orbit
    latest_us: float


@dataclass(frozen=True, eq=False)
class JoiningProgram:
    """The program, the schedule whose orders it keeps, and the variables to read it by."""

    schedule: Schedule
    model: LinearModel
    order: _Order
    columns: _Columns

    def given(self) -> FloatArray:
        """The schedule itself as a solution, shape (num_variables,)."""
        schedule, order, x = self.schedule, self.order, self.columns
        start = np.zeros(self.model.num_variables)
        sends = schedule.sends
        start[x.finish] = schedule.makespan_us
        start[x.start], start[x.end] = schedule.start_us[x.row], schedule.end_us[x.row]
        place = np.ones(len(schedule))
        together = schedule.group[order.joinable[:, 0]] == schedule.group[order.joinable[:, 1]]
        start[x.join] = together
        for one, other in order.joinable[together]:
            place[other] = place[one] + 1
        start[x.place] = place[x.row]
        start[x.size] = sends.count[sends.of_row][x.row]
        return start

    def read(self, solution: Solution) -> Schedule | None:
        """The schedule that a solution says, with its times computed anew; None if there is no solution."""
        schedule, order, x = self.schedule, self.order, self.columns
        if solution.values is None:
            return None
        joined = {
            int(later): int(earlier)
            for (earlier, later), value in zip(order.joinable, solution.values[x.join], strict=True)
            if value > 0.5
        }
        first = list(range(len(schedule)))
        members: dict[int, list[int]] = {}
        for row in range(len(schedule)):
            first[row] = first[joined[row]] if row in joined else row
            members.setdefault(first[row], []).append(row)
        start = solution.values[x.start][order.variable]
        firsts = sorted(members, key=lambda row: (start[members[row][-1]], row))
        decisions = [
            Decision(
                tuple(schedule.chunk[members[row]].tolist()),
                int(schedule.link[row]),
                bool(schedule.reduce[row]),
            )
            for row in firsts
        ]
        return in_order(schedule.problem, decisions)


def _order(schedule: Schedule, symmetry: SymmetryGroup) -> _Order:
    topology, links = schedule.problem.topology, schedule.link
    ports, betas = topology.ports, topology.pair_betas.tolist()
    last_on_port: dict[int, int] = {}
    neighbours: dict[tuple[int, int], float] = {}
    joinable: list[tuple[int, int]] = []
    for row, link in enumerate(links.tolist()):
        before = {last_on_port.get(port, -1) for port in ports[link]}
        one = next(iter(before))
        same_kind = one >= 0 and schedule.reduce[one] == schedule.reduce[row]
        if len(before) == 1 and same_kind and links[one] == link and _may_share(schedule, one, row):
            joinable.append((one, row))
        else:
            for port in ports[link]:
                earlier = last_on_port.get(port, -1)
                if earlier >= 0:
                    first = int(topology.first_pair[links[earlier]])
                    beta = betas[first + ports[links[earlier]].index(port)]
                    neighbours[earlier, row] = max(beta, neighbours.get((earlier, row), 0.0))
        last_on_port.update(dict.fromkeys(ports[link], row))
    return _Order(
        variable=_orbits(schedule, symmetry),
        presence=_presence(schedule),
        neighbours=np.array(sorted(neighbours), dtype=np.int64).reshape(-1, 2),
        cost_us=np.array([neighbours[pair] for pair in sorted(neighbours)]) * schedule.problem.chunk_mb,
        joinable=np.array(joinable, dtype=np.int64).reshape(-1, 2),
    )


def _may_share(schedule: Schedule, one: int, other: int) -> bool:
    """Whether two transfers may leave together: own chunks first keeps own and other chunks apart."""
    own_first = schedule.problem.limits.own_first
    if own_first is None or not own_first[schedule.link[one]]:
        return True
    owner, sender = schedule.problem.collective.owner, schedule.src[one]
    return bool((owner[schedule.chunk[one]] == sender) == (owner[schedule.chunk[other]] == sender))


def _presence(schedule: Schedule) -> IntArray:
    """Pairs (row that brings a chunk, row that takes it on); all partial sums for a sum."""
    copy_into: dict[tuple[int, int], int] = {}
    sums_into: dict[tuple[int, int], list[int]] = {}
    cells = list(zip(schedule.chunk.tolist(), schedule.dst.tolist(), strict=True))
    for row, cell in enumerate(cells):
        if schedule.reduce[row]:
            sums_into.setdefault(cell, []).append(row)
        else:
            copy_into[cell] = row
    pairs = []
    for row, cell in enumerate(zip(schedule.chunk.tolist(), schedule.src.tolist(), strict=True)):
        if not schedule.reduce[row] and cell in copy_into:
            pairs.append((copy_into[cell], row))
        else:
            pairs += [(earlier, row) for earlier in sums_into.get(cell, [])]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _orbits(schedule: Schedule, symmetry: SymmetryGroup) -> IntArray:
    """The orbit of each row, numbered from 0; every row is its own if the schedule is not symmetric."""
    links = schedule.problem.topology.num_links
    key = schedule.chunk.astype(np.int64) * links + schedule.link
    row_of_key = dict(zip(key.tolist(), range(len(key)), strict=True))
    alone = np.arange(len(key))
    if len(row_of_key) < len(key):
        return alone
    least = key.copy()
    for chunk_map, link_map in zip(symmetry.chunk_map, symmetry.link_map, strict=True):
        image = chunk_map[schedule.chunk] * links + link_map[schedule.link]
        rows = np.array([row_of_key.get(k, -1) for k in image.tolist()])
        if (rows < 0).any() or (np.abs(schedule.start_us[rows] - schedule.start_us) > TOLERANCE_US).any():
            return alone
        least = np.minimum(least, image)
    return np.asarray(np.unique(least, return_inverse=True)[1])


def _columns(model: LinearModel, schedule: Schedule, order: _Order) -> _Columns:
    count = int(order.variable.max(initial=-1)) + 1
    latest, most_chunks = schedule.makespan_us, _most_together(schedule)
    _, row = np.unique(order.variable, return_index=True)
    pairs = order.variable[order.joinable]
    _, pair = np.unique(pairs[:, 0] * count + pairs[:, 1], return_inverse=True)
    return _Columns(
        finish=model.add_variables(1, upper=latest, cost=1.0),
        start=model.add_variables(count, upper=latest),
        end=model.add_variables(count, upper=latest),
        place=model.add_variables(count, 1.0, most_chunks),
        size=model.add_variables(count, 1.0, most_chunks),
        join=model.add_binaries(int(pair.max(initial=-1)) + 1)[pair],
        row=row,
        latest_us=latest,
    )


def _distinct(pairs: IntArray, order: _Order) -> tuple[IntArray, IntArray, IntArray]:
    """One pair of each orbit of pairs: (its place, orbit of the first, orbit of the second)."""
    orbits = order.variable[pairs]
    _, first = np.unique(orbits, axis=0, return_index=True)
    return first, orbits[first, 0], orbits[first, 1]


def _everything_ends_in_time(model: LinearModel, x: _Columns) -> None:
    """T - e_i >= 0."""
    row = np.arange(len(x.end))
    _add(model, len(row), [(row, np.repeat(x.finish, len(row)), 1.0), (row, x.end, -1.0)], lower=0.0)


def _a_send_takes_its_duration(model: LinearModel, schedule: Schedule, order: _Order, x: _Columns) -> None:
    """Ends and starts: e_i - s_i - c g_i >= alpha."""
    alpha, cost = _costs(schedule, x.row)
    row = np.arange(len(x.end))
    terms: list[_Term] = [(row, x.end, 1.0), (row, x.start, -1.0), (row, x.size, -cost)]
    _add(model, len(row), terms, lower=alpha)


def _a_chunk_is_present_before_it_leaves(model: LinearModel, order: _Order, x: _Columns) -> None:
    """Presence: s_i - e_p >= 0."""
    if len(order.presence):
        _, earlier, later = _distinct(order.presence, order)
        row = np.arange(len(later))
        _add(model, len(row), [(row, x.start[later], 1.0), (row, x.end[earlier], -1.0)], lower=0.0)


def _ports_serve_one_at_a_time(model: LinearModel, schedule: Schedule, order: _Order, x: _Columns) -> None:
    """Neighbours: s_b - s_a - c_a g_a >= alpha_a (serial), with U j_a added for joinable ones."""
    for pairs, join in ((order.neighbours, None), (order.joinable, x.join)):
        if not len(pairs):
            continue
        place, earlier, later = _distinct(pairs, order)
        alpha, cost = _costs(schedule, pairs[place, 0])
        if join is None:
            cost = order.cost_us[place]
        row = np.arange(len(later))
        terms: list[_Term] = [
            (row, x.start[later], 1.0),
            (row, x.start[earlier], -1.0),
            (row, x.size[earlier], -cost),
        ]
        if join is not None:
            most = alpha + cost * schedule.problem.max_group
            terms.append((row, join[place], np.minimum(most, x.latest_us)))
        serial = schedule.problem.topology.occupancy == "serial"
        _add(model, len(row), terms, lower=alpha if serial else 0.0)


def _joined_transfers_go_together(model: LinearModel, schedule: Schedule, order: _Order, x: _Columns) -> None:
    """Together: s_next >= s_i;  s_next - s_i + U j <= U;  e_i - e_next - U j >= -U."""
    if not len(order.joinable):
        return
    place, one, other = _distinct(order.joinable, order)
    row, most = np.arange(len(place)), x.latest_us
    apart = [(row, x.start[other], 1.0), (row, x.start[one], -1.0)]
    _add(model, len(row), apart, lower=0.0)
    _add(model, len(row), [*apart, (row, x.join[place], most)], upper=most)
    ends = [(row, x.end[one], 1.0), (row, x.end[other], -1.0), (row, x.join[place], -most)]
    _add(model, len(row), ends, lower=-most)


def _sends_count_their_chunks(model: LinearModel, schedule: Schedule, order: _Order, x: _Columns) -> None:
    """Size: k_next - k_i - n j >= 1 - n;  g_i - k_i >= 0;  g_i - g_next - n j >= -n."""
    row = np.arange(len(x.size))
    _add(model, len(row), [(row, x.size, 1.0), (row, x.place, -1.0)], lower=0.0)
    if not len(order.joinable):
        return
    place, one, other = _distinct(order.joinable, order)
    row = np.arange(len(place))
    most = _most_together(schedule)
    join = (row, x.join[place], -most)
    _add(model, len(row), [(row, x.place[other], 1.0), (row, x.place[one], -1.0), join], lower=1.0 - most)
    _add(model, len(row), [(row, x.size[one], 1.0), (row, x.size[other], -1.0), join], lower=-most)


def _most_together(schedule: Schedule) -> float:
    """The most chunks that a send of this schedule can have."""
    return float(min(schedule.problem.max_group, np.bincount(schedule.link, minlength=1).max()))


def _costs(schedule: Schedule, row: IntArray) -> tuple[FloatArray, FloatArray]:
    """(alpha, time per chunk) of the links of some rows."""
    topology, link = schedule.problem.topology, schedule.link[row]
    return topology.alpha_us[link], topology.beta_us_per_mb[link] * schedule.problem.chunk_mb


#: (rows, columns, coefficients) of equal length, the coefficients perhaps one for all.
_Term = tuple[IntArray, IntArray, Values]


def _add(
    model: LinearModel,
    count: int,
    terms: Sequence[_Term],
    lower: Values = -np.inf,
    upper: Values = np.inf,
) -> None:
    """Append rows given as a sum of terms (row, column, coefficient)."""
    row = np.concatenate([term[0] for term in terms])
    column = np.concatenate([term[1] for term in terms])
    value = np.concatenate([np.broadcast_to(np.asarray(term[2]), term[0].shape) for term in terms])
    model.add_rows(count, row, column, value, lower, upper)
