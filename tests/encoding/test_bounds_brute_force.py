"""No bound is above the fastest schedule that an exhaustive search finds."""

from __future__ import annotations

import os

from brute_force import TooLarge, schedule_before
from hypothesis import HealthCheck, assume, given, settings
from small_problems import custom_problems, problems

from taccl.encoding.bounds import lower_bound
from taccl.problem import Problem

#: Examples of each test; more of them run by hand, with their count kept in docs/results/fuzz_bounds.md.
_EXAMPLES = int(os.environ.get("TACCL_BOUND_EXAMPLES", "80"))
_COPIES = ("allgather", "alltoall", "broadcast", "gather", "scatter")
_SUMS = ("allreduce", "reduce", "reducescatter")


def nothing_beats_the_bound(problem: Problem, most_sends: int) -> None:
    """Search everything faster than the bound; what is too large to search says nothing."""
    bound = lower_bound(problem)
    try:
        faster = schedule_before(problem, bound.value_us - 1e-6, most_sends)
    except TooLarge:
        assume(False)
        return
    if faster is not None:
        faster.check()
        raise AssertionError(f"{bound} is above a valid schedule of {faster.makespan_us} us")


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(most_ranks=4, names=_COPIES, limited=True))
def test_no_schedule_of_copies_beats_the_bound(problem: Problem) -> None:
    nothing_beats_the_bound(problem, 6_000)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(most_ranks=3, names=_SUMS, limited=True))
def test_no_schedule_with_sums_beats_the_bound(problem: Problem) -> None:
    nothing_beats_the_bound(problem, 6_000)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(custom_problems(most_ranks=3))
def test_no_schedule_of_a_custom_collective_beats_the_bound(problem: Problem) -> None:
    nothing_beats_the_bound(problem, 6_000)
