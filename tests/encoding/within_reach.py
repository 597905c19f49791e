"""The fastest program of a drawn problem, where an exhaustive search is soon done."""

from __future__ import annotations

import math

from brute_force import TooLarge, program_before
from brute_force_program import Program
from hypothesis import assume

from taccl.model.problem import Problem


def fastest_within_reach(stated: Problem, most_sends: int) -> Program:
    """It has passed its check; a problem that is too large, or has no program, is not looked at."""
    try:
        program = program_before(stated, math.inf, most_sends)
    except TooLarge:
        program = None
    assume(program is not None)
    assert program is not None
    program.check()
    return program
