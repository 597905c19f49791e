"""One question to z3: with a time limit, and interrupted as everything else is."""

from __future__ import annotations

import threading
from typing import Any

import z3

from taccl.errors import SolverError

#: Seconds after which z3 is told again to stop: before its search has begun, it forgets that it was told.
_AGAIN_S = 0.05


def ask(solver: Any, seconds: float, *assumed: Any) -> z3.CheckSatResult:
    """Satisfiable under these assumptions, unsatisfiable, or unknown when the time is up.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver. z3 takes Ctrl-C itself, and says so in its reason.
    SolverError : z3 failed.
    """
    solver.set("timeout", max(1, int(seconds * 1000)))
    answer = _beside_this_thread(solver, assumed)
    if answer == z3.unknown and "keyboard" in solver.reason_unknown():
        raise KeyboardInterrupt
    return answer


def _beside_this_thread(solver: Any, assumed: tuple[Any, ...]) -> z3.CheckSatResult:
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
            done.wait(_AGAIN_S)
        raise
    for fault in faults:
        if isinstance(fault, z3.Z3Exception):
            raise SolverError(f"z3 failed: {fault}") from fault
        raise fault
    return answers[0]
