"""Few sends, long ways: who sends to few others reaches the others over detours."""

from __future__ import annotations

import random

import pytest
from brute_force import fastest, program_before
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_pairs_problem
from small_problems import custom, full, machine, problem, ring
from studies import examples

from taccl.encoding.bounds.few_sends import few_sends_us
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def behind_a_switch(ranks: int, alpha_us: float) -> LogicalTopology:
    """One way out and one way in for each rank; 1 us per MB."""
    links = [(a, b, alpha_us, 1.0) for a in range(ranks) for b in range(ranks) if a != b]
    ends = [
        [i for i, link in enumerate(links) if link[end] == rank] for end in (0, 1) for rank in range(ranks)
    ]
    return machine(ranks, links, shared=ends)


def proved_us(stated: Problem) -> float:
    return few_sends_us(Instance(stated), Budget.of_work(100_000))


def test_where_an_alpha_is_cheap_every_pair_pays_its_own() -> None:
    """Three sends of an alpha of 0.5 us and a body of 1 us each."""
    pairs = problem(behind_a_switch(4, 0.5), "alltoall")
    assert proved_us(pairs) == pytest.approx(3 * 1.5)


def test_one_send_reaches_one_rank_at_once_and_the_others_over_two_links() -> None:
    """Of three ranks each sends once, 3 us, and one of its two chunks of 1 us takes two links."""
    pairs = problem(behind_a_switch(3, 3.0), "alltoall")
    assert proved_us(pairs) == pytest.approx(3.0 + 1.0 + 2.0)
    assert proved_us(pairs) <= fastest(pairs).makespan_us + 1e-9


def test_who_can_send_twice_reaches_no_more_than_six_over_two_links() -> None:
    """By 22.8 us no rank sends three times: 7 us go for its own chunks, and an alpha is 5.8 us.

    With one send of each, 1, 2 and 4 of seven chunks take one, two and three links; with two, 2, 4 and 1.
    """
    pairs = problem(behind_a_switch(8, 5.8), "alltoall")
    once, twice = 5.8 + 1 + 2 * 2 + 4 * 3, 2 * 5.8 + 2 + 4 * 2 + 1 * 3
    assert proved_us(pairs) == pytest.approx(min(once, twice), rel=1e-5)


def test_where_alphas_keep_no_port_busy_bodies_alone_count() -> None:
    """Each of six links carries one chunk of 1 us."""
    pairs = problem(ring(3, both=True, occupancy="pipelined"), "alltoall")
    assert proved_us(pairs) == pytest.approx(1.0)


def test_one_chunk_costs_its_alpha_and_body_at_most() -> None:
    one = Problem(full(3), custom(3, [((0,), (1,), False)]), 1.0)
    assert 0 < proved_us(one) <= fastest(one).makespan_us == pytest.approx(2.0)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_program_is_faster(seed: int) -> None:
    stated = random_pairs_problem(random.Random(seed))
    assert program_before(stated, proved_us(stated) - 1e-6, 3000) is None
