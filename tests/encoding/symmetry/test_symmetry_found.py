"""Symmetries that are found: what they keep, and which machines have how many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from small_problems import full, machine, ndv2_node, networks, problem, ring, two_nodes

from taccl.encoding.symmetry.action import is_automorphism
from taccl.encoding.symmetry.group import symmetry_group
from taccl.encoding.symmetry.search import lost_by_costs, with_symmetry_found
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget


def found(small: Problem) -> int:
    """How many elements the group has that is found."""
    return len(symmetry_group(with_symmetry_found(small)[0]))


@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce", "reducescatter"])
def test_an_ndv2_node_has_four(name: str) -> None:
    assert found(problem(ndv2_node(), name)) == 4


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_a_ring_has_as_many_as_ranks(ranks: int) -> None:
    assert found(problem(ring(ranks), "allgather")) == ranks


def test_machines_numbered_at_random_are_searched() -> None:
    """A ring of six whose numbers follow no rule."""
    order = [0, 4, 1, 5, 3, 2]
    links = [(a, b, 1.0, 1.0) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    assert found(problem(machine(6, links), "allgather")) == 6


def test_nodes_stay_together() -> None:
    assert found(problem(two_nodes(), "allgather")) == 2
    apart = machine(4, [(a, b, 1.0, 1.0) for a in range(4) for b in range(4) if a != b], node_of=[0, 0, 0, 1])
    assert found(problem(apart, "allgather")) == 1


def test_ports_go_to_ports() -> None:
    """All links are equivalent; two out of rank 0 share a port."""
    shared = machine(3, [(a, b, 1.0, 1.0) for a in range(3) for b in range(3) if a != b], shared=[(0, 1)])
    assert found(problem(full(3), "allgather")) == 3
    assert found(problem(shared, "allgather")) == 1


def test_limits_are_kept() -> None:
    may_use = np.ones((3, 6), dtype=np.bool_)
    may_use[0, 0] = False
    assert found(problem(full(3), "allgather", limits=RoutingLimits(may_use=may_use))) == 1
    own_first = np.array([True] + [False] * 5)
    assert found(problem(full(3), "allgather", limits=RoutingLimits(own_first=own_first))) == 1


def test_a_root_stays_where_it_is_and_so_there_is_none() -> None:
    plain = problem(full(4), "broadcast")
    same, note = with_symmetry_found(plain)
    assert same.symmetry == ()
    assert note == "symmetry auto: found none"


def test_what_a_sketch_states_is_kept() -> None:
    stated = problem(full(4), "allgather", symmetry=[[1, 0, 3, 2]])
    more, note = with_symmetry_found(stated)
    assert more.symmetry[0].tolist() == [1, 0, 3, 2]
    assert len(symmetry_group(more)) == 4
    assert note.startswith("symmetry auto: 4 permutations of the ranks, made by (0 ")


def test_without_time_nothing_is_found_and_the_note_says_so() -> None:
    same, note = with_symmetry_found(problem(ring(6), "allgather"), Budget(0.0))
    assert same.symmetry == ()
    assert note == "symmetry auto: found none; the search was cut short"


@settings(max_examples=60, deadline=None)
@given(networks(most_ranks=4))
def test_what_is_found_is_an_automorphism_that_leaves_no_rank_in_place(topology: LogicalTopology) -> None:
    plain = Problem(topology, make_collective("allgather", topology.num_ranks), 1.0)
    group = symmetry_group(with_symmetry_found(plain)[0])
    for element in group.rank_map[1:]:
        assert is_automorphism(plain, element)
        assert (element != np.arange(len(element))).all()


def measured(*betas: float) -> Problem:
    """A ring whose links have betas of their own."""
    return problem(replace(ring(len(betas)), beta_us_per_mb=np.array(betas), port_betas=None), "allgather")


def test_costs_that_are_nearly_equal_are_told_as_what_takes_the_symmetry_away() -> None:
    said = (
        "the machine would look the same from 4 ranks, and be decided once for them, "
        "but for costs that differ by up to 2%"
    )
    assert lost_by_costs(measured(1.0, 1.02, 1.0, 1.01)) == said
    _, note = with_symmetry_found(measured(1.0, 1.02, 1.0, 1.01))
    assert note == f"symmetry auto: found none; {said}"


def test_nothing_is_told_where_costs_are_equal_or_have_nothing_to_do_with_it() -> None:
    assert lost_by_costs(measured(1.0, 1.0, 1.0, 1.0)) is None
    assert lost_by_costs(measured(1.0, 2.0, 1.0, 1.0)) is None
    assert lost_by_costs(measured(1.0, 1.02, 1.0, 1.02)) is None, "half a turn keeps these costs"
    line = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.02), (2, 1, 1.0, 1.0), (1, 0, 1.0, 1.0)])
    assert lost_by_costs(problem(line, "allgather")) is None


def test_the_same_search_finds_the_same_on_any_machine() -> None:
    """It counts work: with little of it, it stops at the same place each time."""
    order = [0, 4, 1, 5, 3, 2]
    links = [(a, b, 1.0, 1.0) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    small = problem(machine(6, links), "allgather")
    notes = {with_symmetry_found(small, Budget.of_work(units))[1] for units in (15, 15, 15)}
    assert len(notes) == 1


def test_nothing_is_told_where_finding_out_would_take_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    nearly = measured(1.0, 1.02, 1.0, 1.01)
    assert lost_by_costs(nearly) is not None
    monkeypatch.setattr("taccl.encoding.symmetry.search._MOST_CELLS_FOR_NOTE", 8)
    assert lost_by_costs(nearly) is None
