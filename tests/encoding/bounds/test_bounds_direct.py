"""The bound from chunks that are sent directly because a relay would take too long."""

from __future__ import annotations

import random

import pytest
from brute_force import TooLarge, fastest, program_before
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_cluster_problem, random_problem
from small_problems import custom, full, machine, problem
from studies import examples

from taccl.encoding.bounds import lower_bound
from taccl.encoding.bounds.direct import direct_us
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem


def one_way_out(ranks: int, occupancy: Occupancy = "pipelined") -> LogicalTopology:
    """Links between all, alpha and beta 1; those out of a rank share a port."""
    links = [(a, b, 1.0, 1.0) for a in range(ranks) for b in range(ranks) if a != b]
    shared = [[link for link, (a, *_) in enumerate(links) if a == rank] for rank in range(ranks)]
    return machine(ranks, links, occupancy, shared)


def direct(stated: Problem, *, any_chunks: bool = False) -> float:
    return direct_us(Instance(stated), any_chunks=any_chunks)[0]


@pytest.mark.parametrize(
    ("chunk_mb", "by_hand_us", "any_chunks_us"),
    [
        (0.1, 1 + 3 * 0.1, 1 + 3 * 0.1),  # three direct sends, and an alpha after the last one
        (0.5, 1 + 3 * 0.5, 2.0),
        (2.0, 2 * (1 + 2.0), 2.0),  # directly 7 us; through a relay at least 6, of which 2 are alphas
    ],
)
def test_a_root_sends_to_all_directly_where_a_relay_takes_longer(
    chunk_mb: float, by_hand_us: float, any_chunks_us: float
) -> None:
    stated = problem(one_way_out(4), "broadcast", chunk_mb=chunk_mb)
    assert direct(stated) == pytest.approx(by_hand_us)
    assert direct(stated, any_chunks=True) == pytest.approx(any_chunks_us)
    assert lower_bound(stated, bounds=[LATENCY]).value_us == pytest.approx(by_hand_us)
    assert by_hand_us <= fastest(stated).makespan_us + 1e-6


def test_every_contribution_crosses_the_uplink_where_no_relay_has_time_to_add_them() -> None:
    """Two leaves of two: 16 chunks of 0.1 MB up from each, at twice the speed; a relay takes 5 us."""
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    links = [(a, b, 3.0 if a // 2 != b // 2 else 2.0, 1.0) for a, b in pairs]
    up = [[link for link, (a, b) in enumerate(pairs) if a // 2 == leaf != b // 2] for leaf in (0, 1)]
    stated = problem(machine(4, links, "pipelined", up, rates=[0.5, 0.5]), "allreduce", chunk_mb=0.1)
    assert direct(stated) == pytest.approx(3 + 16 * 0.05 + 0.05)  # a link is slower than its uplink
    _, witness = direct_us(Instance(stated), any_chunks=False)
    assert "port 0" in witness


def test_an_alpha_that_keeps_its_port_busy_counts_once_for_each_send() -> None:
    """Parts of three chunks for two others, at most two chunks a send: four alphas and six chunks."""
    stated = problem(one_way_out(3, "serial"), "scatter", 3, chunk_mb=0.01, max_group=2)
    assert direct(stated) == pytest.approx(2 * (1 + 0.01))  # by way of the other
    far = machine(
        3, [(0, 1, 1.0, 1.0), (0, 2, 1.0, 1.0), (1, 2, 9.0, 1.0), (2, 1, 9.0, 1.0)], shared=[[0, 1]]
    )
    assert direct(problem(far, "scatter", 3, chunk_mb=0.01, max_group=2)) == pytest.approx(4 * 1 + 6 * 0.01)


def test_what_has_no_relay_is_sent_directly_however_late_it_comes() -> None:
    """Rank 3 passes on to rank 1 in 2.2 us, and nobody to rank 2."""
    links = [(0, 1, 1.0, 1.0), (0, 2, 9.0, 1.0), (0, 3, 1.0, 1.0), (3, 1, 1.0, 1.0)]
    stated = problem(machine(4, links, "pipelined"), "scatter", chunk_mb=0.1)
    value_us, witness = direct_us(Instance(stated), any_chunks=False)
    assert value_us == pytest.approx(9.0 + 0.1)
    assert witness == "no relay is soon enough, and direct sends share 0-2"


def test_of_copies_from_several_ranks_it_says_nothing() -> None:
    assert direct(Problem(full(3), custom(3, [((0, 1), (2,), False)]), 1.0)) == 0.0


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_no_program_is_faster(seed: int) -> None:
    dice = random.Random(seed)
    drawn = random_cluster_problem if seed % 3 == 0 else random_problem
    stated = drawn(dice, sums=seed % 2 == 0)
    for any_chunks in (False, True):
        value_us = direct(stated, any_chunks=any_chunks)
        try:
            faster = program_before(stated, value_us - 1e-6, 800)
        except TooLarge:
            assume(False)
        assert faster is None, (value_us, faster)
