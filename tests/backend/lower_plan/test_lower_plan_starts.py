"""Messages that nothing says may come yet: they wait for the receiver's start, or land apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.backend.lower_plan import lower_to_plan
from taccl.backend.lower_plan.plans import PUSHING, land_apart
from taccl.backend.plan import Channel, ExecutionPlan, OpName
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.mscclpp import TARGETS
from taccl.backend.verify.mscclpp import verify_plan
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule
from tests.backend.plan_runs import goes_wrong
from tests.backend.small_schedules import by_hand


def there_and_around(chunk_us: float) -> Schedule:
    """Ranks 0, 1 | 2, 3 on two nodes: parts go over to the other node, and there to the neighbour.

    A chunk takes this many microseconds over each link, and then 1 more.
    """
    over, around, step = {0: 2, 1: 3, 2: 0, 3: 1}, {0: 1, 1: 0, 2: 3, 3: 2}, 1.0 + chunk_us
    rows = [(0.0, rank, over[rank], (rank,), False) for rank in range(4)]
    rows += [(0.0, rank, around[rank], (rank,), False) for rank in range(4)]
    rows += [(step, over[rank], around[over[rank]], (rank,), False) for rank in range(4)]
    schedule = by_hand(make_collective("allgather", 4), rows, beta_us_per_mb=chunk_us)
    topology = replace(schedule.problem.topology, node_of=np.array([0, 0, 1, 1]))
    return replace(schedule, problem=replace(schedule.problem, topology=topology))


def time_of(plan: ExecutionPlan, schedule: Schedule) -> float:
    return simulate_plan(plan, schedule.problem.topology, 1.0).time_us


def through_ports(plan: ExecutionPlan, name: OpName) -> int:
    return sum(
        each.name is name and each.channel is Channel.PORT
        for rank in plan.ranks
        for block in rank.blocks
        for each in block.operations
    )


def lowered(schedule: Schedule, *, lands_apart: bool) -> ExecutionPlan:
    return lower_to_plan(
        schedule, LoweringOptions(), passes=(*PUSHING, land_apart) if lands_apart else PUSHING
    )


def test_what_lands_apart_waits_for_no_start_and_is_right() -> None:
    schedule = there_and_around(0.5)
    waiting, apart = (lowered(schedule, lands_apart=each) for each in (False, True))
    assert [through_ports(each, OpName.RELAXED_WAIT) for each in (waiting, apart)] == [4, 0]
    assert time_of(waiting, schedule) - time_of(apart, schedule) == 1.0
    assert verify_plan(apart).ok
    assert not goes_wrong(apart, 10)


def test_its_sender_hears_that_it_was_read_before_a_call_ends() -> None:
    apart = lowered(there_and_around(0.5), lands_apart=True)
    without_last = [
        replace(
            rank, blocks=tuple(replace(b, operations=_without_last_wait(b.operations)) for b in rank.blocks)
        )
        for rank in apart.ranks
    ]
    assert through_ports(apart, OpName.SIGNAL) == 4
    assert not verify_plan(replace(apart, ranks=tuple(without_last))).ok


def _without_last_wait(operations):
    is_last = operations[-1].name is OpName.WAIT and operations[-1].channel is Channel.PORT
    return operations[:-1] if is_last else operations


def test_the_target_lets_messages_land_apart_where_that_is_faster_though_it_takes_a_copy() -> None:
    (target,) = TARGETS
    for chunk_us, starts in ((0.5, 0), (50.0, 4)):
        schedule = there_and_around(chunk_us)
        (made,) = target.lower(schedule, LoweringOptions(network=schedule.problem.topology))
        assert through_ports(made.program, OpName.RELAXED_WAIT) == starts


def test_a_copy_takes_what_it_is_said_to_where_the_executor_is_not_known() -> None:
    schedule = there_and_around(0.5)
    apart, topology = lowered(schedule, lands_apart=True), schedule.problem.topology
    free, dear = (simulate_plan(apart, topology, 1.0, copy_us_per_mb=each).time_us for each in (0.0, 3.0))
    assert dear - free >= 3.0
