"""No bound is above the fastest program that an exhaustive search finds."""

from __future__ import annotations

import os
import random

import pytest
from brute_force import TooLarge, fastest, program_before
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_problem
from small_problems import custom, full, problem, ring

from taccl.encoding.bounds import all_bounds
from taccl.problem import Problem

#: Examples of each test. `benchmarks/fuzz_bounds.py` runs thousands, for docs/results/fuzz_bounds.md.
_EXAMPLES = int(os.environ.get("TACCL_BOUND_EXAMPLES", "100"))
_MOST_SENDS = 1_500


def nothing_beats_the_bounds(stated: Problem, most_sends: int) -> None:
    """Search everything faster than the largest bound; what is too large to search says nothing."""
    largest = all_bounds(stated)[0]
    try:
        faster = program_before(stated, largest.value_us - 1e-6, most_sends)
    except TooLarge:
        assume(False)
        return
    if faster is not None:
        faster.check()
        raise AssertionError(f"{largest} is above a program of {faster.makespan_us} us: {faster.steps}")


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_no_program_of_copies_beats_a_bound(seed: int) -> None:
    nothing_beats_the_bounds(random_problem(random.Random(seed), sums=False), _MOST_SENDS)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_no_program_with_sums_beats_a_bound(seed: int) -> None:
    nothing_beats_the_bounds(random_problem(random.Random(seed), sums=True), _MOST_SENDS)


def test_bounds_of_a_sum_are_below_the_programs_that_make_it_at_every_rank() -> None:
    """Bounds that took it that each sum is made once stood above all of these."""
    everyone = tuple(range(4))
    for topology in (full(4), ring(4), ring(4, both=True)):
        one = Problem(topology, custom(4, [(everyone, everyone, True)]), 1.0)
        assert all_bounds(one)[0].value_us == pytest.approx(fastest(one).makespan_us, rel=5e-3)
    assert all_bounds(problem(ring(3, 0.5, 3.0), "allreduce"))[0].value_us <= 13.0 * 1.5
