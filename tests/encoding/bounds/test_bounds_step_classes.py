"""Ranks that look the same are counted once, and what is said of each is what counting all of them says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_cluster_problem, random_problem
from small_problems import full, grid, machine, problem, ring, two_nodes
from studies import examples

from taccl.encoding.bounds import steps
from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.layer import Distances, Layer, held_at_start, nearest_us
from taccl.encoding.bounds.step_classes import Alike
from taccl.encoding.bounds.step_loops import Links
from taccl.encoding.bounds.steps import gathered, informed
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

_HORIZON_US = 30.0


def counted(stated: Problem, at_ends: bool, divisible: bool) -> list[list[Steps]]:
    """Of chunk 0 who is informed, and of all chunks who holds how many."""
    instance, budget = Instance(stated), Budget.of_work(1_000_000)
    one, every = Layer.of(instance, np.array([0])), Layer.of(instance, np.arange(stated.num_chunks))
    near = None if divisible else nearest_us(instance, every)
    distances = instance.once(Distances).over(one.uses())
    return [
        informed(stated, one, distances, _HORIZON_US, budget, at_ends),
        gathered(
            *(stated, every, held_at_start(instance, every), _HORIZON_US, budget, near),
            at_ends=at_ends,
            divisible=divisible,
        ),
    ]


def each_alone(
    links: Links, kinds: Sequence[np.ndarray], of_slots: object, of_ranks: Sequence[np.ndarray]
) -> Alike:
    """No two ranks in one class."""
    ranks = np.arange(len(of_ranks[0]))
    return Alike(ranks, ranks, np.arange(len(links.rank_of_slot)), np.arange(len(kinds[0])))


def assert_same(stated: Problem, at_ends: bool, divisible: bool) -> None:
    by_class = counted(stated, at_ends, divisible)
    with patch.object(steps.Alike, "of", each_alone):
        one_by_one = counted(stated, at_ends, divisible)
    for ours, theirs in zip(by_class, one_by_one, strict=True):
        assert [each.counts for each in ours] == [each.counts for each in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.times == pytest.approx(other.times, rel=1e-9)


def switch(ranks: int) -> LogicalTopology:
    """Each rank sends through one port and receives through another."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    ends = [
        [i for i, pair in enumerate(pairs) if pair[end] == rank] for end in (0, 1) for rank in range(ranks)
    ]
    return machine(ranks, [(a, b, 0.5, 2.0) for a, b in pairs], shared=ends)


@pytest.mark.parametrize("name", ["allgather", "alltoall", "broadcast"])
@pytest.mark.parametrize("of", [grid(3, 4), ring(6, both=True), full(5), switch(5), two_nodes(3)])
@pytest.mark.parametrize(("at_ends", "divisible"), [(False, False), (True, False), (False, True)])
def test_counts_by_class_are_those_rank_by_rank(
    of: LogicalTopology, name: str, at_ends: bool, divisible: bool
) -> None:
    assert_same(problem(of, name, 2), at_ends, divisible)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans())
def test_counts_by_class_are_those_rank_by_rank_of_random_problems(
    seed: int, in_nodes: bool, at_ends: bool, divisible: bool
) -> None:
    draw = random.Random(seed)
    stated = random_cluster_problem(draw, False) if in_nodes else random_problem(draw, False)
    assert_same(stated, at_ends, divisible and not at_ends)


@pytest.mark.parametrize(
    ("of", "classes"), [(grid(4, 4), 1), (switch(6), 1), (two_nodes(3), 2), (grid(3, 3, closed=False), 3)]
)
def test_an_allgather_has_a_class_for_each_kind_of_rank(of: LogicalTopology, classes: int) -> None:
    seen: list[Alike] = []
    known = Alike.of

    def noted(*columns: object) -> Alike:
        seen.append(known(*columns))  # type: ignore[arg-type]
        return seen[-1]

    with patch.object(steps.Alike, "of", noted):
        counted(problem(of, "allgather", 1), False, False)
    assert len(seen[-1].rank) == classes
