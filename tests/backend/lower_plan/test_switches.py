"""Plans whose switch sums and copies for the GPUs: what schedules through its faces become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from switched import in_turn, nvls_allgather, nvls_allreduce, nvls_allreduce_of_nodes, switched

from taccl.backend.lower_plan import PlanLowering
from taccl.backend.plan import Channel, ExecutionPlan, OpName
from taccl.backend.program import Buffer
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule
from tests.backend.lowered_plans import all_names, assert_right, assert_runs_right, names


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


@pytest.mark.parametrize("in_place", [True, False])
def test_what_one_rank_gives_to_all_is_one_store(in_place: bool) -> None:
    """Its own copy is stored with the others: out of place nothing else copies it."""
    plan = through_switches(nvls_allgather(4), in_place=in_place)
    for rank in range(4):
        assert names(plan, rank) == [["rlxsignal", "rlxwait", "nop", "gstore", "nop", "signal", "wait"]]
    assert_runs_right(plan)


@pytest.mark.parametrize("in_place", [True, False])
def test_between_nodes_sums_go_from_rank_to_rank_and_to_a_node_by_its_switch(in_place: bool) -> None:
    """What a node sums for one rank is read by that: the runtime has no load-reduce without a store."""
    plan = through_switches(nvls_allreduce_of_nodes(3), in_place=in_place)
    assert {"rre", "pwsf", "gstore"} <= all_names(plan)
    assert "glres" not in all_names(plan)
    assert {row.groups for rank in plan.ranks for row in rank.channels if row.kind is Channel.SWITCH} == {
        ((0, 1, 2),),
        ((3, 4, 5),),
    }
    assert_runs_right(plan)


def test_many_pieces_take_several_thread_blocks_and_stay_with_the_switch() -> None:
    plan = through_switches(nvls_allreduce(4, pieces=16, chunk_mb=1 / 16))
    assert all_names(plan) == {"signal", "wait", "nop", "glres"}
    assert max(len(block.operations) for block in plan.ranks[0].blocks) <= 64
    assert_right(plan)


def test_a_schedule_that_passes_no_switch_may_have_a_plan_that_does() -> None:
    """All send their parts to the owners, who send the sums to all."""
    topology = switched(4)
    rows = [(a, b, b, [a]) for b in range(4) for a in range(4) if a != b]
    rows += [(a, b, a, None) for a in range(4) for b in range(4) if a != b]
    plan = through_switches(in_turn(topology, make_collective("allreduce", 4), rows))
    assert all_names(plan) == {"signal", "wait", "nop", "glres"}
    assert_runs_right(plan)


def test_the_target_takes_what_is_predicted_to_be_faster() -> None:
    """With four GPUs a ring through links is as fast for large parts; through the switch with fewer hops."""
    schedule = nvls_allreduce(4)
    network = schedule.problem.topology
    (lowered,) = find_target("mscclpp").lower(schedule, LoweringOptions(network=network))
    assert lowered.program.uses_switches
    slow_faces = np.where(network.is_helper[network.src] | network.is_helper[network.dst], 10.0, 1.0)
    slow = replace(network, beta_us_per_mb=network.beta_us_per_mb * slow_faces)
    (lowered,) = find_target("mscclpp").lower(schedule, LoweringOptions(network=slow))
    assert not lowered.program.uses_switches
    (lowered,) = find_target("mscclpp").lower(schedule, LoweringOptions())
    assert lowered.program.uses_switches
    assert lowered.collective is not None
    assert lowered.collective.num_ranks == 4


def test_packets_pass_no_switch() -> None:
    schedule = nvls_allreduce(4)
    options = LoweringOptions(protocol="LL", network=schedule.problem.topology)
    (lowered,) = find_target("mscclpp").lower(schedule, options)
    assert not lowered.program.uses_switches
