"""What is odd: one fault is put into a regular machine, and that fault is named, and nothing else."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.topologies import Link, PhysicalTopology, build_topology, parse_topology
from taccl.topologies.anomalies import anomalies, named

REGULAR = [
    *("dgx2", "a100", "dgx-a100", "dgx-h100", "hgx-h800", "p4d", "ndv4", "mi300x", "l40s"),
    *("p5", "p6-b300", "a3-mega", "trn2", "gh200", "h100-nvl"),
    *("switch:8", "ring:8", "ring-oneway:8", "torus:4x4", "full:8", "pcie:2x4", "tpu-v4:4x4x4"),
]


def kinds(machine: PhysicalTopology) -> list[str]:
    return [anomaly.kind for anomaly in anomalies(machine)]


def edited(machine: PhysicalTopology, change: Callable[[Link], Link | None]) -> PhysicalTopology:
    """The machine with each link changed, or left out."""
    return replace(machine, links=tuple(new for link in machine.links if (new := change(link)) is not None))


def slowed(
    machine: PhysicalTopology, a: str, b: str, factor: float, *, both: bool = True
) -> PhysicalTopology:
    ends = {(a, b), (b, a)} if both else {(a, b)}
    return edited(
        machine,
        lambda link: (
            replace(link, beta_us_per_mb=factor * link.beta_us_per_mb)
            if (link.src, link.dst) in ends
            else link
        ),
    )


def without(machine: PhysicalTopology, *ends: tuple[str, str]) -> PhysicalTopology:
    return edited(machine, lambda link: None if (link.src, link.dst) in ends else link)


@pytest.mark.parametrize("name", REGULAR)
def test_a_regular_machine_has_nothing_odd(name):
    assert not anomalies(build_topology(name))


def test_a_switch_that_sums_is_nothing_odd():
    text = """
name: m
nodes: 2
node:
  gpus: 4
  nics: 4
  switches: [nvswitch]
  helpers: [{at: nvswitch, can: [reduce-to-one, copy], bandwidth_gbps: 300}]
  links:
    - {from: gpus, to: nvswitch, alpha_us: 0.3, bandwidth_gbps: 400}
    - {pairs: [0-nic0, 1-nic1, 2-nic2, 3-nic3], alpha_us: 0, bandwidth_gbps: 50}
