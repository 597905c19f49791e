r"""What has to span which ranks, and the least that costs at weights of the links.

Take any partition of the ranks. Of a chunk that is copied from one rank, one transfer for each part that
wants it, but the first, crosses between parts; of a sum, one for each part but one with a contributor, and
one for each part but one that wants it (`partitions`). So the transfers of a chunk, counted on pairs of ranks
without regard to direction, satisfy for each of these sets of *members* every partition inequality

    transfers between the parts  >=  (number of parts with members) - 1.

Where all ranks are members, these inequalities describe all that is at least some mean of spanning trees
(Tutte 1961, Nash-Williams 1961; the dominant of the spanning tree polytope: Edmonds 1971). Hence, at any
weights w of the pairs, transfers weigh at least as much as a tree of least weight. Kruskal's algorithm (1956)
has the proof: with P_i the parts that pairs of less than the level w_i join,

    sum of w * transfers  >=  sum over i of (w_i - w_(i-1)) * ((parts of P_i with members) - 1),

which holds for some members, too: there a pair that joins a part without members costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from taccl.encoding.bounds.helped import Assignment, Balance, Limits, assignments
from taccl.encoding.bounds.tuning import SPANNING_MOST_KINDS
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology

#: Weights that differ by no more than this part of them are the same.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of least weight.

    Parameters
    ----------
    part_with : shape (num_ranks,); the rank that each is in one part with from the beginning.
    ends : shape (2, n); the ends of its pairs, by ascending weight.
    levels : shape (n,); their weights.
    counts : shape (n,); whether a pair joins two parts that have members.
    links : shape (num_links,); how often each link is used, by the lightest of each pair that counts, equal
        ones in equal parts.
    either_way : the same with all links of each pair used equally.
    """

    part_with: IntArray
    ends: IntArray
    levels: FloatArray
    counts: BoolArray
    links: FloatArray
    either_way: FloatArray

    @property
    def weight(self) -> float:
        """Of the pairs that count: what the members cost."""
        return float(self.levels[self.counts].sum())

    def parts(self) -> Iterator[tuple[float, IntArray]]:
        """The partitions that prove the weight: which part of it each does, and the part of each rank."""
        before, ranks = 0.0, len(self.part_with)
        for level in np.unique(self.levels[self.counts]).tolist():
            if level <= before * (1 + _SAME):
                continue
            joined = self.levels <= before * (1 + _SAME)
            rest = int((self.counts & ~joined).sum())
            graph = csr_array((np.ones(joined.sum()), self.ends[:, joined]), shape=(ranks, ranks))
            part_of = connected_components(graph, directed=False)[1][self.part_with]
            yield (level - before) * rest / self.weight, np.asarray(part_of, dtype=np.int64)
            before = level


class Pairs:
    """Pairs of ranks, or of ranks with the helpers that are in one part with them, that links join."""

    def __init__(
        self, topology: LogicalTopology, usable: IntArray, where: Assignment, limits: Limits
    ) -> None:
        self._ranks, self._where, self._limits = topology.num_ranks, where, limits
        src, dst = where.joined[topology.src[usable]], where.joined[topology.dst[usable]]
        key = np.minimum(src, dst) * self._ranks + np.maximum(src, dst)
        order = np.argsort(key, kind="stable")
        order = order[(src != dst)[order]]
        keys, self._first, self._many = np.unique(key[order], return_index=True, return_counts=True)
        self._ends, self._links = np.stack(np.divmod(keys, self._ranks)), usable[order]
        # What `tree` writes its weights into: the pairs are in the order of their rows already. SciPy up to
        # 1.15, the last for Python 3.10, takes its trees of 32-bit numbers alone.
        rows = np.searchsorted(self._ends[0], np.arange(self._ranks + 1)).astype(np.int32)
        columns = self._ends[1].astype(np.int32)
        self._graph = csr_array((np.ones(len(keys)), columns, rows), shape=(self._ranks, self._ranks))

    @property
    def is_helped(self) -> bool:
        """Whether there are helpers among them."""
        return self._limits.is_helped

    def tree(self, weight: FloatArray, members: BoolArray) -> Tree:
        """The tree of least weight, and what spanning the members costs; `weight` has shape (num_links,)."""
        balance = self._limits.balanced(weight)
        each = (balance.weight * self._where.share)[self._links]
        least = np.minimum.reduceat(each, self._first) if len(each) else each
        order = np.argsort(least, kind="stable")
        # Places in that order instead of weights: none is 0, and no two are equal.
        self._graph.data[order] = np.arange(1, len(order) + 1)
        chosen = order[np.sort(minimum_spanning_tree(self._graph).data).astype(np.int64) - 1]
        ends = self._ends[:, chosen]
        counts = np.ones(len(chosen), dtype=np.bool_) if members.all() else _joins_members(ends, members)
        used = np.zeros(len(least), dtype=np.bool_)
        used[chosen[counts]] = True
        of_pair = np.repeat(np.arange(len(least)), self._many)
        lightest = used[of_pair] & (each - least[of_pair] <= _SAME * least[of_pair])
        links, either_way = (self._uses(balance, chosen, of_pair) for chosen in (lightest, used[of_pair]))
        return Tree(self._where.joined, ends, least[chosen], counts, links, either_way)

    def _uses(self, balance: Balance, chosen: BoolArray, of_pair: IntArray) -> FloatArray:
        """How often each link is used, if each pair uses equally those of its links that are chosen."""
        many = np.bincount(of_pair, chosen, len(self._first))
        links = np.zeros(len(self._where.share))
        links[self._links] = chosen / np.maximum(1.0, many)[of_pair]
        return balance.uses(links * self._where.share)


