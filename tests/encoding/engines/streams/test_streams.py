"""Pipelines of one root: trees at even loads, sends at equal intervals, and what comes of both."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_problems import random_network
from small_problems import full, machine, problem, ring, two_nodes
from textbook_machines import torus

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.streams import across_chunks, serves, streams
from taccl.encoding.engines.streams.periodic import Sends, placed
from taccl.encoding.engines.streams.pipelines import Pipeline, trees_of
from taccl.encoding.instance import Instance
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def rooted(name: str, topology: LogicalTopology, chunks: int, size_mb: float = 1.0) -> Problem:
    return Problem(topology, make_collective(name, topology.num_ranks, chunks), size_mb / chunks)


def found(problem: Problem, effort: int = 400) -> list[Schedule]:
    updates = streams(Instance(problem), SearchOptions(effort=effort), Budget.of_work(effort), None)
    return [update.schedule for update in updates if update.schedule is not None]


def loads(problem: Problem, into: np.ndarray) -> list[int]:
    """How many trees use each link."""
    return np.bincount(into[into >= 0], minlength=problem.topology.num_links).tolist()


# Trees.


def test_a_torus_has_as_many_trees_without_a_common_link_as_its_root_has_links() -> None:
    small = rooted("broadcast", torus(4, 4), 64)
    assert any(max(loads(small, into)) == 1 for into in trees_of(small, 4, 0, Budget.of_work(100)))


def test_trees_reach_every_rank_once_from_the_root() -> None:
    small = rooted("broadcast", torus(3, 4), 8)
    for into in trees_of(small, 3, 0, Budget.of_work(100)):
        for tree in into:
            assert [rank for rank, link in enumerate(tree) if link < 0] == [0]
            assert all(small.topology.dst[link] == rank for rank, link in enumerate(tree) if link >= 0)
        Pipeline(small, into).schedule(0, Budget.of_work(100)).check()


def test_there_is_no_tree_to_a_rank_out_of_reach() -> None:
    cut_off = machine(3, [(0, 1, 1.0, 1.0), (2, 1, 1.0, 1.0)])
    assert trees_of(rooted("broadcast", cut_off, 4), 2, 0, Budget.of_work(100)) == []


# Intervals.


@given(st.integers(0, 10_000))
def test_no_two_sends_meet_at_a_port_in_any_period_and_none_goes_before_its_chunk_is_there(seed: int) -> None:
    draw = random.Random(seed)
    many, ports = draw.randint(1, 12), draw.randint(1, 4)
    stays = [draw.sample(range(ports), draw.randint(1, min(2, ports))) for _ in range(many)]
    first = np.concatenate([[0], np.cumsum([len(each) for each in stays])])
    port = np.array([p for each in stays for p in each])
    send = np.repeat(np.arange(many), np.diff(first))
    busy = np.array([draw.choice([1.0, 2.0, 0.7]) for _ in port])
    above = np.array([draw.randint(-1, e - 1) for e in range(many)])
    took = np.array([draw.choice([0.0, 1.0, 2.5]) for _ in range(many)])
    sends = Sends(first, port, busy, send, above, took, np.zeros(many))
    period = float(np.bincount(port, busy).max()) * draw.choice([1.0, 1.5, 3.0])
    start = placed(sends, period, 40 * many, seed)
    if not len(start):
        return
    for one in range(len(port)):
        for other in range(one):
            if port[one] == port[other] and send[one] != send[other]:
                apart = (start[send[one]] - start[send[other]]) % period
                assert busy[other] - 1e-6 <= apart <= period - busy[one] + 1e-6
    for e in range(many):
        assert start[e] >= (0.0 if above[e] < 0 else start[above[e]] + took[above[e]] - 1e-6)


# Schedules.


@pytest.mark.parametrize(
    ("topology", "ways_out"),
    [(ring(6), 1), (torus(4, 4), 4), (full(5), 4)],
    ids=["ring:6", "torus:4x4", "full:5"],
)
def test_many_chunks_take_little_longer_than_the_root_needs_to_send_them_out(
    topology: LogicalTopology, ways_out: int
) -> None:
    large = rooted("broadcast", topology, 128, 128.0)
    fastest = found(large)[-1]
    fastest.check()
    hop_us = float(topology.duration_us(np.array([0]), large.chunk_mb)[0])
    # All chunks leave by all ways, and the last one goes round.
    assert fastest.makespan_us <= (128 / ways_out + topology.num_ranks) * hop_us + 1e-6


def test_a_reduce_is_a_broadcast_read_backwards() -> None:
    times = [found(rooted(name, ring(4), 32))[-1].makespan_us for name in ("broadcast", "reduce")]
    assert times[0] == pytest.approx(times[1])


@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall", "scatter", "gather"])
def test_it_is_for_one_root_and_all_ranks(name: str) -> None:
    verdict = serves(Instance(problem(ring(4), name)))
    assert not verdict
    assert "from one rank to all" in verdict.reason


@given(st.integers(0, 10_000), st.sampled_from(["broadcast", "reduce"]), st.integers(1, 9))
def test_every_schedule_is_valid(seed: int, name: str, chunks: int) -> None:
    small = rooted(name, random_network(random.Random(seed)), chunks)
    if serves(Instance(small)):
        for schedule in found(small):
            schedule.check()


def test_the_best_number_of_chunks_is_found_without_a_trial_of_each() -> None:
    numbers = (1, 2, 4, 8, 16, 32, 64)
    instances = [Instance(rooted("broadcast", two_nodes(), number, 64.0)) for number in numbers]
    schedules = list(across_chunks(instances, Budget.of_work(400)))
    alone = {number: found(rooted("broadcast", two_nodes(), number, 64.0)) for number in numbers}
    least_us = min(each[-1].makespan_us for each in alone.values())
    assert schedules[-1].makespan_us <= 1.05 * least_us
