"""Machines that look the same from many ranks: what is left to decide, and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registered import greedy, reducing, textbook_at_once
from small_problems import ENGINE_BETAS, full, grid, machine, ndv2_node, networks, problem, ring, two_nodes
from studies import examples

from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.quotient import Quotient, quotient
from taccl.encoding.symmetry.action import is_automorphism
from taccl.encoding.symmetry.search import assumed_group
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.model.tolerance import SAME_COST
from taccl.support.budget import Budget


def switch(ranks: int) -> LogicalTopology:
    links = [(a, b, 0.5, 1.0) for a in range(ranks) for b in range(ranks) if a != b]
    ports = tuple((a, ranks + b) for a, b, *_ in links)
    names = tuple(f"{way} {rank}" for way in ("out", "in") for rank in range(ranks))
    return replace(machine(ranks, links), ports=ports, port_names=names)


def found(whole: Problem) -> Quotient:
    by_orbits = quotient(whole)
    assert by_orbits is not None
    return by_orbits


def first(part: Problem) -> Schedule:
    schedule = next(reducing(greedy)(part, SearchOptions(), Budget(0.0), None)).schedule
    assert schedule is not None
    return schedule


@pytest.mark.parametrize(
    ("topology", "images", "ports"),
    [
        (ring(6), 6, 1),
        (ring(6, both=True), 6, 2),
        (grid(3, 4), 12, 4),
        (grid(4, 4, closed=False), 4, 12),  # turned by half and mirrored, 48 links between them
        (full(5), 5, 4),
        (switch(6), 6, 2),
        (ndv2_node(), 4, 8),
        (two_nodes(), 2, 3),
    ],
)
def test_images_and_ports_that_are_left_of_regular_machines(
    topology: LogicalTopology, images: int, ports: int
) -> None:
    whole = problem(topology, "allgather", 3)
    by_orbits = found(whole)
    assert len(by_orbits.link_map) == images
    assert by_orbits.problem.topology.num_ports == ports
    assert by_orbits.problem.num_chunks * images == whole.num_chunks
    assert by_orbits.problem.topology.num_links == topology.num_links


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
@pytest.mark.parametrize(
    "topology",
    [ring(4), grid(3, 3), full(4), switch(4), ndv2_node(), two_nodes(), two_nodes(3.0, "pipelined")],
)
def test_the_images_of_a_schedule_are_a_schedule_with_the_same_times(
    topology: LogicalTopology, name: str
) -> None:
    whole = problem(topology, name, 2)
    by_orbits = found(whole)
    part = first(by_orbits.problem)
    part.check()
    lifted = by_orbits.lifted(part)
    lifted.check()
    assert lifted.problem is whole
    assert lifted.makespan_us == part.makespan_us
    assert len(lifted) == len(part) * len(by_orbits.link_map)
    assert lower_bound(whole).value_us <= lifted.makespan_us + 1e-6


@pytest.mark.parametrize("at_once", [1, 40, 10**6])
def test_images_stand_in_the_order_of_a_schedule_however_few_are_sorted_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taccl.encoding.quotient._LIFTED_AT_ONCE", at_once)
    by_orbits = found(problem(grid(3, 3), "alltoall", 2))
    grouped = textbook_at_once(by_orbits.problem, SearchOptions(), Budget(0.0), None)
    for part in (first(by_orbits.problem), next(iter(grouped)).schedule):
        assert part is not None
        lifted = by_orbits.lifted(part)
        lifted.check()
        ordered = lifted.sorted()
        for name in ("chunk", "link", "start_us", "end_us", "reduce", "group"):
            assert np.array_equal(getattr(lifted, name), getattr(ordered, name)), name
        assert len(lifted.sends) == len(part.sends) * by_orbits.num_images


def test_every_chunk_is_the_image_of_one_chunk() -> None:
    by_orbits = found(problem(grid(3, 3), "alltoall", 2))
    assert sorted(by_orbits.chunk_map.ravel().tolist()) == list(range(9 * 9 * 2))


def test_a_root_leaves_no_orbits() -> None:
    for name in ("broadcast", "gather", "scatter"):
        assert quotient(problem(ring(4), name)) is None


def test_one_slower_link_leaves_no_orbits() -> None:
    topology = ring(4)
    beta = topology.beta_us_per_mb.copy()
    beta[2] = 1.5
    assert quotient(problem(replace(topology, beta_us_per_mb=beta), "allgather")) is None


def test_a_port_that_all_share_would_serve_all_images_at_once() -> None:
    shared = machine(3, [(a, (a + 1) % 3, 1.0, 1.0) for a in range(3)], shared=[[0, 1, 2]])
    assert quotient(problem(shared, "allgather")) is None


def test_links_that_a_owner_may_not_use_must_be_the_same_for_its_images() -> None:
    may_use = np.ones((3, 6), dtype=np.bool_)
    may_use[0, full(3).link_index[0, 1]] = False
    assert quotient(problem(full(3), "allgather", limits=RoutingLimits(may_use=may_use))) is None
    may_use = np.array(
        [[(int(s), int(d)) != (u, (u + 1) % 3) for s, d in full(3).link_index] for u in range(3)]
    )
    kept = problem(full(3), "allgather", limits=RoutingLimits(may_use=may_use))
    by_orbits = found(kept)
    lifted = by_orbits.lifted(first(by_orbits.problem))
    lifted.check()


def test_own_chunks_first_is_not_asked_of_one_chunk_of_an_orbit() -> None:
    limits = RoutingLimits(own_first=np.ones(4, dtype=np.bool_))
    assert quotient(problem(ring(4), "allgather", limits=limits)) is None


def test_a_symmetry_that_is_asked_for_is_the_one_that_is_used() -> None:
    half_turn = found(problem(ring(4), "allgather", symmetry=[[2, 3, 0, 1]]))
    assert len(half_turn.link_map) == 2
    assert half_turn.problem.symmetry == ()


def test_a_symmetry_that_keeps_a_port_has_no_quotient() -> None:
    shared = machine(2, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0)], shared=[[0, 1]])
    assert quotient(problem(shared, "allgather", symmetry=[[1, 0]])) is None


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks(most_ranks=6, betas=ENGINE_BETAS[:1], alphas=(1.0,)))
def test_on_any_network_what_is_found_gives_valid_schedules(topology: LogicalTopology) -> None:
    for name in COLLECTIVES:
        whole = problem(topology, name, 2)
        if whole.collective.is_reduction:
            continue
        by_orbits = quotient(whole)
        if by_orbits is not None:
            lifted = by_orbits.lifted(first(by_orbits.problem))
            lifted.check()
            assert lower_bound(whole).value_us <= lifted.makespan_us + 1e-6


def test_the_check_and_the_quotient_agree_about_costs_that_differ_by_rounding() -> None:
    """A ring in which every other link is dearer by one step of a float looks the same from all ranks."""
    beta = np.ones(8)
    beta[::2] = np.nextafter(1.0, 2.0)
    whole = problem(replace(ring(8), beta_us_per_mb=beta), "allgather")
    assert is_automorphism(whole, np.roll(np.arange(8), -1))
    part = found(whole)
    assert len(part.link_map) == 8
    assert not part.is_exact
    part.lifted(first(part.problem)).check()


@settings(max_examples=examples(10), deadline=None)
@given(
    st.sampled_from([ring(6, both=True), grid(3, 3), full(4), two_nodes(3.0, "pipelined")]),
    st.sampled_from(["allgather", "alltoall", "allreduce"]),
    st.integers(0, 2**32 - 1),
)
def test_times_are_those_of_the_costs_of_the_whole(topology: LogicalTopology, name: str, seed: int) -> None:
    """Costs that differ by what counts as equal: valid schedules, no later than that and rounding."""
    noise = np.random.default_rng(seed).uniform(0, 0.4 * SAME_COST, (2, topology.num_links))
    noisy = replace(
        topology,
        alpha_us=topology.alpha_us * (1 + noise[0]),
        beta_us_per_mb=topology.beta_us_per_mb * (1 + noise[1]),
    )
    whole = problem(noisy, name, 2)
    by_orbits = found(whole)
    part = first(by_orbits.problem)
    lifted = by_orbits.lifted(part)
    lifted.check()
    assert lifted.makespan_us <= part.makespan_us * (1 + 1e-8)
    stated = replace(whole, symmetry=tuple(assumed_group(whole).rank_map[1:]))
    first(stated).check()


def test_costs_that_drift_from_link_to_link_make_no_group() -> None:
    """Each link costs as much as the next, within the tolerance, but the first not as much as the last."""
    beta = 1 + 0.9 * SAME_COST * np.minimum(np.arange(64), 64 - np.arange(64))
    whole = problem(replace(ring(64), beta_us_per_mb=beta, port_betas=None), "allgather")
    assert is_automorphism(whole, np.roll(np.arange(64), -1))
    assert quotient(whole) is None


def test_what_a_chunk_is_like_is_kept_for_the_chunks_that_are_left() -> None:
    whole = problem(ring(4), "allgather", 2)
    late = np.tile([0.0, 3.0], 4)
    whole = replace(whole, sizes=np.tile([1.0, 2.0], 4), ready_us=late, tail_us=np.tile([0.0, 7.0], 16))
    part = found(whole).problem
    assert part.sizes is not None
    assert part.sizes.tolist() == [1.0, 2.0]
    assert part.ready_us is not None
    assert part.ready_us.tolist() == [0.0, 3.0]
    assert part.tail_us is not None
    assert sorted(part.tail_us.tolist()) == [0.0] * 4 + [7.0] * 4


def test_helpers_may_stay_where_members_move() -> None:
    """Four ranks around a switch that copies: one rank's chunk is left, and one port for each direction."""
    spokes = [(rank, 4) for rank in range(4)]
    links = [(a, b, 1.0, 1.0) for x, y in spokes for a, b in ((x, y), (y, x))]
    topology = replace(machine(5, links), is_helper=np.arange(5) >= 4)
    whole = Problem(topology, make_collective("allgather", 4).with_helpers(1), 1.0)
    part = found(whole)
    assert len(part.link_map) == 4
    assert part.problem.num_chunks == 1
    assert part.problem.topology.num_ports == 2
    lifted = part.lifted(first(part.problem))
    lifted.check()


def test_images_that_would_not_fit_into_memory_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = problem(full(5), "alltoall")
    assert quotient(whole) is not None
    monkeypatch.setattr("taccl.encoding.quotient._MOST_IMAGES", 100)
    assert quotient(whole) is None
    assert quotient(replace(whole, symmetry=(np.roll(np.arange(5), -1),))) is None


def test_a_collective_with_a_root_is_refused_before_the_network_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No symmetry moves all ranks and keeps the root; a large network takes seconds to look at."""
    requested: list[object] = []
    monkeypatch.setattr("taccl.encoding.symmetry.action.network_map", lambda *given: requested.append(given))
    assert quotient(problem(full(8), "broadcast")) is None
    assert not requested
