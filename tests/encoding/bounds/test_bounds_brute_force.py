"""No bound is above the fastest program that an exhaustive search finds, nor above any valid schedule."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from brute_force import TooLarge, fastest, program_before
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import (
    random_cluster_problem,
    random_featured_problem,
    random_helped_problem,
    random_joint_problem,
    random_problem,
)
from registered import greedy, reducing
from small_problems import custom, full, machine, problem, ring
from studies import examples

from taccl.encoding import bounds
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import decisions_of, in_order
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: Examples of each test. `benchmarks/fuzz_bounds.py` runs thousands, for docs/results/fuzz_bounds.md.
_EXAMPLES = examples(10)
_MOST_SENDS = 800


def largest_bound(stated: Problem) -> bounds.Proof:
    """With more work than it takes: what is proved does not depend on the clock."""
    return bounds.lower_bound(stated, Budget.of_work(1_000_000))


def nothing_beats_the_bounds(stated: Problem, most_sends: int) -> None:
    """Search everything faster than the largest bound; what is too large to search says nothing."""
    largest = largest_bound(stated)
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
    drawn = random_cluster_problem if seed % 6 == 5 else random_problem
    nothing_beats_the_bounds(drawn(random.Random(seed), sums=False), _MOST_SENDS)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_no_program_with_sums_beats_a_bound(seed: int) -> None:
    drawn = random_cluster_problem if seed % 6 == 5 else random_problem
    nothing_beats_the_bounds(drawn(random.Random(seed), sums=True), _MOST_SENDS)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_no_program_with_sizes_ready_times_tails_and_helpers_beats_a_bound(seed: int, sums: bool) -> None:
    """Of one collective, or of several at once that each have their own."""
    drawn = random_joint_problem if seed % 2 else random_featured_problem
    nothing_beats_the_bounds(drawn(random.Random(seed), sums), _MOST_SENDS)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_no_program_through_helpers_beats_a_bound(seed: int, sums: bool) -> None:
    """Switches that sum and copy, in one pass or by two faces, and ranks that may not."""
    nothing_beats_the_bounds(random_helped_problem(random.Random(seed), sums), _MOST_SENDS)


def test_bounds_of_a_sum_are_below_the_programs_that_make_it_at_every_rank() -> None:
    """Bounds that took it that each sum is made once stood above all of these."""
    everyone = tuple(range(4))
    for topology in (full(4), ring(4), ring(4, both=True)):
        one = Problem(topology, custom(4, [(everyone, everyone, True)]), 1.0)
        assert largest_bound(one).value_us == pytest.approx(fastest(one).makespan_us, rel=5e-3)
    assert largest_bound(problem(ring(3, 0.5, 3.0), "allreduce")).value_us <= 13.0 * 1.5


def schedule_of(stated: Problem) -> Schedule:
    """The first schedule that list scheduling finds."""
    update = next(reducing(greedy)(stated, SearchOptions(), Budget.of_work(1), None))
    assert update.schedule is not None
    return update.schedule


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_no_schedule_with_ready_times_tails_work_on_sums_and_unequal_sizes_beats_a_bound(
    seed: int, sums: bool
) -> None:
    """The transfers of a schedule of the plain problem, timed anew."""
    random_numbers = np.random.default_rng(seed)
    plain = random_problem(random.Random(seed), sums=sums)
    topology = plain.topology
    assume((topology.alpha_us + topology.beta_us_per_mb > 0).all())  # engines ask that of every link
    columns = {"sizes": plain.num_chunks, "ready_us": len(plain.collective.inputs)}
    columns["tail_us"] = len(plain.collective.outputs)
    columns["sum_work_us"] = plain.num_chunks
    changed = {
        name: random_numbers.choice([0.5, 1.0, 3.0, 10.0], rows)
        for name, rows in columns.items()
        if random_numbers.random() < 0.6
    }
    if "sum_work_us" in changed:
        changed["sum_work_us"] *= plain.collective.reduces
    stated = replace(plain, **changed)
    schedule = in_order(stated, decisions_of(schedule_of(plain)))
    schedule.check()
    largest = largest_bound(stated)
    assert largest.value_us <= schedule.makespan_us * (1 + 1e-9), largest


@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall", "reducescatter"])
def test_no_schedule_through_a_helper_beats_a_bound(name: str) -> None:
    """Three ranks that are joined by a fourth alone, which holds no data."""
    star = machine(4, [(a, b, 1.0, 1.0) for r in range(3) for a, b in ((r, 3), (3, r))])
    among_three = make_collective(name, 3).with_helpers(1)
    helped = Problem(replace(star, is_helper=np.arange(4) == 3), among_three, 1.0)
    assert "helpers" in helped.features
    as_a_rank = Problem(star, replace(among_three, num_helpers=0), 1.0)
    schedule = in_order(helped, decisions_of(schedule_of(as_a_rank)))
    schedule.check()
    largest = largest_bound(helped)
    assert 4.0 <= largest.value_us <= schedule.makespan_us * (1 + 1e-9), "two links at least"
