from collections import Counter

import pytest

from taccl.errors import TopologyError
from taccl.model.units import beta_from_bandwidth
from taccl.topologies import dgx2, dgx2_teccl, ndv2, ndv2_teccl


def costs(topology, pairs):
    return {(p.alpha_us, p.beta_us_per_mb) for p in (topology.path(*pair) for pair in pairs)}


def pairs(topology, same_node):
    gpus = topology.gpus
    return [
        (a, b)
        for a in range(len(gpus))
        for b in range(len(gpus))
        if a != b and (gpus[a].node == gpus[b].node) == same_node
    ]


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_ranks_count_through_the_nodes(nodes):
    for topology, per_node in ((dgx2(nodes), 16), (ndv2(nodes), 8)):
        assert topology.num_nodes == nodes
        assert [(gpu.node, gpu.local) for gpu in topology.gpus] == [
            divmod(rank, per_node) for rank in range(nodes * per_node)
        ]


def test_a_dgx2_has_the_published_costs():
    topology = dgx2(2)
    assert costs(topology, pairs(topology, same_node=True)) == {(0.3, 8)}
    assert costs(topology, pairs(topology, same_node=False)) == {(2.6, 105)}


def test_two_gpus_of_a_dgx2_share_one_nic():
    topology = dgx2(2)
    out = {rank: topology.path(rank, 16).links[1] for rank in range(16)}
    assert sorted(Counter(out.values()).values()) == [2] * 8
    assert all(out[2 * k] == out[2 * k + 1] for k in range(8))


def test_the_links_of_a_dgx2_gpu_to_its_switch_are_on_all_its_paths():
    topology = dgx2(1)
    assert {topology.path(3, dst).links[0] for dst in range(16) if dst != 3} == {topology.path(3, 0).links[0]}
    assert len({topology.path(src, 3).links[-1] for src in range(16) if src != 3}) == 1


def test_an_ndv2_has_eight_double_and_eight_single_nvlinks_each_way():
    topology = ndv2(1)
    found = [topology.path(*pair) for pair in pairs(topology, same_node=True)]
    assert Counter((p.alpha_us, p.beta_us_per_mb) for p in found if p) == {(0.3, 23): 16, (0.3, 46): 16}
    assert topology.path(0, 4).beta_us_per_mb == 23
    assert topology.path(0, 2).beta_us_per_mb == 46
    assert all(sum(topology.path(g, h) is not None for h in range(8)) == 4 for g in range(8))


def test_only_gpus_0_and_1_of_an_ndv2_node_reach_another_node_and_they_share_the_nic():
    topology = ndv2(3)
    reaching = {(a % 8, b % 8) for a, b in pairs(topology, same_node=False) if topology.path(a, b)}
    assert reaching == {(0, 0), (0, 1), (1, 0), (1, 1)}
    zero, one = topology.path(0, 8), topology.path(1, 9)
    assert (zero.alpha_us, zero.beta_us_per_mb) == (2.6, 105)
    shared = {topology.links[link].src for link in set(zero.links) & set(one.links)}
    assert shared == {"node0.pcie", "node0.nic0", "fabric", "node1.nic0"}


@pytest.mark.parametrize("build", [dgx2, ndv2])
def test_one_node_has_nics_and_no_fabric(build):
    topology = build(1)
    kinds = {device.kind for device in topology.devices}
    assert "nic" in kinds
    assert "fabric" not in kinds


def test_teccls_dgx2_links_odd_gpus_to_even_ones():
    topology = dgx2_teccl(2)
    assert topology.occupancy == "pipelined"
    assert costs(topology, pairs(topology, same_node=True)) == {(0.7, beta_from_bandwidth(125))}
    between = {pair for pair in pairs(topology, same_node=False) if topology.path(*pair)}
    assert between == {(16 * n + 2 * k + 1, 16 * (1 - n) + 2 * k) for n in (0, 1) for k in range(8)}
    assert costs(topology, between) == {(2.6, beta_from_bandwidth(12.5))}


def test_teccls_ndv2_links_gpu_0_of_each_node_to_gpu_1_of_the_others():
    topology = ndv2_teccl(4)
    between = {pair for pair in pairs(topology, same_node=False) if topology.path(*pair)}
    assert between == {(8 * a, 8 * b + 1) for a in range(4) for b in range(4) if a != b}
    assert costs(topology, between) == {(2.6, beta_from_bandwidth(12.5))}
    assert costs(topology, [(0, 1), (0, 2)]) == {(0.7, beta_from_bandwidth(g)) for g in (50, 25)}


@pytest.mark.parametrize("nodes", [0, -1, 1.5, True, "2", 10**6])
def test_a_number_of_nodes_that_is_none_is_refused(nodes):
    with pytest.raises(TopologyError):
        ndv2(nodes)


def test_teccls_dgx2_has_two_nodes_at_most():
    with pytest.raises(TopologyError, match="1 or 2 nodes"):
        dgx2_teccl(3)
