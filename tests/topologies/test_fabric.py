"""Levels of switches between nodes, rails, and switches that the GPUs of several nodes hang at."""

from textwrap import indent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl import bounds, make_problem, synthesize
from taccl.errors import TopologyError
from taccl.topologies import (
    automorphisms,
    bisection,
    hop_distances,
    load_profile,
    parse_topology,
    with_profile,
)

NODE = """
name: m
nodes: {nodes}
node:
  gpus: {gpus}
  nics: {gpus}
  switches: [nvs]
  links:
    - {{from: gpus, to: nvs, alpha_us: 0.5, bandwidth_gbps: 400}}
    - {{from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 50}}
"""
LEVELS = """
fabric:
  alpha_us: 2
  bandwidth_gbps: 50
  levels:
"""


def machine(*levels, nodes=4, gpus=2, more="", requested=None):
    text = NODE.format(nodes=nodes, gpus=gpus) + more
    if levels:
        text += LEVELS + indent("\n".join(f"- {{{level}}}" for level in levels), "    ")
    return parse_topology(text, requested)


def way(topology, src, dst):
    """The devices between two ranks."""
    path = topology.path(src, dst)
    return None if path is None else [topology.links[link].dst for link in path.links][:-1]


def gbps(topology, src, dst):
    """The bandwidth of the link between two devices."""
    (beta,) = [link.beta_us_per_mb for link in topology.links if (link.src, link.dst) == (src, dst)]
    return pytest.approx(1048.576 / beta)


def ports(topology, src, dst):
    """The names of the ports that the link between two ranks uses."""
    network = make_problem("allgather", topology=topology, size="1MB").problem.topology
    return [network.port_names[port] for port in network.ports[network.link_index[src, dst]]]


def test_nodes_at_one_leaf_do_not_pass_the_spine():
    m = machine("name: leaf, nodes: 2, oversubscription: 2, alpha_us: 1", "name: spine")
    assert way(m, 0, 2) == ["node0.nic0", "leaf0", "node1.nic0"]
    assert way(m, 0, 4) == ["node0.nic0", "leaf0", "spine0", "leaf1", "node2.nic0"]


def test_the_way_up_and_down_adds_the_alpha_of_the_level():
    m = machine("name: leaf, nodes: 2, oversubscription: 2, alpha_us: 1", "name: spine")
    assert m.path(0, 2).alpha_us == 2
    assert m.path(0, 4).alpha_us == 3


@pytest.mark.parametrize(
    ("says", "together"),
    [("oversubscription: 1", 200), ("oversubscription: 4", 50), ("uplinks: 3, uplink_gbps: 25", 75)],
)
def test_the_uplinks_of_a_leaf_carry_together_what_the_level_says(says, together):
    m = machine(f"name: leaf, nodes: 2, {says}", "name: spine")  # 4 NICs of 50 GB/s at each leaf
    assert gbps(m, "leaf0", "spine0") == gbps(m, "spine0", "leaf0") == together


def test_each_switch_may_have_its_own_number_of_uplinks():
    m = machine("name: leaf, nodes: 2, uplinks: [4, 1], uplink_gbps: 25", "name: spine")
    assert gbps(m, "leaf0", "spine0") == 100
    assert gbps(m, "leaf1", "spine0") == 25


def test_oversubscription_is_against_the_level_below():
    m = machine(
        "name: leaf, nodes: 1, oversubscription: 2", "name: pod, nodes: 2, oversubscription: 2", "name: core"
    )
    assert gbps(m, "leaf0", "pod0") == 50
    assert gbps(m, "pod0", "core0") == 50


def test_the_uplinks_are_those_of_the_whole_leaf_also_where_few_nodes_are_used():
    m = machine("name: leaf, nodes: 4, oversubscription: 2", "name: spine", nodes=8, requested=5)
    assert gbps(m, "leaf0", "spine0") == gbps(m, "leaf1", "spine0") == 200


def test_what_is_above_a_switch_that_joins_all_nodes_is_left_out():
    m = machine("name: leaf, nodes: 4, oversubscription: 2", "name: spine", nodes=8, requested=3)
    assert [device.name for device in m.devices if device.kind == "fabric"] == ["leaf0"]


