"""Schedules in rounds, on machines whose links are all the same."""

from __future__ import annotations

import numpy as np
import pytest
from registered import greedy
from small_problems import full, grid, machine, ndv2_node, problem, ring

from taccl import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.greedy import is_quick
from taccl.encoding.engines.greedy.rarest_first import is_synchronous, rarest_first
from taccl.encoding.engines.registry import first_engines
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import RoutingLimits
from taccl.support.budget import Budget


@pytest.mark.parametrize(
    ("topology", "chunks", "rounds"),
    [
        (ring(5), 2, 8),  # 8 chunks into each rank over one link
        (ring(5, both=True), 1, 2),
        (full(5), 3, 3),
        (grid(4, 4, closed=False), 1, 8),  # 15 into a corner over two links
        (grid(6, 6, closed=False), 2, 35),
    ],
)
def test_as_many_rounds_as_the_narrowest_rank_needs(
    topology: LogicalTopology, chunks: int, rounds: int
) -> None:
    small = problem(topology, "allgather", chunks)
    assert is_synchronous(small)
    schedule = rarest_first(small, np.random.default_rng(0))
    assert schedule is not None
    schedule.check()
    duration = float(topology.duration_us(np.array([0]), 1.0)[0])
    assert schedule.makespan_us == pytest.approx(rounds * duration)
    assert lower_bound(small).value_us <= schedule.makespan_us + 1e-6


def test_a_broadcast_goes_in_rounds_too() -> None:
    schedule = rarest_first(problem(full(4), "broadcast", 2), np.random.default_rng(0))
    assert schedule is not None
    schedule.check()


def test_pipelined_links_may_be_in_step_too() -> None:
    piped = problem(ring(4, occupancy="pipelined"), "allgather")
    schedule = rarest_first(piped, np.random.default_rng(0))
    assert schedule is not None
    schedule.check()


def test_links_that_differ_or_share_ports_are_not_in_step() -> None:
    assert not is_synchronous(problem(ndv2_node(), "allgather"))
    shared = machine(3, [(a, (a + 1) % 3, 1.0, 1.0) for a in range(3)], shared=[[0, 1]])
    assert not is_synchronous(problem(shared, "allgather"))
    assert not is_synchronous(problem(ring(3), "alltoall"))
    assert not is_synchronous(problem(ring(3), "allgather", symmetry=[[1, 2, 0]]))
    nobody = RoutingLimits(own_first=np.zeros(3, dtype=np.bool_))
    assert not is_synchronous(problem(ring(3), "allgather", limits=nobody))


def test_none_where_a_rank_is_never_reached() -> None:
    lonely = problem(machine(3, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 0, 1.0, 1.0)]), "allgather")
    assert rarest_first(lonely, np.random.default_rng(0)) is None


def test_greedy_takes_rounds_for_large_machines_without_any_time() -> None:
    """A mesh of 144 ranks that are not equivalent: 143 chunks into a corner over two links."""
    mesh = problem(grid(12, 12, closed=False), "allgather")
    first = next(greedy(mesh, SearchOptions(), Budget(0.0), None)).schedule
    assert first is not None
    first.check()
    assert first.makespan_us <= 74 * 2.5


def test_a_thousand_ranks_begin_with_rounds_and_those_that_have_none_with_textbooks() -> None:
    """Both are too large for a pass of list scheduling before anything else is tried."""
    in_step = Instance(make_problem("allgather", topology="torus:32x32", size="1GB", chunks=1).problem)
    behind_a_switch = Instance(make_problem("allgather", topology="switch:256", size="1GB", chunks=1).problem)
    assert is_quick(in_step) and next(first_engines(in_step)).name == "greedy"
    assert not is_quick(behind_a_switch) and next(first_engines(behind_a_switch)).name == "textbook"
