"""Minimal unsatisfiable cores: which of several statements cannot all hold.

Each statement has a literal that the solver assumes. From the core that the solver names, statements are
deleted one at a time for as long as the others still contradict each other (Bakker et al. 1993; Marques-Silva
2010). What is left is minimal: without any one of its statements, the others can hold. Every call has a time
limit, and minimality is claimed only where each call was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import z3

from taccl.encoding.core.ask import ask
from taccl.support.budget import Budget

#: Seconds that one call of the solver may take.
_CALL_S = 10.0


@dataclass(frozen=True)
class Core:
    """Statements, by their positions, that cannot all hold.

    Parameters
    ----------
    members : in the order of the positions; empty if what is always asserted is a contradiction already.
    is_minimal : whether it is proved that without any one of them, the others can hold.
    """

    members: tuple[int, ...]
    is_minimal: bool


def minimal_core(solver: Any, literals: Sequence[Any], budget: Budget) -> Core | None:
    """A core of the literals with what the solver holds; None if they can all hold.

    All of them, not minimal, if the solver cannot tell in time: so ask only where it is known that they
    cannot all hold. `literals` are Booleans of z3, all different.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver.
    SolverError : z3 failed.
    """
    answer = _check(solver, literals, budget)
    if answer == z3.sat:
        return None
    if answer == z3.unknown:
        return Core(tuple(range(len(literals))), is_minimal=False)
    members = _named(solver, literals)
    is_minimal = True
    for candidate in list(members):
        if candidate not in members:
            continue
        rest = [member for member in members if member != candidate]
        answer = _check(solver, [literals[member] for member in rest], budget)
        if answer == z3.unsat:
            named = _named(solver, literals)
            members = [member for member in rest if member in named]
        elif answer == z3.unknown:
            is_minimal = False
    return Core(tuple(members), is_minimal)


def _named(solver: Any, literals: Sequence[Any]) -> list[int]:
    """The positions of the literals in the solver's own core."""
    names = {str(literal) for literal in solver.unsat_core()}
    return [position for position, literal in enumerate(literals) if str(literal) in names]


def _check(solver: Any, assumed: Sequence[Any], budget: Budget) -> z3.CheckSatResult:
    """One call of the solver, with a time limit."""
    return ask(solver, budget.at_most(_CALL_S), *assumed)
