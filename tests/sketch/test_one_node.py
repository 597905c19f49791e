"""The network of one node's chunks: links of node 0 with their images, and orbits for ports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from taccl.errors import TopologyError
from taccl.sketch.apply import sketched
from taccl.sketch.one_node import equal_nodes
from taccl.topologies import load_topology
from taccl.topologies.without import without_helpers


@pytest.mark.parametrize(("name", "rails"), [("a100", 8), ("dgx-h100", 8), ("ndv2", 2)])
def test_links_cost_what_they_cost_in_the_whole(name: str, rails: int) -> None:
    machine = without_helpers(load_topology(name, 4))
    network, whole = equal_nodes(machine).network(), sketched(None, machine).topology
    assert network.num_ports < whole.num_ports
    for link, ends in enumerate(zip(network.src.tolist(), network.dst.tolist(), strict=True)):
        other = whole.link_index[ends]
        assert network.alpha_us[link] == whole.alpha_us[other]
        assert network.beta_us_per_mb[link] == whole.beta_us_per_mb[other]
    nodes = network.node_of[network.src], network.node_of[network.dst]
    between = nodes[0] != nodes[1]
    assert (np.minimum(*nodes)[between] == 0).all()
    assert (network.src % 8 == network.dst % 8)[between].all()
    assert int(between.sum()) == 2 * 3 * rails


def test_what_does_not_look_the_same_from_all_nodes_is_refused() -> None:
    with pytest.raises(TopologyError, match="not made of two or more equal nodes"):
        equal_nodes(load_topology("dgx-h100", 2))  # with helpers
    with pytest.raises(TopologyError, match="not made of two or more equal nodes"):
        equal_nodes(load_topology("ring:4"))
    machine = load_topology("a100", 3)
    last = replace(machine.links[-1], beta_us_per_mb=machine.links[-1].beta_us_per_mb * 2)
    with pytest.raises(TopologyError, match="its nodes differ"):
        equal_nodes(replace(machine, links=(*machine.links[:-1], last)))
