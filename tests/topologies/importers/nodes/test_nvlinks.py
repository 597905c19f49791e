"""Counts alone tell when links run to a switch; where no file tells other ends, rules do, or none is made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink
from taccl.topologies.importers.nodes.gpus import links_of_model
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.nvlinks import must_be_switched, settled, wiring


def all_to_all(gpus, count):
    return [[0 if a == b else count for b in range(gpus)] for a in range(gpus)]


@pytest.mark.parametrize(
    ("gpus", "count", "switched"),
    [
        (8, 12, True),  # DGX A100
        (8, 18, True),  # HGX H200
        (8, 8, True),  # A800
        (16, 6, True),  # DGX-2
        (4, 18, True),  # a tray of GB200
        (3, 12, True),  # three of eight
        (4, 4, False),  # four A100 on one board
        (4, 6, False),  # four H100 on one board
        (8, 1, False),  # nothing that is built, but it can be
        (1, 0, False),
    ],
)
def test_more_links_than_a_gpu_has_are_links_to_a_switch(gpus, count, switched):
    found = wiring(all_to_all(gpus, count))
    assert found.has_switch is switched
    assert found.ports == ((count,) * gpus if switched else ())


def test_a_pair_does_not_tell():
    assert wiring(all_to_all(2, 18)).has_switch is None


def test_knowing_how_many_links_a_gpu_has_tells_more():
    four_of_a_dgx2 = all_to_all(4, 6)
    assert wiring(four_of_a_dgx2).has_switch is False
    assert wiring(four_of_a_dgx2, links_of_model("Tesla V100-SXM3-32GB")).has_switch is True
    assert wiring(four_of_a_dgx2, [6] * 4).ports == (6, 6, 6, 6)


def test_a_gpu_without_links_leaves_the_others_at_the_switch():
    counts = all_to_all(4, 12)
    for other in range(4):
        counts[2][other] = counts[other][2] = 0
    assert wiring(counts).ports == (12, 12, 0, 12)


def test_a_pair_without_a_way_at_the_same_switch_is_named():
    counts = all_to_all(4, 18)
    counts[1][3] = counts[3][1] = 0
    assert wiring(counts).apart == (1, 3)


def test_groups_without_links_between_them_have_a_switch_each():
    """As two of four GPUs each that a fabric manager put in different partitions."""
    counts = [[18 * (a // 4 == b // 4 and a != b) for b in range(8)] for a in range(8)]
    found = wiring(counts)
    assert found.apart is None
    assert found.ports == (18,) * 8
    assert found.switch_of == (0, 0, 0, 0, 1, 1, 1, 1)


@given(st.integers(2, 8), st.data())
def test_direct_links_never_exceed_what_a_gpu_has_unless_it_has_one_peer(gpus, data):
    counts = [[0] * gpus for _ in range(gpus)]
    for a in range(gpus):
        for b in range(a):
            counts[a][b] = counts[b][a] = data.draw(st.integers(0, 20))
    found = wiring(counts)
    for row in counts:
        if sum(row) > 18 and sum(1 for count in row if count) > 1:
            assert found.has_switch
    if found.has_switch and found.apart is None:
        assert all(port <= max(row) for port, row in zip(found.ports, counts, strict=True))


def listed(model, counts):
    """A dump of `nvidia-smi nvlink -s`."""
    gpus = tuple(Gpu(FileLine("links.txt", gpu + 1), model=model, dev=gpu) for gpu in range(len(counts)))
    links = tuple(
        GpuLink(FileLine("links.txt", gpu + 1), gpu, None, "nvlink", count, 25.0, is_raw=True)
        for gpu, count in enumerate(counts)
        if count
    )
    return Dump("x", gpus, links=links)


def test_two_gpus_are_linked_to_each_other_by_as_many_as_both_have():
    dump = settled(listed("A100-SXM4-80GB", [12, 4]))
    assert [(link.a, link.b, link.count, link.gbps) for link in dump.links] == [(0, 1, 4, 25.0)]
    assert dump.has_switch is False
    assert "taken as linked directly" in dump.warnings[0]
    assert settled(listed("A100-SXM4-80GB", [12, 0])).links == ()


def test_eight_a100_are_behind_switches():
    machine = make_machine(listed("A100-SXM4-80GB", [12] * 8))
    assert machine.dump.has_switch
    assert machine.gpu_gbps == (240.0,) * 8
    assert "no board joins this many directly" in machine.warnings[0]


def test_eight_v100_may_be_a_cube_mesh_and_get_no_link_in_the_machine():
    machine = make_machine(listed("Tesla V100-SXM2-16GB", [6] * 8))
    assert machine.dump.has_switch is None
    assert machine.gpu_gbps == (120.0,) * 8
    assert "switches" not in machine.yaml
    assert "NVLink" not in machine.yaml.replace("NVLinks lead", "")
    assert "no file tells where these NVLinks lead" in machine.warnings[0]


def test_what_dumps_tell_stays_as_it_is():
    reported = listed("A100-SXM4-80GB", [12] * 8)
    for dump in (Dump("x", reported.gpus), Dump("x", reported.gpus, links=reported.links, has_switch=True)):
        assert settled(dump) is dump


@pytest.mark.parametrize(
    ("models", "links", "switched"),
    [
        (["A100-SXM4-80GB"] * 8, [12] * 8, True),
        (["H200"] * 8, [18] * 8, True),
        (["A100-SXM4-80GB"] * 4, [12] * 4, False),  # a board of four is a mesh, or half of eight
        (["Tesla V100-SXM2-16GB"] * 8, [6] * 8, False),  # a cube mesh, or half of a DGX-2
        (["H200"] * 8, [18] * 7 + [12], True),  # six links are down
        (["H200"] * 8, [18] * 4 + [12] * 4, False),
        (["A100 80GB PCIe"] * 8, [12] * 8, False),  # bridges of two
        (["H200 NVL"] * 8, [18] * 8, False),  # bridges of four
        ([None] * 8, [18] * 8, False),
        (["RTX A6000"] * 8, [4] * 8, False),  # four bridges
    ],
)
def test_only_boards_that_were_built_so_are_behind_switches_without_a_table(models, links, switched):
    assert must_be_switched(models, links) is switched
