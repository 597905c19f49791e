"""Which problems stand for one with sums: not the same one twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_problems import full, machine, problem, ring

from taccl.encoding.bounds import all_bounds, turned
from taccl.encoding.bounds.views import views
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import RoutingLimits
from taccl.support.budget import Budget

BOTH_WAYS = [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (1, 2, 2.0, 3.0), (2, 1, 2.0, 3.0)]


@pytest.mark.parametrize(
    ("topology", "sums_and_copies"),
    [
        (full(3), 1),
        (ring(4, both=True), 1),
        (machine(3, BOTH_WAYS), 1),
        (machine(3, BOTH_WAYS, shared=[[0, 2], [1, 3]]), 1),
        (ring(4), 2),  # one way
        (machine(3, [*BOTH_WAYS[:3], (2, 1, 2.0, 4.0)]), 2),  # slower on the way back
        (machine(3, BOTH_WAYS, shared=[[1, 2]]), 2),  # rank 1 has one way out, and two ways in
    ],
    ids=["full", "ring", "chain", "doors", "one-way", "slower", "port"],
)
def test_sums_read_backwards_are_looked_at_where_the_way_back_is_another(
    topology: LogicalTopology, sums_and_copies: int
) -> None:
    instance = Instance(problem(topology, "allreduce"))
    first, *others = views(instance)
    assert first.instance is instance
    assert len(others) == sums_and_copies
    assert not any(view.problem.collective.is_reduction for view in others)


def test_where_owners_may_not_use_all_links_both_are_looked_at() -> None:
    stated = problem(full(3), "allreduce")
    limits = RoutingLimits(may_use=np.ones((3, stated.topology.num_links), dtype=np.bool_))
    assert len(views(Instance(replace(stated, limits=limits)))) == 3


@pytest.mark.parametrize(
    ("name", "where"), [("broadcast", "out of rank 0"), ("reduce", "into rank 0"), ("gather", "into rank 0")]
)
def test_a_witness_says_the_direction_in_which_the_problem_moves(name: str, where: str) -> None:
    """All that rank 0 sends or receives goes over one slow link; it is proved of copies from rank 0."""
    links = [(0, 1, 1.0, 9.0), (1, 0, 1.0, 9.0), (1, 2, 1.0, 1.0), (2, 1, 1.0, 1.0)]
    proved = all_bounds(problem(machine(3, links), name, 2), Budget.of_work(10**6))
    assert {where} == {
        each for proof in proved for each in ("out of rank 0", "into rank 0") if each in proof.witness
    }


def test_each_phrase_that_is_turned_round_is_one_that_a_bound_says() -> None:
    """So no bound changes its words and points the wrong way."""
    own = Path(turned.__file__)
    said = "".join(each.read_text("utf-8") for each in own.parent.glob("*.py") if each != own)
    assert [phrase for phrase in turned.WORDS if phrase not in said] == []
