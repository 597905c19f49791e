"""The tree engine: at most this many chunks over each link, trees within that, one tree for each chunk.

It answers problems in which each chunk starts at one rank and all ranks want it; of others it says
nothing, nor where trees do not fit a sketch's limits. Where ranks are in one orbit, it answers the quotient
(`quotient.py`), so the schedule keeps the symmetry that is requested; a symmetry that keeps a port in its
place has no quotient, and then it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.routes import Carried, orders
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.trees.capacity import link_capacities
from taccl.encoding.engines.trees.layers import shallow_trees
from taccl.encoding.engines.trees.packing import Tree, packed
from taccl.encoding.engines.trees.tuning import MOST_RANK_LINKS, MOST_TRANSFERS
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether each chunk is copied from one rank to all, on a machine not too large."""
    problem = instance.problem
    if not instance.demand.broadcasts:
        return no("trees carry chunks from one rank to all ranks, and here some go elsewhere")
    if not problem.topology.num_links or not problem.num_chunks:
        return no("nothing has to move")
    small = instance.quotient_instance
    if small is None and problem.symmetry:
        return no("the symmetry that is requested keeps a port in its place, so there is no quotient")
    if not _is_small_enough(problem if small is None else small.problem):
        return no(
            f"more than {MOST_RANK_LINKS} pairs of a source and a link, or {MOST_TRANSFERS} transfers, "
            "take too long to pack"
        )
    return YES


def _is_small_enough(problem: Problem) -> bool:
    sources = len(np.unique(problem.collective.inputs.rank))
    return (
        sources * problem.topology.num_links <= MOST_RANK_LINKS
        and problem.num_ranks * problem.num_chunks <= MOST_TRANSFERS
    )


def trees(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield schedules on shallow trees, then on packed ones: in the plainest order first, then in others."""
    if not serves(instance):
        return
    quotient = instance.quotient
    part = instance.quotient_instance or instance
    for schedule in _schedules(part, options.seed, budget):
        if schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule if quotient is None else quotient.lifted(schedule)
            yield Update("trees", best)


def _schedules(part: Instance, seed: int, budget: Budget) -> Iterator[Schedule]:
    problem = part.problem
    usable = _usable(problem)
    shallow = shallow_trees(problem, usable, budget.share(0.3))
    if shallow:
        yield from orders(problem, shallow, seed, budget.share(0.3))
    high = _packed_trees(part, usable, budget)
    if high:
        yield from orders(problem, high, seed, budget)


def _packed_trees(part: Instance, usable: BoolArray, budget: Budget) -> list[Carried] | None:
    topology, source = part.problem.topology, part.problem.collective.source
    capacity = link_capacities(part, np.asarray(usable.any(axis=0)), budget.share(0.6))
    if capacity is None:
        return None
    copies = part.demand.chunks_from
    found = packed(topology, capacity, copies, usable, part.durations_us, budget.share(0.8))
    if found is None:
        return None
    chunks = {int(rank): np.flatnonzero(source == rank).tolist() for rank in np.unique(source)}
    return [carried for tree in found for carried in _of_tree(tree, chunks[tree.root])]


def _usable(problem: Problem) -> BoolArray:
    """For each rank at which chunks start, the links that they all may use; none for other ranks."""
    usable = np.zeros((problem.num_ranks, problem.topology.num_links), dtype=np.bool_)
    source = problem.collective.source
    usable[source] = True
    for chunk, rank in enumerate(source):
        usable[rank] &= problem.usable(chunk)
    return usable


def _of_tree(tree: Tree, chunks: list[int]) -> Iterator[Carried]:
    """The next chunks of the root, taken out of `chunks`, on the links of the tree."""
    taken = tuple(chunks[: tree.count])
    del chunks[: tree.count]
    for link in tree.links:
        yield Carried(taken, link)
