"""Nodes as data: what they become, and that the figures which are shown are those of the machine."""

import pytest

from taccl.topologies import PhysicalTopology, build_topology, catalogue, catalogue_entry
from taccl.topologies.machines.boxes import Box, full_mesh, one_each
from taccl.topologies.machines.figures import Alpha, Rate

MB_PER_S = 1048.576


def box(**changes):
    values = {
        "gpu": "H100",
        "gpus": 4,
        "link": Rate("link", 10.0, 20.0, "library", "a library"),
        "link_alpha": Alpha(1.0, "assumed", "us"),
        "nics": ((0, 1), (2, 3)),
        "nic": Rate("nic", 5.0, 5.0, "vendor", "a vendor"),
        "network_alpha": Alpha(3.0, "assumed", "us"),
        "pcie": Rate("pcie", 8.0, 9.0, "library", "a library"),
        "counts": "vendor",
        "counts_source": "a vendor",
    }
    return Box(**values | changes)


def gbps(machine: PhysicalTopology, src: int, dst: int) -> float:
    return MB_PER_S / machine.path(src, dst).beta_us_per_mb


def test_links_of_a_gpu_into_the_switch_add_up():
    machine = box(switch_links=3).build("m", 1, "nccl")
    assert gbps(machine, 0, 3) == pytest.approx(30)
    assert machine.path(0, 3).alpha_us == 1.0


def test_links_between_gpus_add_up_and_join_no_others():
    machine = box(bundles=((0, 1, 2), (2, 3, 1))).build("m", 1, "nccl")
    assert gbps(machine, 0, 1) == pytest.approx(20)
    assert gbps(machine, 3, 2) == pytest.approx(10)
    assert machine.path(0, 2) is None


def test_gpus_beside_one_nic_share_its_port():
    machine = box(switch_links=1).build("m", 2, "nccl")
    routes = [{machine.links[i].src for i in machine.path(gpu, 4).links} for gpu in range(4)]
    assert [{nic for nic in way if "node0.nic" in nic} for way in routes] == [
        {"node0.nic0"},
        {"node0.nic0"},
        {"node0.nic1"},
        {"node0.nic1"},
    ]
    assert gbps(machine, 0, 4) == pytest.approx(5)
    assert machine.path(0, 4).alpha_us == 3.0


def test_with_peak_each_link_has_the_vendors_speed():
    machine = box(switch_links=3).build("m", 1, "peak")
    assert gbps(machine, 0, 1) == pytest.approx(60)
    slow = {link.src: MB_PER_S / link.beta_us_per_mb for link in machine.links if "nic" in link.dst}
    assert slow["node0.gpu0"] == pytest.approx(9)


def test_figures_of_so_many_links_say_what_they_are_made_of():
    figures = {figure.quantity: figure for figure in box(bundles=full_mesh(4, 2)).figures()}
    together = figures["a GPU to all others together"]
    assert (together.value, together.peak, together.how, together.source) == (60, 120, "inferred", "6 x 10")
    assert figures["one link link"].source == "a library"
    assert figures["a NIC"].peak is None


BOXES = [entry.name for entry in catalogue() if any(f.quantity == "GPUs of a node" for f in entry.figures)]


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("bandwidth", ["nccl", "peak"])
def test_the_figures_of_a_machine_are_its_numbers(name, bandwidth):
    figures = {figure.quantity: figure for figure in catalogue_entry(name).figures}
    machine = build_topology(name, nodes=2, bandwidth=bandwidth)
    assert machine.num_members == 2 * figures["GPUs of a node"].value
    assert machine.nic_count(0) == figures["NICs of a node"].value
    kind = {device.name: device.kind for device in machine.devices}
    fabric = {link.beta_us_per_mb for link in machine.links if kind[link.dst] == "fabric"}
    assert {round(MB_PER_S / beta, 6) for beta in fabric} == {figures["a NIC"].value}
    if "a GPU to all others together" in figures:
        whole = figures["a GPU to all others together"]
        for gpu in machine.gpus[: machine.num_members]:
            rates = [
                MB_PER_S / link.beta_us_per_mb
                for link in machine.links
                if link.src == gpu.name and kind[link.dst] in ("gpu", "switch")
            ]
            assert sum(rates) == pytest.approx((bandwidth == "peak" and whole.peak) or whole.value)


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("bandwidth", ["nccl", "peak"])
def test_switches_of_hopper_and_later_sum_to_one_gpu_and_copy_to_all(name, bandwidth):
    figures = {figure.quantity: figure for figure in catalogue_entry(name).figures}
    machine = build_topology(name, nodes=2, bandwidth=bandwidth)
    helpers = machine.gpus[machine.num_members :]
    whole = figures.get("a GPU, where the switch sums or copies")
    has_switch = any(device.kind == "switch" for device in machine.devices)
    assert (whole is not None) == (has_switch and machine.gpu in SUMMING) == bool(helpers)
    for helper in helpers:
        assert helper.name.rpartition(".")[::2] in [(helper.at, "sum"), (helper.at, "copy")]
        assert (helper.may_sum, helper.may_copy) == (
            helper.name.endswith("sum"),
            helper.name.endswith("copy"),
        )
        rate = MB_PER_S / helper.beta_us_per_mb
        assert rate == pytest.approx((bandwidth == "peak" and whole.peak) or whole.value)


SUMMING = ("H100", "H200", "H800", "H20", "B200", "B300", "GB200", "GB300")


def test_every_machine_of_nodes_joins_all_its_gpus():
    for name in BOXES:
        machine = build_topology(name, nodes=2)
        other = machine.num_members // 2
        assert all(machine.path(gpu, other) is not None for gpu in range(other))


def test_one_nic_each_and_a_full_mesh_are_what_they_say():
    assert one_each(3) == ((0,), (1,), (2,))
    assert full_mesh(3) == ((0, 1, 1), (0, 2, 1), (1, 2, 1))


def test_a_machine_says_of_which_model_its_gpus_are():
    assert build_topology("dgx-h200").gpu == "H200"
    assert build_topology("ndv2").gpu == "V100"
    assert build_topology("switch:8").gpu is None


def test_cards_that_a_plugin_uses_as_one_are_one_nic_of_their_sum():
    for name, together, pcie in (("p5", 50, 48), ("p5e", 50, 48), ("p5en", 50, 48), ("p6-b300", 100, 96)):
        machine = build_topology(name)
        assert machine.nic_count(0) == 8
        assert gbps(machine, 0, 8) == pytest.approx(pcie)
        assert [figure.value for figure in catalogue_entry(name).figures if figure.quantity == "a NIC"] == [
            together
        ]


def test_sixteen_trainium_chips_are_a_torus():
    machine = build_topology("trn2", nodes=1)
    torus = build_topology("torus:4x4")
    ends = [
        {
            (machine.rank_of[link.src], machine.rank_of[link.dst])
            for link in machine.links
            if "gpu" in link.dst and "gpu" in link.src
        }
    ]
    assert ends == [{(torus.rank_of[link.src], torus.rank_of[link.dst]) for link in torus.links}]


def test_four_gh200_are_joined_without_a_switch():
    machine = build_topology("gh200")
    assert {device.kind for device in machine.devices} == {"gpu", "nic", "fabric"}
    assert [gbps(machine, 0, peer) for peer in (1, 2, 3)] == [pytest.approx(6 * 20.6)] * 3


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
def test_measured_is_said_only_of_machines_on_which_it_was(entry):
    """A number measured on one machine and taken for another is assumed there."""
    measured = {figure.quantity for figure in entry.figures if figure.how == "measured"}
    assert not measured or entry.name in ("dgx2", "ndv2")
