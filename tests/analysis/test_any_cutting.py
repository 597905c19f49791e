"""Bounds for any cutting are no larger than what a schedule reaches, with few chunks or with many."""

from __future__ import annotations

import pytest

from taccl import bounds, synthesize
from taccl.analysis.any_cutting import any_cutting_bounds
from taccl.support.budget import Budget
from taccl.topologies import load_topology


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "broadcast"])
@pytest.mark.parametrize("size", [2**10, 2**24])
def test_no_schedule_is_faster_whatever_its_chunks(collective: str, size: int) -> None:
    machine = load_topology("ring:4")
    (bound,) = any_cutting_bounds(machine, collective, [size], Budget(60.0))
    assert bound is not None
    for chunks in (1, 4):
        made = synthesize(
            collective, topology=machine, size=size, chunks=chunks, engine="greedy", effort=100, file=False
        )
        assert bound.value_us <= made.time_us


def test_latency_counts_where_a_message_is_small() -> None:
    # 4 ranks in a ring of 0.5 us a hop: two hops to the farthest
    (bound,) = any_cutting_bounds(load_topology("ring:4"), "broadcast", [4], Budget(60.0))
    assert bound is not None
    assert bound.value_us == pytest.approx(1.0, rel=1e-3)


def test_a_large_message_has_the_bound_of_its_volume() -> None:
    machine = load_topology("ring:4")
    (bound,) = any_cutting_bounds(machine, "allgather", [2**30], Budget(60.0))
    assert bound is not None
    largest = next(
        each for each in bounds("allgather", topology=machine, size=2**30) if each.holds_for_any_chunks
    )
    assert bound.value_us == pytest.approx(largest.value_us)


def test_no_time_and_no_byte_for_each_rank_leave_no_bound() -> None:
    machine = load_topology("ring:4")
    assert any_cutting_bounds(machine, "allgather", [3], Budget(60.0)) == [None]
    assert any_cutting_bounds(machine, "allgather", [2**20], Budget(1e-9)) == [None]
