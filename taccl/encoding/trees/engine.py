"""The tree engine: at most so many chunks over each link, trees within that, one tree for each chunk.

It answers problems in which each chunk starts at one rank and all ranks want it; of others it says
nothing, nor where trees do not fit a sketch's limits, nor where a symmetry is asked for: the trees that it
finds have none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.collectives import BoolArray
from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.greedy import beginning_with_greedy
from taccl.encoding.timing import Decision
from taccl.encoding.trees.capacity import link_capacities
from taccl.encoding.trees.order import busiest_first
from taccl.encoding.trees.packing import Tree, packed
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: How far the order is left to chance, in turn; as many orders are tried as there is time for.
_CHANCES = (0.0, 2.0, 0.5, 100.0)
_ORDERS = 40
#: Programs and searches larger than this are left to the greedy engine.
_MOST_RANK_LINKS = 100_000
_MOST_TRANSFERS = 200_000


def is_for_trees(problem: Problem) -> bool:
    """Whether each chunk is copied from one rank to all, with no symmetry, on a machine not too large."""
    collective, ranks = problem.collective, problem.num_ranks
    if (
        problem.symmetry
        or ranks * problem.topology.num_links > _MOST_RANK_LINKS
        or ranks * problem.num_chunks > _MOST_TRANSFERS
        or not problem.topology.num_links
    ):
        return False
    copied = ~collective.reduces & (collective.pre.sum(axis=1) == 1) & collective.post.all(axis=1)
    return bool(problem.num_chunks and copied.all())


@beginning_with_greedy
def trees(problem: Problem, options: SolveOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield schedules on packed trees: the plainest order first, then others."""
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
    capacity = link_capacities(problem, np.asarray(usable.any(axis=0)), budget.share(0.6))
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
    """The plain order, then others by chance, the first one even without any time."""
    for number in range(_ORDERS):
        if number and not budget.remaining_s():
            return
        yield busiest_first(problem, decisions, _CHANCES[number % len(_CHANCES)], seed + number)
