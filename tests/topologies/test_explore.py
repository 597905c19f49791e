import numpy as np
import pytest

from taccl.errors import TopologyError, UnitError
from taccl.topologies import (
    alltoall_loads_us,
    bisection,
    build_topology,
    distances_us,
    hop_distances,
    parse_topology,
)


def test_hops_are_transfers_from_gpu_to_gpu():
    assert hop_distances(build_topology("ring-oneway:4"))[0].tolist() == [0, 1, 2, 3]
    assert hop_distances(build_topology("dgx2"))[0, [0, 1, 31]].tolist() == [0, 1, 1]
    assert hop_distances(build_topology("ndv2", 1))[0].tolist() == [0, 1, 1, 1, 1, 2, 2, 2]


def test_a_rank_without_a_way_to_it_is_minus_one_hops_and_infinitely_far():
    one_way = parse_topology(
        "name: m\ngpus: 2\nlinks: [{pairs: [0-1], one_way: true, alpha_us: 1, beta_us_per_mb: 2}]"
    )
    assert hop_distances(one_way).tolist() == [[0, 1], [-1, 0]]
    assert distances_us(one_way, "1MB").tolist() == [[0, 3], [np.inf, 0]]


def test_distances_take_the_faster_way_for_the_size():
    machine = parse_topology("""
        name: m
        gpus: 3
        links:
          - {pairs: [0-1, 1-2], alpha_us: 5, beta_us_per_mb: 1}
          - {pairs: [0-2], alpha_us: 1, beta_us_per_mb: 20}
    """)
    assert distances_us(machine, "512KB")[0, 2] == 11.0
    assert distances_us(machine, "2MB")[0, 2] == 14.0


def test_a_size_must_be_one():
    with pytest.raises(UnitError):
        distances_us(build_topology("ring:4"), "a lot")


def test_the_load_of_a_ring_is_the_sum_of_the_ways_over_each_link():
    ring = build_topology("ring-oneway:4", alpha_us=1, beta_us_per_mb=2)
    assert alltoall_loads_us(ring, "1MB") == pytest.approx([(1 + 2 + 3) * 3] * 4)
    assert alltoall_loads_us(ring.with_occupancy("pipelined"), "1MB") == pytest.approx([6 * 2] * 4)


def test_a_shared_nic_carries_the_load_of_both_its_gpus():
    dgx2 = build_topology("dgx2")
    load = dict(zip([(x.src, x.dst) for x in dgx2.links], alltoall_loads_us(dgx2, "1MB"), strict=True))
    assert load["node0.nic3", "fabric"] == pytest.approx(2 * 16 * 107.6)
    assert load["node0.gpu6", "node0.nic3"] == pytest.approx(16 * 107.6)
    assert load["node0.gpu6", "node0.nvswitch"] == pytest.approx(15 * 8.3)


def test_an_alltoall_between_unconnected_ranks_has_no_load():
    with pytest.raises(TopologyError, match="rank 0 of 'm' cannot reach rank 1"):
        alltoall_loads_us(parse_topology("name: m\ngpus: 2\nlinks: []"), "1MB")


@pytest.mark.parametrize(
    ("name", "links_across"),
    [("ring:8", 2), ("ring-oneway:8", 1), ("full:6", 9), ("mesh:2x4", 2), ("hub:8", 4), ("switch:8", 4)],
)
def test_the_bisection_of_a_small_machine_is_exact(name, links_across):
    found = bisection(build_topology(name, bandwidth_gbps=10))
    assert found.gbps == pytest.approx(10 * links_across, rel=1e-5)
    assert found.exact
    assert len(found.part) == build_topology(name).num_ranks // 2


@pytest.mark.parametrize(("name", "links_across"), [("torus:4x4", 8), ("torus:8x4", 8), ("mesh:8x4", 4)])
def test_the_bisection_of_a_regular_machine_is_found_but_not_proved(name, links_across):
    found = bisection(build_topology(name, bandwidth_gbps=10))
    assert found.gbps == pytest.approx(10 * links_across, rel=1e-5)
    assert not found.exact


def test_a_machine_of_several_nodes_is_split_between_them():
    found = bisection(build_topology("ndv2", 4))
    assert found.part == tuple(range(16))
    assert found.gbps == pytest.approx(2 * 1.048576e3 / 105, rel=1e-5)


def test_gpus_of_one_node_exchange_nothing_over_their_nics():
    with_nics = parse_topology("""
        name: m
        gpus: 2
        nics: 1
        links:
          - {pairs: [0-1], alpha_us: 0, bandwidth_gbps: 10}
          - {from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 50}
    """)
    assert bisection(with_nics).gbps == pytest.approx(10, rel=1e-5)


def test_one_rank_has_no_bisection():
    with pytest.raises(TopologyError, match="no halves"):
        bisection(parse_topology("name: m\ngpus: 1\nlinks: []"))
