"""Late inputs, tails and sizes on a ring of four, by hand: every link takes 1 us for a chunk of 1 MB."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import checked
from registered import routes_at_once
from small_problems import problem, ring

from taccl import make_problem
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.routes import routes
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def fastest(requested: Problem) -> Schedule:
    return checked(routes(Instance(requested), SearchOptions(), Budget.of_work(100), None))[-1]


def four(name: str, both: bool = False, **columns: list[float]) -> Problem:
    plain = problem(ring(4, alpha_us=0.0, both=both), name)
    return replace(plain, **{key: np.array(values) for key, values in columns.items()})


def test_an_allgather_ends_three_links_after_its_last_input() -> None:
    """One way round: rank 3's chunk leaves at 5 and is at rank 2 at 8; the others are through before."""
    assert fastest(four("allgather")).makespan_us == pytest.approx(3.0)
    assert fastest(four("allgather", ready_us=[0.0, 0.0, 0.0, 5.0])).makespan_us == pytest.approx(8.0)


def test_both_ways_round_a_late_input_has_two_links_before_it() -> None:
    late = four("allgather", both=True, ready_us=[0.0, 0.0, 0.0, 5.0])
    assert fastest(late).makespan_us == pytest.approx(7.0)


def test_an_input_that_is_ready_while_others_are_under_way_costs_nothing() -> None:
    """Each link carries three chunks; rank 3's own leaves second or third."""
    assert fastest(four("allgather", ready_us=[0.0, 0.0, 0.0, 0.5])).makespan_us == pytest.approx(3.5)


def test_an_allreduce_waits_for_the_last_contribution() -> None:
    """Rank 0 has its parts at 10: each has to meet the others' sums and be known everywhere, two links away.

    The sum of the chunk that rank 2 makes needs two links to it and two back; made at rank 0, two from there.
    """
    late = four("allreduce", both=True, ready_us=[10.0, 0.0, 0.0, 0.0] * 4)
    assert fastest(late).makespan_us >= 12.0
    assert fastest(late).makespan_us <= 14.0


def test_a_sum_is_copied_next_to_its_route_no_sooner_than_its_last_contribution_is_there() -> None:
    """Two ranks: the others' part of the second chunk is at rank 1 at 2, its own at 5, and back at 6."""
    pair = replace(problem(ring(2, alpha_us=0.0), "allreduce"), ready_us=np.array([0.0, 0.0, 0.0, 5.0]))
    assert fastest(pair).makespan_us == pytest.approx(6.0)


def test_what_has_the_longest_tail_leaves_first() -> None:
    """A scatter from rank 0: the chunk for rank 1 is first at its end but for what follows it."""
    outputs = four("scatter").collective.outputs
    tail_us = np.where(outputs.rank == 1, 9.0, 0.0)
    schedule = fastest(replace(four("scatter"), tail_us=tail_us))
    assert schedule.makespan_us == pytest.approx(10.0)


def test_the_largest_chunk_goes_the_way_of_its_own() -> None:
    """0 to 2 are 4 MB, two links either way; all other parts of an AlltoAll from rank 0 are 1 MB."""
    plain = four("alltoall", both=True)
    collective = plain.collective
    large = (collective.source == 0) & (collective.destination == 2)
    schedule = fastest(replace(plain, sizes=np.where(large, 4.0, 1.0)))
    assert schedule.makespan_us == pytest.approx(8.0)


def test_sums_that_are_planned_backwards_wait_for_inputs_to_the_last_step_of_the_clock() -> None:
    """Times of such numbers are differences of larger ones, and rounded."""
    whole = make_problem("reduce", topology="ring:4", size="4MB", executor=False, chunks=1).problem
    late = replace(whole, ready_us=np.full(4, 4 * 1.8934086502937713), tail_us=np.array([80.0]))
    for update in routes_at_once(late, SearchOptions(), Budget.of_work(20), None):
        assert update.schedule is not None
        update.schedule.check()
