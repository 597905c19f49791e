"""Few small equal nodes: gather, cross and spread, each part decided exactly."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import checked
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import Link, custom, machine

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.gather_cross_scatter import gather_cross_scatter, serves
from taccl.encoding.engines.gather_cross_scatter.crossing import crossing_of, plans
from taccl.encoding.engines.gather_cross_scatter.fill import filled
from taccl.encoding.engines.gather_cross_scatter.nodes import equal_nodes
from taccl.encoding.engines.greedy import greedy
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.node_parts import Around, Inside, Item, Placed
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: Three ranks in a line, each way: places 0 - 1 - 2.
LINE = tuple(Inside(a, b, 1.0, 1.0, (k,)) for k, (a, b) in enumerate(((0, 1), (1, 0), (1, 2), (2, 1))))


def lines(num_nodes: int, across: tuple[float, float] = (2.0, 4.0)) -> LogicalTopology:
    """Nodes of three ranks in a line; the first of each has a link to the first of each other."""
    links: list[Link] = []
    for node in range(num_nodes):
        links += [(3 * node + link.src, 3 * node + link.dst, 1.0, 1.0) for link in LINE]
    inside = len(links)
    ends = [(a, b) for a in range(num_nodes) for b in range(num_nodes) if a != b]
    links += [(3 * a, 3 * b, *across) for a, b in ends]
    nics = [
        [inside + k for k, end in enumerate(ends) if end[way] == node]
        for node in range(num_nodes)
        for way in (0, 1)
    ]
    return machine(3 * num_nodes, links, shared=nics, node_of=np.repeat(np.arange(num_nodes), 3).tolist())


def of(
    topology: LogicalTopology, collective: str = "allgather", chunks: int = 1, max_group: int = 99
) -> Instance:
    requested = make_collective(collective, topology.num_ranks, chunks)
    return Instance(Problem(topology, requested, chunk_mb=1.0, max_group=max_group))


def found(instance: Instance, units: int = 3_000) -> list[Schedule]:
    first = next(greedy(instance, SearchOptions(), Budget.of_work(1), None)).schedule
    assert first is not None
    return checked(gather_cross_scatter(instance, SearchOptions(), Budget.of_work(units), first))


def around(max_group: int = 99) -> Around:
    ticks = ticks_of(of(lines(2)).problem, 100.0)
    return Around(LINE, True, [True] * len(LINE), max_group, ticks)


def test_the_best_way_to_cross_is_found() -> None:
    # Two groups: 1 chunk from 0 to 6, then 2 until 14; these two are at the end of the line 6 us later.
    assert found(of(lines(2, across=(4.0, 2.0))))[-1].makespan_us == pytest.approx(20.0)


def test_an_alltoall_crosses_as_one_group_where_alpha_is_long() -> None:
    best = found(of(lines(2, across=(50.0, 1.0)), "alltoall"))[-1]
    between = best.problem.topology.internode[best.sends.link]
    assert best.sends.count[between].tolist() == [9, 9]


def test_it_declines_where_what_stays_in_a_node_would_have_to_leave_it() -> None:
    """Inside, only the first rank reaches the second; back it is a way round through the other node."""
    inside = [(0, 1, 1.0, 1.0), (2, 3, 1.0, 1.0)]
    across = [(1, 2, 1.0, 1.0), (3, 0, 1.0, 1.0)]
    topology = machine(4, inside + across, node_of=[0, 0, 1, 1])
    assert "inside the node" in serves(of(topology)).reason


def test_what_stays_is_sent_in_groups_that_are_allowed() -> None:
    """Three chunks of rank 0 are for rank 1 next to it, and one of each node crosses."""
    inside = [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 3, 1.0, 1.0), (3, 2, 1.0, 1.0)]
    topology = machine(4, [*inside, (0, 2, 1.0, 1.0), (2, 0, 1.0, 1.0)], node_of=[0, 0, 1, 1])
    chunks = [([0], [1], False)] * 3 + [([0], [2], False), ([2], [0], False)]
    requested = Instance(Problem(topology, custom(4, chunks), 1.0, max_group=2))
    slow = in_order(
        requested.problem, [Decision((chunk,), link) for chunk, link in enumerate([0, 0, 0, 4, 5])]
    )
    (best,) = checked(gather_cross_scatter(requested, SearchOptions(), Budget.of_work(3_000), slow))
    assert best.makespan_us == pytest.approx(5.0)
    assert sorted(best.sends.count.tolist()) == [1, 1, 1, 2]


@settings(max_examples=4, deadline=None)
@given(st.sampled_from(["allgather", "alltoall"]), st.integers(2, 3), st.integers(1, 4), st.data())
def test_whatever_it_finds_is_valid_and_faster_than_what_was_known(
    collective: str, num_nodes: int, max_group: int, data: st.DataObject
) -> None:
    across = data.draw(st.sampled_from([(0.5, 1.0), (2.0, 4.0), (9.0, 0.5)]))
    instance = of(lines(num_nodes, across), collective, max_group=max_group)
    times = [schedule.makespan_us for schedule in found(instance, 400)]
    assert times == sorted(set(times), reverse=True)


def test_it_says_why_it_declines() -> None:
    ring = machine(4, [(rank, (rank + 1) % 4, 1.0, 1.0) for rank in range(4)])
    assert "no 2 to 8 equal nodes" in serves(of(ring)).reason
    assert "copied" in serves(of(lines(2), "reducescatter")).reason
    assert "not as many chunks" in serves(of(lines(2), "broadcast")).reason
    rails: list[Link] = [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 3, 1.0, 1.0), (3, 2, 1.0, 1.0)]
    rails += [(a, (a + 2) % 4, 1.0, 1.0) for a in range(4)]
    assert "share no port" in serves(of(machine(4, rails, node_of=[0, 0, 1, 1]))).reason
    assert serves(of(lines(2)))


def test_nodes_with_other_links_are_not_equal() -> None:
    links: list[Link] = [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 3, 1.0, 2.0), (3, 2, 1.0, 1.0)]
    links += [(0, 2, 1.0, 1.0), (2, 0, 1.0, 1.0)]
    assert equal_nodes(of(machine(4, links, node_of=[0, 0, 1, 1]))) is None
    nodes = equal_nodes(of(lines(3)))
    assert nodes is not None
    assert nodes.ranks.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [(link.src, link.dst) for link in nodes.inside] == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert list(nodes.routes) == [(0, 0)]


def test_plans_keep_to_the_longest_group_and_come_in_order() -> None:
    instance = of(lines(2), max_group=2)
    nodes = equal_nodes(instance)
    assert nodes is not None
    found = plans(instance, crossing_of(instance, nodes))
    assert {plan.sizes for plan in found} == {(1, 2), (2, 1), (1, 1, 1)}
    assert [plan.least_us for plan in found] == sorted(plan.least_us for plan in found)
    assert found[0].least_us <= 22.0


def test_what_stays_goes_through_the_gaps_of_what_is_decided() -> None:
    taken = [Placed(0, (0,), 1.0, 3.0), Placed(0, (0,), 5.0, 7.0)]
    item = Item((0,), ((0, 0.0),), frozenset({1, 2}))
    first, second = filled(around(), [item], taken)
    assert (first.link, first.start_us, first.end_us) == (0, 3.0, 5.0)
    assert (second.link, second.start_us, second.end_us) == (2, 5.0, 7.0)


def test_what_is_on_its_way_to_a_rank_is_not_sent_on_from_there_before() -> None:
    """It comes to place 1 at 9 us: from there it goes on, and not at 2 us by one more way to place 1."""
    item = Item((0,), ((0, 0.0), (1, 9.0)), frozenset({2}))
    (only,) = filled(around(), [item], [])
    assert (only.link, only.start_us, only.end_us) == (2, 9.0, 11.0)
