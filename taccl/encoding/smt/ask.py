"""One question to z3: with a time limit, and with Ctrl-C as everywhere else."""

from __future__ import annotations

from typing import Any

import z3

from taccl.errors import SolverError


def ask(solver: Any, seconds: float) -> z3.CheckSatResult:
    """Satisfiable, unsatisfiable, or unknown when the time is up.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver. z3 takes Ctrl-C itself, and says so in its reason.
    SolverError : z3 failed.
    """
    solver.set("timeout", max(1, int(seconds * 1000)))
    try:
        answer = solver.check()
    except z3.Z3Exception as fault:
        raise SolverError(f"z3 failed: {fault}") from fault
    if answer == z3.unknown and "keyboard" in solver.reason_unknown():
        raise KeyboardInterrupt
    return answer
