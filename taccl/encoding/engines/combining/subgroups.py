"""Mixtures: sums scattered inside subgroups of ranks, exchanged between these, and spread inside them again.

In every subgroup, a node or an equal part of the ranks, each chunk is summed at one member; what follows
between those members is a smaller AllReduce, of fewer chunks for each rank. Scattering in subgroups of two
halves what the exchanges carry, for two rounds more; a subgroup of all ranks is a ReduceScatter before an
AllGather.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.engines.combining.beginnings import doubling
from taccl.encoding.engines.combining.decode import BroadcastDecoder
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.tuning import SUBGROUPS_TRIALS
from taccl.model.collective import IntArray, Placement
from taccl.model.problem import Problem, RoutingLimits


def subgroups(problem: Problem) -> Iterator[IntArray]:
    """The number of each rank's subgroup, shape (num_ranks,), for subgroups of equal size.

    Nodes, neighbours in number, and ranks at equal distances.
    """
    ranks, topology = np.arange(problem.num_ranks), problem.topology
    found = [] if topology.equal_nodes is None else [topology.node_of]
    for size in range(2, len(ranks) + 1):
        if len(ranks) % size == 0:
            found += [ranks // size, ranks % (len(ranks) // size)]
    return iter({_partition(each): each for each in found}.values())


def _partition(subgroup_of: IntArray) -> bytes:
    """The same for equal subgroups, however they are numbered."""
    return np.unique(subgroup_of, return_inverse=True)[1].tobytes()


def scattering(
    orbits: OrbitInstance, subgroup_of: IntArray, random: np.random.Generator
) -> list[SendGene] | None:
    """Genes after which each subgroup's sum of each chunk is at one member; None if there are none such.

    That is a spreading from there to the whole subgroup, on the reversed links, read backwards.
    """
    spread = BroadcastDecoder(OrbitInstance.of(_inside(orbits, subgroup_of), orbits.group))
    trials = [spread.decode(doubling(spread.orbits, random, few=False)) for _ in range(SUBGROUPS_TRIALS)]
    best = min(trials, key=lambda decoded: (decoded.unmet, decoded.score))
    if best.unmet:
        return None
    backwards = zip(reversed(best.genes), reversed(best.transfers), strict=True)
    return [SendGene(gene.orbit, without=~transfers) for gene, transfers in backwards]


def _inside(orbits: OrbitInstance, subgroup_of: IntArray) -> Problem:
    """The problem of spreading every chunk to its subgroups, each from one member.

    The subgroups are those of the deciding chunks; others have the images of these. Of each subgroup that
    member has the chunk that stands in it where the chunk's owner stands in its own.
    """
    problem, group = orbits.problem, orbits.group
    topology, collective = problem.topology.reversed(), problem.collective
    place = _place(subgroup_of)
    links_inside = subgroup_of[topology.src] == subgroup_of[topology.dst]
    holds = np.zeros((problem.num_chunks, problem.num_ranks), dtype=np.bool_)
    allowed = np.zeros((problem.num_ranks, topology.num_links), dtype=np.bool_)
    owner = collective.owner[orbits.chunks]
    for chunk_map, rank_map, link_map in zip(group.chunk_map, group.rank_map, group.link_map, strict=True):
        holds[chunk_map[orbits.chunks][:, None], rank_map] = place[owner][:, None] == place
        allowed[rank_map[owner][:, None], link_map] = links_inside
    if problem.limits.may_use is not None:
        allowed &= problem.limits.may_use
    chunk, rank = np.nonzero(holds)
    every_chunk, every_rank = np.nonzero(np.ones_like(holds))
    spread = replace(
        collective,
        name="spread inside subgroups",
        inputs=Placement(chunk, rank, chunk),
        outputs=Placement(every_chunk, every_rank, every_chunk),
        reduces=np.zeros_like(collective.reduces),
    )
    limits = RoutingLimits(may_use=allowed)
    return replace(problem, topology=topology, collective=spread, limits=limits, symmetry=())


def _place(subgroup_of: IntArray) -> IntArray:
    """Where each rank stands in its subgroup, shape (num_ranks,)."""
    subgroup = np.unique(subgroup_of, return_inverse=True)[1]
    place = np.empty(len(subgroup), dtype=np.int64)
    place[np.argsort(subgroup, kind="stable")] = np.arange(len(subgroup)) % (
        len(subgroup) // (int(subgroup.max()) + 1)
    )
    return place
