"""Orbits: what is alike by automorphisms that are exhibited, and nothing that is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_problems import Link, custom, full, grid, machine, problem, problems, ring, two_nodes

from taccl.encoding.bounds.kinds import Kinds
from taccl.encoding.bounds.orbits import Automorphisms, joined, orbits
from taccl.model.automorphism import broken_by
from taccl.model.problem import Problem


def found_of(stated: Problem) -> Automorphisms:
    return Automorphisms(stated, Kinds.of(stated))


def orbits_of_ranks(stated: Problem, *kept: int) -> list[int]:
    maps = (each.ranks for each in found_of(stated).keeping(kept))
    return orbits(stated.num_ranks, maps).tolist()


def test_on_a_ring_all_ranks_are_alike_and_with_one_kept_those_as_far_from_it() -> None:
    both_ways = problem(ring(5, both=True), "allreduce")
    assert orbits_of_ranks(both_ways) == [0, 0, 0, 0, 0]
    assert orbits_of_ranks(both_ways, 0) == [0, 1, 2, 2, 1]
    assert orbits_of_ranks(problem(ring(5), "allreduce"), 0) == [0, 1, 2, 3, 4]


def test_on_a_torus_axes_and_directions_are_alike() -> None:
    assert orbits_of_ranks(problem(grid(3, 3), "allgather"), 0) == [0, 1, 1, 1, 4, 4, 1, 4, 4]


def test_what_a_collective_asks_of_a_rank_tells_it_from_others() -> None:
    assert orbits_of_ranks(problem(full(4), "allgather")) == [0, 0, 0, 0]
    assert orbits_of_ranks(problem(full(4), "broadcast")) == [0, 1, 1, 1]


def test_nodes_are_exchanged_as_a_whole() -> None:
    assert orbits_of_ranks(problem(two_nodes(), "allreduce")) == [0, 1, 0, 1]


def test_a_link_that_costs_more_or_a_port_that_two_share_is_seen() -> None:
    def pairs(alpha_us: float) -> list[Link]:
        return [(a, b, alpha_us if a == 0 else 1.0, 1.0) for a in range(3) for b in range(3) if a != b]

    assert orbits_of_ranks(problem(machine(3, pairs(1.0)), "allreduce")) == [0, 0, 0]
    assert orbits_of_ranks(problem(machine(3, pairs(2.0)), "allreduce")) == [0, 1, 1]
    shared = machine(3, pairs(1.0), shared=[[0, 1]])  # both links out of rank 0
    assert orbits_of_ranks(problem(shared, "allreduce")) == [0, 1, 1]


def test_chunks_of_a_kind_are_counted_and_go_with_their_ranks() -> None:
    kinds = Kinds.of(problem(full(3), "alltoall", 2))
    assert (len(kinds), kinds.many.tolist()) == (6, [2] * 6)
    rotated = kinds.images(np.array([1, 2, 0]))
    assert rotated is not None and sorted(rotated.tolist()) == list(range(6))
    one_root = Kinds.of(problem(full(3), "broadcast", 2))
    assert (len(one_root), one_root.images(np.array([1, 2, 0]))) == (1, None)


def test_what_is_there_already_is_no_kind_and_a_sum_is_another_than_a_copy() -> None:
    chunks = [([0], [0], False), ([0, 1], [0], True), ([0, 1], [0], False), ([0], [0, 1], False)]
    kinds = Kinds.of(replace(problem(full(2), "allgather"), collective=custom(2, chunks)))
    assert kinds.are_sums.tolist().count(True) == 1
    assert sorted(kinds.wanted.sum(axis=1).tolist()) == [1, 1]


@given(problems(), st.integers(0, 3))
def test_each_is_an_automorphism_that_keeps_what_it_should(stated: Problem, kept: int) -> None:
    kept %= stated.num_ranks
    found = found_of(stated)
    for each in found.keeping((kept,)):
        assert each.ranks[kept] == kept
        assert broken_by(each.ranks, stated.topology, stated.limits) is None
        assert found.kinds.images(each.ranks) is not None


def test_orbits_are_joined_by_one_permutation_more() -> None:
    assert orbits(6, [np.array([1, 0, 2, 3, 5, 4])]).tolist() == [0, 0, 2, 3, 4, 4]
    assert joined(np.array([0, 0, 2, 3, 4, 4]), np.array([0, 4, 3, 2, 1, 5])).tolist() == [0, 0, 2, 2, 0, 0]
