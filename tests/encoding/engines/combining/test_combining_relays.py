"""Sums at relays of nodes: valid, no slower than by hand, absent where nodes differ or links are missing."""

from __future__ import annotations

import numpy as np
import pytest
from small_problems import machine, problem

from taccl.encoding.core.equivalent_nodes import equivalent_nodes
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.combining.relays import by_relays
from taccl.encoding.engines.textbook import textbook
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def one_nic_a_node(nodes: int, size: int = 3, slow: float = 1.0) -> LogicalTopology:
    """Links between all ranks of a node, alpha 1 and beta 1; first ranks of nodes are linked, alpha 10.

    The first node's links have a beta of `slow`.
    """
    links = [
        (a, b, 1.0, slow if a < size else 1.0) if a // size == b // size else (a, b, 10.0, 1.0)
        for a in range(nodes * size)
        for b in range(nodes * size)
        if a != b and (a // size == b // size or a % size == b % size == 0)
    ]
    return machine(nodes * size, links, node_of=[rank // size for rank in range(nodes * size)])


def found(topology: LogicalTopology) -> list[Schedule]:
    requested = Instance(problem(topology, "allreduce"))
    return list(by_relays(requested, textbook, SearchOptions(), Budget.of_work(60)))


@pytest.mark.parametrize(("nodes", "steps"), [(2, 1), (3, 1), (4, 2)])
def test_relays_pay_the_alpha_between_nodes_once_a_step(nodes: int, steps: int) -> None:
    schedules = found(one_nic_a_node(nodes))
    for schedule in schedules:
        schedule.check()
    chunks = 3 * nodes
    best_us = min(each.makespan_us for each in schedules)
    inside_us = 1 + chunks  # all straight to the relay, and straight from it
    assert best_us <= 2 * inside_us + steps * (10 + chunks) + 1e-6


def test_only_the_rank_with_links_to_all_other_nodes_is_a_hub() -> None:
    for schedule in found(one_nic_a_node(2)):
        between = schedule.problem.topology.internode[schedule.link]
        assert set(schedule.src[between].tolist()) == {0, 3}


def test_nodes_that_differ_have_no_relays() -> None:
    assert equivalent_nodes(one_nic_a_node(2)) is not None
    assert equivalent_nodes(one_nic_a_node(2, slow=2.0)) is None
    assert not found(one_nic_a_node(2, slow=2.0))


def test_links_of_nodes_are_told_in_one_order() -> None:
    topology = one_nic_a_node(3)
    nodes = equivalent_nodes(topology)
    assert nodes is not None
    src = topology.src[nodes.links]
    assert np.array_equal(src - src[:1], np.repeat([[0], [3], [6]], src.shape[1], axis=1))


@pytest.mark.parametrize(("units", "tried"), [(0, 1), (500, 2)])
def test_once_the_time_is_up_no_further_relay_is_tried(units: int, tried: int) -> None:
    requested = Instance(problem(one_nic_a_node(4), "allreduce", chunk_mb=0.01))
    assert len(list(by_relays(requested, textbook, SearchOptions(), Budget.of_work(units)))) == tried


def test_relays_of_more_transfers_than_there_is_time_for_are_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested = Instance(problem(one_nic_a_node(2), "allreduce", chunk_mb=0.01))
    assert list(by_relays(requested, textbook, SearchOptions(), Budget.of_work(0)))
    monkeypatch.setattr("taccl.encoding.engines.combining.relays.RELAYS_MANY", 0)
    assert not list(by_relays(requested, textbook, SearchOptions(), Budget.of_work(0)))
