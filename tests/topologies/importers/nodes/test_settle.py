"""Links whose other end no file tells are settled by rules, or left open; none is made up."""

import pytest

from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.settle import must_be_switched, settled


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
