"""Is there an algorithm of S steps and R rounds? Satisfiable, unsatisfiable, or not known in time.

With the rounds of each step given, an instance is much easier than with the rounds left open, but there
are as many instances as routes to share R rounds among S steps. So the open one and all given ones take
turns, with limits that grow: whichever finds an algorithm first ends it, and it is proved that there is
none when the open one, or each of the others, is unsatisfiable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise

import z3

from taccl.encoding.core.ask import ask
from taccl.encoding.core.timing import Decision
from taccl.encoding.frontier.model import StepsModel
from taccl.encoding.frontier.tuning import (
    SOLVE_BEFORE_OPEN,
    SOLVE_FIRST_TURN_S,
    SOLVE_LONGER,
    SOLVE_MOST_COMPOSITIONS,
    SOLVE_MOST_SENDS,
    SOLVE_MOST_SORTED,
    SOLVE_SENDS_PER_S,
)
from taccl.encoding.instance import Instance
from taccl.errors import SolverError
from taccl.model.problem import Problem
from taccl.support.budget import UNITS_PER_S, Budget


@dataclass(frozen=True)
class ModelVerdict:
    """`decisions` if there is an algorithm; `impossible` if there is none; neither: not known in time."""

    decisions: tuple[Decision, ...] | None = None
    impossible: bool = False


def decide(instance: Instance, steps: int, rounds: int, budget: Budget) -> ModelVerdict:
    """Whether a problem of copies has an algorithm of this many steps and rounds.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver.
    SolverError : z3 failed, or the instance is too large to build.
    """
    problem = instance.problem
    if rounds < steps or not steps:
        return ModelVerdict(impossible=True)
    _check_size(problem, steps)
    sends = problem.num_chunks * problem.topology.num_links * steps
    number = math.comb(rounds - 1, steps - 1)
    compositions = _compositions(rounds, steps) if number <= SOLVE_MOST_SORTED else []
    complete = len(compositions[:SOLVE_MOST_COMPOSITIONS]) == number
    open_one: list[tuple[int, ...] | None] = [None] if number > 1 else []
    candidates = [
        *compositions[:SOLVE_BEFORE_OPEN],
        *open_one,
        *compositions[SOLVE_BEFORE_OPEN:SOLVE_MOST_COMPOSITIONS],
    ]
    turn_s = SOLVE_FIRST_TURN_S
    while budget.remaining_s():
        undecided: list[tuple[int, ...] | None] = []
        for rounds_of in candidates:
            if not budget.remaining_s() or sends > SOLVE_SENDS_PER_S * budget.remaining_s():
                return ModelVerdict()
            budget.spend(sends / SOLVE_SENDS_PER_S * UNITS_PER_S)
            model = StepsModel(instance, steps, rounds, rounds_of)
            answer = ask(model.solver, budget.at_most(turn_s))
            if answer == z3.sat:
                return ModelVerdict(decisions=tuple(model.decisions()))
            if answer == z3.unknown:
                undecided.append(rounds_of)
            elif rounds_of is None:
                return ModelVerdict(impossible=True)
        candidates = undecided
        if complete and all(candidate is None for candidate in candidates):
            return ModelVerdict(impossible=True)
        turn_s *= SOLVE_LONGER
    return ModelVerdict()


def _check_size(problem: Problem, steps: int) -> None:
    sends = problem.num_chunks * problem.topology.num_links * steps
    if sends > SOLVE_MOST_SENDS:
        links = problem.topology.num_links
        raise SolverError(
            f"{problem.num_chunks} chunks on {links} links in {steps} steps are too many for an exact search "
            "in steps and rounds",
            hint="one node, or fewer chunks; taccl synthesize has no such limit",
        )


def _compositions(rounds: int, steps: int) -> list[tuple[int, ...]]:
    """All routes to share rounds among steps, each at least one.

    First those with a short first step, in which ranks send only what they start with, and then even ones.
    """
    cuts = combinations(range(1, rounds), steps - 1)
    all_of_them = (tuple(b - a for a, b in pairwise((0, *cut, rounds))) for cut in cuts)
    return sorted(
        all_of_them, key=lambda parts: (max(parts[-1:] + parts[1:]) - min(parts[-1:] + parts[1:]), parts)
    )
