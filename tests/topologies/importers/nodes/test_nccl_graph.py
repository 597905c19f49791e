"""A plan of NCCL is no machine, and checks one."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, Nearness
from taccl.topologies.importers.nodes.formats import nccl_graph
from taccl.topologies.importers.nodes.formats.nccl_graph import disagreements
from taccl.topologies.importers.nodes.registry import format_of, read_dump, read_text

DUMPS = Path(__file__).parents[3] / "data" / "dumps"
RING = """<graphs version="1">
  <graph id="0" pattern="4" typeintra="PIX" typeinter="PIX">
    <channel><gpu dev="0"/><gpu dev="0x1"/></channel>
  </graph>
</graphs>
"""


def machine(near, links=()):
    gpus = tuple(Gpu(FileLine("topo.xml", 5 + dev), dev=dev) for dev in range(2))
    return Dump("x", gpus, links=links, gpu_nearness=((Nearness.SELF, near), (near, Nearness.SELF)))


def read(text):
    return nccl_graph.read(text, "graph.xml")


@pytest.mark.parametrize(
    ("name", "gpus", "worst"), [("5gpu-pcie-graph.xml", 5, "PIX"), ("azure-ncv4-graph.xml", 4, "SYS")]
)
def test_plans_tell_gpus_and_the_worst_way_and_no_link(name, gpus, worst):
    text = read_text(DUMPS / f"nccl-graph/{name}")
    assert format_of(text).name == nccl_graph.NAME
    dump = nccl_graph.read(text, name)
    assert [gpu.dev for gpu in dump.gpus] == list(range(gpus))
    assert {way for *_, way in dump.plan.paths} == {worst}
    assert (dump.links, dump.nics, dump.has_switch) == (None, None, None)


def test_the_plan_of_an_ncv4_fits_its_topology():
    plan = read_dump(DUMPS / "nccl-graph/azure-ncv4-graph.xml")
    assert disagreements(plan, read_dump(DUMPS / "nccl-topo/azure-ncv4-a100-pcie.xml")) == ()


@pytest.mark.parametrize(
    ("near", "fits"), [(Nearness.PIX, True), (Nearness.PXB, False), (Nearness.SYS, False)]
)
def test_neighbours_in_a_ring_are_as_near_as_its_worst_way_says(near, fits):
    found = disagreements(read(RING), machine(near))
    assert (found == ()) is fits
    assert all("graph.xml:3" in each and "topo.xml:5" in each for each in found)


def test_a_ring_of_nvlinks_needs_nvlinks():
    plan = read(RING.replace('typeintra="PIX"', 'typeintra="NVL"'))
    assert "by NVLink; there is none" in disagreements(plan, machine(Nearness.SYS))[0]
    link = GpuLink(FileLine(None, 1), 0, 1, "nvlink", 4)
    assert disagreements(plan, machine(Nearness.SYS, (link,))) == ()


def test_gpus_that_the_machine_lacks_are_told():
    plan = read(RING.replace("0x1", "7"))
    assert disagreements(plan, machine(Nearness.PIX)) == (
        "graph.xml:3: the plan has a GPU 7, the machine has none (topo.xml:5)",
    )
    nameless = machine(Nearness.PIX)
    nameless = replace(nameless, gpus=tuple(replace(gpu, dev=None) for gpu in nameless.gpus))
    assert disagreements(plan, nameless) == ()
    one = replace(nameless, gpus=nameless.gpus[:1])
    assert "the plan has 2 GPUs, the machine 1" in disagreements(plan, one)[0]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (RING.replace("0x1", "one"), 3, "dev of <gpu> is 'one'"),
        ("<graphs/>", 1, "has no GPU"),
        (RING.replace("</channel>", ""), 4, "not well-formed"),
        ("<!-- <graphs> -->\n<system/>", 2, "<system>, not <graphs>"),
    ],
)
def test_damage_is_refused_with_its_line(text, line, says):
    with pytest.raises(TopologyError) as error:
        read(text)
    assert (error.value.path, error.value.line) == ("graph.xml", line)
    assert says in error.value.message


@given(st.integers(0, len(RING)), st.integers(0, 40))
def test_a_file_with_a_hole_is_read_or_refused(begin, length):
    try:
        read(RING[:begin] + RING[begin + length :])
    except TopologyError as error:
        assert error.line is not None
