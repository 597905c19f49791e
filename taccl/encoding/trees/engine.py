"""The tree engine: at most so many chunks over each link, trees within that, one tree for each chunk.

It answers problems in which each chunk starts at one rank and all ranks want it; of others it says
nothing, nor where trees do not fit a sketch's limits. It does not keep the symmetry of its problem.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.collectives import BoolArray
from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.greedy import beginning_with_greedy
from taccl.encoding.timing import Decision, list_schedule, predecessors, tails_us
from taccl.encoding.trees.capacity import link_capacities
from taccl.encoding.trees.packing import Tree, packed
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: How far priorities are changed by chance, relative to the longest tail.
_WIDTHS = (0.01, 0.03, 0.1)
#: Orders tried after the first, as long as there is time.
_ORDERS = 12


def is_for_trees(problem: Problem) -> bool:
    """Whether each chunk is copied from one rank to all."""
    collective = problem.collective
    copied = ~collective.reduces & (collective.pre.sum(axis=1) == 1) & collective.post.all(axis=1)
    return bool(problem.num_ranks > 1 and problem.num_chunks and copied.all())


@beginning_with_greedy
def trees(problem: Problem, options: SolveOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield schedules on packed trees: the first order, then those with changed priorities."""
    if not is_for_trees(problem):
        return
    decisions = _decisions(problem, budget)
    for schedule in _orders(problem, decisions, options.seed, budget) if decisions else ():
        if schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield Update("trees", best)


def _decisions(problem: Problem, budget: Budget) -> list[Decision] | None:
    topology, collective = problem.topology, problem.collective
    source = collective.pre.argmax(axis=1)
    usable = _usable(problem)
    capacity = link_capacities(problem, usable.any(axis=0), budget.share(0.6))
    if capacity is None:
        return None
    duration = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    found = packed(topology, capacity, collective.pre.sum(axis=0), usable, duration, budget.share(0.8))
    if found is None:
        return None
    chunks = {int(rank): np.flatnonzero(source == rank).tolist() for rank in np.unique(source)}
    return [decision for tree in found for decision in _of_tree(tree, chunks[tree.root])]


def _usable(problem: Problem) -> BoolArray:
    """For each rank at which chunks start, the links that they all may use; none for other ranks."""
    usable = np.zeros((problem.num_ranks, problem.topology.num_links), dtype=np.bool_)
    source = problem.collective.pre.argmax(axis=1)
    usable[source] = True
    for chunk, rank in enumerate(source):
        usable[rank] &= problem.usable(chunk)
    return usable


def _of_tree(tree: Tree, chunks: list[int]) -> Iterator[Decision]:
    """The next chunks of the root, taken out of `chunks`, on the links of the tree."""
    for _ in range(tree.count):
        chunk = chunks.pop()
        for link in tree.links:
            yield Decision((chunk,), link)


def _orders(problem: Problem, decisions: list[Decision], seed: int, budget: Budget) -> Iterator[Schedule]:
    """List schedules: what most waits for first, then the same with some chance."""
    yield list_schedule(problem, decisions)
    random = np.random.default_rng(seed)
    tails = np.array(tails_us(problem, decisions, predecessors(problem, decisions)))
    for number in range(_ORDERS):
        if not budget.remaining_s():
            return
        width = _WIDTHS[number % len(_WIDTHS)] * tails.max()
        priority = tails + width * random.standard_normal(len(tails))
        yield list_schedule(problem, decisions, priority.tolist())
