"""Bisection: a faster order of the same sends, or the proof that there is none.

The first question is whether anything is faster at all, because most often nothing is. After an order is
found, the middle is asked between what is proved impossible and the best: an order in time brings the best
down, a proof brings the impossible up. Where neither comes soon, and where the two are close, the question is
for anything faster again. Heads, tails and ports often settle a question without a solver.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import z3

from taccl.encoding.core.ask import ask
from taccl.encoding.core.update import Update
from taccl.encoding.engines.orders.orders import OpenOrder, difference_logic, in_order_of, windows
from taccl.model.collective import IntArray
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import UNITS_PER_S, Budget

#: Once bound and best differ by less than this fraction, asking for their middle is as hard as asking for the
#: end.
_NEAR = 0.01
#: The part of the time that is left for one question about the middle.
_MIDDLE = 0.2
#: The most open pairs that z3 is asked about, and how many it reads in a second.
_MOST_OPEN = 30_000
_OPEN_PER_S = 15_000


def faster_orders(
    order: OpenOrder, best: Schedule, budget: Budget
) -> Generator[Update, None, Schedule | None]:
    """Yield faster and faster orders of the sends of `best`; returns the last if it is proved the fastest.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver.
    SolverError : z3 failed.
    """
    most, least = order.limit_below(best.makespan_us), 0
    middle = False
    while least <= most:
        if middle and not least:
            least = _least_by_windows(order, most)
        middle = middle and most - least > _NEAR * most
        limit = (least + most) // 2 if middle else most
        start, impossible = order_within(order, limit, budget.share(_MIDDLE if middle else 1.0))
        if impossible:
            least = limit + 1
        elif start is not None:
            found = in_order_of(order, best, start)
            if found.makespan_us >= best.makespan_us - TOLERANCE_US:
                return None
            best, middle = found, True
            yield Update("smt", best)
            most = order.limit_below(best.makespan_us)
        elif middle:
            middle = False
        else:
            return None
    return best


def order_within(order: OpenOrder, limit: int, budget: Budget) -> tuple[IntArray | None, bool]:
    """Starts that end within `limit` ticks, shape (num_variables,), or None; and whether there are none."""
    known = windows(order, limit)
    if known is None:
        return None, True
    num_open = int((known.first == 0).sum())
    if num_open > min(_MOST_OPEN, _OPEN_PER_S * budget.remaining_s()):
        return None, False
    budget.spend(num_open / _OPEN_PER_S * UNITS_PER_S)
    # In a context of its own z3 gives the same answer to the same question, whatever it was asked before.
    solver = z3.SolverFor("QF_IDL", ctx=z3.Context())
    # z3 finds orders sooner if it leaves a pair open until some constraint needs it decided.
    solver.set("phase_selection", 0)
    solver.from_string(difference_logic(order, limit, known))
    answer = ask(solver, budget)
    if answer != z3.sat:
        return None, answer == z3.unsat
    model = solver.model()
    start = np.zeros(len(order.duration), dtype=np.int64)
    for name in model.decls():
        start[int(name.name()[1:])] = model[name].as_long()
    return start, False


def _least_by_windows(order: OpenOrder, most: int) -> int:
    """A number of ticks that every order takes, by heads, tails and ports alone."""
    impossible = 0
    while impossible < most:
        limit = (impossible + most) // 2
        if windows(order, limit) is None:
            impossible = limit + 1
        else:
            most = limit
    return impossible
