"""Hierarchical composition: one node's part of a collective, which all equal nodes do at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import ring
from studies import examples

from taccl import make_problem
from taccl.encoding.bounds import quick_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.hierarchical import cluster as cluster_module
from taccl.encoding.engines.hierarchical import hierarchical, serves
from taccl.encoding.engines.hierarchical.cluster import cluster_of
from taccl.encoding.engines.hierarchical.composed import timed
from taccl.encoding.engines.hierarchical.engine import _divided_plans, _falling_plans, _mixed_plans
from taccl.encoding.engines.hierarchical.rails import rails_of
from taccl.encoding.engines.hierarchical.rounds import RoundCosts, falling, rounds, widths
from taccl.encoding.engines.hierarchical.sends import sends_of
from taccl.encoding.instance import Instance
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

COMPOSED = ["allgather", "reducescatter", "allreduce"]


def composed(requested: Problem) -> Schedule:
    instance = Instance(requested)
    assert serves(instance)
    (update,) = hierarchical(instance, SearchOptions(), Budget.of_work(500), None)
    assert update.schedule is not None
    update.schedule.check()
    return update.schedule


def of(
    name: str, collective: str, nodes: int, chunks: int = 1, size: str = "64MB", **requested: object
) -> Problem:
    return make_problem(collective, topology=name, nodes=nodes, size=size, chunks=chunks, **requested).problem


def cluster(num_nodes: int, gpus: int, distances: list[int]) -> LogicalTopology:
    """Nodes whose GPUs are all linked, and rails to the nodes at these distances: a NIC each way per GPU."""
    links = []
    for node in range(num_nodes):
        for gpu in range(gpus):
            rank = node * gpus + gpu
            out, into = f"{rank} out", "{} in"
            links += [
                (rank, node * gpus + other, 1.0, 1.0, [f"{rank} to {other}"])
                for other in range(gpus)
                if other != gpu
            ]
            for distance in distances:
                end = (node + distance) % num_nodes * gpus + gpu
                links.append((rank, end, 2.0, 4.0, [out, into.format(end)]))
    names = sorted({port for *_, ports in links for port in ports})
    src, dst, alpha, beta, ports = zip(*sorted(links), strict=True)
    return LogicalTopology(
        "cluster",
        np.arange(num_nodes * gpus) // gpus,
        np.array(src),
        np.array(dst),
        np.array(alpha),
        np.array(beta),
        tuple(tuple(names.index(port) for port in each) for each in ports),
        tuple(names),
    )


@settings(max_examples=examples(8), deadline=None)
@given(
    st.integers(2, 7),
    st.sampled_from([2, 3, 4, 5]),
    st.booleans(),
    st.sampled_from(COMPOSED),
    st.integers(1, 3),
    st.sampled_from([1, 2, 71]),
)
def test_every_schedule_is_valid_and_no_faster_than_the_bounds(
    num_nodes, gpus, sparse, name, chunks, most
) -> None:
    distances = sorted({1, num_nodes - 1}) if sparse else list(range(1, num_nodes))
    topology = cluster(num_nodes, gpus, distances)
    requested = machine_problem(topology, name, chunks, most)
    found = composed(requested)
    assert found.makespan_us >= quick_bound(Instance(requested)).value_us * (1 - 1e-9)
    assert found.sends.count.max() <= most


def machine_problem(topology: LogicalTopology, name: str, chunks: int, most: int) -> Problem:
    return Problem(topology, make_collective(name, topology.num_ranks, chunks), 1.0, max_group=most)


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.parametrize("box", ["a100", "ndv2"])
def test_boxes_with_nics_of_their_own_and_with_shared_ones_are_composed(box: str, name: str) -> None:
    found = composed(of(box, name, 2))
    assert found.makespan_us > 0.0


def test_all_reduce_sums_at_the_owners_and_takes_the_time_of_both_halves() -> None:
    times = {name: composed(of("a100", name, 3)).makespan_us for name in COMPOSED}
    assert times["allgather"] == pytest.approx(times["reducescatter"])
    assert times["allreduce"] <= times["allgather"] + times["reducescatter"] + 1e-6


def test_wide_rounds_send_a_node_s_chunks_together() -> None:
    # Where alpha is half of what a chunk takes, a node's 4 chunks pay it once.
    requested = machine_problem(cluster(14, 4, list(range(1, 14))), "allgather", 1, 71)
    sends = composed(requested).sends
    assert sends.count[requested.topology.internode[sends.link]].max() == 4


@given(st.integers(1, 300), st.sampled_from([(8, 8), (8, 4), (8, 1), (6, 3), (16, 8)]), st.booleans())
def test_rounds_serve_every_node_once(nodes: int, box: tuple[int, int], tapered: bool) -> None:
    gpus, rails = box
    for widest in widths(gpus, rails):
        each = rounds(nodes, gpus, rails, widest, tapered)
        assert sum(rails * width // gpus for width in each) == nodes
        assert max(each) <= max(widest, min(widths(gpus, rails)))


#: Nodes spread what came faster than rails bring it, but not by much.
TIGHT = RoundCosts(2.7, 21.8, 4.9, 19.8)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 90),
    st.sampled_from([(8, 8), (8, 4), (8, 1), (5, 5), (6, 3), (16, 8)]),
    st.integers(1, 6),
    st.integers(3, 64),
)
def test_rounds_that_fall_bring_each_node_each_chunk_once_over_rails_that_carry_alike(
    nodes: int, box: tuple[int, int], each: int, most: int
) -> None:
    gpus, rails = box
    for plan in falling(nodes, gpus, rails, each, most, TIGHT):
        brought = np.zeros((nodes, gpus * each), dtype=np.int64)
        for pieces in plan:
            assert len({piece.last - piece.first for piece in pieces}) == 1 and len(pieces) == rails
            for piece in pieces:
                brought[piece.node, piece.first : piece.last] += 1
        assert (brought == 1).all()


def test_rounds_fall_as_fast_as_nodes_spread_what_came() -> None:
    best = next(falling(63, 8, 8, 4, 64, TIGHT))
    wide = [pieces[0].last - pieces[0].first for pieces in best]
    fall = wide[wide.index(max(wide)) :]
    assert fall == sorted(fall, reverse=True)
    assert fall[-1] <= fall[0] / 3


def test_rounds_that_fall_are_nearer_to_the_bound_than_divided_ones() -> None:
    # Links inside are nearly as busy as rails: what comes last is spread soon only where it is little.
    topology = cluster(11, 4, list(range(1, 11)))
    slow = replace(topology, beta_us_per_mb=np.where(topology.internode, 4.0, 3.6))
    requested = machine_problem(slow, "allgather", 4, 71)
    cluster_found = cluster_of(requested)
    ends = []
    for plans in (_falling_plans, _divided_plans):
        rails = rails_of(cluster_found, slow, both_directions=False)[0]
        routes = (
            timed(cluster_found, sends_of(cluster_found, slow, rails, plan, 4, most), False, True)
            for plan, most in plans(cluster_found, slow, rails, Budget.of_work(1_000_000))
        )
        ends.append(min(way.makespan_us for way in routes))
    assert ends[0] < 0.98 * ends[1]


def declined(requested: Problem) -> str:
    return serves(Instance(requested)).reason


def test_what_is_no_cluster_of_equal_nodes_is_declined_with_the_reason() -> None:
    assert "a node is all there is" in declined(machine_problem(ring(4), "allgather", 1, 1))
    assert "it composes AllGather" in declined(of("a100", "alltoall", 2))
    equal = cluster(3, 2, [1, 2])
    slower = equal.beta_us_per_mb.copy()
    slower[0] = 9.0
    lame = replace(equal, beta_us_per_mb=slower)
    assert "no symmetries take every node" in declined(machine_problem(lame, "allgather", 1, 1))
    apart = replace(equal, node_of=np.array([0, 1, 0, 1, 2, 2]))
    assert "do not follow one another" in declined(machine_problem(apart, "allgather", 1, 1))


def test_a_sketch_s_rules_are_left_to_other_engines() -> None:
    topology = cluster(2, 2, [1])
    requested = machine_problem(topology, "allgather", 1, 1)
    rules = RoutingLimits(may_use=np.ones((topology.num_ranks, topology.num_links), dtype=np.bool_))
    assert "a sketch says" in declined(replace(requested, limits=rules))


def test_where_two_gpus_share_a_nic_rails_of_one_of_them_pay_fewer_alphas() -> None:
    requested = of("dgx2", "allgather", 4, size="1MB", executor=False)
    every = rails_of(cluster_of(requested), requested.topology, both_directions=True)
    assert [len(rails.pairs) for rails in every] == [16, 8]
    # Over all 16 rails it takes 25.19 us.
    assert composed(requested).makespan_us < 23.1


@pytest.mark.parametrize(
    ("machine", "nodes", "at_least"), [("dgx-h100", 4, 8), ("fat-tree:16x4x2:2", None, 1)]
)
def test_without_time_one_plan_of_large_nodes_is_tried(
    machine: str, nodes: int | None, at_least: int
) -> None:
    """A plan of two nodes of 64 GPUs takes most of a second."""
    requested = make_problem("allgather", topology=machine, nodes=nodes, size="1MB", chunks=1).problem
    alone = Instance(requested).members_instance or Instance(requested)
    found = cluster_of(alone.problem)
    assert not isinstance(found, str)
    assert found.at_least == at_least


@pytest.mark.parametrize("collective", COMPOSED)
@pytest.mark.parametrize("name", ["dgx2", "dgx-h100"])
def test_nodes_that_take_long_have_a_schedule_without_time(
    name: str, collective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of two nodes of 64 GPUs, with teams of fewer rails than there are left out."""
    monkeypatch.setattr(cluster_module, "SOON_PLANNED", 0)
    requested = of(name, collective, 2, without=["nvswitch"] if name == "dgx-h100" else [])
    (update,) = hierarchical(Instance(requested), SearchOptions(), Budget.of_work(0), None)
    assert update.schedule is not None
    update.schedule.check()


def test_mixed_plans_without_time_know_the_teams_that_all_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "SOON_PLANNED", 0)
    requested = of("dgx2", "allgather", 4)
    equal = cluster_of(requested)
    assert not isinstance(equal, str)
    assert equal.takes_long
    (rails, *_) = rails_of(equal, requested.topology, both_directions=False)
    assert list(_mixed_plans(equal, requested.topology, rails, Budget.of_work(0)))
