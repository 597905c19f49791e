"""Which links each chunk takes, by TACCL's routing program; and the links that are worth a thought."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registered import greedy
from small_problems import ENGINE_BETAS, custom, full, machine, problem, problems, ring, two_nodes

from taccl.encoding.core.distance import ShortestPaths, SinglePaths, distances_us
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.milp.routing import RoutingOptions, build, routed
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import symmetry_group
from taccl.model.collective import BoolArray
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def known(problem: Problem) -> Schedule:
    """The first greedy schedule."""
    schedule = next(greedy(problem, SearchOptions(), Budget(0.0), None)).schedule
    assert schedule is not None
    return schedule


def routes(problem: Problem, slack: float = 2.0) -> BoolArray:
    """Which links each chunk uses, shape (num_chunks, num_links)."""
    instance = Instance(problem)
    allowed = instance.path_sets(slack)
    uses = routed(
        instance, known(problem), allowed, RoutingOptions(), SearchOptions(), Budget.of_work(20_000)
    )
    assert uses is not None
    return uses


def received(problem: Problem, uses: BoolArray) -> np.ndarray:
    """How often each rank receives each chunk, shape (num_chunks, num_ranks)."""
    counts = np.zeros((problem.num_chunks, problem.num_ranks), dtype=np.int64)
    chunk, link = np.nonzero(uses)
    np.add.at(counts, (chunk, problem.topology.dst[link]), 1)
    return counts


@pytest.mark.parametrize("name", ["allgather", "alltoall", "scatter"])
def test_each_wanted_chunk_is_received_once_and_held_before_it_is_sent(name: str) -> None:
    nodes = problem(two_nodes(), name)
    uses = routes(nodes)
    counts, collective = received(nodes, uses), nodes.collective
    assert (counts[collective.post & ~collective.pre] == 1).all()
    assert (counts <= 1).all()
    chunk, link = np.nonzero(uses)
    sender = nodes.topology.src[link]
    assert (collective.pre[chunk, sender] | (counts[chunk, sender] == 1)).all()


def test_chunks_go_round_a_busy_link() -> None:
    """Rank 0 scatters 4 chunks to rank 1's side: two routes of equal length share them."""
    links = [(0, 1, 0.0, 1.0), (0, 2, 0.0, 1.0), (1, 3, 0.0, 1.0), (2, 3, 0.0, 1.0)]
    split = Problem(machine(4, links), problem(machine(4, links), "scatter", 2).collective, 1.0)
    uses = routes(split)
    to_three = split.collective.post[:, 3] & ~split.collective.pre[:, 3]
    assert uses[to_three][:, 2].sum() == 1
    assert uses[to_three][:, 3].sum() == 1


def test_a_link_that_leads_nowhere_is_no_matter() -> None:
    """Nobody wants anything at rank 3, and nothing comes back from it."""
    links = [(0, 1, 1.0, 1.0), (0, 2, 1.0, 1.0), (2, 1, 1.0, 1.0), (2, 3, 1.0, 1.0)]
    pieces = Problem(machine(4, links), custom(4, [((0,), (1,), False)] * 4), 1.0)
    direct, there, on, nowhere = routes(pieces).sum(axis=0)
    assert direct < 4, "8 us, had all gone there"
    assert (there, on, nowhere) == (4 - direct, 4 - direct, 0)


def test_routes_keep_to_the_links_that_a_owner_may_use() -> None:
    may_use = np.ones((3, 6), dtype=np.bool_)
    may_use[0, 0] = False
    kept = problem(full(3), "allgather", limits=RoutingLimits(may_use=may_use))
    uses = routes(kept)
    assert not uses[0, 0]
    assert (received(kept, uses)[~kept.collective.pre] == 1).all()


def test_routes_have_the_symmetry_of_the_problem() -> None:
    turned = problem(ring(4, both=True), "alltoall", symmetry=[[1, 2, 3, 0]])
    uses, group = routes(turned), symmetry_group(turned)
    for chunks, links in zip(group.chunk_map, group.link_map, strict=True):
        assert (uses[chunks][:, links] == uses).all()


def test_only_shortest_ways_are_left_without_slack() -> None:
    """0 -> 1 takes 1 us, 0 -> 2 -> 1 takes 2."""
    topology = machine(3, [(0, 1, 0.0, 1.0), (0, 2, 0.0, 1.0), (2, 1, 0.0, 1.0)])
    spread = problem(topology, "scatter")
    assert Instance(spread).path_sets(1.0)[1].tolist() == [True, False, False]
    assert Instance(spread).path_sets(2.0)[1].tolist() == [True, True, True]


def test_no_chunk_is_routed_back_to_where_it_starts() -> None:
    gather = problem(full(3), "allgather")
    allowed = Instance(gather).path_sets(10.0)
    chunk, link = np.nonzero(allowed)
    assert not gather.collective.pre[chunk, gather.topology.dst[link]].any()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    problems(names=("allgather", "alltoall", "broadcast"), limited=True, betas=ENGINE_BETAS),
    st.sampled_from((0, 1, -1)),
    st.booleans(),
)
def test_the_routes_of_a_known_schedule_solve_the_program(small: Problem, price: int, spread: bool) -> None:
    preference = np.where(np.arange(small.topology.num_links) % 2, float(price), 0.0)
    small = replace(
        small, limits=replace(small.limits, link_preference=preference if price else None, spread_load=spread)
    )
    instance = Instance(small)
    program = build(instance, known(small), instance.path_sets(1.0), RoutingOptions())
    model, start = program.model, program.given()
    lower, upper, _, _ = model.columns()
    starts, column, value, row_lower, row_upper = model.matrix()
    row = np.repeat(np.arange(model.num_rows), np.diff(starts))
    made = np.bincount(row, value * start[column], model.num_rows)
    assert (start >= lower - 1e-6).all()
    assert (start <= upper + 1e-6).all()
    assert (made >= row_lower - 1e-6).all()
    assert (made <= row_upper + 1e-6).all()


def test_distances_are_shortest_paths_and_infinite_where_cut_off() -> None:
    topology = machine(4, [(0, 1, 0.0, 5.0), (0, 2, 0.0, 1.0), (2, 1, 0.0, 1.0)])
    weight = topology.beta_us_per_mb
    assert distances_us(topology, weight).tolist() == [
        [0.0, 2.0, 1.0, np.inf],
        [np.inf, 0.0, np.inf, np.inf],
        [np.inf, 1.0, 0.0, np.inf],
        [np.inf, np.inf, np.inf, 0.0],
    ]
    single, without = SinglePaths(topology), np.array([True, True, False])
    for paths, apart in (
        (ShortestPaths(topology, weight).path, ShortestPaths(topology, weight, without).path),
        (partial(single.path, weight), partial(single.path, weight, usable=without)),
    ):
        assert paths(0, 1) == [1, 2]
        assert apart(source=0, target=1) == [0]
        assert paths(0, 3) is None
        assert paths(2, 2) == []
