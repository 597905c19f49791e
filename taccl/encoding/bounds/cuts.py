r"""Cuts: sets of ranks that much has to enter, and what has to enter them by which links.

Let W be a set of ranks. A chunk must enter W if a rank in W wants it that is not a source, and no source of
it is in W. A sum must enter W whenever W wants it and some contribution is outside. Any set will do: those
that are tried here are only likely to be narrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.tuning import (
    CUTS_MOST_NODES,
    CUTS_MOST_RANKS,
    CUTS_MOST_ROOTS,
    CUTS_MOST_TRUNKS,
)
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem

#: Ranks whose figures agree to this many digits look equal.
_DIGITS = 9


@dataclass(frozen=True)
class Cut:
    """A set of ranks with a name for messages."""

    ranks: frozenset[int]
    name: str


@dataclass(frozen=True, eq=False)
class Crossing:
    """Chunks that must enter a cut's set, and the links by which they may."""

    chunks: IntArray
    links: IntArray


def simple_cuts(instance: Instance) -> list[Cut]:
    """Each rank alone and all but it; each node alone and all but it; what lies beyond a trunk.

    On large machines, of ranks and nodes that look equal one, and halves.
    """
    problem = instance.problem
    everyone = frozenset(range(problem.num_ranks))
    cuts = []
    for rank in _narrow_ranks(instance) if problem.num_ranks > 1 else ():
        cuts.append(Cut(frozenset({rank}), f"into rank {rank}"))
        cuts.append(Cut(everyone - {rank}, f"out of rank {rank}"))
    return cuts + narrow_cuts(instance) + half_cuts(problem)


def narrow_cuts(instance: Instance) -> list[Cut]:
    """Sets of ranks that others reach by fewer links than these have among them: nodes, and beyond trunks."""
    cuts = _node_cuts(instance)
    found = {cut.ranks for cut in cuts}
    return cuts + [cut for cut in _trunk_cuts(instance.problem) if cut.ranks not in found]


def _node_cuts(instance: Instance) -> list[Cut]:
    """Each node alone and all but it; of many nodes that look equal one."""
    problem = instance.problem
    everyone = frozenset(range(problem.num_ranks))
    cuts = []
    for node in _narrow_nodes(instance) if problem.topology.num_nodes > 1 else ():
        inside = frozenset(np.flatnonzero(problem.topology.node_of == node).tolist())
        cuts.append(Cut(inside, f"into node {node}"))
        cuts.append(Cut(everyone - inside, f"out of node {node}"))
    return cuts


def root_cuts(instance: Instance) -> list[Cut]:
    """All ranks but one at which most of the chunks start: what has one root crosses no narrower line."""
    starts, ranks = instance.demand.starts, instance.problem.num_ranks
    many = np.bincount(starts.rank, minlength=ranks)
    roots = np.flatnonzero(2 * many > instance.demand.num_chunks).tolist() if ranks > 1 else []
    everyone = frozenset(range(ranks))
    return [Cut(everyone - {root}, f"out of rank {root}") for root in roots[:CUTS_MOST_ROOTS]]


