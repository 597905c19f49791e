"""Flows in time: what the program proves, and that every schedule is a solution of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_cluster_problem, random_problem
from small_problems import Link, full, grid, machine, problem, ring
from studies import examples
from within_reach import fastest_within_reach

from taccl.api import make_problem
from taccl.encoding.bounds import BOUNDS, Bound, proofs
from taccl.encoding.bounds.timed_flow import TIMED_FLOW
from taccl.encoding.bounds.timed_flow_layout import Layout, layout_of, way_of
from taccl.encoding.bounds.timed_flow_program import Program
from taccl.encoding.bounds.views import views
from taccl.encoding.core.linear import Solution, solve
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

_OTHERS = [bound for bound in BOUNDS if bound is not TIMED_FLOW]
_PLENTY = 1_000_000


def part_that_can_come(stated: Problem, horizon_us: float, cells: float) -> float | None:
    """How much of all can have come by a horizon, at most; None: the program does not fit the problem."""
    view = views(Instance(stated))[0]
    layout = Layout.of(view.instance)
    if layout is None or not view.problem.topology.beta_us_per_mb.all():
        return None
    program = Program(view, layout, horizon_us, horizon_us / cells)
    return program.shows(solve(program.model, budget=60.0))


def fastest_us(stated: Problem) -> float:
    """The time of the fastest program that there is."""
    fastest = fastest_within_reach(stated, 300)
    assume(fastest.makespan_us > 1e-6)
    return fastest.makespan_us


def any_chunks(stated: Problem, bounds: Sequence[Bound]) -> float:
    """What these bounds prove for any number of chunks, us."""
    found = proofs(Instance(stated), Budget.of_work(_PLENTY), bounds, any_chunks=True)
    return max(proof.value_us for proof in found)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.floats(2.0, 24.0))
def test_the_fastest_program_is_a_solution_on_any_grid(
    seed: int, sums: bool, is_pipelined: bool, cells: float
) -> None:
    drawn = random_cluster_problem if seed % 4 == 3 else random_problem
    stated = drawn(random.Random(seed), sums)
    occupancy = "pipelined" if is_pipelined else "serial"
    stated = replace(stated, topology=replace(stated.topology, occupancy=occupancy))
    part = part_that_can_come(stated, fastest_us(stated) * (1 + 1e-7), cells)
    assume(part is not None)
    assert part is not None and part > 1 - 1e-6


@st.composite
def machines_of_equals(draw: st.DrawFn) -> LogicalTopology:
    """A full mesh or a ring, with a port out of and into each rank, or one trunk for all, fast or not."""
    ranks = draw(st.integers(2, 4))
    plain = draw(st.sampled_from([full(ranks), ring(ranks, both=ranks > 2)]))
    ways = [np.flatnonzero(end == rank).tolist() for end in (plain.src, plain.dst) for rank in range(ranks)]
    shared = draw(st.sampled_from([[], ways, ways[:ranks], [list(range(plain.num_links))]]))
    rates = [draw(st.sampled_from([0.25, 0.5, 1.0]))] * len(shared)
    alpha, beta = draw(st.sampled_from([(0.5, 1.0), (1.0, 1.0), (3.0, 1.0)]))
    links: list[Link] = [(int(a), int(b), alpha, beta) for a, b in zip(plain.src, plain.dst, strict=True)]
    return machine(ranks, links, draw(st.sampled_from(["serial", "pipelined"])), shared, None, rates)


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    machines_of_equals(),
    st.sampled_from(["allgather", "alltoall", "broadcast", "allreduce", "reduce", "reducescatter"]),
    st.integers(1, 2),
    st.floats(2.0, 24.0),
)
def test_the_fastest_program_on_a_machine_of_equals_is_a_solution(
    topology: LogicalTopology, name: str, chunks: int, cells: float
) -> None:
    stated = problem(topology, name, chunks)
    part = part_that_can_come(stated, fastest_us(stated) * (1 + 1e-7), cells)
    assert part is not None and part > 1 - 1e-6


def test_what_leaves_a_root_late_still_has_a_relay_before_it() -> None:
    """A root feeds three others through one port; what leaves it last goes on over one more alpha.

    4 MB take 4 us out of the root, and most of it has to be passed on: 4 + 2 * 3 us, less what the root sends
    to all by itself. Of a relay alone other bounds say 3 + 3.
    """
    links: list[Link] = [(a, b, 3.0, 1.0) for a in range(4) for b in range(4) if a != b]
    ways = [[i for i, link in enumerate(links) if link[end] == rank] for end in (0, 1) for rank in range(4)]
    stated = problem(machine(4, links, "pipelined", ways), "broadcast", chunks_per_rank=4)
    others, both = (any_chunks(stated, bounds) for bounds in (_OTHERS, BOUNDS))
    assert others == pytest.approx(6.0)
    assert 8.2 < both <= 10.0


def test_orbits_say_as_much_as_the_whole() -> None:
    """Without symmetries the program has more variables, and the same value."""
    stated = problem(replace(grid(3, 3), occupancy="pipelined"), "allreduce")
    view = views(Instance(stated))[0]
    layout = Layout.of(view.instance)
    assert layout is not None
    topology = view.problem.topology
    every, ports = np.arange(topology.num_links), np.arange(topology.num_ports)
    (one,) = layout.commodities
    ways = tuple(way_of(topology, way.source, way.end, every, np.arange(9)) for way in one.ways)
    alone = layout_of(topology, [replace(one, links=every, ways=ways)], ports)
    values = [solve(Program(view, each, 7.0, 0.5).model, budget=60.0).objective for each in (layout, alone)]
    assert layout.variables < alone.variables / 2
    assert values[0] >= values[1] - 1e-6


def test_any_prices_prove_something_true() -> None:
    stated, draw = problem(replace(ring(4), occupancy="pipelined"), "allgather"), np.random.default_rng(0)
    view = views(Instance(stated))[0]
    layout = Layout.of(view.instance)
    assert layout is not None
    program = Program(view, layout, 6.0, 1.0)  # three steps of 2 us
    for _ in range(50):
        prices = draw.normal(size=program.model.num_rows) * draw.integers(0, 2, program.model.num_rows)
        assert program.shows(Solution("optimal", duals=prices)) >= 1.0


def test_it_says_nothing_of_copies_where_alpha_keeps_ports_busy_nor_of_what_has_no_link() -> None:
    for stated in (problem(full(4), "allgather"), problem(machine(1, []), "allgather")):
        found = list(proofs(Instance(stated), Budget.of_work(_PLENTY), [TIMED_FLOW]))
        assert max(proof.value_us for proof in found) == 0.0


def test_of_an_allreduce_over_nodes_it_says_most_for_any_number_of_chunks() -> None:
    stated = make_problem("allreduce", topology="a100", nodes=2, size="1MB").problem
    others, both = (any_chunks(stated, bounds) for bounds in (_OTHERS, BOUNDS))
    assert both > 1.1 * others