def _joins_members(ends: IntArray, members: BoolArray) -> BoolArray:
    """Of pairs by ascending weight, those that join two parts that have members, shape (n,)."""
    above = list(range(len(members)))
    has = members.tolist()
    counts = np.zeros(ends.shape[1], dtype=np.bool_)
    for number, pair in enumerate(ends.T.tolist()):
        one, other = (_top(above, rank) for rank in pair)
        counts[number] = has[one] and has[other]
        above[other] = one
        has[one] = has[one] or has[other]
    return counts


def _top(above: list[int], rank: int) -> int:
    while above[rank] != rank:
        above[rank] = above[above[rank]]
        rank = above[rank]
    return rank


@dataclass(frozen=True, eq=False)
class Kind:
    """Chunks that have to span the same ranks, over the same links.

    Parameters
    ----------
    members : shape (num_ranks,); the ranks to be spanned.
    mb : how much, of all its chunks together; a sum counts for its contributors and for those who want it.
    chunks : the same in whole chunks.
    pairs : the links that they may use.
    """

    members: BoolArray
    mb: float
    chunks: int
    pairs: Pairs


def kinds(view: View) -> list[Kind]:
    """What has to span ranks; empty where nothing has to span more than two, or where that is too much.

    Once for each assignment of helpers. Copies of what starts at several ranks are left out.
    """
    instance, topology = view.instance, view.helped
    counted = _counted(instance, np.ones(instance.problem.num_chunks) if view.units is None else view.units)
    pairs: dict[tuple[int, bool], list[Pairs]] = {}
    found = []
    for (members, owner, sums), (units, chunks) in counted.items():
        if (owner, sums) not in pairs:
            usable = _usable(instance, owner)
            limits = Limits(topology, usable, sums)
            pairs[owner, sums] = [
                Pairs(topology, usable, where, limits) for where in assignments(topology, usable)
            ]
        inside = np.frombuffer(members, dtype=np.bool_)
        found += [
            Kind(inside, units * instance.problem.chunk_mb, chunks, each) for each in pairs[owner, sums]
        ]
    return found if any(kind.members.sum() > 2 for kind in found) else []


def _usable(instance: Instance, owner: int) -> IntArray:
    """The links that chunks of an owner may use."""
    limits, topology = instance.problem.limits.may_use, instance.problem.topology
    return np.arange(topology.num_links) if limits is None else np.flatnonzero(limits[owner])


def _counted(instance: Instance, units: FloatArray) -> dict[tuple[bytes, int, bool], tuple[float, int]]:
    """For each set of members, an owner whose limits are theirs, and whether they sum: units and chunks."""
    limits, collective = instance.problem.limits.may_use, instance.problem.collective
    equivalent = np.zeros(instance.problem.num_ranks, dtype=np.int64)
    if limits is not None:
        _, first, kind = np.unique(limits, axis=0, return_index=True, return_inverse=True)
        equivalent = first[kind.ravel()]
    counted: dict[tuple[bytes, int, bool], tuple[float, int]] = {}
    for chunk, members in _members(instance):
        key = members, int(equivalent[collective.owner[chunk]]), bool(collective.reduces[chunk])
        mb, many = counted.get(key, (0.0, 0))
        counted[key] = mb + float(units[chunk]), many + 1
        if len(counted) > SPANNING_MOST_KINDS:
            return {}
    return counted


def _members(instance: Instance) -> Iterator[tuple[int, bytes]]:
    """Each chunk with a set of ranks that it has to span; sums have two."""
    demand = instance.demand
    every = np.arange(demand.num_chunks + 1)
    starts, wants = (np.searchsorted(pairs.chunk, every) for pairs in (demand.starts, demand.wants))
    for chunk, reduces in enumerate(demand.reduces.tolist()):
        sources = demand.starts.rank[starts[chunk] : starts[chunk + 1]]
        targets = demand.wants.rank[wants[chunk] : wants[chunk + 1]]
        if not len(sources) or not len(targets):
            continue
        if reduces:
            yield chunk, _inside(demand.num_ranks, sources)
            yield chunk, _inside(demand.num_ranks, targets)
        elif len(sources) == 1:
            yield chunk, _inside(demand.num_ranks, np.append(targets, sources))


def _inside(num_ranks: int, ranks: IntArray) -> bytes:
    """A set of ranks, shape (num_ranks,), as bytes."""
    inside = np.zeros(num_ranks, dtype=np.bool_)
    inside[ranks] = True
    return inside.tobytes()
