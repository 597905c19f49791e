"""Rounds over teams of rails of several sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl import make_problem
from taccl.encoding.engines.hierarchical.cluster import Cluster, cluster_of
from taccl.encoding.engines.hierarchical.mixed import mixed
from taccl.encoding.engines.hierarchical.rails import Rails, rails_of
from taccl.encoding.engines.hierarchical.rounds import RoundCosts
from taccl.encoding.engines.hierarchical.sends import costs_of, sends_of

#: Inside, rounds of larger teams pay fewer alphas.
COSTS = {
    1: RoundCosts(2.7, 21.8, 4.9, 19.8),
    2: RoundCosts(2.7, 21.8, 2.8, 19.8),
    4: RoundCosts(2.7, 21.8, 2.1, 19.8),
}


def machine(name: str, nodes: int) -> tuple[Cluster, Rails]:
    without = "nvswitch" if name == "dgx-h100" else None
    keywords = {"topology": name, "nodes": nodes, "without": without}
    found = cluster_of(make_problem("allgather", size="64MB", chunks=1, **keywords).problem)
    assert isinstance(found, Cluster)
    return found, rails_of(found, found.problem.topology, both_directions=False)[0]


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 40), st.sampled_from([4, 8]), st.integers(1, 4), st.integers(3, 40))
def test_each_node_gets_each_chunk_once_over_rails_that_carry_alike(
    nodes: int, gpus: int, each: int, most: int
) -> None:
    for plan in mixed(nodes, gpus, 4, each, most, COSTS):
        came = np.zeros((nodes, gpus * each), dtype=np.int64)
        for pieces in plan:
            assert len({piece.last - piece.first for piece in pieces}) == 1
            for piece in pieces:
                came[piece.node, piece.first : piece.last] += 1
        assert (came == 1).all()


def test_late_rounds_are_narrow_and_of_large_teams() -> None:
    *_, last = next(mixed(63, 4, 4, 8, 32, COSTS))
    assert last[0].last - last[0].first <= 4
    assert len({piece.node for piece in last}) < 4


def test_gpus_behind_a_switch_exchange_by_doubling() -> None:
    cluster, rails = machine("dgx-h100", 4)
    alphas = {
        team: costs_of(cluster, cluster.problem.topology, rails, 2, 16, team).inside_alpha_us
        for team in (1, 2, 8)
    }
    # An alpha is 0.7 us: 7 sends of what came to a GPU, 1 and then 3 of two parts each, or 3 that double.
    assert alphas == pytest.approx({1: 4.9, 2: 2.8, 8: 2.1})


def test_gpus_that_are_linked_unequally_do_not() -> None:
    cluster, rails = machine("ndv2", 4)
    topology = cluster.problem.topology
    sends = sends_of(cluster, topology, rails, (), 2, 16)
    inside = ~topology.internode[np.array(sends.link)]
    assert inside.any() and {last - first for first, last in zip(sends.first, sends.last, strict=True)} == {2}
