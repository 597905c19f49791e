"""Hops: each in the send where it does best, changed one by one by machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import ENGINE_BETAS, full, grid, problem, problems, ring
from studies import examples

from taccl.encoding.core.timing import in_order
from taccl.encoding.engines.combining import cuts, tells_chunks
from taccl.encoding.engines.combining.beginnings import by_distance, doubling
from taccl.encoding.engines.combining.decode import BroadcastDecoder, Decoded, Decoder, PathDecoder
from taccl.encoding.engines.combining.hop_loop import Scratch, State, annealed, score_of
from taccl.encoding.engines.combining.hops import begun, by_hops, knows, net_of
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def _decoder(stated: Problem) -> Decoder:
    instance = Instance(stated)
    orbits = OrbitInstance.of(stated, instance.assumed_group())
    return BroadcastDecoder(orbits) if instance.demand.broadcasts else PathDecoder(orbits)


def _nearest(stated: Problem) -> Decoded:
    decoder = _decoder(stated)
    return decoder.decode(by_distance(decoder.orbits))


def _best(begin: Decoded, units: int) -> Decoded:
    *_, best = [begin, *by_hops([begin], Budget.of_work(units), np.random.default_rng(0))]
    return best


def _makespan_us(decoded: Decoded) -> float:
    """Of the schedule that a sequence is, which is checked."""
    orbits = decoded.decoder.orbits
    schedule = in_order(orbits.problem, decoded.decisions(orbits, apart=False))
    schedule.check()
    return schedule.makespan_us


def _scratch(state: State, ports: int) -> Scratch:
    cells, sends = len(state.link), len(state.order)
    changes = np.zeros((3, 2 * cells + 2), np.int64)
    return Scratch(np.zeros(cells), np.zeros(ports), *changes, np.zeros(sends, np.int64))


def test_each_chunk_goes_over_as_few_links_as_can_be() -> None:
    """A ring of 5: two ranks either way, each a link after the other."""
    nearest = _nearest(problem(ring(5, both=True), "allgather"))
    assert [int(each.sum()) for each in nearest.transfers] == [1, 1, 1, 1]
    assert _makespan_us(nearest) == 2 * (1.0 + 1.0)


def test_every_link_is_busy_all_the_time_on_a_small_torus() -> None:
    """Each of 9 ranks hears 8 chunks of 2 us over 4 links: 4 us, and two alphas where each has two sends."""
    nearest = _nearest(problem(grid(3, 3), "allgather"))
    assert _makespan_us(_best(nearest, 300)) == pytest.approx(2 * 2.0 + 2 * 0.5)
    assert _makespan_us(nearest) == pytest.approx(7.0)


def test_an_alltoall_goes_in_as_many_sends_as_its_longest_way_has_links() -> None:
    """On a torus of 4 x 4 the 15 chunks of a rank take 32 links: 8 of 0.5 us over each of 4, and 4 alphas."""
    nearest = _nearest(problem(grid(4, 4), "alltoall", chunk_mb=0.25))
    assert _makespan_us(_best(nearest, 300)) == pytest.approx(8 * 0.5 + 4 * 0.5)
    assert _makespan_us(nearest) == pytest.approx(7.5)


def test_what_leaves_before_it_is_there_has_no_time() -> None:
    nearest = _nearest(problem(ring(4), "allgather"))
    net = net_of(nearest.decoder.orbits)
    state = begun(net, nearest)
    scratch = _scratch(state, int(net.port.max()) + 1)
    assert score_of(net, state, scratch)[1] == nearest.makespan_us == 3 * 2.0
    state.order[:] = state.order[::-1].copy()
    assert score_of(net, state, scratch) == (np.inf, np.inf)


@settings(max_examples=examples(20), deadline=None)
@given(
    problems(names=["allgather", "broadcast", "alltoall", "scatter", "gather"], betas=ENGINE_BETAS),
    st.integers(0, 3),
)
def test_what_is_found_is_a_schedule_and_takes_no_longer_than_it_says(small: Problem, seed: int) -> None:
    decoder, random = _decoder(small), np.random.default_rng(seed)
    orbits = decoder.orbits
    begin = [decoder.decode(genes) for genes in (by_distance(orbits), doubling(orbits, random, few=False))]
    met = [each for each in begin if not each.unmet and each.genes]
    assert knows(orbits)
    best_us = min((each.makespan_us for each in met), default=np.inf)
    for decoded in by_hops(met, Budget.of_work(60), random) if met else ():
        takes_us = _makespan_us(decoded)
        # What is above the largest group goes as several sends, between which a fast port may serve others.
        assert takes_us <= decoded.makespan_us + 1e-6 or small.max_group < small.num_chunks
        assert decoded.makespan_us < best_us
        best_us = decoded.makespan_us


@settings(max_examples=examples(20), deadline=None)
@given(problems(names=["allgather", "alltoall"], betas=ENGINE_BETAS), st.integers(0, 3), st.integers(1, 300))
def test_after_any_changes_lists_and_counts_are_those_of_the_hops(
    small: Problem, seed: int, trials: int
) -> None:
    nearest = _nearest(small)
    if not nearest.genes:
        return
    net = net_of(nearest.decoder.orbits)
    state = begun(net, nearest)
    best = State(*(column.copy() for column in state))
    annealed(net, state, _scratch(state, int(net.port.max()) + 1), best, seed, trials, 1.0, 0.1)
    ranks = small.num_ranks
    there = np.flatnonzero(state.send >= 0)
    assert sorted(state.cells[: state.numbers[0]].tolist()) == there.tolist()
    assert np.array_equal(np.bincount(state.send[there], minlength=len(state.order)), state.count)
    assert np.array_equal(state.order[state.place], np.arange(len(state.order)))
    above = there // ranks * ranks + net.src[state.link[there]]
    assert np.array_equal(np.bincount(above, minlength=len(state.link)), state.children)
    for send in range(len(state.order)):
        hops, hop = [], int(state.head[send])
        while hop >= 0:
            hops.append(hop)
            hop = int(state.after[hop])
        assert sorted(hops) == np.flatnonzero(state.send == send).tolist()
        assert all(net.orbit[state.link[hop]] == state.of[send] for hop in hops)
    # Whoever has a chunk wants it or hands it on.
    assert (net.wanted[there] | (state.children[there] > 0)).all()


def test_it_tells_the_number_of_chunks_where_ranks_look_the_same_and_have_few_links() -> None:
    assert tells_chunks(Instance(problem(ring(6), "allgather")))
    assert not tells_chunks(Instance(problem(full(16), "allgather")))
    assert not tells_chunks(Instance(problem(grid(3, 4, closed=False), "allgather")))
    assert not tells_chunks(Instance(problem(ring(6), "allreduce")))


def test_of_one_phase_two_numbers_of_chunks_are_searched_and_of_two_phases_one_at_most() -> None:
    assert cuts(Instance(problem(ring(4), "reducescatter"))) == (1, 2)
    assert cuts(Instance(problem(ring(4), "allreduce"))) == (1,)
    assert cuts(Instance(problem(full(16), "allgather"))) == (1, 2)
    assert cuts(Instance(problem(full(16), "allreduce"))) == ()


def test_who_sends_its_own_chunks_first_is_not_asked_about_hops() -> None:
    around = problem(ring(4), "allgather")
    first = replace(around.limits, own_first=np.ones(4, np.bool_))
    assert not knows(OrbitInstance.of(replace(around, limits=first), Instance(around).assumed_group()))
