"""The SMT engine: the best order of a schedule's own sends, and the proof that no order is faster.

Routes and groups stay as they are, so the proof bounds no other schedule: it comes as a note, never as a
lower bound of the problem. It says where to look no more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.greedy import beginning_with_greedy
from taccl.encoding.smt.orders import open_order
from taccl.encoding.smt.prove import faster_orders, order_within
from taccl.encoding.symmetry import SymmetryGroup, symmetry_group
from taccl.problem import Problem
from taccl.schedule import Schedule


@beginning_with_greedy
def smt(problem: Problem, options: SolveOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield faster orders of the sends of `best`, and a note if it is proved that none is left.

    Unlike the other engines it takes sums as they are, so it serves whole problems. A schedule that has the
    problem's symmetry keeps it.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver.
    SolverError : z3 failed.
    """
    began_s = budget.remaining_s()
    order = open_order(best, symmetry_group(problem))
    if order is None:
        return
    fastest = yield from faster_orders(order, best, budget)
    if fastest is None:
        return
    orders = "order"
    if order.is_symmetric and not _none_is_faster(fastest, budget):
        orders = "order with the symmetry of the sketch"
    seconds = began_s - budget.remaining_s()
    yield Update("smt", note=f"no {orders} of these routes and groups is faster (proved in {seconds:.1f} s)")


def _none_is_faster(schedule: Schedule, budget: Budget) -> bool:
    """Whether it is proved that no order is faster, symmetric or not."""
    problem = schedule.problem
    order = open_order(schedule, _no_symmetry(problem))
    if order is None or not budget.remaining_s():
        return False
    return order_within(order, order.limit_below(schedule.makespan_us), budget)[1]


def _no_symmetry(problem: Problem) -> SymmetryGroup:
    ranks, chunks, links = problem.num_ranks, problem.num_chunks, problem.topology.num_links
    return SymmetryGroup(np.arange(ranks)[None], np.arange(chunks)[None], np.arange(links)[None])
