"""The model of a whole problem: satisfiable at the optimum that is worked out by hand, not a tick before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from small_problems import custom, machine
from solving import solved

from taccl.encoding.core.ticks import Ticks
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.candidates import every_candidate
from taccl.encoding.sending_model.joint import build
from taccl.model.problem import Problem

#: Two chunks of rank 0 for rank 1, over a link of 1 us and 1 us a chunk: 3 us in one send, 4 in two.
BOTH = Problem(machine(2, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0)]), custom(2, [([0], [1], False)] * 2), 1.0)
#: The same of sums: each has a part at both ranks, and rank 1 wants it.
SUMS = replace(BOTH, collective=custom(2, [([0, 1], [1], True)] * 2))


def is_possible(requested: Problem, last: int) -> bool:
    """Whether the model has a schedule of so many ticks of 1 us."""
    instance, ticks = Instance(requested), Ticks(1.0, True)
    candidates = every_candidate(instance, ticks, last)
    model = build(requested, ticks, (0, last), instance.group, candidates, None, minimise=False)
    _, status = solved(model.cp, num_workers=1)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
    return status != cp_model.INFEASIBLE


CASES = {
    "one send of two chunks": (BOTH, 3),
    "no groups": (replace(BOTH, max_group=1), 4),
    "unequal chunks in one send": (replace(BOTH, sizes=np.array([1.0, 3.0])), 5),
    "a late chunk, and the other waits or goes alone": (
        replace(BOTH, ready_us=np.array([0.0, 1.0])),
        4,
    ),
    "something follows one of them, which goes first": (replace(BOTH, tail_us=np.array([0.0, 4.0])), 6),
    "sums": (SUMS, 3),
    "a sum that waits for a late part": (replace(SUMS, ready_us=np.array([0.0, 9.0, 0.0, 0.0])), 9),
}


@pytest.mark.parametrize("case", CASES)
def test_the_optimum_is_possible_and_a_tick_less_is_not(case: str) -> None:
    requested, optimum = CASES[case]
    assert is_possible(requested, optimum)
    assert not is_possible(requested, optimum - 1)
