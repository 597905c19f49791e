"""The SMT engine: the best order of a schedule's own sends, and the proof that no order is faster.

Routes and groups stay as they are, so the proof bounds no other schedule: it comes as a note, never as a
lower bound of the problem. It says where to look no more.

Where images of a send start together, a proof by the solver is about such orders only, and the question is
asked again without the symmetry. Heads, tails and the room on ports are the same for all images of a send, so
what they alone prove holds for every order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.orders.orders import open_order, windows
from taccl.encoding.engines.orders.prove import faster_orders, order_within
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import UNITS_PER_S, Budget

#: So many pairs of sends that share a port are written down in a unit of work.
_OPENED_PER_UNIT = 2_000


def smt(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield faster orders of the sends of `best`, and a note if it is proved that none is left.

    Unlike the other engines it takes sums as they are, so it serves whole problems. A schedule that has the
    problem's symmetry keeps it.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver.
    SolverError : z3 failed.
    """
    began_s = budget.remaining_s()
    order = open_order(best, instance.group) if began_s else None
    if order is None:
        return
    budget.spend(len(order.clashes) / _OPENED_PER_UNIT)
    fastest = yield from faster_orders(order, best, budget)
    if fastest is None:
        return
    if order.is_symmetric and windows(order, order.limit_below(fastest.makespan_us)) is not None:
        yield _note("order with the sketch's symmetry", began_s - budget.remaining_s(), budget)
        if not _none_is_faster(fastest, budget):
            return
    yield _note("order", began_s - budget.remaining_s(), budget)


def _note(orders: str, seconds: float, budget: Budget) -> Update:
    cost = f"with {seconds * UNITS_PER_S:.0f} units of work" if budget.counts_work else f"in {seconds:.1f} s"
    return Update("smt", note=f"no {orders} of these routes and groups is faster (proved {cost})")


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
