"""Trees that are no higher than distances ask for, and what travels together on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_problems import full, grid, machine, ndv2_node, problem, ring, two_nodes

from taccl.encoding.engines.routes.columns import Grouping, Routes
from taccl.encoding.engines.routes.layers import shallow_trees
from taccl.encoding.engines.routes.orders import Open
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def everywhere(small: Problem) -> np.ndarray:
    return np.ones((small.num_ranks, small.topology.num_links), dtype=np.bool_)


def parents(small: Problem, routes: Routes) -> dict[tuple[int, int], int]:
    """(chunk, rank) -> the rank that it gets the chunk from; each once."""
    found: dict[tuple[int, int], int] = {}
    for chunk, link in zip(routes.chunk.tolist(), routes.link.tolist(), strict=True):
        cell = chunk, int(small.topology.dst[link])
        assert cell not in found
        found[cell] = int(small.topology.src[link])
    return found


def height(small: Problem, parent: dict[tuple[int, int], int]) -> int:
    """The most links from a source to a rank; ends only if every way leads back to a source."""
    most = 0
    for cell in parent:
        chunk, at = cell
        links = 0
        while (chunk, at) in parent:
            at = parent[chunk, at]
            links += 1
        assert small.collective.pre[chunk, at]
        most = max(most, links)
    return most


@pytest.mark.parametrize(
    ("topology", "chunks", "most_links", "busiest"),
    [
        (grid(4, 4), 4, 4, 15),  # 60 chunks into each rank over four links, diameter 4
        (grid(8, 8), 1, 8, 16),  # 63 over four; packing alone makes trees of height 18
        (full(5), 1, 1, 1),
        (ring(6, both=True), 2, 3, 5),
        (ring(4), 2, 3, 6),
    ],
)
def test_trees_are_as_low_as_distances_and_as_fast_as_any(
    topology: LogicalTopology, chunks: int, most_links: int, busiest: int
) -> None:
    small = problem(topology, "allgather", chunks)
    routes = shallow_trees(small, everywhere(small), Budget(10.0))
    assert routes is not None
    parent = parents(small, routes)
    assert len(parent) == small.num_chunks * (small.num_ranks - 1)
    assert height(small, parent) == most_links
    load = np.bincount(routes.link, minlength=topology.num_links)
    assert load.max() == busiest


@pytest.mark.parametrize("topology", [ndv2_node(), two_nodes()], ids=["ndv2", "nodes"])
def test_every_rank_gets_every_chunk_once(topology: LogicalTopology) -> None:
    small = problem(topology, "allgather", 6)
    routes = shallow_trees(small, everywhere(small), Budget(10.0))
    assert routes is not None
    assert len(parents(small, routes)) == small.num_chunks * (small.num_ranks - 1)


def test_links_that_may_not_be_used_are_not() -> None:
    small = problem(full(3), "allgather")
    usable = everywhere(small)
    usable[0, small.topology.link_index[0, 1]] = False
    routes = shallow_trees(small, usable, Budget(10.0))
    assert routes is not None
    assert parents(small, routes)[0, 1] == 2


def test_no_trees_where_a_rank_cannot_be_reached() -> None:
    small = problem(machine(3, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 0, 1.0, 1.0)]), "allgather")
    assert shallow_trees(small, everywhere(small), Budget(10.0)) is None


@given(st.integers(1, 200), st.integers(1, 71), st.booleans())
def test_groups_hold_all_chunks_in_order_and_none_too_many(count: int, size: int, tapered: bool) -> None:
    groups = list(Grouping(size, tapered).cut(tuple(range(count))))
    assert [chunk for group in groups for chunk in group] == list(range(count))
    assert max(map(len, groups)) <= size


def test_tapered_groups_begin_and_end_small() -> None:
    sizes = [len(group) for group in Grouping(8, tapered=True).cut(tuple(range(40)))]
    assert sizes[:4] == [1, 2, 4, 8]
    assert sizes[-1] == 1
    assert sizes[-2] <= 2


def test_chunks_travel_together_where_alpha_is_dear_and_alone_where_it_is_nothing() -> None:
    chunk, link = np.tile(np.arange(16), 2), np.repeat([0, 1], 16)
    none = np.zeros(32, dtype=np.bool_)
    routes = Routes(chunk, link, none, np.zeros(32, np.int64), chunk / 16)
    for alpha_us, best in ((100.0, 16), (1e-6, 1)):
        line = machine(3, [(0, 1, alpha_us, 1.0), (1, 2, alpha_us, 1.0)])
        promised = {
            size: Open(problem(line, "broadcast", 16), routes).promised_us(Grouping(size))
            for size in (16, 4, 1)
        }
        assert min(promised, key=promised.__getitem__) == best


def test_a_matching_of_groups_is_a_valid_schedule() -> None:
    small = problem(ring(4, both=True), "allgather", 6)
    routes = shallow_trees(small, everywhere(small), Budget(10.0))
    assert routes is not None
    for grouping in (Grouping(1), Grouping(3), Grouping(4, tapered=True)):
        order = Open(small, routes).matching(grouping, 0.5, 0)
        schedule = order.schedule()
        schedule.check()
        assert schedule.makespan_us == pytest.approx(order.makespan_us)
        assert schedule.sends.count.max() <= grouping.size
