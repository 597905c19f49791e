"""The linear program with time in cells: what it proves, and that every schedule is a solution of it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_cluster_problem, random_problem
from small_problems import full, grid, machine, problem, ring
from studies import examples
from within_reach import fastest_within_reach

from taccl.encoding.bounds import BOUNDS, Proof, lower_bound, proofs
from taccl.encoding.bounds.cells import cell_us
from taccl.encoding.bounds.equivalence import Equivalence
from taccl.encoding.bounds.moments import MOMENTS
from taccl.encoding.bounds.moments_program import Program, group_sizes
from taccl.encoding.bounds.views import views
from taccl.encoding.bounds.whole_flow import _passed_us as passed_us
from taccl.encoding.core.linear import Solution, solve
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.support.budget import Budget

_OTHERS = [bound for bound in BOUNDS if bound is not MOMENTS]
_PLENTY = 1_000_000


def with_and_without(stated: Problem) -> tuple[Proof, Proof]:
    others, both = (
        lower_bound(stated, Budget.of_work(_PLENTY), bounds) for bounds in (_OTHERS, [*_OTHERS, MOMENTS])
    )
    return others, both


def one_port_each(ranks: int) -> Problem:
    """Four chunks of one rank for all, on ranks with one way out and one way in."""
    topology = full(ranks)
    ways = [
        np.flatnonzero(end == rank).tolist() for end in (topology.src, topology.dst) for rank in range(ranks)
    ]
    links = [
        (int(a), int(b), 1.0, 1.0) for a, b in zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    ]
    return problem(machine(ranks, links, shared=ways), "broadcast", chunks_per_rank=4, max_group=1)


def test_chunks_that_multiply_and_ports_that_take_turns_are_seen_together() -> None:
    """Four sends of 2 us leave the root, and the last one still has to double: 10 us at best.

    Bounds of loads alone say 8. `broadcast-time`, by what leaves the root before the last, and `staged-cut`,
    which looks at all ranks but the root, say 10 as well.
    """
    stated = one_port_each(4)
    of_both = ("broadcast-time", "staged-cut", "staged-soon")
    of_loads = [bound for bound in _OTHERS if bound.name not in of_both]
    before, after = (
        lower_bound(stated, Budget.of_work(_PLENTY), bounds) for bounds in (of_loads, [*of_loads, MOMENTS])
    )
    assert before.value_us == pytest.approx(8.0)
    assert after.kind == "moments"
    assert 8.6 < after.value_us <= 10.0
    others, _ = with_and_without(stated)
    assert (others.kind in of_both, others.value_us) == (True, pytest.approx(10.0))


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(2.0, 24.0))
def test_the_fastest_program_is_a_solution_on_any_grid(seed: int, sums: bool, cells: float) -> None:
    drawn = random_cluster_problem if seed % 4 == 3 else random_problem
    stated = drawn(random.Random(seed), sums)
    fastest = fastest_within_reach(stated, 300)
    assume(fastest.makespan_us > 1e-6)
    horizon_us = fastest.makespan_us * (1 + 1e-7)
    for view in views(Instance(stated)):
        if not view.problem.collective.is_reduction:
            program = Program(view, Equivalence.of(view.instance), horizon_us, horizon_us / cells)
            assert program.shows(solve(program.model, budget=60.0)) > 1 - 1e-6


def test_any_prices_prove_something_true() -> None:
    """What a solver says is not trusted: random prices never show that what is possible is not."""
    stated, draw = problem(ring(4), "allgather"), np.random.default_rng(0)
    view = views(Instance(stated))[0]
    program = Program(view, Equivalence.of(view.instance), 6.0, 1.0)  # three steps of 2 us
    for _ in range(50):
        prices = draw.normal(size=program.model.num_rows) * draw.integers(0, 2, program.model.num_rows)
        assert program.shows(Solution("optimal", duals=prices)) >= 1.0
    assert program.shows(Solution("unknown")) == np.inf


def test_what_looks_alike_is_as_little_as_under_all_symmetries() -> None:
    """On a torus a passage is told by how far its ends are from where the chunk starts."""
    classes = Equivalence.of(Instance(problem(grid(3, 3), "allgather"))).classes
    assert classes.places.max() + 1 == 3  # here, one away, two away
    assert classes.ports.max() == classes.links.max() == 0
    assert Equivalence.of(Instance(problem(full(5), "allgather"))).classes.passages.max() + 1 == 2


def test_sizes_of_groups_are_looked_at_one_by_one_and_then_in_steps() -> None:
    assert group_sizes(1) == [1]
    assert group_sizes(8) == list(range(1, 9))
    assert group_sizes(14) == [*range(1, 9), 10, 13]


def test_it_says_nothing_of_what_is_large_or_has_no_link() -> None:
    for stated in (problem(full(30), "allgather"), problem(machine(1, []), "allgather")):
        found = list(proofs(Instance(stated), Budget.of_work(_PLENTY), [MOMENTS]))
        assert max(proof.value_us for proof in found) == 0.0


def test_it_stops_with_the_budget_and_what_it_says_is_true_then() -> None:
    stated = one_port_each(4)
    instance = Instance(stated)
    instance.proves(1.0)
    few = max(proof.value_us for proof in proofs(instance, Budget.of_work(300), [MOMENTS]))
    instance = Instance(stated)
    instance.proves(1.0)
    many = max(proof.value_us for proof in proofs(instance, Budget.of_work(20_000), [MOMENTS]))
    assert 0 < few < many <= 10.0


def test_what_takes_longer_than_the_horizon_has_no_say_in_cells() -> None:
    """It would be divided into billions of parts."""
    assert cell_us(np.array([2.0, 1e12]), 10.0, 100) == cell_us(np.array([2.0]), 10.0, 100)


def test_ports_of_very_different_speeds_are_bounded_in_little_memory() -> None:
    """Chunks by the billion pass the fast link in the time of a few over the slow one."""
    topology = machine(3, [(0, 1, 1.0, 1e-9), (1, 2, 1.0, 100.0), (2, 0, 1.0, 100.0)])
    instance = Instance(problem(topology, "alltoall"))
    assert passed_us(instance, 1000.0) is None
    assert lower_bound(instance.problem).value_us > 200.0
