"""Sums of several operands: what is there as soon is added in one pass, where nobody looks in between."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.backend.lower_plan import lower_to_plan, translate
from taccl.backend.lower_plan.gathering import pull
from taccl.backend.lower_plan.plans import PUSHING
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Program
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.backend.verify.mscclpp import verify_plan
from taccl.model.collectives import make_collective
from taccl.model.executor import Executor
from taccl.model.schedule import Schedule
from tests.backend.lowered_plans import all_names, assert_runs_right
from tests.backend.programs import block, program, step
from tests.backend.small_schedules import (
    Row,
    by_hand,
    direct_reducescatter,
    executor_of,
    on_nodes,
    ring_allreduce,
)

PULLING = (pull, add_at_once)


def sums(plan: ExecutionPlan) -> list[int]:
    """How many sources each sum has."""
    return sorted(
        len(each.sources)
        for rank in plan.ranks
        for block in rank.blocks
        for each in block.operations
        if each.name.value in ("re", "res")
    )


@pytest.mark.parametrize("node_of", [(0, 0, 0, 0), (0, 0, 1, 1)])
def test_what_all_send_at_once_is_added_in_one_pass(node_of: tuple[int, ...]) -> None:
    schedule = on_nodes(direct_reducescatter(4), *node_of)
    plan = lower_to_plan(schedule, LoweringOptions())
    assert sums(plan) == [4, 4, 4, 4]
    assert sums(lower_to_plan(schedule, LoweringOptions(), passes=())) == [2] * 12
    assert_runs_right(plan)


@pytest.mark.parametrize("executor", [None, executor_of(0.1)], ids=["links alone", "executor"])
def test_packets_of_all_are_added_by_one_operation_that_stores_the_sum_where_it_is_wanted(
    executor: Executor | None,
) -> None:
    plan = lower_to_plan(direct_reducescatter(4), LoweringOptions(protocol="LL", executor=executor))
    assert all_names(plan) == {"ppkt", "repkt", "nop", "sem_acquire", "sem_release"}
    assert_runs_right(plan)


def test_no_operation_has_more_sources_than_any_release_takes() -> None:
    plan = lower_to_plan(direct_reducescatter(10), LoweringOptions())
    assert max(sums(plan)) == 8
    assert verify_plan(plan).ok


def test_what_comes_one_rank_later_is_added_when_it_comes() -> None:
    assert set(sums(lower_to_plan(ring_allreduce(4), LoweringOptions()))) == {2}


def three_to_one(*between: object) -> Program:
    """Ranks 1 and 2 send to rank 0, which adds both to its output, and does other steps between."""
    return program(
        "allreduce",
        1,
        (
            block(0, -1, 1, step("r", "s0"), step("re", "s0", "o0"), *between, step("nop", tells=True)),
            block(1, -1, 2, step("r", "s1"), step("re", "s1", "o0", wait=(0, 2 + len(between)))),
        ),
        (block(0, 0, -1, step("s", "i0")),),
        (block(0, 0, -1, step("s", "i0")),),
        scratch=3,
    )


def test_what_somebody_reads_between_two_sums_is_added_before() -> None:
    assert sums(translate(three_to_one())) == [3]
    assert sums(translate(three_to_one(step("cpy", "o0", "s2")))) == [2, 2]


def test_what_is_overwritten_between_two_sums_is_added_before() -> None:
    assert sums(translate(three_to_one(step("cpy", "i0", "s0")))) == [2, 2]


@st.composite
def trees(draw: st.DrawFn) -> Schedule:
    """Each part's contributions go up a tree of its own to its owner, one send after another."""
    ranks = draw(st.integers(3, 5))
    rows: list[Row] = []
    for owner in range(ranks):
        order = [owner, *draw(st.permutations([rank for rank in range(ranks) if rank != owner]))]
        parents = [order[draw(st.integers(0, place))] for place in range(ranks - 1)]
        for child, parent in reversed(list(zip(order[1:], parents, strict=True))):
            rows.append((2.0 * len(rows), child, parent, (owner,), True))
    schedule = by_hand(make_collective("reducescatter", ranks), rows)
    return on_nodes(schedule, *draw(st.lists(st.integers(0, 1), min_size=ranks, max_size=ranks)))


@settings(max_examples=6, deadline=None)
@given(
    schedule=trees(),
    instances=st.integers(1, 2),
    pulls=st.booleans(),
    protocol=st.sampled_from(["Simple", "LL"]),
    seed=st.integers(0, 9),
)
def test_sums_of_any_tree_are_right(
    schedule: Schedule, instances: int, pulls: bool, protocol: str, seed: int
) -> None:
    options = LoweringOptions(instances=instances, protocol=protocol)
    passes = PULLING if pulls and protocol == "Simple" else PUSHING
    assert_runs_right(lower_to_plan(schedule, options, passes=passes), seed)


@pytest.mark.parametrize("reduce_us", [0.1, 20.0])
def test_where_sums_cost_what_is_predicted_fastest_is_taken(reduce_us: float) -> None:
    made = direct_reducescatter(4)
    network = replace(made.problem.topology, executor=executor_of(reduce_us))
    schedule = replace(made, problem=replace(made.problem, topology=network))
    options = LoweringOptions(executor=network.executor, network=network)
    (lowered,) = find_target("mscclpp").lower(schedule, options)
    plans = [lower_to_plan(schedule, options, passes=each) for each in (PUSHING, (), PULLING)]
    times = [simulate_plan(plan, network, 1.0).time_us for plan in (lowered.program, *plans)]
    assert times[0] == min(times[1:])
