"""What the engines share that put all transfers into one pipeline, at any size (`forest`, `paths`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.tuning import PIPELINED_COMPILING_S
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def knows_sketch(instance: Instance) -> Verdict:
    """Whether such an engine can do what a sketch asks for, or why not."""
    problem = instance.problem
    if problem.limits.own_first is not None:
        return no("it knows no order in which own chunks leave first")
    if problem.symmetry and instance.quotient is None:
        return no("the symmetry that is requested keeps a port in its place, so there is no quotient")
    return YES


def asks_quotient(instance: Instance, budget: Budget) -> bool:
    """Whether the quotient is looked for: a symmetry is requested, or there is time to find one."""
    return bool(instance.problem.symmetry) or instance.quotient_takes_s < budget.remaining_s()


def kinds_of(problem: Problem) -> tuple[BoolArray, IntArray]:
    """The links that chunks of each kind may use, shape (kinds, links), and the kind of each chunk."""
    may_use = problem.limits.may_use
    if may_use is None:
        links = problem.topology.num_links
        return np.ones((1, links), dtype=np.bool_), np.zeros(problem.num_chunks, dtype=np.int64)
    usable, kind = np.unique(may_use, axis=0, return_inverse=True)
    return usable, kind.ravel()[problem.collective.owner]


def note_of_compiling(
    engine: str, routes: str, budget: Budget, is_compiled: Callable[[], bool]
) -> Update | None:
    """What an engine says whose loops are no machine code yet, and which has no time to make it; else None.

    `routes` is what it would have tried.
    """
    if budget.counts_work or budget.remaining_s() > PIPELINED_COMPILING_S or is_compiled():
        return None
    why = (
        f"{routes} were not tried: compiling them takes up to {PIPELINED_COMPILING_S:g} s, "
        "once: taccl compile"
    )
    return Update(engine, note=why)
