"""Plans whose switch sums and copies for the GPUs: what schedules through its faces become."""

from __future__ import annotations

import pytest
from switched import nvls_allreduce

from taccl.backend.lower_plan import PlanLowering
from taccl.backend.plan import Channel, ExecutionPlan, OpName
from taccl.backend.program import Buffer
from taccl.backend.target import LoweringOptions
from taccl.model.schedule import Schedule
from tests.backend.lowered_plans import all_names, assert_runs_right, names


def through_switches(schedule: Schedule, **options) -> ExecutionPlan:
    lowering = PlanLowering(schedule, LoweringOptions(**options))
    return lowering.plan(lowering.switching)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("gpus", [3, 5, 8])
def test_an_allreduce_is_one_sum_and_store_for_each_owner(gpus: int, own: bool) -> None:
    plan = through_switches(nvls_allreduce(gpus, own=own))
    for rank in range(gpus):
        assert names(plan, rank) == [["signal", "wait", "nop", "glres", "nop", "signal", "wait"]]
    assert_runs_right(plan)


def test_all_members_make_the_switch_channel_of_each_buffer() -> None:
    """In place a sum is where its parts are; apart, one channel spans those, and another the sums."""
    for in_place, buffers in ((True, ["o"]), (False, ["i", "o"])):
        plan = through_switches(nvls_allreduce(3), in_place=in_place)
        for rank in plan.ranks:
            rows = [row for row in rank.channels if row.kind is Channel.SWITCH]
            assert [row.buffer for row in rows] == [Buffer(buffer) for buffer in buffers]
            assert {row.groups for row in rows} == {((0, 1, 2),)}
        assert_runs_right(plan)


@pytest.mark.parametrize("in_place", [True, False])
def test_pieces_are_summed_one_after_the_other(in_place: bool) -> None:
    plan = through_switches(nvls_allreduce(4, pieces=3), in_place=in_place)
    glres = [each for each in plan.ranks[0].blocks[0].operations if each.name is OpName.SWITCH_REDUCE_STORE]
    assert [each.sources[0].index for each in glres] == [0, 1, 2]
    assert_runs_right(plan)


def test_thread_blocks_share_out_what_a_switch_sums() -> None:
    plan = through_switches(nvls_allreduce(4), instances=3)
    assert len(plan.ranks[0].blocks) == 3
    assert all_names(plan) >= {"glres"}
    assert_runs_right(plan)
