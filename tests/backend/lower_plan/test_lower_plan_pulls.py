"""Messages that are pulled: sums read what they add where others have it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.backend.lower_plan import lower_to_plan
from taccl.backend.lower_plan.emit import Emitter
from taccl.backend.lower_plan.gathering import pull
from taccl.backend.lower_plan.places import aliases
from taccl.backend.lower_plan.pulls import pull_alone
from taccl.backend.lower_plan.read import graph_of_program
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.plan import Channel, ExecutionPlan, Operation
from taccl.backend.program import Program
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import ProgramLimitError
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule
from tests.backend.lowered_plans import assert_runs_right, names
from tests.backend.plan_mutations import without
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


def pulled(schedule: Schedule, instances: int = 1) -> ExecutionPlan:
    return lower_to_plan(schedule, LoweringOptions(instances=instances), passes=PULLING)


def operations(plan: ExecutionPlan, name: str) -> list[Operation]:
    return [
        each
        for rank in plan.ranks
        for block in rank.blocks
        for each in block.operations
        if each.name.value == name
    ]


def pulls_of(made: Program) -> dict[int, int]:
    names = aliases(made.collective, 2, 1, False)
    return dict(pull_alone(graph_of_program(made, names, (0, 0), packets=False)).pulls)


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("schedule", [ring_allreduce, direct_reducescatter])
def test_plans_that_pull_are_right(schedule: Callable[[int], Schedule], ranks: int, instances: int) -> None:
    plan = pulled(schedule(ranks), instances)
    assert_runs_right(plan, ranks)


def test_what_is_pulled_is_read_added_and_sent_on_in_one_pass_and_takes_no_scratch() -> None:
    plan = pulled(ring_allreduce(2))
    assert names(plan) == [["signal", "wait", "nop", "rres", "nop", "signal", "wait"]]
    assert [rank.scratch_chunks for rank in plan.ranks] == [0, 0]


def test_whose_part_was_read_is_told_before_its_kernel_may_end() -> None:
    plan = pulled(direct_reducescatter(2))
    assert names(plan) == [["signal", "wait", "nop", "rre", "nop", "signal", "wait"]]
    for at in range(7):
        assert not verify_plan(without(plan, 0, 0, at)).ok, at


def test_between_nodes_nothing_is_pulled() -> None:
    plan = pulled(on_nodes(direct_reducescatter(2), 0, 1))
    assert not {"rre", "rres"} & {word for words in names(plan) for word in words}


def two_ranks(*after: object, read_again: bool = False) -> Program:
    """Rank 0 sends what rank 1 adds; `after` are its steps behind that."""
    again = [step("cpy", "s0", "o1")] if read_again else []
    return program(
        "allreduce",
        2,
        (block(0, 1, -1, step("s", "s0"), *after),),
        (block(0, -1, 0, step("r", "s0"), step("re", "s0", "o0"), *again),),
        scratch=2,
    )


def test_what_the_sender_writes_again_or_the_receiver_reads_again_is_not_pulled() -> None:
    assert len(pulls_of(two_ranks())) == 1
    assert not pulls_of(two_ranks(step("cpy", "i0", "s0")))
    assert not pulls_of(two_ranks(read_again=True))


def sent_to_all(ranks: int, pieces: int = 1) -> Schedule:
    """An AllReduce in two rounds: everybody's contributions go to their owners, and sums to everybody."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    turn = 2.0 * pieces
    parts = [tuple(range(rank * pieces, (rank + 1) * pieces)) for rank in range(ranks)]
    rows: list[Row] = [(turn * ((b - a) % ranks), a, b, parts[b], True) for a, b in pairs]
    rows += [(turn * (ranks + (b - a) % ranks), a, b, parts[a], False) for a, b in pairs]
    return by_hand(make_collective("allreduce", ranks, pieces), rows)


def test_what_all_have_is_read_and_added_by_one_operation_of_one_thread_block() -> None:
    plan = pulled(direct_reducescatter(4))
    assert names(plan) == [["signal", "wait", "nop", "rre", "nop", "signal", "wait"]]
    assert [len(each.sources) for each in operations(plan, "rre")] == [4] * 4
    assert [rank.scratch_chunks for rank in plan.ranks] == [0] * 4
    for at in range(7):
        assert not verify_plan(without(plan, 0, 0, at)).ok, at


