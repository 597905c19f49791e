"""Schedules through the faces of switches, as schedules of the GPUs alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from switched import ALPHA, BETA, in_turn, nvls_allgather, nvls_allreduce, switched

from taccl.backend.lower_plan.by_members import by_members, check_helpers
from taccl.errors import CollectiveError
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule
from tests.backend.small_schedules import ring_allgather


def sends(schedule: Schedule) -> set[tuple[int, int, int, bool]]:
    rows = (schedule.src, schedule.dst, schedule.chunk, schedule.reduce)
    return set(zip(*(column.tolist() for column in rows), strict=True))


def test_a_schedule_without_helpers_stays_as_it_is() -> None:
    schedule = ring_allgather(3)
    assert by_members(schedule) is schedule


@pytest.mark.parametrize("own", [True, False])
def test_what_goes_to_a_face_goes_to_those_who_get_it_from_there(own: bool) -> None:
    """Whether an owner's own part of a sum passes the switch or not: it is there already."""
    alone = by_members(nvls_allreduce(3, own=own))
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    assert sends(alone) == {(a, b, b, True) for a, b in pairs} | {(a, b, a, False) for a, b in pairs}
    assert alone.problem.num_ranks == 3
    assert "helpers" not in alone.problem.features


def test_a_message_lasts_from_where_it_leaves_to_where_it_comes() -> None:
    alone = by_members(nvls_allgather(2))
    assert alone.start_us.tolist() == [0.0, 2 * BETA + ALPHA]
    assert alone.end_us - alone.start_us == pytest.approx([2 * (ALPHA + BETA)] * 2)


def test_a_compact_sum_that_a_face_passes_on_is_made_where_it_goes() -> None:
    """The face is the root of the sum: rank 0 gets a copy of it, and its own part is in it."""
    topology = switched(2)
    rows = [(0, 2, 0, [0]), (1, 2, 0, [1]), (2, 0, 0, None)]
    explicit = in_turn(topology, make_collective("reduce", 2), rows)
    compact = replace(explicit, sums=None)
    compact.check()
    assert sends(by_members(compact)) == sends(by_members(explicit)) == {(1, 0, 0, True)}


def test_helpers_that_no_runtime_has_are_refused() -> None:
    topology = switched(3)
    check_helpers(topology)
    with pytest.raises(CollectiveError, match=r"helper 0 of switched-3x1 \(rank 3\) is no switch") as caught:
        check_helpers(replace(topology, may_copy=None))
    assert "--without" in str(caught.value.hint)
    with pytest.raises(CollectiveError, match="that holds data may not sum"):
        check_helpers(replace(topology, may_sum=np.array([False, True, True, True, False])))
