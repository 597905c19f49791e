"""Forests: a spanning tree for each chunk at prices of ports, for sums and for copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.routes.arcs import NO_LINK, arcs_of, spans
from taccl.encoding.engines.routes.choice import Choice
from taccl.encoding.engines.routes.columns import Grouping, Routes, groupings
from taccl.encoding.engines.routes.kinds import kinds_of
from taccl.encoding.engines.routes.promise import Promise, promise_of
from taccl.encoding.engines.routes.spanning import Forest, TreeShape, choose, shape_of
from taccl.encoding.engines.routes.spread import ANYWHERE, spread_of
from taccl.encoding.engines.routes.tuning import (
    BUSIER,
    FOR_SCOUTS,
    MOST_TOGETHER,
    SCOUTS,
    SEEDS,
    SHALLOW,
    SHORTER,
)
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.support.budget import Budget

#: Shapes of trees: how much the way from the root counts in choosing them, and by what part the longest may
#: be longer than it must.
_SHAPES = ((0.3, np.inf), (0.05, np.inf))


def serves_forests(instance: Instance) -> Verdict:
    """Whether every chunk comes from all ranks or goes to all, over links that join them."""
    spread = spread_of(instance.demand)
    if spread is None:
        return no(
            "trees carry chunks from all ranks to one, from one to all, or both, and here some go elsewhere"
        )
    arcs = arcs_of(instance.problem.topology, spread)
    if not spans(arcs, max(int(spread.root[0]), 0)):
        return no("sums and copies share trees, and two-way links do not join all ranks")
    return YES


def forests(instance: Instance, seed: int, budget: Budget) -> Iterator[Choice]:
    """Forests of all shapes and groupings, what promises most first."""
    planting = _Planting(instance, seed)
    for grouping, shape, number in planting.candidates(budget):
        routes = planting.routes(grouping, shape, number, budget)
        if routes is None:
            return
        yield Choice(routes, (grouping.size,), turns_back=True, matches=True)


@dataclass(frozen=True, eq=False)
class _Batches:
    """Chunks in batches: those of batch b are places `first[b]` to `first[b + 1]` of `chunk`."""

    first: IntArray
    chunk: IntArray


class _Planting:
    """What all forests of one problem share."""

    def __init__(self, instance: Instance, seed: int) -> None:
        spread = spread_of(instance.demand)
        assert spread is not None  # or it is not served
        self.problem, self.spread, self.seed = instance.problem, spread, seed
        self.arcs, self.costs = arcs_of(self.problem.topology, spread), costs_of(self.problem.topology)
        self.kind, self.allowed = self._kinds()

    def candidates(self, budget: Budget) -> Iterator[tuple[Grouping, TreeShape, int]]:
        """How chunks are put together, what promises most first, which trees are preferred, and a seed.

        None where even the trees of a few chunks are not there in time: those of all take longer.
        """
        mb = self.problem.chunk_mb
        every = groupings(min(self.problem.max_group, MOST_TOGETHER, self.problem.num_chunks))
        any_root = bool((self.spread.root == ANYWHERE).any())
        shapes = [shape_of(self.arcs, self.costs, mb, *each, any_root) for each in _SHAPES]
        promise = self._promise(shapes[0], budget.share(FOR_SCOUTS))
        if promise is None:
            return
        shallow = shape_of(self.arcs, self.costs, mb, *SHALLOW, any_root)
        of_shallow = self._promise(shallow, budget.share(FOR_SCOUTS))
        if of_shallow is not None:
            is_first = of_shallow.way_us(mb) <= SHORTER * promise.way_us(mb) and of_shallow.busy_us(
                mb
            ) <= BUSIER * promise.busy_us(mb)
            shapes.insert(0 if is_first else len(shapes), shallow)
            likely = of_shallow if is_first else promise
            every.sort(key=lambda each: (each.tapered, likely.time_us(mb, each.size)))
        for number in range(SEEDS):
            for grouping, shape in product(every, shapes):
                yield grouping, shape, self.seed + number

    def routes(self, grouping: Grouping, shape: TreeShape, seed: int, budget: Budget | None) -> Routes | None:
        """A tree for each batch of chunks; None if they are not there in time."""
        batches = self._batches(grouping)
        forest = self._trees(batches, shape, seed, budget)
        if forest is None:
            return None
        batch_of = np.repeat(np.arange(len(forest.root)), np.diff(batches.first))
        place, rank = np.nonzero(forest.arc[batch_of] >= 0)
        arc = forest.arc[batch_of[place], rank]
        rows = []
        for links, adds in ((self.arcs.up, True), (self.arcs.down, False)):
            used = np.flatnonzero(links[arc] != NO_LINK)
            at = place[used]
            rows.append(
                Routes(
                    batches.chunk[at],
                    links[arc[used]],
                    np.full(len(used), adds),
                    batch_of[at],
                    at / len(batch_of),
                )
            )
        up, down = rows
        return down if not len(up) else up if not len(down) else up.then(down)

    def _promise(self, shape: TreeShape, budget: Budget) -> Promise | None:
        """What the trees of a few chunks promise; None if they do not reach all ranks, or not in time."""
        problem, many = self.problem, self.problem.num_chunks
        some = np.unique(np.linspace(0, many - 1, min(many, SCOUTS)).astype(np.int64))
        root, mb = self.spread.root[some], problem.size_mb[some]
        scouts = choose(
            self.arcs, self.costs, self.allowed, self.kind[some], root, mb, shape, self.seed, budget
        )
        return None if scouts is None else promise_of(scouts, self.arcs, self.costs, problem.chunk_mb, many)

    def _kinds(self) -> tuple[IntArray, BoolArray]:
        """The kind of each chunk, and the arcs that chunks of each kind may use."""
        usable, kind = kinds_of(self.problem)
        allowed = np.ones((len(usable), len(self.arcs.parent)), dtype=np.bool_)
        for links in (self.arcs.up, self.arcs.down):
            allowed &= (links == NO_LINK) | usable[:, links]
        return kind, allowed

    def _batches(self, grouping: Grouping) -> _Batches:
        """Chunks of one root and one kind that share a tree; those of all roots by turns."""
        root, kind = self.spread.root, self.kind
        order = np.lexsort((np.arange(len(root)), kind, root))
        starts = np.flatnonzero(np.diff(root[order]) | np.diff(kind[order])) + 1
        by_turn: list[list[tuple[int, ...]]] = []
        for chunks in np.split(order, starts):
            for turn, batch in enumerate(grouping.cut(tuple(chunks.tolist()))):
                if turn == len(by_turn):
                    by_turn.append([])
                by_turn[turn].append(batch)
        batches = [batch for turn in by_turn for batch in turn]
        first = np.concatenate([[0], np.cumsum([len(batch) for batch in batches])])
        return _Batches(first, np.array([chunk for batch in batches for chunk in batch], dtype=np.int64))

    def _trees(self, batches: _Batches, shape: TreeShape, seed: int, budget: Budget | None) -> Forest | None:
        first = batches.chunk[batches.first[:-1]]
        mb = np.add.reduceat(self.problem.size_mb[batches.chunk], batches.first[:-1])
        root = self.spread.root[first]
        return choose(self.arcs, self.costs, self.allowed, self.kind[first], root, mb, shape, seed, budget)
