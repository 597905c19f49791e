import pytest

from taccl.topologies import build_topology
from taccl.topologies.reach import may_reach


def neighbours(machine, rank):
    return sorted(machine.rank_of[link.dst] for link in machine.links if link.src == machine.gpus[rank].name)


def test_gpus_of_one_cpu_are_nearer_than_those_of_two():
    box = build_topology("pcie:2x2")
    assert (box.path(0, 1).alpha_us, box.path(0, 2).alpha_us) == (1.0, 1.5)
    assert box.path(0, 2).beta_us_per_mb == pytest.approx(1048.576 / 20)


def test_what_passes_between_cpus_is_shared_by_all_their_gpus():
    box = build_topology("pcie:2x3", bandwidth_gbps=40)
    between = {i for i, link in enumerate(box.links) if (link.src, link.dst) == ("cpu0", "cpu1")}
    assert all(between <= set(box.path(src, dst).links) for src in range(3) for dst in range(3, 6))
    assert box.path(0, 3).beta_us_per_mb == pytest.approx(1048.576 / 22)


def test_l40s_in_a_switch_in_a_cpu_and_across():
    box = build_topology("l40s", nodes=1)
    lengths = [len(box.path(0, other).links) for other in (1, 2, 4)]
    assert lengths == [2, 4, 5]
    assert may_reach(box).sum() == 56


@pytest.mark.parametrize(("name", "gbps"), [("a100-pcie", 240), ("h100-nvl", 247.2)])
def test_cards_at_one_switch_are_bridged_and_all_others_joined_by_pcie(name, gbps):
    box = build_topology(name, nodes=1)
    bridge = box.path(2, 3)
    assert (len(bridge.links), bridge.beta_us_per_mb) == (1, pytest.approx(1048.576 / gbps))
    assert len(box.path(1, 2).links) == 4
    without = build_topology("l40s", nodes=1)
    assert len(box.links) == len(without.links) + 8


def test_a_slice_of_multiples_of_four_is_a_torus_and_a_smaller_one_a_mesh():
    assert (
        build_topology("tpu-v4:4x4x4").links
        == build_topology("torus:4x4x4", alpha_us=0.7, bandwidth_gbps=45).links
    )
    assert (
        build_topology("tpu-v5p:2x2x4").links
        == build_topology("mesh:2x2x4", alpha_us=0.7, bandwidth_gbps=100).links
    )


@pytest.mark.parametrize("name", ["tpu-v5e", "tpu-v6e"])
def test_a_line_of_sixteen_is_a_ring_and_a_shorter_one_is_not(name):
    slice_ = build_topology(f"{name}:2x16")
    assert neighbours(slice_, 0) == [1, 15, 16]
    assert neighbours(build_topology(f"{name}:4x4"), 0) == [1, 4]


def test_a_7x_is_a_v5p_of_larger_pods():
    slices = [build_topology(f"{name}:4x4x8").links for name in ("tpu-v5p", "tpu-7x")]
    assert slices[0] == slices[1]


def test_a_slice_takes_other_costs():
    link = build_topology("tpu-v4:2x2x1", alpha_us=0.5, beta_us_per_mb=10).links[0]
    assert (link.alpha_us, link.beta_us_per_mb) == (0.5, 10)
