"""Problems that have no schedule: every bound ends there, and none breaks down."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import machine, problem

from taccl.encoding.bounds import BOUNDS, Bound, all_bounds
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget

#: 0 -> 1 -> 2 -> 0
ONE_WAY = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (2, 0, 1.0, 1.0)])


def masked(may_use: np.ndarray, collective: str = "allgather") -> Problem:
    """Three ranks in a one-way ring; owner r may use the links in row r."""
    return problem(ONE_WAY, collective, limits=RoutingLimits(may_use=may_use))


def no_link_for_rank_0() -> np.ndarray:
    may_use = np.ones((3, 3), dtype=np.bool_)
    may_use[0] = False
    return may_use


@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "allreduce", "alltoall"])
def test_an_owner_without_links_has_no_schedule(collective: str) -> None:
    proven = all_bounds(masked(no_link_for_rank_0(), collective))
    assert math.isinf(proven[0].value_us)
    assert len(proven) == 1


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_a_bound_that_is_asked_alone_says_so_too(bound: Bound) -> None:
    assert math.isinf(all_bounds(masked(no_link_for_rank_0()), bounds=(bound,))[0].value_us)


@settings(max_examples=60)
@given(st.lists(st.booleans(), min_size=9, max_size=9), st.sampled_from(["allgather", "allreduce"]))
def test_a_bound_is_infinite_exactly_where_a_chunk_cannot_reach_a_rank(mask: list[bool], name: str) -> None:
    may_use = np.array(mask).reshape(3, 3)
    # Of 3 links in a ring, a chunk that all ranks want needs the two that follow its owner; a sum the others.
    reaches = all(may_use[owner, [owner, (owner + 1) % 3]].all() for owner in range(3))
    if name == "allreduce":
        reaches = all(may_use[owner].sum() >= 2 for owner in range(3))
    proven = all_bounds(masked(may_use, name), Budget.of_work(20_000))
    if name == "allgather" or not reaches:
        assert math.isinf(proven[0].value_us) is not reaches
