"""A chunk waits for all that is sent with it: prices of ports and of waiting, by rings that go one way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from brute_force import fastest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from small_problems import custom, full, machine, networks, problem, ring

from taccl.encoding.bounds.flow_prices import even_prices
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.waits import WAITS, Toll, Waits, flows
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem
from taccl.support.budget import Budget

_PLENTY = 1_000_000


def _proved(stated: Problem) -> dict[bool, float]:
    """What is proved of any number of chunks, and of this one."""
    proofs = list(WAITS.prove(View(Instance(stated)), 1.0, Budget.of_work(_PLENTY)))
    return {
        any_chunks: max(each.value_us for each in proofs if each.holds_for_any_chunks or not any_chunks)
        for any_chunks in (True, False)
    }


def _at_even_prices(stated: Problem, *, whole: bool) -> float:
    """What waits prove with one price for all ports."""
    budget, price = Budget.of_work(_PLENTY), next(even_prices(stated.topology))
    waits = Waits(Instance(stated), Toll.of(Instance(stated), price), budget)
    waits = waits.of_whole_chunks(budget) if whole else waits
    waits.try_prices(budget)
    return waits.value_us


def _balanced_us(ranks: int) -> float:
    """The T at which a link of a ring that goes one way is busy for T, groups being as large as time allows.

    With alpha 1 us and chunks of 1 us a chunk for the d-th next is in groups of T / d - 1, and each link
    passes d chunks of those.
    """
    far = range(1, ranks)
    return float(brentq(lambda t: sum(d + d / (t / d - 1) for d in far) - t, ranks - 1 + 1e-6, 1e3))


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_on_a_ring_groups_are_as_large_as_time_allows(ranks: int) -> None:
    """Without alphas a link of a ring of 4 is busy for 6 us; with them no schedule ends before 8.4."""
    around = problem(ring(ranks, alpha_us=1.0), "alltoall")
    least_us = _balanced_us(ranks)
    assert 0.995 * least_us <= _at_even_prices(around, whole=False) <= least_us
    assert flows(Instance(around), Budget.of_work(_PLENTY))[0].alone_us == pytest.approx(
        ranks * (ranks - 1) / 2
    )


def test_whole_chunks_prove_more_and_no_more_than_the_fastest_program() -> None:
    """Of three ranks: two chunks, then the one for the second next, in 3 + 2 us."""
    around = problem(ring(3, alpha_us=1.0), "alltoall")
    divided, whole = (_at_even_prices(around, whole=each) for each in (False, True))
    assert 4.7 < divided < whole <= fastest(around).makespan_us == pytest.approx(5.0)


def test_where_a_send_has_one_chunk_each_of_them_pays_an_alpha() -> None:
    around = problem(ring(4, alpha_us=1.0), "alltoall")
    assert _at_even_prices(replace(around, max_group=1), whole=True) == pytest.approx(6 * 2.0)


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_what_holds_for_any_number_of_chunks_is_the_same_for_each(chunks: int) -> None:
    around = problem(ring(4, alpha_us=1.0), "alltoall", chunks, chunk_mb=1.0 / chunks)
    assert _proved(around)[True] == pytest.approx(8.4, rel=3e-3)


def test_where_alpha_keeps_no_port_busy_groups_have_one_chunk() -> None:
    """Nobody waits: the flow is all that remains of a ring, 6 us, next to 3 links of 2 us each."""
    around = problem(replace(ring(4, alpha_us=1.0), occupancy="pipelined"), "alltoall")
    assert _at_even_prices(around, whole=True) == pytest.approx(6.0, rel=1e-6)


def test_without_beta_groups_are_as_large_as_can_be() -> None:
    """Nobody waits for bytes that cost nothing: of 16 chunks in a send each pays a sixteenth of its alpha."""
    around = problem(ring(4, alpha_us=1.0, beta=0.0), "alltoall")
    toll = replace(Toll.of(Instance(around), np.full(4, 1 / 4)), most=16)
    assert toll.pay(0.5) == pytest.approx(np.full(4, 1 / 4 / 16 + 0.5))


def test_what_there_was_no_time_for_is_tried_when_it_is_asked_again() -> None:
    """The program takes one port of a line for the busiest; one price for all ports says less."""
    line = machine(3, [(0, 1, 1.0, 3.0), (1, 2, 1.0, 2.0), (1, 0, 1.0, 2.0), (2, 1, 1.0, 2.0)])
    instance, fresh = (Instance(problem(line, "scatter", 4)) for _ in range(2))
    soon = max(flow.alone_us for flow in flows(instance, Budget.of_work(1)))
    later = max(flow.alone_us for flow in flows(instance, Budget.of_work(_PLENTY)))
    at_once = max(flow.alone_us for flow in flows(fresh, Budget.of_work(_PLENTY)))
    assert soon < later == pytest.approx(at_once) == pytest.approx(8 * 3.0)


@pytest.mark.parametrize("occupancy", ["serial", "pipelined"])
def test_a_port_that_is_faster_than_its_links_is_busy_for_less(occupancy: Occupancy) -> None:
    """Two chunks leave 0 over links of 3 us that share a port of 1 us for each."""
    plain = machine(3, [(0, 1, 1.0, 3.0), (0, 2, 1.0, 3.0)])
    fast = replace(
        plain,
        occupancy=occupancy,
        ports=((0, 2), (1, 2)),
        port_names=("0-1", "0-2", "0"),
        port_betas=((3.0, 1.0), (3.0, 1.0)),
    )
    deals = problem(fast, "scatter")
    assert max(_proved(deals).values()) <= fastest(deals).makespan_us


def test_sends_that_reach_their_ranks_need_not_be_waited_for() -> None:
    """On a full mesh each chunk has a link of its own."""
    assert _proved(problem(full(4, alpha_us=1.0), "alltoall"))[False] == pytest.approx(2.0, rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(networks(), st.sampled_from(["alltoall", "gather", "scatter"]), st.integers(1, 2))
def test_waits_prove_no_less_than_the_flow(topology: LogicalTopology, name: str, chunks: int) -> None:
    small = problem(topology, name, chunks)
    for flow in flows(Instance(small), Budget.of_work(_PLENTY)):
        whole = flow.of_whole_chunks(Budget.of_work(_PLENTY))
        for each in (flow, whole):
            each.try_prices(Budget.of_work(_PLENTY))
        assert flow.alone_us <= flow.value_us <= whole.value_us * (1 + 5e-3) + 1e-9


@pytest.mark.parametrize("units", [8, 16, 24, 100_000])
def test_whole_chunks_go_on_though_they_raised_what_is_known(units: int) -> None:
    """One chunk over three links of 2 us, ports busy for half of it: asked often, with little time."""
    around = replace(ring(6, alpha_us=1.0), occupancy="pipelined")
    view = View(Instance(Problem(around, custom(6, [([0], [3], False)]), 1.0)))
    known_us = 0.0
    for _ in range(60):
        proofs = WAITS.prove(view, known_us, Budget.of_work(units))
        known_us = max([known_us, *(proof.value_us for proof in proofs)])
    assert known_us == pytest.approx(5.0)
