r"""Staged cuts once more, at exact times, and with all chunks of a group gathered and spread at once.

As in `staged_cut`, what crosses into a set W of ranks is worth what it can still serve, and all that crosses
must be worth all that W wants. There a group of n chunks serves up to n w(u', L) ranks in what is left, L,
after it came to u', as if each of them had the network of W to itself. Here the n chunks share it: rank r of
W comes to hold no more than K_n(r, L) of them, K_n being that of `postal` on the links inside W for n chunks
that start at u'. So with want(r) of the chunks wanted at r, the group serves no more than

    s_n(u', L) = sum over r of min(n, want(r), K_n(r, L)).

*Gathered.* Turned round in time, n chunks that are held at u are n chunks that u spreads to where they start.
So no more than the same sum is held at u by x, on the reversed links, of all chunks that start outside W.

*Sums.* Let every sum of C have all of X contributing outside W and all of D wanting it inside. Of n partial
sums that leave u at x, let g_c be how many of X have come into the one of chunk c, and w_c how many of D it
still comes to. The group is worth the sum of g_c w_c, of |X| |D| for each whole sum. With g_c <= g(u, x) and
w_c <= w(u', L), as in `staged_cut`; the sum of g_c no more than s_n backwards from u to X; and the
sum of w_c no more than s_n(u', L) to D: that is at most

    min( min(n g(u, x), s'_n(u, x)) w(u', L),  g(u, x) s_n(u', L) ).

(That s' is right: for each sum the last transfers on the way to u are a tree, as in `staged_cut`. Read
backwards these trees are copies of n chunks from u in groups that are no larger.)

The moments at which all these counts step up are found one after the other (`first_times`), and so are the
ends of the turns on the ports (`port_turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers, name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, node_cuts
from taccl.encoding.bounds.first_times import OutOfBudget, Steps, gathered, informed, is_large
from taccl.encoding.bounds.port_turns import Routes, StepTable, least_end_us
from taccl.encoding.bounds.postal import Distances, Layer, held_at_start, nearest_us
from taccl.encoding.bounds.staged_cut import (
    Entries,
    disjoint_sets,
    in_turn,
    looks_equivalent,
    on_reversed_links,
)
from taccl.encoding.bounds.tuning import (
    STAGES_HORIZON,
    STAGES_MOST_CLASSES,
    STAGES_MOST_CUTS,
    STAGES_MOST_ROUTES,
    STAGES_MOST_S,
    STAGES_SHARE,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.support.budget import Budget

#: Up to this many chunks every size of a group is looked at by itself; of larger ones, a size is rounded up
#: by no more than one part in this many.
_EACH, _PARTS = 8, 4


class _Spreads:
    """How many pairs of a chunk and a rank n chunks can have served so long after they came to a rank."""

    def __init__(
        self,
        instance: Instance,
        layer: Layer,
        want: IntArray,
        looks: IntArray,
        horizon_us: float,
        budget: Budget,
    ) -> None:
        self._problem, self._want, self._budget, self._looks = instance.problem, want, budget, looks
        self._horizon_us, self._layer = horizon_us, layer
        self._of: dict[tuple[int, int], Steps] = {}

    def of(self, rank: int, many: int) -> Steps:
        """For a number of chunks or some more, starting at a rank."""
        size, rank = _rounded_up(many), int(self._looks[rank])
        if (rank, size) not in self._of:
            layer = self._layer.so_many(size)
            held = np.zeros(self._problem.num_ranks, dtype=np.int64)
            held[rank] = size
            most = np.minimum(size, self._want)
            k = gathered(self._problem, layer, held, self._horizon_us, self._budget, enough=most)
            self._of[rank, size] = _sum_of(k, most)
        return self._of[rank, size]


def _rounded_up(many: int) -> int:
    step = 1
    while many > _EACH * step * 2:
        step *= 2
    step = step * 2 if many > _EACH * step else step
    step = max(1, step * _EACH // (2 * _PARTS))
    return many if many <= _EACH else -(-many // step) * step


def _sum_of(counts: Sequence[Steps], most: IntArray) -> Steps:
    """The sum over ranks of what each count is, or `most`, shape (num_ranks,), if that is less."""
    moments = sorted(
        {time_us for each, cap in zip(counts, most, strict=True) if cap for time_us in each.times}
    )
    total = Steps()
    for time_us in moments:
        count = sum(min(int(cap), each.at(time_us)) for each, cap in zip(counts, most, strict=True) if cap)
        if count > total.last:
            total.grow(time_us, count)
    return total


class Entering:
    """What crosses into W over some links, and the routes it may: what copies and sums have in common."""

    def __init__(
        self, view: View, inside: BoolArray, crossing: Crossing, horizon_us: float, budget: Budget
    ) -> None:
        instance = view.instance
        self.instance, self.problem, self.inside = instance, view.problem, inside
        self.crossing, self.horizon_us, self.budget = crossing, horizon_us, budget
        self.every = Layer.of(instance, crossing.chunks)
        self.within = Layer.of(instance, crossing.chunks, inside)
        self.pair = instance.once(Covers).narrowest(crossing.links).pair
        self.port = self.problem.topology.incidence[1][self.pair]
        wants = instance.demand.wants
        chosen = np.zeros(self.problem.num_chunks, dtype=np.bool_)
        chosen[crossing.chunks] = True
        kept = chosen[wants.chunk] & inside[wants.rank]
        self.want = np.bincount(wants.rank[kept], minlength=len(inside))
        self.wanting = np.bincount(wants.chunk[kept], minlength=self.problem.num_chunks)[crossing.chunks]
        self.looks = looks_equivalent(instance, inside, chosen)
        self.spreads = _Spreads(instance, self.within, self.want, self.looks, horizon_us, budget)

    def informed(self, instance: Instance, layer: Layer) -> list[Steps]:
        distances = instance.once(Distances).over(layer.uses())
        return informed(instance.problem, layer, distances, self.horizon_us, self.budget)

    def gathered(self, layer: Layer) -> list[Steps]:
        """K, for the ranks from which links lead into W."""
        near = nearest_us(self.instance, layer)
        held = held_at_start(self.instance, layer)
        enough = np.zeros_like(held)
        enough[self.problem.topology.src[self.crossing.links]] = len(layer.chunks)
        return gathered(self.problem, layer, held, self.horizon_us, self.budget, near, enough)

    def back(self, start: IntArray) -> _Spreads | None:
        """How many pairs of a chunk and a rank it starts at n chunks can have come from; None: not known.

        `start`, shape (num_ranks,), says how many chunks start at each.
        """
        if not self.problem.topology.reads_backwards:
            return None
        back = self.instance.once(on_reversed_links)
        return _Spreads(back, self.every, start, self.looks, self.horizon_us, self.budget)


@dataclass(frozen=True)
class Way:
    """A way of crossing, as `port_turns` has it, for n chunks over one link."""

    from_us: float
    many: int
    once: int


def _copies_end_us(known_us: float, at: Entering) -> float:
    """When all that has to enter W can have served all ranks there; see `least_end_us`."""
    instance, chunks = at.instance, at.crossing.chunks
    sets = disjoint_sets(instance, chunks, at.inside)
    one_of_each = Layer.of(instance, chunks[np.unique(sets, return_index=True)[1]])
    held = at.gathered(at.every)
    held_sets = held if len(one_of_each.chunks) == len(chunks) else at.gathered(one_of_each)
    sets_on = one_of_each.many_on()
    starts = instance.demand.starts
    chosen = np.isin(starts.chunk, chunks)
    back = at.back(np.bincount(starts.rank[chosen], minlength=len(at.inside)))
    each = int(at.wanting.max())

    def routes(rank: int, link: int, many: int) -> Iterator[Way]:
        first = held[rank].first(many)
        if first is not None and back is not None and first > 0:
            later = back.of(rank, many).first(many)
            first = None if later is None else max(first, later)
        if first is None:
            return
        most = min(many, int(sets_on[link]))
        for time_us in (first, *(moment for moment in held_sets[rank].times if moment > first)):
            count = min(most, held_sets[rank].at(time_us))
            yield Way(time_us, count, 1)
            if count == most:
                return

    ports = _routes_of(at, at.informed(instance, at.within), routes, lambda many: many * each)
    caps = [int(at.wanting[at.every.may_use_any(links)].sum()) for _, links in ports]
    return least_end_us(
        [replace(way, cap=cap) for (way, _), cap in zip(ports, caps, strict=True)],
        *(int(at.wanting.sum()), known_us, at.horizon_us, at.budget),
    )


@dataclass(frozen=True, eq=False)
class SumsEntering:
    """Sums of which all of some ranks outside W contribute, and that all of some ranks in W want.

    Parameters
    ----------
    contributing : shape (num_ranks,); the ranks outside W that contribute to all of them, or to none.
    wanting : how many ranks of W want each of them.
    back : how many pairs of a sum and a contributor some sums can have come from.
    collected : for each rank how many contributions to one sum can have come there by a moment.
    """

    at: Entering
    contributing: BoolArray
    wanting: int
    back: _Spreads
    collected: list[Steps]

    @staticmethod
    def of(at: Entering) -> SumsEntering | None:
        """What is known of the sums that cross there; None where they are not all equivalent.

        Raises
        ------
        OutOfBudget : before it is known.
        """
        instance, chunks = at.instance, at.crossing.chunks
        starts = instance.demand.starts
        kept = np.isin(starts.chunk, chunks) & ~at.inside[starts.rank]
        contributing = np.bincount(starts.chunk[kept], minlength=at.problem.num_chunks)[chunks]
        start = np.bincount(starts.rank[kept], minlength=len(at.inside))
        contributors, wanting = int(contributing.max()), int(at.wanting.max())
        back = at.back(start)
        if back is None or (contributing != contributors).any() or (at.wanting != wanting).any():
            return None
        reversed_instance = instance.once(on_reversed_links)
        collected = at.informed(reversed_instance, replace(at.every, wanted=start > 0))
        return SumsEntering(at, start > 0, wanting, back, collected)

    @cached_property
    def contributors(self) -> int:
        """How many ranks outside W contribute to each sum."""
        starts = self.at.instance.demand.starts
        one = starts.chunk == self.at.crossing.chunks[0]
        return int((one & ~self.at.inside[starts.rank]).sum())

    @property
    def worth_of_one(self) -> int:
        """What a whole sum is worth: pairs of a contributor and a rank that wants it."""
        return self.contributors * self.wanting

    def routes(self, rank: int, link: int, many: int) -> Iterator[Way]:
        """How this many may cross over a link out of a rank: what they can be sums of, the later the more."""
        one, all_of_them = self.collected[rank], self.back.of(rank, many)
        for time_us in sorted({*one.times, *all_of_them.times}):
            count = one.at(time_us)
            together = min(many * count, all_of_them.at(time_us))
            if together:
                yield Way(time_us, together, count)
            if together == many * self.contributors:
                return

    def least_end_us(
        self, routes: Callable[[int, int, int], Iterator[Way]], known_us: float, but: int = 0
    ) -> float:
        """When groups that cross in such forms can be worth all sums but so much; see `least_end_us`."""
        at = self.at
        ports = _routes_of(
            at, at.informed(at.instance, at.within), routes, lambda many: many * self.worth_of_one
        )
        caps = [at.every.many_on_any(links) * self.worth_of_one for _, links in ports]
        return least_end_us(
            [replace(way, cap=cap) for (way, _), cap in zip(ports, caps, strict=True)],
            *(len(at.crossing.chunks) * self.worth_of_one - but, known_us, at.horizon_us, at.budget),
        )


def _sums_end_us(known_us: float, at: Entering) -> float:
    """When all sums that need contributions from outside W can have come to all who want them there."""
    sums = SumsEntering.of(at)
    return 0.0 if sums is None else sums.least_end_us(sums.routes, known_us)


def _routes_of(
    at: Entering,
    w: list[Steps],
    routes: Callable[[int, int, int], Iterator[Way]],
    most: Callable[[int], int],
) -> list[tuple[Routes, IntArray]]:
    """For each port into W the routes through it, one of those that are equivalent, and its links.

    `routes` gives them for a rank, a link out of it and a number of chunks, and `most` what this many are
    worth.

    Raises
    ------
    OutOfBudget : they are too many.
    """
    topology, links = at.problem.topology, at.crossing.links
    sizes = np.minimum(at.every.many_on()[links], at.problem.max_group).tolist()
    number_of: dict[object, int] = {}
    tables: tuple[list[Steps], list[Steps]] = ([], [])

    def row(table: int, steps: Steps) -> int:
        key = table, steps.key()
        if key not in number_of:
            number_of[key] = len(tables[table])
            tables[table].append(steps)
        return number_of[key]

    rows: dict[int, dict[tuple[tuple[float, ...], tuple[int, ...]], None]] = {}
    for link, pair, port, size in zip(links.tolist(), at.pair, at.port.tolist(), sizes, strict=True):
        into = rows.setdefault(port, {})
        counts = np.arange(1, size + 1)
        takes = topology.duration_us(np.full(size, link), counts * at.problem.chunk_mb)
        busy = topology.port_busy_us(np.full(size, pair), counts * at.problem.chunk_mb)
        src, dst = int(topology.src[link]), int(topology.dst[link])
        for many in counts.tolist():
            spread = row(1, at.spreads.of(dst, many))
            for way in routes(src, link, many):
                costs = way.from_us, float(takes[many - 1]), float(busy[many - 1])
                into[costs, (most(many), way.many, way.once, row(0, w[dst]), spread)] = None
        if sum(map(len, rows.values())) > STAGES_MOST_ROUTES:
            raise OutOfBudget
    both = StepTable.of(tables[0]), StepTable.of(tables[1])
    found = []
    for port, into in sorted(rows.items()):
        from_us, takes_us, busy_us = np.array([costs for costs, _ in into]).reshape(-1, 3).T
        counted = np.array([each for _, each in into], dtype=np.int64).reshape(-1, 5).T
        most_of, many_of, once, of_w, of_s = counted
        through = Routes(from_us, takes_us, busy_us, most_of, many_of, once, of_w, of_s, both, cap=0)
        found.append((through, links[at.port == port]))
    return found


def _stages_bound(view: View, cut: Cut, known_us: float, budget: Budget) -> Proof:
    """The best bound over the sets of chunks that must enter; nothing that is no better than is known."""
    best = STAGES.proof(0.0, "nothing has to enter")
    inside = members(view.problem.num_ranks, cut.ranks)
    reduces = view.problem.collective.is_reduction
    crossings = view.instance.once(Crossings).of(cut)
    for crossing in crossings if len(crossings) <= STAGES_MOST_CLASSES else crossings[-1:]:
        chunks = crossing.chunks
        if reduces:
            chunks = chunks[view.problem.collective.reduces[chunks]]
        if not len(chunks):
            continue
        try:
            at = Entering(view, inside, Crossing(chunks, crossing.links), STAGES_HORIZON * known_us, budget)
            end_us = (_sums_end_us if reduces else _copies_end_us)(max(known_us, best.value_us), at)
        except OutOfBudget:
            continue
        if end_us > best.value_us:
            what = f"{len(chunks)} {'sums' if reduces else 'chunks'} {cut.name}"
            through = name_ports(view.problem, np.unique(at.port))
            best = STAGES.proof(
                end_us, f"{what} through {through}, all of a group gathered and spread at once"
            )
    return best


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield STAGES.proof(0.0, "nothing has to enter")
    instance = view.instance
    if not known_us or view.backwards or is_large(view.problem):
        return
    cuts, budget = node_cuts(instance), budget.at_most(STAGES_MOST_S)
    if view.problem.collective.is_reduction:
        cuts = [*cuts, *instance.once(Crossings).cuts]
    for cut, least_us in in_turn(instance, cuts, STAGES_MOST_CUTS, known_us, budget):
        if instance.once(Entries).may_come_to(cut, least_us):
            yield _stages_bound(view, cut, least_us, budget.share(STAGES_SHARE))


STAGES = Bound(
    name="stages",
    about="entry at exact times, and with all chunks of a group, which share the network before and after "
    "the cut: each rank there comes to hold only this many of them so soon",
    remedy="more or faster links there, or shorter routes to and from there",
    prove=_prove,
    features=RELAXED,
)
