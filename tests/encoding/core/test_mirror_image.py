"""Phases that ask the same of the same links, so that one search answers both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registered import greedy
from small_problems import full, grid, machine, problem, ring, two_nodes
from studies import examples

from taccl.encoding.core.mirror_image import as_same, same_links
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def phases(stated: Problem) -> tuple[Problem, Problem]:
    parts = Instance(stated).phases
    assert parts.reduce_phase is not None and parts.broadcast_phase is not None
    return parts.reduce_phase.problem, parts.broadcast_phase.problem


def first(stated: Problem) -> Schedule:
    schedule = next(greedy(stated, SearchOptions(), Budget(0.0), None)).schedule
    assert schedule is not None
    return schedule


@pytest.mark.parametrize("network", [ring(4, both=True), grid(3, 3), full(4)])
def test_where_links_are_as_fast_there_and_back_both_phases_ask_the_same(network: LogicalTopology) -> None:
    sums, copies = phases(problem(network, "allreduce", 2))
    links = same_links(sums, copies)
    assert links is not None
    assert np.array_equal(sums.topology.src, copies.topology.src[links])
    assert np.array_equal(sums.topology.dst, copies.topology.dst[links])


def test_one_way_round_and_uneven_links_do_not() -> None:
    assert same_links(*phases(problem(ring(4), "allreduce"))) is None
    assert same_links(*phases(problem(two_nodes(), "allreduce"))) is None
    uneven = machine(2, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 2.0)])
    assert same_links(*phases(problem(uneven, "allreduce"))) is None


def test_a_port_that_links_share_one_way_only_makes_a_difference() -> None:
    links = [(a, b, 1.0, 1.0) for a in range(3) for b in range(3) if a != b]
    leaving = machine(3, links, shared=[[0, 1]])  # both links of rank 0
    assert same_links(*phases(problem(leaving, "allreduce"))) is None
    assert same_links(*phases(problem(machine(3, links), "allreduce"))) is not None


def test_what_is_ruled_out_or_larger_is_not_compared() -> None:
    sums, copies = phases(problem(ring(4, both=True), "allreduce"))
    assert same_links(sums, copies) is not None
    free = np.ones((4, copies.topology.num_links), dtype=np.bool_)
    assert same_links(sums, replace(copies, limits=RoutingLimits(may_use=free))) is None
    assert same_links(sums, replace(copies, chunk_mb=2 * copies.chunk_mb)) is None
    assert same_links(sums, replace(copies, sizes=np.array([1.0, 2.0, 1.0, 1.0]))) is None


@st.composite
def both_ways(draw: st.DrawFn) -> LogicalTopology:
    """Links there and back in any order, some of which share a port with others, there as well as back."""
    ranks = draw(st.integers(2, 4))
    pairs = [(a, b) for a in range(ranks) for b in range(a)]
    costs = [draw(st.tuples(*[st.sampled_from((1.0, 2.0))] * 2)) for _ in pairs]
    there = [(a, b, *cost) for (a, b), cost in zip(pairs, costs, strict=True)]
    links = draw(st.permutations([*there, *((b, a, *cost) for a, b, *cost in there)]))
    leaving = [[at for at, link in enumerate(links) if link[end] == 0] for end in (0, 1)]
    return machine(
        ranks, links, draw(st.sampled_from(["serial", "pipelined"])), draw(st.sampled_from([[], leaving]))
    )


@settings(max_examples=examples(60), deadline=None)
@given(both_ways(), st.integers(1, 2))
def test_a_schedule_of_one_phase_is_one_of_the_other_that_takes_as_long(
    network: LogicalTopology, pieces: int
) -> None:
    sums, copies = phases(problem(network, "allreduce", pieces))
    links = same_links(sums, copies)
    assert links is not None
    read = as_same(first(sums), copies, links)
    read.check()
    assert read.makespan_us == first(sums).makespan_us


def test_of_two_that_ask_the_same_one_is_searched() -> None:
    asked = list[Instance]()

    def noted(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule | None):
        asked.append(instance)
        yield Update("noted", first(instance.problem))

    instance = Instance(problem(ring(4, both=True), "allreduce"))
    run = by_phases(noted, asks_quotient=False)
    for update in run(instance, SearchOptions(), Budget.of_work(10), None):
        assert update.schedule is not None
        update.schedule.check()
    assert asked == [instance.phases.reduce_phase]
