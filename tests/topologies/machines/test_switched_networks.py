"""Fat trees and dragonflies: their sizes, what they can move, and which routes are taken."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl import bounds, make_problem, synthesize
from taccl.errors import TacclError
from taccl.model.units import MB, bandwidth_gbps
from taccl.sketch.equal_nodes import paths_of_equal_nodes
from taccl.sketch.layout import layout_of
from taccl.topologies import bisection, build_topology
from taccl.topologies.machines.dragonfly import dragonfly
from taccl.topologies.machines.fat_tree import fat_tree

SIZES = st.integers(1, 3)


def switches_on(topology, src, dst):
    """The devices between two GPUs on the way that a transfer takes."""
    return [topology.links[link].dst for link in topology.path(src, dst).links][:-1]


def gbps(topology, src, dst):
    (link,) = (each for each in topology.links if (each.src, each.dst) == (src, dst))
    return bandwidth_gbps(MB, link.beta_us_per_mb)


def pairs_through(topology):
    """How many pairs of GPUs each link between switches serves."""
    names = {device.name for device in topology.devices if device.kind != "gpu"}
    used = Counter()
    for src in range(topology.num_ranks):
        for path in topology.paths_from(src).values():
            used.update(path.links)
    return {
        (link.src, link.dst): used[number]
        for number, link in enumerate(topology.links)
        if {link.src, link.dst} <= names
    }


# ---- fat trees


def test_hosts_of_a_leaf_meet_there_and_others_at_the_spine():
    tree = fat_tree(2, 3)
    assert (tree.num_ranks, tree.num_nodes) == (6, 3)
    assert switches_on(tree, 0, 1) == ["node0.leaf0"]
    assert switches_on(tree, 0, 5) == ["node0.leaf0", "spine", "node2.leaf0"]
    assert tree.path(0, 1).alpha_us == pytest.approx(2.7)
    assert tree.path(0, 5).alpha_us == pytest.approx(3.2)


def test_leaves_of_a_pod_meet_at_its_spine_and_pods_at_the_core():
    tree = fat_tree(1, 2, 2)
    assert (tree.num_ranks, tree.num_nodes) == (4, 2)
    assert switches_on(tree, 0, 1) == ["node0.leaf0", "node0.spine", "node0.leaf1"]
    assert switches_on(tree, 1, 2) == ["node0.leaf1", "node0.spine", "core", "node1.spine", "node1.leaf0"]
    assert tree.path(1, 2).alpha_us == pytest.approx(2.7 + 2 * 0.5)


def test_a_k_ary_fat_tree_has_k_pods_of_k_half_leaves_with_k_half_hosts_each():
    assert fat_tree(4).name == "fat-tree:4"
    assert fat_tree(4).devices == fat_tree(2, 2, 4).devices
    assert fat_tree(4).links == fat_tree(2, 2, 4).links
    assert fat_tree(16).num_ranks == 1024


@pytest.mark.parametrize(("hosts", "leaves", "ratio"), [(2, 4, 1), (4, 4, 2), (3, 2, 1.5), (2, 8, 4)])
def test_half_of_the_leaves_reach_the_others_with_what_their_uplinks_carry(hosts, leaves, ratio):
    halves = bisection(fat_tree(hosts, leaves, oversubscription=ratio, bandwidth_gbps=10))
    assert halves.gbps == pytest.approx(leaves / 2 * hosts * 10 / ratio, rel=1e-6)


@pytest.mark.parametrize("ratios", [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_half_of_the_pods_reach_the_others_with_what_is_left_after_both_levels(ratios):
    halves = bisection(fat_tree(2, 2, 4, oversubscription=ratios, bandwidth_gbps=10))
    assert halves.gbps == pytest.approx(2 * 2 * 2 * 10 / (ratios[0] * ratios[1]), rel=1e-6)


def test_an_oversubscribed_leaf_is_a_port_that_its_hosts_share():
    problem = make_problem("alltoall", topology="fat-tree:4x2:4", size="1MB").problem
    network = problem.topology
    port = network.port_names.index("node0.leaf0 -> spine")
    sharing = [pair for pair, link in network.link_index.items() if port in network.ports[link]]
    assert sorted(sharing) == [(src, dst) for src in range(4) for dst in range(4, 8)]
    strongest = bounds("alltoall", topology="fat-tree:4x2:4", size="64MB")[0]
    assert "spine -> node" in strongest.witness
    free = bounds("alltoall", topology="fat-tree:4x2", size="64MB")[0]
    assert strongest.value_us > 2 * free.value_us


def test_an_oversubscription_in_the_name_is_that_of_the_levels_from_below():
    tree = build_topology("fat-tree:4x2x2:2:1.5", bandwidth_gbps=10)
    assert tree.name == "fat-tree:4x2x2:2:1.5"
    assert gbps(tree, "node0.gpu0", "node0.leaf0") == pytest.approx(10)
    assert gbps(tree, "node0.leaf0", "node0.spine") == pytest.approx(4 * 10 / 2)
    assert gbps(tree, "node0.spine", "core") == pytest.approx(2 * 20 / 1.5)
    assert build_topology("fat-tree:4x2:2:1").links == build_topology("fat-tree:4x2:2").links


# ---- dragonflies


def test_a_way_between_groups_passes_one_global_link_and_at_most_a_local_one_on_either_side():
    fly = dragonfly(5, 2, 1, 2)
    for src in range(fly.num_ranks):
        for dst, path in fly.paths_from(src).items():
            nodes = [fly.gpus[src].node, *(name.split(".")[0] for name in switches_on(fly, src, dst))]
            assert len(set(nodes[1:])) == (1 if fly.gpus[src].node == fly.gpus[dst].node else 2)
            assert len(path.links) <= 5


def test_no_way_makes_a_detour_through_a_third_group_where_local_links_are_slow():
    fly = dragonfly(5, 2, 1, 2, local_gbps=1, global_gbps=100, local_alpha_us=9)
    assert switches_on(fly, 0, 1) == ["node0.router0", "node0.router1"]
    for dst, path in fly.paths_from(0).items():
        assert sum(fly.links[link].beta_us_per_mb < MB / 50e3 for link in path.links) == (dst > 1)


def test_two_groups_have_as_many_global_links_as_there_are_ports_for():
    fly = dragonfly(3, 2, 1, 2)
    between = [(link.src, link.dst) for link in fly.links if link.src.split(".")[0] != link.dst.split(".")[0]]
    pairs = Counter(tuple(end.split(".")[0] for end in ends) for ends in between)
    assert set(pairs.values()) == {2}
    assert len(pairs) == 6


@pytest.mark.parametrize("sizes", [(3, 4, 2, 1), (4, 3, 2, 3), (5, 4, 1, 2)])
def test_equally_short_ways_are_dealt_out_over_the_global_links_of_two_groups(sizes):
    fly = dragonfly(*sizes)
    crossing = {
        ends: pairs
        for ends, pairs in pairs_through(fly).items()
        if ends[0].split(".")[0] != ends[1].split(".")[0]
    }
    groups, routers, hosts, ports = sizes
    fair = (routers * hosts) ** 2 / (routers * ports // (groups - 1))
    assert min(crossing.values()) > 0
    assert max(crossing.values()) <= 1.5 * fair


@pytest.mark.parametrize(("sizes", "links"), [((4, 2, 1, 2), 1), ((2, 2, 2, 1), 2), ((4, 4, 2, 3), 4)])
def test_half_of_the_groups_reach_the_others_over_their_global_links(sizes, links):
    groups = sizes[0]
    fly = dragonfly(*sizes, bandwidth_gbps=10, local_gbps=1000, global_gbps=2)
    assert bisection(fly).gbps == pytest.approx((groups // 2) ** 2 * links * 2, rel=1e-6)


def test_without_a_number_of_global_links_there_are_as_few_as_join_all_groups():
    assert dragonfly(9, 4, 2).links == dragonfly(9, 4, 2, 2).links
    assert dragonfly(9, 4, 2).name == "dragonfly:9x4x2"


# ---- both


@pytest.mark.parametrize(
    ("name", "collective"),
    [("fat-tree:1x2x2", "allgather"), ("fat-tree:2x3:2", "allreduce"), ("dragonfly:3x2x1", "alltoall")],
)
def test_schedules_on_them_are_near_what_nothing_beats(name, collective):
    found = synthesize(collective, topology=name, size="64MB", chunks=2, effort=300)
    assert 0 <= found.gap < 0.35
    found.schedule.check()


@settings(deadline=None, max_examples=40)
@given(st.lists(SIZES, min_size=2, max_size=3), st.lists(SIZES, min_size=3, max_size=3))
def test_every_host_has_a_way_to_every_other(tree_sizes, fly_sizes):
    for build, sizes in ((fat_tree, tree_sizes), (dragonfly, fly_sizes)):
        try:
            machine = build(*sizes)
        except TacclError:
            assert not any(size > 1 for size in sizes)
            continue
        for src in range(machine.num_ranks):
            assert sorted(machine.paths_from(src)) == [
                rank for rank in range(machine.num_ranks) if rank != src
            ]


def test_costs_are_parameters():
    tree = fat_tree(2, 2, alpha_us=1, level_alpha_us=4, beta_us_per_mb=8, occupancy="serial")
    assert (tree.path(0, 1).alpha_us, tree.path(0, 3).alpha_us) == (1, 5)
    assert (tree.path(0, 3).beta_us_per_mb, tree.occupancy) == (8, "serial")
    fly = dragonfly(2, 2, 1, 1, alpha_us=1, local_alpha_us=2, global_alpha_us=4, global_gbps=5)
    assert sorted({fly.path(0, dst).alpha_us for dst in (1, 2, 3)}) == [3, 5, 7]
    assert bandwidth_gbps(MB, fly.path(0, 2).beta_us_per_mb) == pytest.approx(5)


@pytest.mark.parametrize(
    "name", ["fat-tree:3x4:2", "fat-tree:2x2x3", "dragonfly:5x4x2x2", "dragonfly:4x3x2x3"]
)
def test_nodes_are_alike_so_ways_of_one_are_those_of_all_when_there_are_too_many_to_look_for(name):
    machine = build_topology(name)
    paths = paths_of_equal_nodes(machine, layout_of(machine))
    hosts = machine.num_ranks // machine.num_nodes
    assert len(paths) == machine.num_ranks * (hosts - 1 + machine.num_nodes - 1)
    assert all(path == machine.path(path.src_rank, path.dst_rank) for path in paths)


@pytest.mark.parametrize(
    ("name", "params", "message", "hint"),
    [
        ("fat-tree", {}, "fat-tree needs a shape", "fat-tree:8x8"),
        ("fat-tree:2x2x2x2", {}, "no shape of a fat-tree", "fat-tree:8x8"),
        ("fat-tree:4x4:", {}, "no shape of a fat-tree", "fat-tree:8x8"),
        ("fat-tree:4x4:two", {}, "no shape of a fat-tree", "fat-tree:8x8"),
        ("fat-tree:0x4", {}, "1 or more of each, not 'fat-tree:0x4'", "16x8"),
        ("fat-tree:7", {}, "even number of ports, not 'fat-tree:7'", "fat-tree:8"),
        ("fat-tree:1x1", {}, "2 to 4096 hosts, and 'fat-tree:1x1' has 1", "16x8"),
        ("fat-tree:100x100", {}, "2 to 4096 hosts, and 'fat-tree:100x100' has 10000", "16x8"),
        ("fat-tree:4x4:0", {}, "oversubscription must be from 0.0001", None),
        ("fat-tree:4x4:2:2", {}, "2 levels has an oversubscription of 1, not of 2", "the top"),
        ("fat-tree:4x4:2", {"oversubscription": 2}, "has an oversubscription already", "one of them"),
        ("fat-tree:4x4", {"oversubscription": "2"}, "is a number for each level, not '2'", None),
        ("fat-tree:4x4", {"level_alpha_us": -1}, "level_alpha_us must be from 0", None),
        ("fat-tree:4x4", {"level_alpha": 1}, "takes no parameter 'level_alpha'", "level_alpha_us"),
        ("torus:4x4:2", {}, "no shape of a torus", "torus:4x4"),
        ("dragonfly:4x4", {}, "no shape of a dragonfly", "dragonfly:8x4x2"),
        ("dragonfly:0x4x2", {}, "not 'dragonfly:0x4x2'", "9x4x2x2"),
        ("dragonfly:9x4x2x1", {}, "4 global links of a group, and 8 other groups", "dragonfly:9x4x2x2"),
        ("dragonfly:1x1x1", {}, "2 to 4096 hosts, and 'dragonfly:1x1x1' has 1", "9x4x2x2"),
        ("dragonfly:1x4000x1", {}, "too large to build: 262144 links fit", "9x4x2x2"),
        ("dragonfly:2x2x2", {"global_gbps": 0}, "global_gbps must be positive", None),
        ("dragonfly:2x2x2", {"local_alpha_us": -1}, "local_alpha_us must be from 0", None),
    ],
)
def test_a_network_that_cannot_be_is_refused_with_advice(name, params, message, hint):
    with pytest.raises(TacclError) as caught:
        build_topology(name, **params)
    assert message in caught.value.message
    assert hint is None or hint in caught.value.hint


def test_some_nodes_of_a_network_keep_their_links_and_the_rest_is_not_there():
    part = build_topology("fat-tree:2x4:2", nodes=3)
    assert (part.num_nodes, part.num_ranks) == (3, 6)
    assert switches_on(part, 0, 5) == ["node0.leaf0", "spine", "node2.leaf0"]
    assert gbps(part, "node0.leaf0", "spine") == pytest.approx(50)
    assert {device.kind for device in build_topology("fat-tree:2x4", nodes=1).devices} == {"gpu", "switch"}
    assert build_topology("dragonfly:5x2x1", nodes=5).links == build_topology("dragonfly:5x2x1").links
    for nodes in (0, 5, 1.5):
        with pytest.raises(TacclError, match="fat-tree:2x4 has 4 nodes, so it cannot have"):
            build_topology("fat-tree:2x4", nodes=nodes)
