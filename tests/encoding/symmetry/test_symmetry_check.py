"""The one check of what is a symmetry, next to a plain one, and what it forgives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import full, networks, problem, ring, two_nodes
from studies import examples

from taccl.encoding.symmetry.action import action_of, is_automorphism
from taccl.model.automorphism import Broken, broken_by, network_map
from taccl.model.collective import IntArray
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.tolerance import SAME_COST


def is_plainly_one(topology: LogicalTopology, limits: RoutingLimits, ranks: list[int]) -> bool:
    """Link by link and port by port, with dictionaries."""
    for one in range(topology.num_ranks):
        for other in range(topology.num_ranks):
            together = topology.node_of[one] == topology.node_of[other]
            if together != (topology.node_of[ranks[one]] == topology.node_of[ranks[other]]):
                return False
    image: dict[int, int] = {}
    for (src, dst), link in topology.link_index.items():
        to = topology.link_index.get((ranks[src], ranks[dst]))
        if to is None:
            return False
        for cost in (topology.alpha_us, topology.beta_us_per_mb):
            if abs(cost[link] - cost[to]) > 1e-9 * cost[link]:
                return False
        image[link] = to
    link_of, beta = topology.incidence[0].tolist(), topology.pair_betas.tolist()
    before, after = (
        sorted(
            sorted(
                (each if moved is None else moved[each], beta[pair])
                for pair in pairs
                for each in [link_of[pair]]
            )
            for pairs in (pairs.tolist() for pairs in topology.port_pairs)
        )
        for moved in (None, image)
    )
    if before != after:
        return False
    return limits.may_use is None or all(
        limits.may_use[owner, link] == limits.may_use[ranks[owner], image[link]]
        for owner in range(topology.num_ranks)
        for link in range(topology.num_links)
    )


@settings(max_examples=examples(100), deadline=None)
@given(networks(most_ranks=4, alphas=(1.0,), betas=(1.0, 2.0)), st.data())
def test_it_says_what_a_plain_check_says(topology: LogicalTopology, data: st.DataObject) -> None:
    ranks = data.draw(st.permutations(range(topology.num_ranks)))
    limits = RoutingLimits()
    if data.draw(st.booleans()):
        closed = data.draw(st.integers(0, topology.num_links - 1))
        may_use = np.ones((topology.num_ranks, topology.num_links), dtype=np.bool_)
        may_use[:, closed] = False
        limits = RoutingLimits(may_use=may_use)
    reason = broken_by(np.array(ranks), topology, limits)
    assert (reason is None) == is_plainly_one(topology, limits, ranks), reason


@settings(max_examples=60, deadline=None)
@given(networks(most_ranks=4, alphas=(1.0,), betas=(1.0,)), st.data())
def test_ports_go_with_their_links(topology: LogicalTopology, data: st.DataObject) -> None:
    ranks = np.array(data.draw(st.permutations(range(topology.num_ranks))))
    found = network_map(ranks, topology, RoutingLimits())
    if isinstance(found, Broken):
        return
    for port, links in enumerate(topology.port_links):
        assert sorted(found.links[list(links)].tolist()) == list(topology.port_links[found.ports[port]])
    link, port = topology.incidence
    assert (link[found.pairs] == found.links[link]).all()
    assert (port[found.pairs] == found.ports[port]).all()


def ring_with(beta: IntArray) -> LogicalTopology:
    return replace(ring(len(beta)), beta_us_per_mb=beta, port_betas=None)


def turn(ranks: int) -> IntArray:
    return np.roll(np.arange(ranks), -1)


def test_costs_that_differ_by_rounding_are_equal() -> None:
    beta = np.ones(8)
    beta[::2] = np.nextafter(1.0, 2.0)
    found = action_of(problem(ring_with(beta), "allgather"), turn(8))
    assert not isinstance(found, Broken)
    assert not found.is_exact
    exact = action_of(problem(ring(8), "allgather"), turn(8))
    assert not isinstance(exact, Broken)
    assert exact.is_exact


def test_the_tolerance_is_a_part_of_the_cost() -> None:
    for scale in (1e-3, 1.0, 1e3):
        for part, same in ((0.9 * SAME_COST, True), (1.2 * SAME_COST, False)):
            beta = np.full(4, scale)
            beta[1] *= 1 + part
            assert is_automorphism(problem(ring_with(beta), "allgather"), turn(4)) is same


def test_the_most_unlike_link_is_told_with_how_unlike_it_is() -> None:
    beta = np.array([1.0, 1.0, 1.02, 1.25])
    reason = broken_by(turn(4), ring_with(beta), RoutingLimits())
    assert reason == (
        "link 3 -> 0 has beta 1.25 us/MB, but 0 -> 1, where it goes, has 1 us/MB "
        "(0.2 of it, the most of 3 links)"
    )


def test_costs_that_look_equal_are_told_with_the_digits_that_differ() -> None:
    beta = np.array([1.0, 1.0, 1.0, 1.00000001])
    reason = broken_by(turn(4), ring_with(beta), RoutingLimits())
    assert reason is not None
    assert "has beta 1 us/MB, but 3 -> 0, where it goes, has 1.00000001 us/MB" in reason


def test_what_is_no_permutation_is_no_symmetry() -> None:
    for ranks in ([0, 0, 1, 2], [1, 2, 3], [1, 2, 3, 4]):
        reason = broken_by(np.array(ranks), ring(4), RoutingLimits())
        assert reason == "it is no permutation of the ranks 0 .. 3"


@pytest.mark.parametrize(("column", "what"), [("may_sum", "may sum"), ("may_copy", "may copy")])
def test_ranks_that_can_do_less_go_to_such_ranks(column: str, what: str) -> None:
    topology = replace(ring(3), **{column: np.array([True, True, False])})
    reason = broken_by(turn(3), topology, RoutingLimits())
    assert reason == f"rank 1 is a rank that {what}, but rank 2, where it goes, is not"


def test_helpers_go_to_helpers() -> None:
    topology = replace(full(3), is_helper=np.array([False, False, True]))
    assert broken_by(np.array([1, 0, 2]), topology, RoutingLimits()) is None
    reason = broken_by(turn(3), topology, RoutingLimits())
    assert reason == "rank 1 is not a helper, but rank 2, where it goes, is"


def test_chunks_go_to_chunks_of_their_size() -> None:
    plain = problem(ring(4), "allgather")
    for sizes, steps in (([1, 2, 1, 2], {2}), ([1, 1, 1, 1], {1, 2, 3}), ([1, 2, 3, 4], set())):
        sized = replace(plain, sizes=np.array(sizes, dtype=np.float64))
        kept = {step for step in (1, 2, 3) if is_automorphism(sized, np.roll(np.arange(4), -step))}
        assert kept == steps


@pytest.mark.parametrize("column", ["ready_us", "tail_us"])
def test_inputs_and_outputs_keep_their_moments(column: str) -> None:
    plain = Problem(ring(4), make_collective("alltoall", 4), 1.0)
    rows = plain.collective.inputs if column == "ready_us" else plain.collective.outputs
    by_rank = np.array([0.0, 5.0, 0.0, 5.0])
    timed = replace(plain, **{column: by_rank[rows.rank]})
    assert is_automorphism(timed, np.array([2, 3, 0, 1]))
    assert not is_automorphism(timed, turn(4))


def test_nodes_may_change_places_whole() -> None:
    assert is_automorphism(problem(two_nodes(), "allgather"), np.array([2, 3, 0, 1]))
    crossed = replace(full(4), node_of=np.array([0, 0, 1, 1]))
    reason = broken_by(turn(4), crossed, RoutingLimits())
    assert reason == "ranks 0 and 1 share a node, but ranks 1 and 2, where they go, do not"