def test_the_nics_of_a_rail_meet_at_its_leaf():
    m = machine("name: leaf, nodes: 4, rails: true, oversubscription: 1", "name: spine")
    assert way(m, 0, 6) == ["node0.nic0", "leaf0.rail0", "node3.nic0"]
    assert way(m, 0, 7) == ["node0.nic0", "leaf0.rail0", "spine0", "leaf0.rail1", "node3.nic1"]


def test_rails_without_a_spine_have_no_way_from_one_to_another():
    m = machine("name: leaf, rails: true")
    assert way(m, 1, 3) == ["node0.nic1", "leaf0.rail1", "node1.nic1"]
    assert way(m, 0, 3) is None
    assert m.host_path(0, 3) is None
    assert hop_distances(m)[0, 3] == 2


def test_a_rail_may_hold_several_nics():
    leaf = "name: leaf, nodes: 2, rails: [[nic0, 2], [1, 3]], oversubscription: 1"
    m = machine(leaf, "name: top", nodes=2, gpus=4)
    assert way(m, 0, 6) == ["node0.nic0", "leaf0.rail0", "node1.nic2"]
    assert "top0" in way(m, 0, 5)


def test_rails_may_stay_apart_up_to_the_top():
    m = machine("name: leaf, nodes: 2, rails: true, oversubscription: 1", "name: spine, rails: true")
    assert way(m, 0, 4) == ["node0.nic0", "leaf0.rail0", "spine0.rail0", "leaf1.rail0", "node2.nic0"]
    assert way(m, 0, 5) is None


def test_groups_of_nodes_may_be_listed():
    m = machine("name: leaf, groups: [[0, 3], 1-2], oversubscription: 1", "name: spine")
    assert "spine0" not in way(m, 0, 6)
    assert "spine0" in way(m, 0, 2)


def test_groups_of_nics_may_be_listed():
    groups = "[[node0.nic0, node1.nic1], [node0.nic1, node1.nic0]]"
    m = machine(f"name: leaf, groups: {groups}, oversubscription: 1", "name: spine", nodes=2)
    assert way(m, 0, 3) == ["node0.nic0", "leaf0", "node1.nic1"]
    assert "spine0" in way(m, 0, 2)


def test_a_flat_fabric_is_what_it_was():
    m = parse_topology(NODE.format(nodes=2, gpus=2) + "fabric: {alpha_us: 2, bandwidth_gbps: 50}")
    assert way(m, 0, 2) == ["node0.nic0", "fabric", "node1.nic0"]
    assert m.path(0, 2).alpha_us == 2


def test_the_uplinks_are_a_port_of_all_that_pass_them_and_of_nothing_else():
    m = machine("name: leaf, nodes: 2, oversubscription: 4", "name: spine")
    assert "leaf0 -> spine0" in ports(m, 0, 4)
    assert "leaf0 -> spine0" in ports(m, 3, 5)
    assert not any("spine" in port for port in ports(m, 0, 2))


def test_a_transfer_keeps_the_uplinks_busy_at_their_own_rate():
    m = machine("name: leaf, nodes: 2, oversubscription: 2", "name: spine")
    network = make_problem("allgather", topology=m.with_occupancy("pipelined"), size="1MB").problem.topology
    link = network.link_index[0, 4]
    _, pairs = network.pairs_of(np.array([link]))
    busy = dict(
        zip(
            [network.port_names[p] for p in network.ports[link]],
            network.port_busy_us(pairs, 1.0),
            strict=True,
        )
    )
    assert busy["leaf0 -> spine0"] == pytest.approx(busy["node0.gpu0 -> node0.nic0"] / 2)


def test_a_bound_knows_the_uplinks():
    free = machine("name: leaf, nodes: 2, oversubscription: 1", "name: spine", gpus=1)
    taken = machine("name: leaf, nodes: 2, oversubscription: 4", "name: spine", gpus=1)
    least = [bounds("alltoall", topology=m, size="32MB")[0].value_us for m in (free, taken)]
    # 2 GPUs send 2 chunks of 8 MB each through uplinks of 25 GB/s
    assert least[1] >= 4 * 8 * 1048.576 / 25 > least[0]


def test_bisection_passes_the_uplinks():
    m = machine("name: leaf, nodes: 2, oversubscription: 4", "name: spine")
    assert bisection(m).gbps == pytest.approx(50)
    assert bisection(m).part in ((0, 1, 2, 3), (4, 5, 6, 7))


