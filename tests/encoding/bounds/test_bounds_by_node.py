"""What a node has and what others have, counted apart: by hand, and of programs of random clusters."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_problems import random_cluster_problem
from registered import greedy
from small_problems import machine, problem
from studies import examples

from taccl.encoding import bounds
from taccl.encoding.bounds.by_node import come_us, reach_us
from taccl.encoding.bounds.layer import Layer
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def budget() -> Budget:
    """More work than anything here takes."""
    return Budget.of_work(1_000_000)


def nodes_of_four(nodes: int) -> LogicalTopology:
    """Each rank has ports to a switch in its node, 1 us, and to all other nodes, 10 us; bytes take none."""
    ranks = range(4 * nodes)
    pairs = [(a, b) for a in ranks for b in ranks if a != b]
    shared = [
        [i for i, pair in enumerate(pairs) if pair[end] == rank and (pair[0] // 4 == pair[1] // 4) == inside]
        for rank in ranks
        for end in (0, 1)
        for inside in (True, False)
    ]
    links = [(a, b, *((1.0, 1e-4) if a // 4 == b // 4 else (10.0, 1e-3))) for a, b in pairs]
    return machine(4 * nodes, links, shared=shared, node_of=[rank // 4 for rank in ranks])


def all_chunks(instance: Instance) -> Layer:
    return Layer.of(instance, np.arange(instance.problem.num_chunks))


def test_chunks_of_its_node_come_to_a_rank_once_and_others_through_the_nodes_ports() -> None:
    """Its four chunks by 2 us; of the other node's one at 10 us, two more with the next alpha, then all."""
    instance = Instance(problem(nodes_of_four(2), "allgather"))
    moments = come_us(instance, all_chunks(instance), 40.0, budget(), False)
    assert [row.tolist() for row in moments] == [pytest.approx([0, 1, 2, 2, 10, 11, 11, 12], rel=0.01)] * 8


def test_a_chunk_informs_its_own_node_and_others_each_through_its_own_ports() -> None:
    """Its own node by 2 us; of the other node one rank at 10 us, two more an alpha later, then the fourth."""
    instance = Instance(problem(nodes_of_four(2), "broadcast"))
    moments = reach_us(instance, all_chunks(instance), 40.0, budget(), False)
    assert moments[0].tolist() == pytest.approx([0, 1, 2, 2, 10, 11, 11, 12], rel=0.01)


def test_a_group_of_chunks_of_another_node_is_gathered_there_crosses_and_is_spread() -> None:
    """A port has to serve 12 pairs of a chunk and a rank. One group does: 2 us for four chunks, 10 us across,
    2 us for three ranks or more. Before 14 us two chunks serve four ranks, or four serve two.
    """
    largest = bounds.lower_bound(problem(nodes_of_four(4), "allgather"), budget())
    assert (largest.kind, largest.value_us) == ("staged-cut", pytest.approx(14.0, rel=0.01))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_no_schedule_brings_chunks_to_a_rank_or_on_from_it_sooner(seed: int) -> None:
    stated = random_cluster_problem(random.Random(seed), sums=False)
    instance = Instance(stated)
    schedule = next(greedy(stated, SearchOptions(seed=seed % 97), Budget.of_work(10_000), None)).schedule
    assert schedule is not None
    schedule.check()
    horizon_us = schedule.makespan_us + 1.0
    layer = all_chunks(instance)
    come = come_us(instance, layer, horizon_us, budget(), False)
    for rank in range(stated.num_ranks):
        came_us = sorted([0.0] * int((instance.demand.starts.rank == rank).sum()) + arrivals(schedule, rank))
        is_allowed(came_us, come[rank])
    for chunk in range(stated.num_chunks):
        one = Layer.of(instance, np.array([chunk]))
        reach = reach_us(instance, one, horizon_us, budget(), False)
        for rank, informed_us in informs(schedule, chunk).items():
            is_allowed(sorted(us for at, us in informed_us if one.wanted[at]), reach[rank])


def is_allowed(moments_us: list[float], allowed_us: FloatArray) -> None:
    assert len(moments_us) <= len(allowed_us)
    assert (allowed_us[: len(moments_us)] <= np.array(moments_us) + 1e-9).all()


def arrivals(schedule: Schedule, rank: int) -> list[float]:
    """When each chunk first comes to a rank, in no order."""
    into = schedule.problem.topology.dst[schedule.link] == rank
    first = dict[int, float]()
    for chunk, end_us in zip(schedule.chunk[into].tolist(), schedule.end_us[into].tolist(), strict=True):
        first[chunk] = min(first.get(chunk, np.inf), end_us)
    return list(first.values())


def informs(schedule: Schedule, chunk: int) -> dict[int, list[tuple[int, float]]]:
    """By rank, which ranks a chunk comes to from there on, itself among them, and how long after it came."""
    topology, rows = schedule.problem.topology, np.flatnonzero(schedule.chunk == chunk)
    there_us, above = dict[int, float](), dict[int, int]()
    for row in rows[np.argsort(schedule.end_us[rows], kind="stable")].tolist():
        rank = int(topology.dst[schedule.link[row]])
        if rank not in there_us:
            there_us[rank], above[rank] = float(schedule.end_us[row]), int(topology.src[schedule.link[row]])
    found = dict[int, list[tuple[int, float]]]()
    for rank in {*there_us, *above.values()}:
        at: int | None = rank
        while at is not None:
            found.setdefault(at, []).append((rank, there_us.get(rank, 0.0) - there_us.get(at, 0.0)))
            at = above.get(at)
    return found


def test_nodes_that_differ_are_counted_each_by_itself() -> None:
    """A rank that is alone in its node has nothing to wait for there."""
    links = [(0, 1, 1.0, 0.0), (1, 0, 1.0, 0.0), (0, 2, 10.0, 0.0), (2, 0, 10.0, 0.0), (2, 1, 10.0, 0.0)]
    instance = Instance(problem(machine(3, links, node_of=[0, 0, 1]), "allgather"))
    moments = come_us(instance, all_chunks(instance), 40.0, budget(), False)
    assert [row.tolist() for row in moments] == [[0.0, 1.0, 10.0], [0.0, 1.0, 10.0], [0.0, 10.0, 11.0]]
