"""When a model is written down soon, and solutions of the joint model as schedules."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.core.cp_sat import SolverEvent, events_of
from taccl.encoding.core.timing import Decision, in_order, without_dead_ends
from taccl.encoding.engines.cp.tuning import MOST_PAIRS, PAIRS_PER_S, VARIABLES_WRITTEN_PER_UNIT
from taccl.encoding.sending_model.joint import JointModel, decisions
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def is_written_soon(pairs: int, budget: Budget, pairs_per_s: int = PAIRS_PER_S) -> bool:
    """Whether a model with this many pairs of an item and a send fits, and is soon written down.

    If so, that work is noted.
    """
    if pairs > min(MOST_PAIRS, pairs_per_s * budget.remaining_s()):
        return False
    budget.spend(pairs / VARIABLES_WRITTEN_PER_UNIT)
    return True


def schedule_of(problem: Problem, decisions: list[Decision]) -> Schedule:
    """The decisions with their true times, and without copies that nobody uses."""
    schedule = in_order(problem, decisions)
    return schedule if problem.collective.is_reduction else without_dead_ends(schedule)


def events(model: JointModel, seed: int, budget: Budget) -> Iterator[SolverEvent[list[Decision]]]:
    """All events of a search, which ends when everything is proved, the budget is over, or nobody listens.

    Raises
    ------
    SolverError : CP-SAT failed, or does not take the model.
    """
    return events_of(model.cp, lambda value: decisions(model, value), seed, budget)
