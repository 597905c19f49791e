"""What crosses into a set of ranks over some links: how soon it can be there, and what it can still serve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from taccl.encoding.bounds.by_node import come_us, reach_us
from taccl.encoding.bounds.capacity import Covers
from taccl.encoding.bounds.counts import Steps, sum_of
from taccl.encoding.bounds.cuts import Crossing
from taccl.encoding.bounds.layer import Distances, Layer, held_at_start, nearest_us
from taccl.encoding.bounds.port_turns import Routes, StepTable
from taccl.encoding.bounds.steps import Gathering, TooManyRoutes, gathered, informed
from taccl.encoding.bounds.tuning import STAGED_CUT_MOST_ROUTES
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: Up to this many chunks every size of a group is looked at by itself; of larger ones, a size is rounded up
#: by no more than one part in this many.
_EACH, _PARTS = 8, 4
#: When a group leaves at the soonest, how long it takes and keeps its port busy; and what it is worth, as
#: `Routes` has it: most, many, once, and the rows of w and s.
_Route = tuple[float, float, float, int, int, int, int, int]
#: More than anything is worth.
_ENDLESS = Steps([0.0], [2**40])


@dataclass(frozen=True)
class Way:
    """A way of crossing, as `port_turns` has it, for n chunks over one link."""

    from_us: float
    many: int
    once: int


class Spreads:
    """How many pairs of a chunk and a rank n chunks can have served so long after they came to a rank.

    `want`, shape (num_ranks,), says how many of the chunks each rank wants, and `looks` which ranks a
    symmetry takes to each other.
    """

    def __init__(self, at: Entering, instance: Instance, layer: Layer, want: IntArray, at_ends: bool) -> None:
        self._at, self._problem, self._layer = at, instance.problem, layer
        self._want, self._at_ends = want, at_ends
        self._of: dict[tuple[int, int], Steps] = {}
        self._gathering: dict[int, Gathering] = {}

    def of(self, rank: int, many: int) -> Steps:
        """For a number of chunks or some more, starting at a rank."""
        size, rank = _rounded_up(many), int(self._at.looks[rank])
        if (rank, size) not in self._of:
            held = np.zeros(self._problem.num_ranks, dtype=np.int64)
            held[rank] = size
            most = np.minimum(size, self._want)
            if size not in self._gathering:
                layer = self._layer.so_many(size)
                self._gathering[size] = Gathering(self._problem, layer, self._at.horizon_us, self._at_ends)
            k = self._gathering[size].counts(held, self._at.budget, enough=most)
            self._of[rank, size] = sum_of(k, most)
        return self._of[rank, size]


def _rounded_up(many: int) -> int:
    step = 1
    while many > _EACH * step * 2:
        step *= 2
    step = step * 2 if many > _EACH * step else step
    step = max(1, step * _EACH // (2 * _PARTS))
    return many if many <= _EACH else -(-many // step) * step


class Entering:
    """What crosses into W over some links: what copies and sums have in common.

    Each of these is worked out when it is first requested.

    Parameters
    ----------
    apart : whether what is a node's own and what is others' is counted apart (`by_node`): that takes longer.

    Raises
    ------
    OutOfBudget : before it is known.
    """

    def __init__(
        self,
        view: View,
        inside: BoolArray,
        crossing: Crossing,
        horizon_us: float,
        budget: Budget,
        apart: bool = False,
    ) -> None:
        instance = view.instance
        self._view, self._apart = view, apart
        self.instance, self.problem, self.inside = instance, view.problem, inside
        self.crossing, self.horizon_us, self.budget = crossing, horizon_us, budget
        self.at_ends = view.backwards
        self.every = Layer.of(instance, crossing.chunks)
        self.within = Layer.of(instance, crossing.chunks, inside)
        self.pair = instance.once(Covers).narrowest(crossing.links).pair
        self.port = self.problem.topology.incidence[1][self.pair]

    @property
    def spans_nodes(self) -> bool:
        """Whether ranks of several nodes have or want it on one side, so that counting apart may say more."""
        demand, node_of = self.instance.demand, self.problem.topology.node_of
        start = demand.starts.rank[self.chosen[demand.starts.chunk]]
        return any(
            len(np.unique(node_of[ranks])) > 1 for ranks in (start[~self.inside[start]], self.want > 0)
        )

    def counted_apart(self, budget: Budget) -> Entering:
        """The same with what ranks hold, and whom they inform, counted apart for each node and all others."""
        return Entering(self._view, self.inside, self.crossing, self.horizon_us, budget, apart=True)

    @cached_property
    def chosen(self) -> BoolArray:
        """Whether each chunk must enter, shape (num_chunks,)."""
        chosen = np.zeros(self.problem.num_chunks, dtype=np.bool_)
        chosen[self.crossing.chunks] = True
        return chosen

    @cached_property
    def want(self) -> IntArray:
        """How many of the chunks each rank of W wants, shape (num_ranks,)."""
        wants = self.instance.demand.wants
        kept = self.chosen[wants.chunk] & self.inside[wants.rank]
        return np.bincount(wants.rank[kept], minlength=len(self.inside))

    @cached_property
    def wanting(self) -> IntArray:
        """How many ranks of W want each of the chunks, shape (len(chunks),)."""
        wants = self.instance.demand.wants
        many = np.bincount(wants.chunk[self.inside[wants.rank]], minlength=self.problem.num_chunks)
        return np.asarray(many[self.crossing.chunks])

    @cached_property
    def looks(self) -> IntArray:
        """For each rank the least that a symmetry which keeps W and the chunks takes it to."""
        group, inside, chosen = self.instance.group, self.inside, self.chosen
        keeps = (inside[group.rank_map] == inside).all(axis=1)
        keeps &= (chosen[group.chunk_map] == chosen).all(axis=1)
        return np.asarray(group.rank_map[keeps].min(axis=0, initial=len(inside)))

    @cached_property
    def w(self) -> list[Steps]:
        """How many ranks of W one chunk can serve so long after it came to each rank there."""
        distances = self.instance.once(Distances).over(self.within.uses())
        near = self.reach_us(self.instance, self.within, self.at_ends)
        return informed(
            self.problem, self.within, distances, self.horizon_us, self.budget, self.at_ends, near
        )

    def reach_us(self, instance: Instance, layer: Layer, at_ends: bool) -> list[FloatArray] | None:
        """When chunks can have informed others, counted apart; None: shortest paths say it."""
        return reach_us(instance, layer, self.horizon_us, self.budget, at_ends) if self._apart else None

    @cached_property
    def held(self) -> list[Steps]:
        """How many of the chunks each rank from which links lead into W can hold by a moment."""
        return self.gathered(self.every)

    def gathered(self, layer: Layer) -> list[Steps]:
        """The same for other chunks."""
        held = held_at_start(self.instance, layer)
        enough = np.zeros_like(held)
        enough[self.problem.topology.src[self.crossing.links]] = len(layer.chunks)
        if self._apart:
            near = come_us(self.instance, layer, self.horizon_us, self.budget, self.at_ends)
        else:
            near = nearest_us(self.instance, layer)
        return gathered(
            *(self.problem, layer, held, self.horizon_us, self.budget, near, enough), at_ends=self.at_ends
        )

    @cached_property
    def spreads(self) -> Spreads:
        """How many pairs of a chunk and a rank of W that wants it n chunks can have served."""
        return Spreads(self, self.instance, self.within, self.want, self.at_ends)

    @cached_property
    def turned_round(self) -> Instance:
        """The same demand with every link turned round."""
        return self.instance.once(_turned_round)

    @property
    def turned_at_ends(self) -> bool:
        """Whether ports are busy at the ends of sends where time runs the other way."""
        return not self.at_ends and not self.problem.topology.reads_backwards

    def back(self, start: IntArray) -> Spreads:
        """How many pairs of a chunk and a rank it starts at n chunks can have come from.

        `start`, shape (num_ranks,), says how many chunks start at each.
        """
        return Spreads(self, self.turned_round, self.every, start, self.turned_at_ends)

    def ports(
        self,
        w: Sequence[Steps],
        crossings: Callable[[int, int, int], Iterator[Way]],
        most: Callable[[int], int],
        like: Callable[[int, int], object],
        shared: bool,
    ) -> list[tuple[Routes, IntArray]]:
        """For each port into W the routes through it, one of those that are equivalent, and its links.

        Parameters
        ----------
        w : how many ranks one chunk can serve so long after it came to each rank.
        crossings : the crossings of a rank, a link out of it and a number of chunks.
        most : what this many chunks are worth.
        like : of a rank and a link out of it something that is equal where the crossings are.
        shared : whether chunks of a group share the network of W; else each is spread as if by itself.

        Raises
        ------
        OutOfBudget : before they are known.
        TooManyRoutes : there are more than STAGED_CUT_MOST_ROUTES.
        """
        topology, links = self.problem.topology, self.crossing.links
        sizes = np.minimum(self.every.many_on()[links], self.problem.max_group)
        tables: tuple[_Rows, _Rows] = (_Rows(), _Rows())
        looks: dict[int, dict[object, None]] = {}  # of the links of each port
        known: dict[object, list[_Route]] = {}  # of links that look the same
        num_routes = 0
        betas = topology.beta_us_per_mb[links], topology.pair_betas[self.pair]
        costs = np.stack([topology.alpha_us[links], *betas, sizes]).T.tolist()
        for index, link in enumerate(links.tolist()):
            src, dst = int(topology.src[link]), int(topology.dst[link])
            of_w = tables[0].number(w[dst])
            key = (*costs[index], of_w, int(self.looks[dst]) if shared else -1, like(src, link))
            of_port = looks.setdefault(int(self.port[index]), {})
            if key in known:
                if key not in of_port:
                    num_routes += len(known[key])
                    of_port[key] = None
                continue
            known[key], of_port[key] = [], None
            counts = np.arange(1, int(sizes[index]) + 1)
            size_mb = counts * self.problem.chunk_mb
            takes = topology.duration_us(np.full(len(counts), link), size_mb).tolist()
            busy = topology.port_busy_us(np.full(len(counts), self.pair[index]), size_mb).tolist()
            for many in counts.tolist():
                spread = tables[1].number(self.spreads.of(dst, many) if shared else _ENDLESS)
                for way in crossings(src, link, many):
                    counted = most(many), way.many, way.once, of_w, spread
                    known[key].append((way.from_us, takes[many - 1], busy[many - 1], *counted))
            num_routes += len(known[key])
            if num_routes > STAGED_CUT_MOST_ROUTES:
                raise TooManyRoutes
        both = tables[0].table(), tables[1].table()
        routes: dict[tuple[object, ...], Routes] = {}  # of ports that look the same
        for through in map(tuple, looks.values()):
            if through not in routes:
                routes[through] = self._routes((known[each] for each in through), both)
        return [(routes[tuple(looks[port])], links[self.port == port]) for port in sorted(looks)]

    def _routes(self, of_links: Iterable[Sequence[_Route]], tables: tuple[StepTable, StepTable]) -> Routes:
        """The routes through a port, each once."""
        columns = np.array(list(dict.fromkeys(chain.from_iterable(of_links)))).reshape(-1, 8).T
        from_us, takes_us, busy_us = columns[:3]
        early_us = takes_us - busy_us if self.at_ends else np.zeros_like(takes_us)
        worth, many, once, of_w, of_s = columns[3:].astype(np.int64)
        return Routes(from_us, takes_us, busy_us, early_us, worth, many, once, of_w, of_s, tables, 0)


class _Rows:
    """Counts that differ, numbered."""

    def __init__(self) -> None:
        self._number_of: dict[object, int] = {}
        self._steps: list[Steps] = []

    def number(self, steps: Steps) -> int:
        number = self._number_of.setdefault(steps.key(), len(self._steps))
        if number == len(self._steps):
            self._steps.append(steps)
        return number

    def table(self) -> StepTable:
        return StepTable.of(self._steps)


def _turned_round(instance: Instance) -> Instance:
    problem = instance.problem
    return Instance(replace(problem, topology=problem.topology.reversed()))
