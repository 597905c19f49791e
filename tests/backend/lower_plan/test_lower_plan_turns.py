"""Sends of a rank that share a port: in the schedule's order where that makes a plan faster, else at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.backend.lower_plan import lower_to_plan
from taccl.backend.lower_plan.plans import PUSHING
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.lower_plan.turns import take_turns
from taccl.backend.plan import ExecutionPlan, OpName
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.mscclpp import TARGETS
from taccl.backend.verify.mscclpp import verify_plan
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from tests.backend.plan_runs import goes_wrong

IN_TURNS = (take_turns, add_at_once)
#: (link, start)
STARTS = ((0, 0.0), (1, 10.5), (2, 10.5))


def line_from_one_port(nodes: int) -> Schedule:
    """Rank 0 sends to all others through one port, to rank 1 first, which then is as long sending to rank 3.

    Ranks are in this many nodes, from left to right; a chunk of 1 MB takes 10 us.
    """
    links = [(0, 1), (0, 2), (1, 3)]
    topology = LogicalTopology(
        name="line",
        node_of=np.arange(4) * nodes // 4,
        src=np.array([a for a, _ in links]),
        dst=np.array([b for _, b in links]),
        alpha_us=np.full(3, 0.5),
        beta_us_per_mb=np.full(3, 10.0),
        ports=((0,), (0,), (1,)),
        port_names=("out of 0", "out of 1"),
    )
    problem = Problem(topology, make_collective("broadcast", 4), chunk_mb=1.0)
    schedule = schedule_from_sends(problem, [Send((0,), link, start, False) for link, start in STARTS])
    schedule.check()
    return schedule


def time_of(plan: ExecutionPlan, schedule: Schedule) -> float:
    return simulate_plan(plan, schedule.problem.topology, 1.0).time_us


def names(plan: ExecutionPlan) -> list[OpName]:
    return [each.name for rank in plan.ranks for block in rank.blocks for each in block.operations]


def test_sends_that_take_turns_bring_first_what_others_wait_for() -> None:
    schedule = line_from_one_port(nodes=1)
    at_once = lower_to_plan(schedule, LoweringOptions())
    in_turns = lower_to_plan(schedule, LoweringOptions(), passes=IN_TURNS)
    assert time_of(at_once, schedule) - time_of(in_turns, schedule) == 10.0
    assert verify_plan(in_turns).ok


def test_through_a_port_the_next_begins_when_the_one_before_is_complete() -> None:
    schedule = line_from_one_port(nodes=4)
    at_once = lower_to_plan(schedule, LoweringOptions())
    in_turns = lower_to_plan(schedule, LoweringOptions(), passes=IN_TURNS)
    assert time_of(at_once, schedule) > time_of(in_turns, schedule)
    assert OpName.PUT_SIGNAL_FLUSH in names(in_turns)
    assert verify_plan(in_turns).ok
    assert not goes_wrong(in_turns, 10)


def test_the_target_takes_turns_only_where_that_is_faster() -> None:
    (target,) = TARGETS
    for schedule, expected in ((line_from_one_port(nodes=1), True), (equivalent(), False)):
        options = LoweringOptions(network=schedule.problem.topology)
        (made,) = target.lower(schedule, options)
        passes = IN_TURNS if expected else PUSHING
        assert made.program.ranks == lower_to_plan(schedule, options, passes=passes).ranks


def equivalent() -> Schedule:
    """The same, but that nobody waits for what comes first."""
    schedule = line_from_one_port(nodes=1)
    topology = replace(schedule.problem.topology, ports=((0,), (1,), (2,)), port_names=("a", "b", "c"))
    return replace(schedule, problem=replace(schedule.problem, topology=topology))
