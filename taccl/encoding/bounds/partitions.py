r"""Partitions of the ranks, and how often a chunk has to cross between their parts.

*Copies.* Every part with a rank that wants the chunk, and none that has it, has to be entered: one crossing
for each such part.

*Sums.* Let A be the parts with contributors and B those with wanting ranks. Take the transfers of the chunk
that cross from part to part in the order of their ends, and say that a part knows a contribution once some of
its ranks has anything that it was added to. Let P be the first part that knows all contributions, and look at
the crossing after which it does.

- Until then, this one included, some crossing has left each part of A but P: what P knows of it has left it.
- After it, some crossing must still enter each part of B but P: none of them knew everything yet, and this
  crossing has entered P only.

These are different ones, so there are at least

    min over P of |A - P| + |B - P|  =  |A| + |B| - 2,  or |A| + |B| - 1 where no part is in both.

Nothing is assumed of who adds what where, how often a sum leaves a rank, or what shares a send. With each
rank a part of its own these are the 2n - 2 messages of gossip by one-way calls (Harary and Schwenk 1974).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.cuts import Cut, half_cuts, members
from taccl.encoding.bounds.tuning import PARTITIONS_CELLS, PARTITIONS_MOST_SPEEDS
from taccl.encoding.core.demand import Pairs
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Partition:
    """Parts of the ranks: `part_of`, shape (num_ranks,), numbers them from 0; with a name for messages."""

    part_of: IntArray
    name: str

    @property
    def num_parts(self) -> int:
        return int(self.part_of.max(initial=-1)) + 1

    def crossing(self, problem: Problem) -> IntArray:
        """The links from part to part."""
        topology = problem.topology
        return np.flatnonzero(self.part_of[topology.src] != self.part_of[topology.dst])


def partitions(problem: Problem, cuts: Sequence[Cut]) -> Iterator[Partition]:
    """Ranks alone; nodes; places in nodes; neighbouring nodes; what fast links join; the sides of cuts."""
    seen: set[bytes] = set()
    for partition in _all(problem, cuts):
        key = partition.part_of.tobytes()
        if partition.num_parts >= 2 and key not in seen:
            seen.add(key)
            yield partition


def _all(problem: Problem, cuts: Sequence[Cut]) -> Iterator[Partition]:
    topology = problem.topology
    num_nodes = topology.num_nodes
    yield alone(problem)
    node = numbered(topology.node_of)
    if num_nodes > 1:
        yield by_nodes(problem)
        for joined in (2, 4, 8):
            if joined < num_nodes:
                together = node // joined
                yield Partition(together, f"{int(together.max()) + 1} groups of {joined} nodes")
        yield _places(node)
    yield from _by_speed(problem)
    for cut in cuts:
        yield sides_of(problem, cut)


def alone(problem: Problem) -> Partition:
    """Each rank a part."""
    return Partition(np.arange(problem.num_ranks), f"{problem.num_ranks} ranks")


def busiest(problem: Problem) -> Partition:
    """The rank at which most chunks start or are wanted, such as a root, and the rest."""
    ends = np.concatenate([each.rank for each in (problem.collective.inputs, problem.collective.outputs)])
    rank = int(np.bincount(ends, minlength=problem.num_ranks).argmax())
    return Partition((np.arange(problem.num_ranks) == rank).astype(np.int64), f"rank {rank} and the rest")


def by_nodes(problem: Problem) -> Partition:
    """Each node a part."""
    node = numbered(problem.topology.node_of)
    return Partition(node, f"{problem.topology.num_nodes} nodes")


def sides_of(problem: Problem, cut: Cut) -> Partition:
    """A cut's set and the rest."""
    one = cut.name.removeprefix("into ").removeprefix("out of ")
    return Partition(numbered(members(problem.num_ranks, cut.ranks).astype(np.int64)), f"{one} and the rest")


def halves(problem: Problem) -> list[Partition]:
    """Halves of a large machine by digits of its ranks' numbers (`half_cuts`), each once."""
    sides = (sides_of(problem, cut) for cut in half_cuts(problem))
    return list({side.part_of.tobytes(): side for side in sides}.values())


def numbered(label: IntArray) -> IntArray:
    """The same parts, numbered in the order in which they come up."""
    _, first, part = np.unique(label, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[part.ravel()], dtype=np.int64)


