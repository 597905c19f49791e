r"""Spanning out-trees that together use each link no more often than it may be used.

Trees are grown one arc at a time, nearest first, each as often as it can be without making the rest
impossible. While some trees have reached the ranks V_i with m_i copies each, the rest stays possible if
and only if, for every set W of ranks (Edmonds 1973; Frank 1978),

    sum of spare(l) over links l into W  >=  sum of m_i over trees with no rank in W.

Taking the link (u, v) for m copies of a tree that has u lowers what enters the sets with v and without
u, so m is at most the smallest slack among those where the tree already has a rank. That is a maximum flow
to v from u, from the other trees' copies and over the spare links (Berczi and Frank 2010 use it so). A
link that is refused once is refused to this tree for good: the set that forbids it stays tight.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from ortools.graph.python import max_flow

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.budget import Budget


@dataclass
class Tree:
    """Links that lead from `root` to the ranks reached, parents first, taken `count` times."""

    root: int
    count: int
    links: list[int] = field(default_factory=list)
    reached_us: dict[int, float] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def split(self, count: int) -> Tree:
        """Leave `count` copies here; returns the others as they are now."""
        others = Tree(self.root, self.count - count, [*self.links], {**self.reached_us}, {*self.refused})
        self.count = count
        return others


def packed(
    topology: LogicalTopology,
    capacity: IntArray,
    copies: IntArray,
    usable: BoolArray,
    duration_us: FloatArray,
    budget: Budget,
) -> list[Tree] | None:
    """Trees for `copies[u]` chunks of each rank u that use link l at most `capacity[l]` times.

    `usable[u, l]` says whether chunks of rank u may take link l; `duration_us`, shape (num_links,), decides
    which way is near. None if that cannot be, or the time is up.
    """
    return _Packing(topology, capacity, usable, duration_us, budget).run(copies)


class _Packing:
    """The spare capacity and the trees that are not finished."""

    def __init__(
        self,
        topology: LogicalTopology,
        capacity: IntArray,
        usable: BoolArray,
        duration_us: FloatArray,
        budget: Budget,
    ) -> None:
        self.topology, self.usable, self.budget = topology, usable, budget
        self.duration: list[float] = duration_us.tolist()
        self.dst: list[int] = topology.dst.tolist()
        self.spare = capacity.copy()
        self.waiting: list[Tree] = []
        self.others = 0
        self.arcs_of_others: tuple[IntArray, IntArray, IntArray] | None = None

    def run(self, copies: IntArray) -> list[Tree] | None:
        roots = np.flatnonzero(copies).tolist()
        self.waiting = [Tree(root, int(copies[root]), reached_us={root: 0.0}) for root in reversed(roots)]
        finished = []
        while self.waiting:
            tree = self.waiting.pop()
            self.arcs_of_others = None
            if not self._grown(tree):
                return None
            finished.append(tree)
        return finished

    def _grown(self, tree: Tree) -> bool:
        """Whether the tree came to reach every rank; copies that cannot follow it wait."""
        for link in self._nearest_first(tree):
            if not self.budget.remaining_s():
                return False
            most = self._most(tree, link)
            if not most:
                tree.refused.add(link)
                continue
            if most < tree.count:
                self.waiting.append(tree.split(most))
                self.arcs_of_others = None
            self.spare[link] -= most
            tree.links.append(link)
        return len(tree.reached_us) == self.topology.num_ranks

    def _nearest_first(self, tree: Tree) -> Iterator[int]:
        """Links to ranks that the tree has not reached, in the order of their arrivals."""
        heap: list[tuple[float, int, int]] = []

        def offer(rank: int) -> None:
            for link in self.topology.links_from[rank]:
                if self.usable[tree.root, link] and link not in tree.refused:
                    arrival = tree.reached_us[rank] + self.duration[link]
                    heapq.heappush(heap, (arrival, -int(self.spare[link]), link))

        for rank in tree.reached_us:
            offer(rank)
        while heap:
            arrival, _, link = heapq.heappop(heap)
            rank = self.dst[link]
            if rank in tree.reached_us or not self.spare[link]:
                continue
            yield link
            if link not in tree.refused:
                tree.reached_us[rank] = arrival
                offer(rank)

    def _most(self, tree: Tree, link: int) -> int:
        """How many copies of the tree may take the link."""
        most = min(int(self.spare[link]), tree.count)
        if self.arcs_of_others is None:
            self.arcs_of_others = self._arcs_of_others()
            self.others = sum(other.count for other in self.waiting)
        flow = max_flow.SimpleMaxFlow()
        source = self.topology.num_ranks
        used = np.flatnonzero(self.spare)
        flow.add_arcs_with_capacity(self.topology.src[used], self.topology.dst[used], self.spare[used])
        flow.add_arcs_with_capacity(*self.arcs_of_others)
        flow.add_arc_with_capacity(source, int(self.topology.src[link]), self.others + tree.count)
        flow.solve(source, self.dst[link])
        return max(0, min(most, int(flow.optimal_flow()) - self.others))

    def _arcs_of_others(self) -> tuple[IntArray, IntArray, IntArray]:
        """Tails, heads and capacities: from the source to each waiting tree, and on to its ranks."""
        source = self.topology.num_ranks
        arcs: list[tuple[int, int, int]] = []
        for number, other in enumerate(self.waiting, source + 1):
            arcs.append((source, number, other.count))
            arcs += [(number, rank, other.count) for rank in other.reached_us]
        tail, head, capacity = np.array(arcs, dtype=np.int64).reshape(-1, 3).T.copy()
        return tail, head, capacity
