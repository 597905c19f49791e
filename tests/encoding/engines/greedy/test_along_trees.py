"""A first schedule at any size: each chunk along a tree, and sequences of single sends as columns."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taccl import make_problem
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.sequence import in_sequence
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.greedy import engine as greedy_engine
from taccl.encoding.engines.greedy import greedy_at_once, has_trees
from taccl.encoding.instance import Instance
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from tests.encoding.random_problems import random_problem
from tests.encoding.small_problems import custom_problems


def _on(machine: str, collective: str, chunks: int = 1, nodes: int | None = None) -> Problem:
    return make_problem(collective, topology=machine, nodes=nodes, size=2**20 * 12, chunks=chunks).problem


@pytest.fixture(autouse=True)
def _nothing_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy_engine, "is_quick", lambda _: False)


def _answer(problem: Problem) -> Schedule:
    updates = by_phases(greedy_at_once)(Instance(problem), SearchOptions(), Budget.of_work(0), None)
    schedule = next(updates).schedule
    assert schedule is not None
    schedule.check()
    return schedule


def _links_take_time(problem: Problem) -> bool:
    """Others are refused before any engine runs."""
    return bool((problem.topology.alpha_us + problem.topology.beta_us_per_mb > 0).all())


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(
    ("machine", "nodes"),
    [("ring:4", None), ("ring-oneway:4", None), ("mesh:2x2", None), ("switch:4", None), ("ndv2-teccl", 2)],
)
def test_every_collective_has_a_valid_schedule_at_once(
    machine: str, nodes: int | None, collective: str
) -> None:
    _answer(_on(machine, collective, nodes=nodes))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), sums=st.booleans())
def test_whatever_it_answers_is_valid(seed: int, sums: bool) -> None:
    problem = random_problem(random.Random(seed), sums)
    if has_trees(Instance(problem)) and _links_take_time(problem):
        _answer(problem)


@settings(max_examples=60, deadline=None)
@given(problem=custom_problems())
def test_chunks_may_start_and_be_wanted_anywhere(problem: Problem) -> None:
    assume(_links_take_time(problem))
    _answer(problem)


def test_a_broadcast_through_a_switch_doubles_the_ranks_that_have_it() -> None:
    problem = _on("switch:8", "broadcast")
    one_us = float(Instance(problem).durations_us.max())
    assert _answer(problem).makespan_us == pytest.approx(3 * one_us)


def test_a_chunk_crosses_to_another_node_once() -> None:
    schedule = _answer(_on("a100", "allgather", nodes=3))
    crossing = schedule.problem.topology.internode[schedule.link]
    assert crossing.sum() == schedule.problem.num_chunks * 2


def test_sources_take_turns_at_the_nics_of_a_node() -> None:
    schedule = _answer(_on("a100", "allgather", nodes=3))
    crossing = schedule.problem.topology.internode[schedule.link]
    assert set(np.bincount(schedule.dst[crossing])) == {2}


def test_a_ring_is_used_both_ways() -> None:
    schedule = _answer(_on("ring:4", "alltoall"))
    assert (np.bincount(schedule.link) > 0).all()


def test_a_sum_and_its_copies_follow_each_other() -> None:
    schedule = _answer(_on("ring:4", "allreduce"))
    assert len(schedule) == 4 * 2 * 3
    assert schedule.reduce.sum() == 4 * 3


def test_chunks_keep_to_the_links_that_they_may_use() -> None:
    problem = _on("ring:4", "allgather")
    clockwise = (problem.topology.dst - problem.topology.src) % 4 == 1
    limited = replace(problem, limits=RoutingLimits(may_use=np.tile(clockwise, (4, 1))))
    assert clockwise[_answer(limited).link].all()


def test_an_order_that_is_asked_for_is_not_its_business() -> None:
    problem = _on("ring:4", "allgather")
    own_first = RoutingLimits(own_first=np.ones(problem.topology.num_links, dtype=np.bool_))
    assert "own chunks first" in has_trees(Instance(replace(problem, limits=own_first))).reason


def test_a_symmetry_that_is_asked_for_is_not_its_business() -> None:
    problem = replace(_on("ring:4", "allgather"), symmetry=(np.array([1, 2, 3, 0]),))
    assert "symmetry" in has_trees(Instance(problem)).reason


def test_a_sequence_as_columns_is_timed_like_decisions_in_order() -> None:
    problem = _on("ndv2-teccl", "allreduce", chunks=2, nodes=2)
    sends = _answer(problem).sorted()
    decisions = [
        Decision((int(chunk),), int(link), bool(adds))
        for chunk, link, adds in zip(sends.chunk, sends.link, sends.reduce, strict=True)
    ]
    columns = in_sequence(problem, sends.chunk, sends.link, sends.reduce, np.arange(len(sends)))
    assert columns.makespan_us == pytest.approx(in_order(problem, decisions).makespan_us)


def test_the_chunks_of_a_group_leave_together() -> None:
    problem = _on("ring-oneway:3", "broadcast", chunks=2)
    chunk, link = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    schedule = in_sequence(problem, chunk, link, np.zeros(4, dtype=np.bool_), np.array([0, 0, 1, 1]))
    schedule.check()
    assert len(schedule.sends) == 2
    both_us = float(problem.topology.duration_us(np.array([0]), 2 * problem.chunk_mb)[0])
    assert schedule.makespan_us == pytest.approx(2 * both_us)
