"""Trees at the optimum of linear programs, for chunks that all ranks want: shallow ones and packed ones."""

from __future__ import annotations

import numpy as np

from taccl.encoding.engines.routes.capacity import link_capacities
from taccl.encoding.engines.routes.columns import Routes, copies_of, turns
from taccl.encoding.engines.routes.layers import shallow_trees
from taccl.encoding.engines.routes.packing import packed
from taccl.encoding.engines.routes.tuning import MOST_RANK_LINKS, MOST_TRANSFERS
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def has_packing(part: Instance) -> bool:
    """Whether chunks, all of one size, go from one rank to all, and the programs are not too large."""
    problem = part.problem
    sources = len(np.unique(problem.collective.inputs.rank))
    return (
        part.demand.broadcasts
        and problem.sizes is None
        and sources * problem.topology.num_links <= MOST_RANK_LINKS
        and problem.num_ranks * problem.num_chunks <= MOST_TRANSFERS
    )


def layers(part: Instance, budget: Budget) -> Routes | None:
    """Shallow trees; None where there are none in time."""
    return shallow_trees(part.problem, _usable(part.problem), budget)


def packing(part: Instance, budget: Budget) -> Routes | None:
    """Trees within the loads that end soonest; None where there are none in time."""
    problem, usable = part.problem, _usable(part.problem)
    source = problem.collective.source
    capacity = link_capacities(part, np.asarray(usable.any(axis=0)), budget.share(0.6))
    if capacity is None:
        return None
    copies = part.demand.chunks_from
    trees = packed(problem.topology, capacity, copies, usable, part.durations_us, budget.share(0.8))
    if trees is None:
        return None
    chunks = {int(rank): np.flatnonzero(source == rank).tolist() for rank in np.unique(source)}
    carried: list[tuple[list[int], int, int]] = []
    for number, tree in enumerate(trees):
        taken = chunks[tree.root][: tree.count]
        del chunks[tree.root][: tree.count]
        carried += [(taken, link, number) for link in tree.links]
    return copies_of(carried, turns(source))


def _usable(problem: Problem) -> BoolArray:
    """For each rank at which chunks start, the links that they all may use; none for other ranks."""
    usable = np.zeros((problem.num_ranks, problem.topology.num_links), dtype=np.bool_)
    source = problem.collective.source
    usable[source] = True
    for chunk, rank in enumerate(source):
        usable[rank] &= problem.usable(chunk)
    return usable
