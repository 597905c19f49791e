import math

import networkx as nx
import pytest

from taccl.errors import TopologyError
from taccl.topologies import Device, Link, PhysicalTopology, build_topology

GPUS = (Device("a", "gpu", 0, 0), Device("b", "gpu", 0, 1))


@pytest.mark.parametrize(
    ("devices", "links", "message"),
    [
        ((), (), "no GPU"),
        ((*GPUS, GPUS[0]), (), "two devices called 'a'"),
        (GPUS, (Link("a", "c", 1, 1),), "ends at 'c'"),
        (GPUS, (Link("a", "a", 1, 1),), "from a to itself"),
        (GPUS, (Link("a", "b", -1, 1),), "alpha_us of a -> b"),
        (GPUS, (Link("a", "b", 1, math.inf),), "beta_us_per_mb of a -> b"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(devices, links, message):
    with pytest.raises(TopologyError, match=message):
        PhysicalTopology("m", devices, links)


def test_parallel_links_are_one_whose_bandwidths_add_up_and_whose_last_part_comes_with_the_largest_alpha():
    links = (Link("a", "b", 1, 6), Link("b", "a", 1, 6), Link("a", "b", 2, 3), Link("a", "b", 0.5, 2))
    topology = PhysicalTopology("m", GPUS, links)
    assert topology.links == (Link("a", "b", 2, 1), Link("b", "a", 1, 6))
    assert (topology.path(0, 1).alpha_us, topology.path(0, 1).beta_us_per_mb) == (2, 1)
    free = PhysicalTopology("m", GPUS, (Link("a", "b", 1, 0), Link("a", "b", 1, 6)))
    assert free.links == (Link("a", "b", 1, 0),)


def test_the_graph_has_every_device_and_every_link():
    topology = build_topology("ndv2", 2)
    graph = topology.to_networkx()
    assert isinstance(graph, nx.DiGraph)
    assert graph.nodes["node1.gpu3"] == {"kind": "gpu", "node": 1, "local": 3}
    assert graph.edges["node0.gpu0", "node0.gpu1"]["beta_us_per_mb"] == 23
    assert {data["index"] for _, _, data in graph.edges(data=True)} == set(range(len(topology.links)))


def test_a_prompt_shows_one_line():
    assert repr(build_topology("ndv2")) == (
        "<ndv2: 2 nodes, 16 GPUs, 2 PCIe bridges, 2 NICs, 1 fabric, 80 links, serial>"
    )
    assert "1 switch" in repr(build_topology("dgx2", 1))


def test_a_notebook_shows_a_table_of_link_classes():
    html = build_topology("dgx2")._repr_html_()
    assert html.count("<tr>") == 1 + len(build_topology("dgx2").link_classes)
    assert "131.1" in html


def test_a_name_cannot_inject_html():
    topology = PhysicalTopology("<script>", GPUS, ())
    assert "<script>" not in topology._repr_html_()


def test_link_classes_count_every_link_once():
    topology = build_topology("ndv2", 3)
    assert sum(c.count for c in topology.link_classes) == len(topology.links)
    assert {(c.beta_us_per_mb, c.count) for c in topology.link_classes if c.dst_kind == "gpu"} >= {
        (23, 48),
        (46, 48),
    }
