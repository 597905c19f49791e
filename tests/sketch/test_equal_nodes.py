"""Clusters of equal nodes that are too large for all links."""

from __future__ import annotations

import numpy as np
import pytest

from taccl.errors import TopologyError
from taccl.sketch import equal_nodes, network
from taccl.sketch.apply import sketched
from taccl.topologies import load_topology


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (network, equal_nodes):
        monkeypatch.setattr(module, "MAX_LINKS", 1200)
    monkeypatch.setattr("taccl.support.size_limits.MAX_LINKS", 1200)


@pytest.mark.usefixtures("few")
def test_equal_gpus_are_linked_where_all_pairs_are_too_many() -> None:
    whole = load_topology("a100", 5)
    made = sketched(None, whole)
    logical = made.topology
    same = logical.src % 8 == logical.dst % 8
    assert logical.num_links == 5 * 8 * 7 + 5 * 4 * 8
    assert np.array_equal(logical.internode, same)
    assert "to the equal GPU of 4 other nodes" in made.notes[0]
    for link in (0, 100, 300, logical.num_links - 1):  # as a path of its own would be
        path = whole.path(int(logical.src[link]), int(logical.dst[link]))
        assert path is not None
        assert (logical.alpha_us[link], logical.beta_us_per_mb[link]) == (path.alpha_us, path.beta_us_per_mb)


@pytest.mark.usefixtures("few")
def test_helpers_are_not_counted_among_the_gpus_of_a_node() -> None:
    whole = load_topology("dgx-h100", 5)
    assert whole.num_helpers == 10
    assert "to the equal GPU of 4 other nodes" in sketched(None, whole).notes[0]


@pytest.mark.usefixtures("few")
def test_nodes_a_power_of_two_apart_are_linked_where_even_that_is_too_many() -> None:
    logical = sketched(None, load_topology("a100", 10)).topology
    between = logical.internode
    apart = (logical.dst[between] // 8 - logical.src[between] // 8) % 10
    assert set(apart.tolist()) == {1, 2, 4, 6, 8, 9}


@pytest.mark.usefixtures("few")
def test_what_is_no_cluster_is_refused_as_before() -> None:
    with pytest.raises(TopologyError, match="links from rank to rank"):
        sketched(None, load_topology("switch:64"))
