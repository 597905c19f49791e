"""Problems without the helpers of their machines, and their schedules on the machines with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import featured_problems, full, machine, problem, ring
from studies import examples

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.routes.orders import Open
from taccl.encoding.engines.routes.shortest import along_shortest_paths
from taccl.encoding.members import Members, members
from taccl.encoding.portfolio.solve import solve
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.synthesis.search import search


def beside(topology: LogicalTopology, **can: np.ndarray) -> LogicalTopology:
    """The machine with one more rank, a helper that all others are linked to, both ways."""
    many = topology.num_ranks
    links = [(int(a), int(b), 1.0, 1.0) for a, b in zip(topology.src, topology.dst, strict=True)]
    links[1:1] = [link for rank in range(many) for link in ((rank, many, 1.0, 2.0), (many, rank, 1.0, 2.0))]
    return replace(machine(many + 1, links), is_helper=np.arange(many + 1) == many, **can)


def asking(topology: LogicalTopology, name: str) -> Problem:
    return Problem(topology, make_collective(name, topology.num_members).with_helpers(1), 1.0)


def alone(whole: Problem) -> Members:
    found = members(whole)
    assert found is not None
    return found


def test_what_is_left_is_the_problem_of_the_machine_without_its_helpers() -> None:
    part, plain = alone(asking(beside(ring(4)), "allreduce")).problem, problem(ring(4), "allreduce")
    for column in ("src", "dst", "alpha_us", "beta_us_per_mb", "node_of"):
        assert np.array_equal(getattr(part.topology, column), getattr(plain.topology, column))
    assert (part.topology.ports, part.topology.port_names) == (
        plain.topology.ports,
        plain.topology.port_names,
    )
    assert part.features == plain.features == {"reductions"}


def test_all_sizes_on_one_machine_have_one_machine_without_helpers() -> None:
    machine_with = beside(ring(4))
    one, other = (alone(asking(machine_with, name)).problem for name in ("allreduce", "allgather"))
    assert one.topology is other.topology
    assert machine_with.with_equal_ranks() is machine_with.with_equal_ranks()


def test_a_schedule_goes_there_and_back() -> None:
    whole = asking(beside(ring(4)), "allreduce")
    found = alone(whole)
    first = next(solve(found.problem, SearchOptions(effort=1))).schedule
    assert first is not None
    lifted = found.lifted(first)
    lifted.check()
    assert lifted.problem is whole
    assert lifted.makespan_us == first.makespan_us
    back = found.restricted(lifted)
    assert back is not None
    assert np.array_equal(back.link, first.link)
    back.check()


def test_a_schedule_that_uses_a_helper_is_none_of_the_members() -> None:
    whole = asking(beside(ring(4)), "broadcast")
    routes = along_shortest_paths(whole)
    assert routes is not None
    first = Open(whole, routes).pipeline(0.0, 0.0, 1).schedule()
    assert (first.dst == 4).any()
    assert alone(whole).restricted(first) is None


def test_limits_and_symmetries_are_those_of_the_members() -> None:
    whole = asking(beside(ring(3)), "allgather")
    may_use = np.ones((4, whole.topology.num_links), dtype=np.bool_)
    may_use[2, :7] = False  # 0 -> 1, and what the helper is linked by
    turned = np.array([1, 2, 0, 3])
    part = alone(replace(whole, symmetry=(turned,))).problem
    assert [ranks.tolist() for ranks in part.symmetry] == [[1, 2, 0]]
    assert members(replace(whole, limits=RoutingLimits(may_use=may_use))) is None  # 2's chunk stays at 0


@pytest.mark.parametrize(
    "whole",
    [
        problem(ring(3), "allgather"),
        asking(beside(machine(3, [(0, 1, 1.0, 1.0)])), "allgather"),
        asking(beside(ring(3), may_sum=np.array([True, False, True, True])), "allreduce"),
    ],
    ids=["no helper", "only ways through the helper", "a member that may not sum"],
)
def test_there_is_nothing_to_answer_without_helpers(whole: Problem) -> None:
    assert members(whole) is None


def test_what_only_has_ways_in_one_direction_is_answered_too() -> None:
    line = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)])
    assert members(asking(beside(line), "broadcast")) is not None
    assert members(asking(beside(line), "allgather")) is None


@settings(max_examples=30)
@given(featured_problems())
def test_no_search_with_helpers_ends_later_than_one_without(whole: Problem) -> None:
    found = members(whole)
    if found is None:
        return
    first = next(solve(whole, SearchOptions(effort=1))).schedule
    plain = next(solve(found.problem, SearchOptions(effort=1))).schedule
    assert first is not None and plain is not None
    first.check()
    assert first.makespan_us <= plain.makespan_us


@settings(max_examples=examples(6))
@given(
    topology=st.sampled_from([ring(4), ring(6), full(3), full(5)]),
    name=st.sampled_from(["allreduce", "allgather", "reducescatter", "alltoall"]),
    able=st.tuples(st.booleans(), st.booleans()),
    effort=st.integers(1, 400),
)
def test_the_same_effort_finds_nothing_worse_for_having_a_helper(
    topology: LogicalTopology, name: str, able: tuple[bool, bool], effort: int
) -> None:
    """By construction: the search of the machine without it is part of the one with it."""
    members_may = np.ones(topology.num_ranks, dtype=np.bool_)
    may_sum, may_copy = (np.append(members_may, can) for can in able)
    whole = asking(beside(topology, may_sum=may_sum, may_copy=may_copy), name)
    options = SearchOptions(effort=effort)
    with_it, without_it = (search(each, options).schedule for each in (whole, alone(whole).problem))
    assert with_it.makespan_us <= without_it.makespan_us