def test_leaves_and_nodes_of_a_leaf_can_change_places():
    m = machine("name: leaf, nodes: 2, oversubscription: 2", "name: spine", gpus=1)
    assert len(automorphisms(m)) == 8  # both leaves, and the nodes at each
    lame = machine("name: leaf, nodes: 2, uplinks: [2, 1], uplink_gbps: 25", "name: spine", gpus=1)
    assert len(automorphisms(lame)) == 4


def test_a_switch_over_several_nodes_is_one_device():
    m = machine(more="domain: {switch: nvs, nodes: 4}")
    assert [device.name for device in m.devices if device.kind == "switch"] == ["nvs0"]
    assert way(m, 0, 7) == ["nvs0"]
    assert way(m, 0, 1) == ["nvs0"]


def test_domains_are_joined_by_the_fabric():
    m = machine("name: leaf", more="domain: {switch: nvs, nodes: 2}")
    assert way(m, 0, 3) == ["nvs0"]
    assert way(m, 0, 4) == ["node0.nic0", "leaf0", "node2.nic0"]


def test_domains_may_be_listed():
    m = machine("name: leaf", more="domain: {switch: nvs, groups: [[0, 2], [1, 3]]}")
    assert way(m, 0, 4) == ["nvs0"]
    assert way(m, 0, 2) == ["node0.nic0", "leaf0", "node1.nic0"]


def test_a_gpu_keeps_its_way_into_the_switch_of_a_domain():
    m = machine(more="domain: {switch: nvs, nodes: 4}")
    assert ports(m, 0, 7) == ["node0.gpu0 -> nvs0", "nvs0 -> node3.gpu1"]


def test_a_profile_does_not_fit_a_fabric_with_levels(tmp_path):
    profile = tmp_path / "topo-m-1MB.json"
    profile.write_text(
        '{"name": "m_1MB", "gpus_per_node": 2, "alpha": 1, "node_betas_list": [8], '
        '"remote_alpha": 2, "remote_beta": 9}'
    )
    m = machine("name: leaf, nodes: 2, oversubscription: 2", "name: spine")
    with pytest.raises(TopologyError, match="one cost between nodes"):
        with_profile(m, load_profile(profile))


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        (["name: leaf, nodes: 2", "name: spine"], "must say what its uplinks carry"),
        (["name: leaf, nodes: 2, uplinks: 2", "name: spine"], "must say what its uplinks carry"),
        (["name: leaf, oversubscription: 1", "name: spine"], "lacks the nodes below one switch"),
        (["name: leaf, nodes: 2, oversubscription: 2"], "leads nowhere"),
        (["name: leaf, nodes: 2, oversubscription: 0", "name: spine"], "must be positive"),
        (["name: leaf, nodes: 2, oversubscription: 1e300", "name: spine"], "cannot be"),
        (["name: 1leaf"], "cannot name a level"),
        (["name: leaf, nodes: 1, oversubscription: 1", "name: leaf"], "already a level 'leaf'"),
        (
            ["name: leaf, groups: [[0, 1]], oversubscription: 1", "name: spine"],
            "below no switch of the level leaf",
        ),
        (
            ["name: leaf, groups: [0-2, 2-3], oversubscription: 1", "name: spine"],
            "below both leaf0 and leaf1",
        ),
        (["name: leaf, groups: [[x]], oversubscription: 1", "name: spine"], "must be a node or a range"),
        (["name: leaf, groups: [[node0.nic9]], oversubscription: 1", "name: spine"], "must name a NIC"),
        (["name: leaf, nodes: 2, uplinks: [1], uplink_gbps: 5", "name: spine"], "1 values for 2 switches"),
        (
            [
                "name: leaf, nodes: 3, oversubscription: 1",
                "name: pod, nodes: 2, oversubscription: 1",
                "name: top",
            ],
            "leaf0 is below both pod0 and pod1",
        ),
        (
            ["name: leaf, nodes: 2, oversubscription: 1", "name: spine, rails: true"],
            "already joined by the level leaf",
        ),
        (["name: leaf, rails: [[0]]"], "leaves out nic1"),
        (["name: leaf, rails: [[0, 1], [1]]"], "already on a rail"),
        (["name: leaf, nodes: 2, oversubscripton: 1", "name: spine"], "unknown key 'oversubscripton'"),
        (["name: leaf, alpha_us: 1"], "leaf is the top level"),
    ],
)
def test_what_is_wrong_with_levels_is_told_with_its_line(levels, says):
    with pytest.raises(TopologyError, match=says) as fault:
        machine(*levels)
    assert fault.value.line is not None


