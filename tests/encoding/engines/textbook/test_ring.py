"""Rings both ways: links of a torus carry about as much as each other, and none is idle for long."""

from __future__ import annotations

import numpy as np
import pytest

from taccl.api import make_problem
from taccl.encoding.engines.textbook.engine import by_name
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule

#: By links: 0.5 us and 20.97152 us a MB.
ALPHA_US, BETA_US_PER_MB = 0.5, 20.97152


def both_axes(machine: str, collective: str) -> Schedule:
    """1 MB round both axes of a torus, half of it along each axis first, valid."""
    shape = machine.removeprefix("torus:")
    along = [f"ring both directions along axis {axis}" for axis in range(2)]
    problem = make_problem(collective, topology=machine, size="1MB", chunks=1).problem
    schedule = by_name(Instance(problem), f"2 routes: {along[0]}, then {along[1]} of {shape}")
    assert schedule is not None
    schedule.check()
    return schedule


@pytest.mark.parametrize("side", [4, 8])
def test_an_alltoall_on_a_torus_keeps_all_links_busy_at_all_times(side: int) -> None:
    """Half way round every other chunk goes ahead: side / 8 chunks of each rank a link."""
    schedule = both_axes(f"torus:{side}x{side}", "alltoall")
    chunks = np.bincount(schedule.link, minlength=schedule.problem.topology.num_links)
    assert chunks.max() == chunks.min() == side**3 / 8
    a_link_us = side**3 / 8 * schedule.problem.chunk_mb * BETA_US_PER_MB
    assert schedule.makespan_us == pytest.approx(2 * side / 2 * ALPHA_US + a_link_us)


@pytest.mark.parametrize(("machine", "mean"), [("torus:6x6", 27), ("torus:4x6", 12)])
def test_with_an_odd_number_half_way_round_links_differ_by_one_chunk(machine: str, mean: int) -> None:
    """Along axis 0 of 4 x 6; along both of 6 x 6."""
    schedule = both_axes(machine, "alltoall")
    topology = schedule.problem.topology
    along_0 = (topology.src - topology.dst) % int(machine[-1]) == 0
    chunks = np.bincount(schedule.link, minlength=topology.num_links)[along_0]
    assert mean - 1 <= chunks.min() and chunks.max() <= mean + 1


def test_of_what_a_rank_gathered_half_goes_each_way_where_it_is_as_far() -> None:
    """On 4 x 4, a rank sends its own and then two of four in two steps: 1 + 1, and 2 + 1 of each half."""
    schedule = both_axes("torus:4x4", "allgather")
    a_chunk_us = schedule.problem.chunk_mb * BETA_US_PER_MB
    assert schedule.makespan_us == pytest.approx(4 * ALPHA_US + (1 + 1 + 2 + 1) * a_chunk_us)
