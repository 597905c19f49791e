"""Symmetries that nobody asked for: what a machine and a collective have in common with themselves.

A search over orbits is so much faster that it pays to look for some. Only permutations that machines
are built by are tried: rotations inside blocks of equal size, rotations of whole blocks, and exchanges
of neighbours at a distance that is a power of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.collectives import IntArray
from taccl.encoding.symmetry import link_map
from taccl.problem import Problem


def with_symmetry(problem: Problem) -> Problem:
    """The problem as it is if it has symmetries, else with those that are found."""
    if problem.symmetry:
        return problem
    found = tuple(each for each in _candidates(problem.num_ranks) if _is_symmetry(problem, each))
    return replace(problem, symmetry=found)


def _candidates(ranks: int) -> Iterator[IntArray]:
    """Rotations that move every rank, the largest groups first, then exchanges."""
    rank = np.arange(ranks)
    blocks = [size for size in range(ranks, 1, -1) if ranks % size == 0]
    for size in blocks:
        for step in range(1, size):
            if size % step == 0:
                yield rank // size * size + (rank % size + step) % size
    distance = 1
    while 2 * distance <= ranks and ranks % (2 * distance) == 0:
        yield rank ^ distance
        distance *= 2


def _is_symmetry(problem: Problem, ranks: IntArray) -> bool:
    """Whether nodes, links, costs, ports, limits and collective stay what they are."""
    topology, limits = problem.topology, problem.limits
    node = topology.node_of
    if len(np.unique(node * topology.num_ranks + node[ranks])) != len(np.unique(node)):
        return False
    links = link_map(problem, ranks)
    if links is None:
        return False
    for cost in (topology.alpha_us, topology.beta_us_per_mb, limits.own_first, limits.link_preference):
        if cost is not None and (cost[links] != cost).any():
            return False
    if limits.may_use is not None and (limits.may_use[np.ix_(ranks, links)] != limits.may_use).any():
        return False
    together = {frozenset(of_port) for of_port in topology.port_links}
    if not all(frozenset(links[list(of_port)].tolist()) in together for of_port in topology.port_links):
        return False
    return problem.collective.chunk_map(ranks) is not None