@pytest.mark.parametrize(
    ("domain", "says"),
    [
        ("{switch: nv, nodes: 2}", "must name a switch of the node"),
        ("{switch: nvs}", "either 'nodes' or 'groups'"),
        ("{switch: nvs, groups: [[0, 1], [1, 2, 3]]}", "node 1 is in two"),
        ("{switch: nvs, groups: [[0, 1]]}", "leaves out node 2"),
        ("{switch: nvs, nodes: 2}", "no fabric between them"),
    ],
)
def test_what_is_wrong_with_a_domain_is_told_with_its_line(domain, says):
    with pytest.raises(TopologyError, match=says) as fault:
        machine(more=f"domain: {domain}")
    assert fault.value.line is not None


@settings(max_examples=examples(10), deadline=None)
@given(
    nodes=st.integers(1, 6),
    per_leaf=st.integers(1, 3),
    leaves=st.integers(1, 2),
    rails=st.booleans(),
    ratio=st.sampled_from([0.5, 1, 3]),
)
def test_ways_are_the_same_forth_and_back_and_longer_ways_cost_more(nodes, per_leaf, leaves, rails, ratio):
    m = machine(
        f"name: leaf, nodes: {per_leaf}, rails: {str(rails).lower()}, oversubscription: {ratio}, alpha_us: 1",
        f"name: pod, nodes: {per_leaf * leaves}, oversubscription: {ratio}, alpha_us: 1",
        "name: core",
        nodes=nodes,
    )
    for a in range(m.num_ranks):
        for b in range(m.num_ranks):
            if a == b:
                continue
            path, back = m.path(a, b), m.path(b, a)
            assert path.alpha_us == pytest.approx(back.alpha_us)
            assert path.beta_us_per_mb == pytest.approx(back.beta_us_per_mb)
            names = way(m, a, b)
            passed = sum(name.startswith(("pod", "core")) for name in names)
            if a // 2 != b // 2:
                assert path.alpha_us == pytest.approx(2 + (passed > 0) + (passed > 1))


@settings(max_examples=6, deadline=None)
@given(
    ratio=st.sampled_from([0.5, 2, 8]),
    rails=st.booleans(),
    collective=st.sampled_from(["allgather", "alltoall", "allreduce"]),
    occupancy=st.sampled_from(["serial", "pipelined"]),
)
def test_no_bound_stands_above_a_schedule(ratio, rails, collective, occupancy):
    m = machine(
        f"name: leaf, nodes: 1, rails: {str(rails).lower()}, oversubscription: {ratio}, alpha_us: 1",
        "name: spine",
        nodes=2,
    ).with_occupancy(occupancy)
    found = synthesize(collective, topology=m, size="8MB", chunks=1, engine="greedy", effort=200)
    found.schedule.check()
    proven = bounds(collective, topology=m, size="8MB", chunks=1)
    assert max(each.value_us for each in proven) <= found.schedule.makespan_us * (1 + 1e-9)


def test_taccls_split_of_nics_keeps_the_uplinks_shared(tmp_path):
    m = machine("name: leaf, nodes: 2, oversubscription: 8", "name: spine")
    sketch = tmp_path / "split.yaml"
    sketch.write_text(
        "intranode: {strategy: none}\ninternode: {strategy: fully-connected, nic_sharing: static}\n"
    )
    network = make_problem("allgather", topology=m, size="1MB", sketch=str(sketch)).problem.topology
    shared = set(network.ports[network.link_index[0, 4]]) & set(network.ports[network.link_index[1, 6]])
    assert [network.port_names[port] for port in shared] == ["leaf0 -> spine0"]


def test_taccls_split_of_nics_leaves_domains_alone(tmp_path):
    m = machine("name: leaf", more="domain: {switch: nvs, nodes: 2}")
    sketch = tmp_path / "split.yaml"
    sketch.write_text(
        "intranode: {strategy: none}\ninternode: {strategy: fully-connected, nic_sharing: static}\n"
    )
    network = make_problem("allgather", topology=m, size="1MB", sketch=str(sketch)).problem.topology
    assert network.beta_us_per_mb[network.link_index[0, 2]] == pytest.approx(1048.576 / 400)
    assert network.beta_us_per_mb[network.link_index[0, 4]] == pytest.approx(4 * 1048.576 / 50)
