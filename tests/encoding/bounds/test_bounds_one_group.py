"""A node behind one port: two groups pay two alphas, and one has to be gathered before and spread after."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import fastest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import machine, problem

from taccl.encoding.bounds.bound import Proof
from taccl.encoding.bounds.one_group import ONE_GROUP
from taccl.encoding.bounds.views import views
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def two_pairs(alpha_across: float, inside: tuple[float, float] = (1.0, 1.0)) -> LogicalTopology:
    """Two nodes of two ranks each; only their first ranks are joined, at 1 us a MB."""
    links = [(a, b, *inside) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(0, 2, alpha_across, 1.0), (2, 0, alpha_across, 1.0)]
    return machine(4, [*links, *across], node_of=[0, 0, 1, 1])


def proved(stated: Problem, known_us: float) -> list[Proof]:
    budget = Budget.of_work(100_000)
    return [proof for view in views(Instance(stated)) for proof in ONE_GROUP.prove(view, known_us, budget)]


def best_us(stated: Problem, known_us: float) -> float:
    return max(proof.value_us for proof in proved(stated, known_us))


def test_one_group_is_gathered_crosses_and_is_spread() -> None:
    """2 us to gather a chunk of 1 MB, 42 us across for two, 3 us to spread both; twice would be 82 us."""
    stated = problem(two_pairs(40.0), "allgather")
    assert best_us(stated, 46.5) == pytest.approx(47.0)
    assert best_us(stated, 47.0) == 0.0, "no better than what is known"
    reported = max(proved(stated, 46.5), key=lambda proof: proof.value_us).witness
    assert reported == "2 chunks into node 0 through 2-0, in one group or with one more alpha"


def test_two_groups_are_no_slower_than_two_alphas() -> None:
    """Where groups have one chunk there is no other case: twice 4 us and twice 1 us."""
    stated = problem(two_pairs(4.0), "allgather", max_group=1)
    assert best_us(stated, 9.9) == pytest.approx(10.0)
    assert best_us(stated, 10.0) == 0.0


def test_it_says_nothing_where_some_link_takes_no_time() -> None:
    """Such a link is in nobody's way, and no tick is short enough for it."""
    free = [(a, b, 0.0, 0.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(0, 2, np.pi, 1.0), (2, 0, np.pi, 1.0)]
    stated = problem(machine(4, [*free, *across], node_of=[0, 0, 1, 1]), "allgather")
    assert fastest(stated).makespan_us == pytest.approx(np.pi + 2)
    assert best_us(stated, 5.0) == 0.0


@given(
    st.sampled_from([0.5, 2.0, 6.0]),
    st.sampled_from([(0.5, 1.0), (2.0, 0.5)]),
    st.sampled_from(["gather", "alltoall"]),
    st.sampled_from([1, 71]),
)
@settings(max_examples=6, deadline=None)
def test_no_program_is_faster(alpha: float, inside: tuple[float, float], name: str, max_group: int) -> None:
    """Two ranks in one node, one in the other."""
    links = [(0, 1, *inside), (1, 0, *inside), (0, 2, alpha, 1.0), (2, 0, alpha, 1.0)]
    stated = problem(machine(3, links, node_of=[1, 1, 0]), name, max_group=max_group)
    optimum_us = fastest(stated).makespan_us
    for known_us in (0.9 * optimum_us, 0.99 * optimum_us):
        assert best_us(stated, known_us) <= optimum_us * (1 + 1e-9)
