"""Plans through the switches of all ranks, one for each node: right, within the limits of thread blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples
from switch_plans import by_groups
from switched import nvls_allgather, nvls_allreduce, nvls_allreduce_of_nodes, switched

from taccl.backend.lower_plan import PlanLowering
from taccl.backend.lower_plan.by_groups import GROUPED, groups_of
from taccl.backend.lower_plan.sharing import cuts_equally, share_out
from taccl.backend.lower_plan.switches import switches_of
from taccl.backend.plan import Channel, ExecutionPlan
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import ProgramLimitError
from taccl.model.executor import Executor, ProtocolCosts, Shape
from tests.backend.lowered_plans import all_names, assert_right, assert_runs_right, names


@settings(max_examples=examples(10), deadline=None)
@given(
    collective=st.sampled_from(sorted(GROUPED)),
    gpus=st.integers(2, 4),
    nodes=st.integers(1, 3),
    pieces=st.integers(1, 3),
    parts=st.integers(1, 2),
    has_roots=st.booleans(),
    in_place=st.booleans(),
)
def test_every_shape_is_right_and_runs_right(
    collective: str, gpus: int, nodes: int, pieces: int, parts: int, has_roots: bool, in_place: bool
) -> None:
    has_roots &= collective == "allreduce" and nodes > 1
    plan = by_groups(collective, gpus, nodes, pieces, has_roots, in_place)
    assert cuts_equally(plan)
    assert_runs_right(share_out(plan, parts))


@pytest.mark.parametrize("collective", sorted(GROUPED))
def test_each_switch_has_a_channel_and_ports_join_positions(collective: str) -> None:
    plan = by_groups(collective, 4, 2)
    for rank in plan.ranks:
        node, position = divmod(rank.rank, 4)
        mine = {*range(4 * node, 4 * node + 4)}
        assert {*rank.peers_of(Channel.MEMORY)} == mine - {rank.rank}
        assert {*rank.peers_of(Channel.PORT)} == {(1 - node) * 4 + position}
        for _, members in rank.switches:
            assert rank.rank in members
            assert {*members} <= mine
        assert max(len(block.channels_of(kind)) for block in rank.blocks for kind in Channel) <= 4


def test_sums_between_nodes_are_stored_by_pairs_and_copied_by_nodes() -> None:
    plan = by_groups("allreduce", 4, 2, in_place=True)
    assert names(plan) == [
        ["signal", "wait", "nop", "glres", "nop", "sem_release", "rlxwait", "pwsf"],
        ["rlxsignal", "sem_acquire", "wait", "nop", "re", "nop", "gstore", "nop", "signal", "wait"],
    ]
    assert [members for _, members in plan.ranks[5].switches] == [(4, 5, 6, 7), (4, 5)]


def _without_each(plan: ExecutionPlan, rank: int) -> Iterator[tuple[str, ExecutionPlan]]:
    """The plan without one operation of a rank, for each of them."""
    for number, block in enumerate(plan.ranks[rank].blocks):
        for at, operation in enumerate(block.operations):
            left = block.operations[:at] + block.operations[at + 1 :]
            blocks = list(plan.ranks[rank].blocks)
            blocks[number] = replace(block, operations=left)
            ranks = list(plan.ranks)
            ranks[rank] = replace(ranks[rank], blocks=tuple(blocks))
            yield f"{number}.{at} {operation.name.value}", replace(plan, ranks=tuple(ranks))


@pytest.mark.parametrize(("nodes", "in_place"), [(1, True), (1, False), (2, False), (3, True)])
@pytest.mark.parametrize("collective", sorted(GROUPED))
def test_no_operation_is_there_for_nothing(collective: str, nodes: int, in_place: bool) -> None:
    """But for meetings of threads that go on with what is their own."""
    for has_roots in (False, True)[: 1 + (collective == "allreduce" and nodes > 2)]:
        right = by_groups(collective, 2, nodes, has_roots=has_roots, in_place=in_place)
        for removed, plan in _without_each(right, 1):
            assert not verify_plan(plan).ok or removed.endswith("nop"), removed


def test_more_members_than_channels_meet_in_rounds() -> None:
    """24 in rows of four and columns of six: eight peers of 23."""
    plan = by_groups("allreduce", 24, in_place=True)
    assert {len(rank.peers_of(Channel.MEMORY)) for rank in plan.ranks} == {8}
    assert names(plan) == [
        ["signal", "wait", "nop", "signal", "wait", "nop", "glres"] + ["nop", "signal", "wait"] * 2
    ]
    assert_right(plan)


def test_groups_are_switches_of_all_ranks_of_one_size() -> None:
    machine = switched(3, 2)
    assert groups_of(machine, switches_of(machine)) == ((0, 1, 2), (3, 4, 5))
    assert groups_of(machine, ((0, 1, 2),)) == ()
    assert groups_of(machine, ((0, 1, 2), (2, 3, 4, 5))) == ()
    assert groups_of(machine, ((0, 1), (2, 3, 4, 5))) == ()
    assert groups_of(machine, ((0, 1, 5), (2, 3, 4))) == ()  # no link joins 0 and 2, which are in one place


@pytest.mark.parametrize("block_gbps", [1000.0, 20.0])
def test_the_target_takes_what_is_predicted_to_be_faster(block_gbps: float) -> None:
    """Between slow links of nodes the schedule is as good; where a thread block is slow, the switch is."""
    costs = ProtocolCosts(5.0, 0.5, 0.5, block_gbps, 2**20, Shape(1, 0, 8, cut_through=True, wire=1.0))
    executor = Executor({"Simple": costs}, reduce_us=0.5, reduce_gbps=block_gbps)
    schedule = nvls_allreduce_of_nodes(4)
    network = replace(schedule.problem.topology, executor=executor)
    options = LoweringOptions(network=network, executor=executor)
    (lowered,) = find_target("mscclpp").lower(schedule, options)
    lowering = PlanLowering(schedule, options)
    by_schedule, (grouped_plans,) = lowering.plan(lowering.switching), lowering.by_groups()

    def time_us(made: ExecutionPlan) -> float:
        return simulate_plan(made, network, 8.0 / made.message_chunks).time_us

    assert time_us(lowered.program) <= min(map(time_us, [by_schedule, *grouped_plans]))
    assert ("glres" in all_names(lowered.program)) is (block_gbps == 20.0)
    assert lowered.collective is not None
    assert lowered.collective.num_ranks == 8
    assert_right(lowered.program)


def test_what_knows_no_groups_has_no_plans_by_them() -> None:
    (plans,) = PlanLowering(nvls_allgather(3), LoweringOptions()).by_groups()
    assert [plan.num_ranks for plan in plans] == [3]
    assert [*PlanLowering(nvls_allgather(3), LoweringOptions(protocol="LL")).by_groups()] == []


def test_limits_that_plans_by_groups_are_over_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if thread blocks had two channels, and eight members take three."""
    monkeypatch.setattr("taccl.backend.lower_plan.by_groups.MAX_CHANNELS", 2)
    monkeypatch.setattr("taccl.backend.lower_plan.fits.MAX_CHANNELS", 2)
    monkeypatch.setattr("taccl.backend.lower_plan.fits.MAX_BLOCKS", 2)
    with pytest.raises(ProgramLimitError) as error:
        find_target("mscclpp").lower(nvls_allreduce(8), LoweringOptions())
    assert error.value.findings[-1] == (
        "by switches: each: 3 memory channels of a thread block; the limit is 2"
    )
