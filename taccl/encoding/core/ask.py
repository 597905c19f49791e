"""One question to z3: within a budget, of seconds or of work, and interrupted as everything else is."""

from __future__ import annotations

import threading
from typing import Any

import z3

from taccl.encoding.core.tuning import ASK_AGAIN_S, ASK_MOST
from taccl.errors import SolverError
from taccl.support.budget import UNITS_PER_S, Budget

#: z3 counts the steps of its procedures; it makes this many in a millisecond, or more.
_STEPS_PER_UNIT = 2_000


def ask(solver: Any, budget: Budget, *assumed: Any) -> z3.CheckSatResult:
    """Satisfiable under these assumptions, unsatisfiable, or unknown when the budget is spent.

    On a work clock z3 counts its steps, which are the same whatever else the machine does.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver. z3 takes Ctrl-C itself, and says so in its reason.
    SolverError : z3 failed.
    """
    seconds = budget.remaining_s()
    if not seconds:
        return z3.unknown
    if not budget.counts_work:
        solver.set("timeout", max(1, int(seconds * 1000)))
        answer = _alongside_this_thread(solver, assumed)
    else:
        solver.set("rlimit", min(ASK_MOST, max(1, int(seconds * UNITS_PER_S * _STEPS_PER_UNIT))))
        before = _steps(solver)
        answer = _alongside_this_thread(solver, assumed)
        budget.spend((_steps(solver) - before) / _STEPS_PER_UNIT)
    if answer == z3.unknown and "keyboard" in solver.reason_unknown():
        raise KeyboardInterrupt
    return answer


def _steps(solver: Any) -> int:
    """How many steps z3 has made in all."""
    counted = solver.statistics()
    names = list(counted.keys())
    return int(counted.get_key_value("rlimit count")) if "rlimit count" in names else 0


def _alongside_this_thread(solver: Any, assumed: tuple[Any, ...]) -> z3.CheckSatResult:
    """Ask in a thread, so that a signal other than Ctrl-C does not wait until z3 is done."""
    answers: list[z3.CheckSatResult] = []
    faults: list[Exception] = []
    done = threading.Event()

    def check() -> None:
        try:
            answers.append(solver.check(*assumed))
        except Exception as fault:
            faults.append(fault)
        finally:
            done.set()

    threading.Thread(target=check, daemon=True).start()
    try:
        done.wait()
    except BaseException:
        while not done.is_set():
            solver.ctx.interrupt()
            done.wait(ASK_AGAIN_S)
        raise
    for fault in faults:
        if isinstance(fault, z3.Z3Exception):
            raise SolverError(f"z3 failed: {fault}") from fault
        raise fault
    return answers[0]