@pytest.mark.parametrize("in_place", [True, False])
def test_its_sum_goes_to_all_in_the_same_pass(in_place: bool) -> None:
    plan = lower_to_plan(sent_to_all(4), LoweringOptions(in_place=in_place), passes=PULLING)
    assert names(plan) == [["signal", "wait", "nop", "rres", "nop", "signal", "wait"]]
    assert [(len(each.sources), len(each.targets)) for each in operations(plan, "rres")] == [(4, 4)] * 4
    assert_runs_right(plan)


def test_an_operation_has_no_more_operands_and_a_block_no_more_channels_than_any_release_takes() -> None:
    plan = pulled(sent_to_all(9))
    assert max(len(each.sources) for each in operations(plan, "rre")) == 8
    assert verify_plan(plan).ok


def test_with_peers_in_another_node_only_those_of_the_node_are_pulled() -> None:
    plan = pulled(on_nodes(direct_reducescatter(4), 0, 0, 0, 1))
    assert {len(each.sources) for each in operations(plan, "rre")} <= {2, 3}
    assert_runs_right(plan)


@settings(max_examples=3, deadline=None)
@given(
    ranks=st.integers(3, 5),
    pieces=st.integers(1, 2),
    instances=st.integers(1, 2),
    in_place=st.booleans(),
    seed=st.integers(0, 9),
)
def test_sums_of_several_that_are_pulled_are_right(
    ranks: int, pieces: int, instances: int, in_place: bool, seed: int
) -> None:
    options = LoweringOptions(instances=instances, in_place=in_place)
    assert_runs_right(lower_to_plan(sent_to_all(ranks, pieces), options, passes=PULLING), seed)


def test_one_block_that_reads_from_several_links_takes_the_time_of_all_that_it_reads() -> None:
    schedule = direct_reducescatter(4)  # chunks of 1 MB, links of 1 us and 1 us a MB
    network = replace(schedule.problem.topology, executor=executor_of(0.1))
    free = simulate_plan(pulled(schedule), schedule.problem.topology, 1.0)
    assert free.time_us == pytest.approx(1 + 1 + 1 + 1)  # reported, read, come, reported
    gbps = network.executor.costs_of("Simple").block_gbps
    slow = simulate_plan(pulled(schedule), network, 1.0)
    assert slow.time_us >= 3 * 2**20 / gbps / 1000


def test_one_lane_signals_through_a_channel_or_threads_meet_in_between() -> None:
    made = Emitter()
    made.signal([(Channel.MEMORY, 0), (Channel.MEMORY, 1)])
    made.acquire(0)
    made.signal([(Channel.MEMORY, 1)])
    assert [each.name.value for each in made.operations] == ["signal", "sem_acquire", "nop", "signal"]


def test_what_a_block_waits_for_at_its_end_is_waited_for_at_once() -> None:
    made, twice = Emitter(), Emitter()
    for channel in (0, 1, 2):
        made.wait([(Channel.MEMORY, channel)])
    for channel in (0, 1, 1):
        twice.wait([(Channel.MEMORY, channel)])
    made.finish()
    twice.finish()
    assert [each.channels for each in made.operations] == [(0, 1, 2)]
    assert [each.channels for each in twice.operations] == [(1, 0), (1,)]


def test_where_a_plan_that_pushes_has_too_many_thread_blocks_one_that_pulls_is_made() -> None:
    made = direct_reducescatter(4)
    network = replace(made.problem.topology, executor=executor_of(5.0, thread_blocks=4))
    schedule = replace(made, problem=replace(made.problem, topology=network))
    options = LoweringOptions(instances=4, executor=network.executor, network=network)
    with pytest.raises(ProgramLimitError):
        lower_to_plan(schedule, options)
    (lowered,) = find_target("mscclpp").lower(schedule, options)
    assert [len(rank.blocks) for rank in lowered.program.ranks] == [4] * 4
    with pytest.raises(ProgramLimitError):
        find_target("mscclpp").lower(schedule, replace(options, instances=8))
