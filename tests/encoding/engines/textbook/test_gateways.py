"""Gateways: a team's data crosses once the team has it, and no gateway serves more nodes than it must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_problems import machine, problem
from textbook_machines import railed_nodes

from taccl.encoding.engines.textbook.engine import by_name
from taccl.encoding.engines.textbook.gateways import in_turns
from taccl.encoding.engines.textbook.grid import by_shared_ports, gate_of_team
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology

COPIES = "2 of 4 gateways to a node, recursive doubling inside"
ROUTED = "2 of 4 gateways to a node, by end, recursive doubling inside"


def test_what_a_team_gathers_crosses_before_the_node_has_gathered_all() -> None:
    """Three nodes of four, nearly all alphas: a pair gathers (1), crosses (5), all of it spreads (2)."""
    schedule = by_name(Instance(problem(railed_nodes(3, 4), "allgather", chunk_mb=0.001)), COPIES)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(1 + 5 + 2, abs=0.5)


def test_what_goes_from_rank_to_rank_is_dealt_out_in_the_team_of_its_end() -> None:
    """It is gathered in two steps, and dealt out in one."""
    stated = problem(railed_nodes(3, 4), "alltoall", chunk_mb=0.001, max_group=100)
    schedule = by_name(Instance(stated), ROUTED)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(2 + 5 + 1, abs=0.5)


def behind_nics(nodes: int, size: int) -> LogicalTopology:
    """The same, where each rank has a NIC that sends to one other node after another."""
    railed = railed_nodes(nodes, size)
    links = zip(*(each.tolist() for each in (railed.src, railed.dst)), strict=True)
    rows = [(a, b, 1.0, 1.0) if a // size == b // size else (a, b, 5.0, 10.0) for a, b in links]
    nics = [
        [at for at, (a, b, *_) in enumerate(rows) if a == rank and b // size != a // size]
        for rank in range(railed.num_ranks)
    ]
    return machine(railed.num_ranks, rows, node_of=railed.node_of.tolist(), shared=nics)


@pytest.mark.parametrize(
    ("collective", "before", "times"),
    [("allgather", "", 1), ("reducescatter", "", 1), ("allreduce", "there and back, ", 2)],
)
def test_nodes_are_served_in_turns_and_what_came_is_spread_meanwhile(
    collective: str, before: str, times: int
) -> None:
    """Of three other nodes of four: pairs cross to two (2 + 25), and all to one (15), which is spread (5)."""
    stated = problem(behind_nics(4, 4), collective)
    name = f"{before}2, then 4 of 4 gateways to a node, recursive doubling inside"
    schedule = by_name(Instance(stated), name)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(times * (2 + 25 + 15 + 5))


def test_what_crosses_in_the_first_turn_is_dealt_out_in_the_last_which_needs_no_dealing() -> None:
    """Pairs gather (1 + 4), cross to two nodes (5 + 80), and all cross to one (5 + 40)."""
    stated = problem(behind_nics(4, 4), "alltoall", max_group=100)
    name = "2, then 4 of 4 gateways to a node, by source, then by end, all-pairs inside"
    schedule = by_name(Instance(stated), name)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(5 + 85 + 45)


@given(st.integers(2, 20), st.sampled_from([1, 2, 3, 4, 6, 8]))
def test_turns_serve_each_other_node_once_and_a_gate_crosses_once_in_each(others: int, gates: int) -> None:
    for turns in in_turns(others, gates, gates):
        assert sum(turn.served for turn in turns) == others
        for turn in turns if len(turns) > 1 else ():
            assert turn.served * turn.many <= gates
        carried = [gates / turn.many for turn in turns]
        assert carried == sorted(carried, reverse=True)
        assert sum(turn.served * turn.many < gates for turn in turns) <= 1


def at_two_cpus(size: int) -> LogicalTopology:
    """Two CPUs with so many GPUs each; what goes to the other CPU shares a port of each, both ways."""
    ranks = range(2 * size)
    pairs = [(a, b) for a in ranks for b in ranks if a != b]
    links = [(a, b, 1.0, 1.0) for a, b in pairs]
    ports = [
        [at for at, (a, b) in enumerate(pairs) if a // size == cpu and b // size != cpu] for cpu in (0, 1)
    ]
    return machine(2 * size, links, shared=ports)


def test_ranks_behind_a_door_do_what_nodes_do() -> None:
    """All to all from four GPUs at each CPU: 2 steps, all in one send through the port, and 2 steps."""
    cpus = at_two_cpus(4)
    assert [each.tolist() for each in by_shared_ports(cpus)] == [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    stated = problem(cpus, "alltoall", chunk_mb=1e-4, max_group=100)
    gateway = "1 of 1 gateways to each of 2 doors, by end, recursive doubling inside"
    schedule = by_name(Instance(stated), gateway)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(2 + 1 + 2, abs=0.1)


def test_nodes_are_no_doors() -> None:
    assert not list(by_shared_ports(railed_nodes(2, 4)))


@given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 12))
def test_gateways_serve_as_few_nodes_as_there_are_gates_for(others: int, size: int, many: int) -> None:
    gates = np.arange(size)
    team, after = np.indices((many, others)).reshape(2, -1)
    gate = gate_of_team(gates, team, many, after, others)
    assert set(gate) <= set(gates)
    assert np.bincount(gate).max() == -(-many * others // size)


def test_a_gateway_is_one_of_its_team() -> None:
    team, after = np.indices((2, 3)).reshape(2, -1)
    assert gate_of_team(np.arange(8), team, 2, after, 3).reshape(2, 3).tolist() == [[0, 1, 2], [4, 5, 6]]