def _places(node: IntArray) -> Partition:
    """Ranks at the same place of their nodes, together."""
    place = np.zeros(len(node), dtype=np.int64)
    for number in range(int(node.max()) + 1):
        ranks = np.flatnonzero(node == number)
        place[ranks] = np.arange(len(ranks))
    return Partition(numbered(place), f"{int(place.max()) + 1} places in the nodes")


def _by_speed(problem: Problem) -> Iterator[Partition]:
    """Ranks that are joined by links faster than some others."""
    topology = problem.topology
    speeds = np.unique(topology.beta_us_per_mb)
    for beta in speeds[1:][-PARTITIONS_MOST_SPEEDS:]:
        fast = topology.beta_us_per_mb < beta
        part = np.arange(topology.num_ranks)
        before = None
        while before is None or (part != before).any():
            before = part.copy()
            least = np.minimum(part[topology.src[fast]], part[topology.dst[fast]])
            np.minimum.at(part, topology.src[fast], least)
            np.minimum.at(part, topology.dst[fast], least)
        parts = numbered(part)
        yield Partition(parts, f"{int(parts.max()) + 1} groups joined by links under {beta:g} us/MB")


class Counts:
    """How many transfers must cross between the parts of partitions; `instance.once(Counts)`."""

    def __init__(self, instance: Instance) -> None:
        self._demand = instance.demand
        self._problem = instance.problem
        self._of: dict[bytes, int] = {}

    @cached_property
    def rows(self) -> int:
        """How many pairs of a chunk and a rank a count goes over."""
        return len(self._demand.starts) + len(self._demand.wants)

    @cached_property
    def spanned_by_all(self) -> int | None:
        """How often all ranks with data have to be spanned, for all chunks together; None: some span fewer.

        With k parts that is k - 1 crossings each: for copies from one rank to all, for sums of all at one
        rank, and twice for sums of all that all want. No row of the demand is looked at, and there may be
        one for each pair of four thousand ranks.
        """
        demand, many = self._demand, int(self._spanned.sum())
        sources, wanted = demand.collective.num_sources, demand.collective.num_wanted
        if demand.copies_from_one and (wanted == many).all():
            return demand.num_chunks
        to_all = bool((wanted == many).all())
        if demand.reduces.all() and (sources == many).all() and (to_all or demand.to_one):
            return demand.num_chunks * (2 if to_all else 1)
        return None

    @cached_property
    def _spanned(self) -> BoolArray:
        """Whether some chunk starts at a rank or is wanted there, shape (num_ranks,): not at helpers."""
        spanned = np.zeros(self._demand.num_ranks, dtype=np.bool_)
        spanned[self._demand.collective.inputs.rank] = True
        spanned[self._demand.collective.outputs.rank] = True
        return spanned

    def least_crossings(self, partition: Partition) -> int:
        """How many transfers there must be between the parts, for all chunks together."""
        if self.spanned_by_all is not None:
            return self.spanned_by_all * (len(np.unique(partition.part_of[self._spanned])) - 1)
        if self._demand.moves_pairwise:
            collective, part_of = self._demand.collective, partition.part_of
            return int((part_of[collective.source] != part_of[collective.destination]).sum())
        key = partition.part_of.tobytes()
        if key not in self._of:
            at_once = max(1, PARTITIONS_CELLS // partition.num_parts)
            blocks = range(0, self._demand.num_chunks, at_once)
            self._of[key] = sum(self._in_block(partition, first, first + at_once) for first in blocks)
        return self._of[key]

    def _in_block(self, partition: Partition, first: int, end: int) -> int:
        """The same for the chunks from `first` on and before `end`."""
        reduces = self._demand.reduces[first:end]
        starts = _in_parts(self._demand.starts, partition, first, first + len(reduces))
        wanted = _in_parts(self._demand.wants, partition, first, first + len(reduces))
        copied = (wanted & ~starts).sum(axis=1)
        summed = starts.sum(axis=1) + wanted.sum(axis=1) - np.where((starts & wanted).any(axis=1), 2, 1)
        summed = np.where(wanted.any(axis=1) & starts.any(axis=1), summed, 0)
        return int(np.where(reduces, summed, copied).sum())


def _in_parts(pairs: Pairs, partition: Partition, first: int, end: int) -> BoolArray:
    """Whether each chunk from `first` on is placed in each part, shape (end - first, num_parts)."""
    begin, stop = np.searchsorted(pairs.chunk, (first, end))
    found = np.zeros((end - first, partition.num_parts), dtype=np.bool_)
    found[pairs.chunk[begin:stop] - first, partition.part_of[pairs.rank[begin:stop]]] = True
    return found