def half_cuts(problem: Problem) -> list[Cut]:
    """Halves of a large machine by a digit of the rank's number, as machines are numbered: half of its rows.

    Smaller machines have programs of flows that see such bottlenecks, and others.
    """
    ranks = problem.num_ranks
    if ranks <= CUTS_MOST_RANKS:
        return []
    cuts = []
    for size in (size for size in range(2, ranks + 1) if ranks % size == 0):
        inside = frozenset(rank for rank in range(ranks) if rank % size < size // 2)
        which = f"under {size // 2}" if size == ranks else f"with rank % {size} under {size // 2}"
        cuts.append(Cut(inside, f"into the ranks {which}"))
        cuts.append(Cut(frozenset(range(ranks)) - inside, f"out of the ranks {which}"))
    return cuts


def _trunk_cuts(problem: Problem) -> list[Cut]:
    """The ranks beyond each trunk, and those that are joined without trunks, and all but them.

    A trunk is a port from several ranks to several.
    """
    topology = problem.topology
    if problem.num_ranks > CUTS_MOST_RANKS:
        return []
    link, port = topology.incidence
    ranks = topology.num_ranks
    ends = (np.unique(port * ranks + end[link]) // ranks for end in (topology.src, topology.dst))
    shared = np.minimum(*(np.bincount(each, minlength=topology.num_ports) for each in ends))
    trunks = np.flatnonzero(shared > 1)
    if not 0 < len(trunks) <= CUTS_MOST_TRUNKS:
        return []
    sets: dict[frozenset[int], str] = {}
    for trunk in trunks.tolist():
        for reached in _reached_without(topology, port == trunk):
            sets.setdefault(_ranks(~reached), f"beyond {topology.port_names[trunk]}")
    for joined in _reached_without(topology, np.isin(port, trunks)):
        names = ", ".join(map(str, sorted(_ranks(joined))))
        sets.setdefault(_ranks(joined), f"into the set {{{names}}}")
        sets.setdefault(_ranks(~joined), f"out of the set {{{names}}}")
    return [Cut(inside, name) for inside, name in sets.items() if 0 < len(inside) < ranks]


def _reached_without(topology: LogicalTopology, pairs: BoolArray) -> BoolArray:
    """What ranks reach without these pairs of a link and a port: the sets that differ, (sets, num_ranks)."""
    kept = np.ones(topology.num_links, dtype=np.bool_)
    kept[topology.incidence[0][pairs]] = False
    step = np.eye(topology.num_ranks, dtype=np.bool_)
    step[topology.src[kept], topology.dst[kept]] = True
    for _ in range(topology.num_ranks.bit_length()):
        step = step @ step
    return np.unique(step, axis=0)


def _ranks(inside: BoolArray) -> frozenset[int]:
    return frozenset(np.flatnonzero(inside).tolist())


def _narrow_ranks(instance: Instance) -> list[int]:
    """All ranks; of many ranks one of each look, and of many looks those with the least bandwidth in."""
    problem = instance.problem
    if problem.num_ranks <= CUTS_MOST_RANKS:
        return list(range(problem.num_ranks))
    looks = instance.once(rank_looks)
    first = np.sort(np.unique(looks, return_index=True)[1])
    rate = 1.0 / np.maximum(problem.topology.beta_us_per_mb, 1e-12)
    bandwidth = np.bincount(problem.topology.dst, rate, problem.num_ranks)
    narrowest = np.argsort(bandwidth[first], kind="stable")[:CUTS_MOST_RANKS]
    return [int(rank) for rank in np.sort(first[narrowest])]


def _narrow_nodes(instance: Instance) -> list[int]:
    """All nodes; of many, one of each look: with ranks that look the same, in their order."""
    node_of = instance.problem.topology.node_of
    nodes = np.unique(node_of)
    if len(nodes) <= CUTS_MOST_NODES:
        return [int(node) for node in nodes]
    looks = instance.once(rank_looks)
    first: dict[bytes, int] = {}
    for node in nodes.tolist():
        first.setdefault(looks[node_of == node].tobytes(), node)
    return list(first.values())[:CUTS_MOST_RANKS]


def rank_looks(instance: Instance) -> IntArray:
    """A number for each rank, shape (num_ranks,): the same where links, distances and demand look the same.

    Ranks that a symmetry takes to each other look the same. The opposite need not be so, which costs nothing
    but a cut that might have been tried.
    """
    problem, demand, distance = instance.problem, instance.demand, instance.distances_us
    topology, ranks = problem.topology, problem.num_ranks
    link, port = topology.incidence
    crowd = np.bincount(port, minlength=topology.num_ports)
    shares = np.bincount(link, 1.0 / crowd[port], topology.num_links)
    near = np.where(np.isfinite(distance), distance, -1.0)
    columns = [np.bincount(pairs.rank, minlength=ranks) for pairs in (demand.starts, demand.lacking)]
    columns += [near.sum(axis=0), near.sum(axis=1), near.max(axis=0), near.max(axis=1)]
    for end in (topology.src, topology.dst):
        for cost in (topology.alpha_us, topology.beta_us_per_mb, shares):
            columns += [np.bincount(end, cost, ranks), np.bincount(end, cost * cost, ranks)]
    rounded = [[f"{figure:.{_DIGITS}g}" for figure in column.tolist()] for column in columns]
    number: dict[tuple[str, ...], int] = {}
    return np.array([number.setdefault(figures, len(number)) for figures in zip(*rounded, strict=True)])


def members(num_ranks: int, ranks: Iterable[int]) -> BoolArray:
    """Whether each rank is in a set, shape (num_ranks,)."""
    inside = np.zeros(num_ranks, dtype=np.bool_)
    inside[list(ranks)] = True
    return inside


class Crossings:
    """What must cross into sets of ranks, each found once; `instance.once(Crossings)`."""

    def __init__(self, instance: Instance) -> None:
        self._problem, self._demand = instance.problem, instance.demand
        self._instance = instance
        self._of: dict[frozenset[int], list[Crossing]] = {}

    @cached_property
    def cuts(self) -> list[Cut]:
        """The cuts that are worth a look on every machine: `simple_cuts`."""
        return simple_cuts(self._instance)

    def of(self, cut: Cut) -> list[Crossing]:
        """A crossing for each set of chunks that may enter by the same links, then one for all together."""
        if cut.ranks not in self._of:
            self._of[cut.ranks] = self._find(members(self._problem.num_ranks, cut.ranks))
        return self._of[cut.ranks]

    def must_enter(self, inside: BoolArray) -> IntArray:
        """The chunks that must enter a set of ranks, given as shape (num_ranks,)."""
        demand = self._demand
        if inside.all() or not inside.any():
            return np.zeros(0, dtype=np.int64)
        # A row for each pair of thousands of ranks is looked at only where ranks differ.
        if demand.broadcasts:
            return np.flatnonzero(demand.any_of(demand.starts, ~inside))
        if demand.from_all and demand.to_all and demand.reduces.all():
            return np.arange(demand.num_chunks)
        wanted = demand.any_of(demand.lacking, inside)
        starts_inside, starts_outside = (demand.any_of(demand.starts, each) for each in (inside, ~inside))
        return np.flatnonzero(wanted & np.where(demand.reduces, starts_outside, ~starts_inside))

    def _find(self, inside: BoolArray) -> list[Crossing]:
        topology, may_use = self._problem.topology, self._problem.limits.may_use
        chunks = self.must_enter(inside)
        links = np.flatnonzero(~inside[topology.src] & inside[topology.dst])
        if not len(chunks) or not len(links):
            return []
        if may_use is None:
            return [Crossing(chunks, links)]
        owners, owner = np.unique(self._problem.collective.owner[chunks], return_inverse=True)
        usable, kind = np.unique(may_use[np.ix_(owners, links)], axis=0, return_inverse=True)
        of_chunk = kind.ravel()[owner.ravel()]
        crossings = [
            Crossing(chunks[of_chunk == number], links[row]) for number, row in enumerate(usable) if row.any()
        ]
        return crossings if len(usable) == 1 else [*crossings, Crossing(chunks, links)]