fabric: {alpha_us: 3, bandwidth_gbps: 50}
"""
    assert not anomalies(parse_topology(text))


def test_a_link_at_half_its_speed_is_named_with_both_figures():
    (anomaly,) = anomalies(slowed(build_topology("mi300x", 1), "node0.gpu1", "node0.gpu5", 2))
    assert anomaly.kind == "slow link"
    assert anomaly.devices == ("node0.gpu1", "node0.gpu5")
    assert anomaly.message == (
        "link node0.gpu1 - node0.gpu5 at 24 GB/s, 50% of the 48 that most like it have"
    )


@given(st.floats(min_value=1.0, max_value=20.0), st.integers(0, 7))
def test_a_link_into_the_switch_is_slow_below_four_fifths(factor, gpu):
    machine = slowed(build_topology("dgx-h100", 1), f"node0.gpu{gpu}", "node0.nvswitch", factor)
    found = [anomaly.kind for anomaly in anomalies(machine) if f"node0.gpu{gpu}" in anomaly.devices]
    assert ("slow link" in found) == (round(370.8 / factor, 3) < 0.8 * 370.8)


def test_bridges_and_cpus_have_links_of_their_own_speeds():
    text = (
        "name: m\ngpus: 4\npcie: [cpu0, cpu1, bridge0, bridge1, bridge2, bridge3]\nlinks:\n"
        "  - {pairs: [0-bridge0, 1-bridge1, 2-bridge2, 3-bridge3], alpha_us: 1, bandwidth_gbps: 24}\n"
        "  - {from: [bridge0, bridge1], to: cpu0, alpha_us: 0, bandwidth_gbps: 24}\n"
        "  - {from: [bridge2, bridge3], to: cpu1, alpha_us: 0, bandwidth_gbps: 24}\n"
        "  - {pairs: [cpu0-cpu1], alpha_us: 0, bandwidth_gbps: 6}\n"
    )
    assert not anomalies(parse_topology(text))
    (anomaly,) = anomalies(slowed(parse_topology(text), "bridge2", "cpu1", 2))
    assert anomaly.message == "link bridge2 - cpu1 at 12 GB/s, 50% of the 24 that most like it have"


def test_a_link_that_is_slow_in_one_direction_has_unequal_ways():
    machine = slowed(build_topology("mi300x", 1), "node0.gpu2", "node0.gpu3", 2, both=False)
    assert kinds(machine) == ["unequal directions", "slow link"]
    assert "48 GB/s, and back 0.7 us" not in anomalies(machine)[0].message
    assert "24 GB/s, and back 0.7 us and 48 GB/s" in anomalies(machine)[0].message


def test_a_link_that_is_missing_is_named():
    ends = ("node0.gpu1", "node0.gpu5")
    (anomaly,) = anomalies(without(build_topology("mi300x", 1), ends, ends[::-1]))
    assert anomaly.kind == "uneven GPUs"
    assert anomaly.message == (
        "node0.gpu1 and node0.gpu5 have 6 links, together 288 GB/s, where 6 others have 7 links, together "
        "336 GB/s: no link joins node0.gpu1 and node0.gpu5"
    )


def test_a_gpu_that_has_links_in_alone_has_no_link_out():
    machine = parse_topology(
        "name: m\ngpus: 3\nlinks: [{pairs: [0-1, 1-2], one_way: true, alpha_us: 1, bandwidth_gbps: 10}]"
    )
    (message,) = [each.message for each in anomalies(machine) if each.kind == "uneven GPUs"]
    assert message == "gpu2 has no link out, where 2 others have 1 link, together 10 GB/s"


def test_a_link_without_one_back_is_named():
    machine = without(build_topology("mi300x", 1), ("node0.gpu1", "node0.gpu5"))
    assert kinds(machine) == ["one-way link", "uneven GPUs"]
    assert "node0.gpu5 -> node0.gpu1 with none back" in anomalies(machine)[0].message


def test_where_links_have_two_speeds_by_design_the_odd_one_is_found_by_its_gpus():
    machine = slowed(build_topology("ndv2", 1), "node0.gpu2", "node0.gpu6", 2)
    uneven = next(anomaly for anomaly in anomalies(machine) if anomaly.kind == "uneven GPUs")
    assert uneven.devices == ("node0.gpu2", "node0.gpu6")
    assert uneven.message.endswith("link node0.gpu2 - node0.gpu6 at 22.795 GB/s")


def test_mi250x_has_gpus_of_two_kinds():
    (anomaly,) = anomalies(build_topology("mi250x", 1))
    assert anomaly.kind == "uneven GPUs"
    assert "of 2 kinds" in anomaly.message
    assert "8 such as node0.gpu0 have 3 links" in anomaly.message
    assert "8 such as node0.gpu1 have 4 links" in anomaly.message


def test_gpus_that_reach_no_nic_past_other_gpus_are_without_one():
    (anomaly,) = anomalies(build_topology("ndv2", 1))
    assert anomaly.kind == "no NIC next to"
    assert anomaly.devices == tuple(f"node0.gpu{gpu}" for gpu in range(2, 8))


def test_a_nic_that_nobody_is_near_is_idle():
    ends = ("node0.gpu1", "node0.nic1")
    machine = without(build_topology("mi300x", 1), ends, ends[::-1])
    assert [(anomaly.kind, anomaly.devices) for anomaly in anomalies(machine)] == [
        ("no NIC next to", ("node0.gpu1",)),
        ("idle NIC", ("node0.nic1",)),
    ]


def test_a_nic_that_is_near_and_not_taken_is_idle_where_there_are_nodes():
    text = (
        "name: m\nnodes: 2\nnode:\n  gpus: 2\n  nics: 3\n  links:\n"
        "    - {pairs: [0-1], alpha_us: 1, bandwidth_gbps: 10}\n"
        "    - {from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 5}\n"
        "fabric: {alpha_us: 2, bandwidth_gbps: 5}\n"
    )
    (anomaly,) = anomalies(parse_topology(text))
    assert anomaly.kind == "idle NIC"
    assert anomaly.devices == ("node0.nic2", "node1.nic2")
    assert not anomalies(parse_topology(text, nodes=1))


def test_a_node_with_fewer_gpus_than_the_others_is_uneven():
    machine = build_topology("mi300x", 3)
    lost = "node1.gpu7"
    machine = replace(
        machine,
        devices=tuple(device for device in machine.devices if device.name != lost),
        links=tuple(link for link in machine.links if lost not in (link.src, link.dst)),
    )
    uneven = next(anomaly for anomaly in anomalies(machine) if anomaly.kind == "uneven nodes")
    assert uneven.message == "node 1 has 7 GPUs and 8 NICs, where most have 8 and 8"


@given(st.sampled_from(REGULAR), st.randoms(use_true_random=False))
def test_names_and_order_of_links_do_not_matter(name, random):
    machine = build_topology(name)
    links = list(machine.links)
    random.shuffle(links)
    assert not anomalies(replace(machine, links=tuple(links)))


@pytest.mark.parametrize(
    ("names", "reported"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (list("abcde"), "a, b, c, d and e"),
        (list("abcdef"), "a, b, c, d and 2 more"),
    ],
)
def test_names_are_counted_where_there_are_many(names, reported):
    assert named(names) == reported
