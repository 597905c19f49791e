import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interleaving import assert_computes
from small_schedules import (
    by_hand,
    count_ops,
    direct_allgather,
    executor_of,
    ops_of,
    program_of,
    relayed_alltoall,
    ring_allgather,
    ring_allreduce,
    steps_of,
)
from strategies import schedules
from studies import examples

from taccl.backend.lower import lower
from taccl.backend.lower.instances import cut_into_instances
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.program import Buffer, Op, Protocol
from taccl.backend.target import THREAD_BLOCKS, ThreadBlocks
from taccl.backend.verify.msccl_xml import verify_text
from taccl.errors import CollectiveError, ProgramLimitError, UnitError
from taccl.model.collectives import make_collective
from taccl.model.executor import Executor
from taccl.model.schedule import Schedule

#: Machines that make sums of few and of many cells at once, the second in two thread blocks that are left.
SLOW_SUMS = executor_of(reduce_us=1e-3)
FAST_SUMS = executor_of(reduce_us=1e6, thread_blocks=4)


@settings(max_examples=examples(13), deadline=None)
@given(
    schedule=schedules(),
    runtimes=st.sampled_from(["all", "msccl", "executor", "rccl"]),
    instances=st.integers(1, 2),
    routes=st.sampled_from(THREAD_BLOCKS),
    executor=st.sampled_from([None, SLOW_SUMS, FAST_SUMS]),
    seed=st.integers(0, 1000),
)
def test_every_program_computes_its_collective_in_any_order(
    schedule: Schedule,
    runtimes: str,
    instances: int,
    routes: ThreadBlocks,
    executor: Executor | None,
    seed: int,
) -> None:
    name = schedule.problem.collective.name
    if runtimes == "msccl" and name in ("gather", "scatter"):
        return
    finer = cut_into_instances(schedule, instances)[0].problem.collective
    for lowered in lower(
        schedule, runtimes=runtimes, instances=instances, thread_blocks=routes, executor=executor
    ):
        assert_computes(lowered.program, finer, random.Random(seed))
        assert lowered.program.in_place or name == "alltoall"


@settings(max_examples=25, deadline=None)
@given(
    schedule=schedules(),
    runtimes=st.sampled_from(["all", "msccl", "rccl"]),
    routes=st.sampled_from(THREAD_BLOCKS),
    executor=st.sampled_from([None, SLOW_SUMS, FAST_SUMS]),
)
def test_every_program_passes_verification_with_a_single_slot(
    schedule: Schedule, runtimes: str, routes: ThreadBlocks, executor: Executor | None
) -> None:
    if runtimes == "msccl" and schedule.problem.collective.name in ("gather", "scatter"):
        return
    for lowered in lower(schedule, runtimes=runtimes, thread_blocks=routes, executor=executor):
        report = verify_text(to_xml(lowered.program), targets=lowered.readers)
        assert report.ok, report.findings
        assert report.facts.slot_depth == 1


@settings(max_examples=25, deadline=None)
@given(schedule=schedules())
def test_each_group_is_one_send_step_and_one_receive_step(schedule: Schedule) -> None:
    for lowered in lower(schedule):
        sent = sorted(
            step.count for rank in lowered.program.ranks for step in steps_of(rank) if step.op is Op.SEND
        )
        received = sorted(
            step.count for rank in lowered.program.ranks for step in steps_of(rank) if step.op is Op.RECV
        )
        assert sent == received == sorted(schedule.sends.count.tolist())


def test_the_smallest_allgather_is_a_send_a_receive_and_a_copy_per_rank() -> None:
    program = program_of(direct_allgather(2))
    assert [sorted(ops_of(rank)) for rank in program.ranks] == [["cpy", "r", "s"]] * 2
    assert (program.in_place, program.out_of_place) == (True, True)
    assert [rank.scratch_chunks for rank in program.ranks] == [0, 0]
    assert [(rank.input_chunks, rank.output_chunks) for rank in program.ranks] == [(1, 2)] * 2


def test_groups_of_neighbours_go_straight_to_the_output() -> None:
    program = program_of(ring_allgather(4, pieces=3))
    for rank in program.ranks:
        assert rank.scratch_chunks == 0
        assert {step.count for step in steps_of(rank)} == {3}
        assert {step.dst for step in steps_of(rank) if step.op is Op.RECV} == {Buffer.OUTPUT}


def test_a_ring_needs_one_thread_block_per_rank() -> None:
    program = program_of(ring_allgather(4))
    assert [len(rank.thread_blocks) for rank in program.ranks] == [1] * 4


def test_relayed_chunks_wait_in_scratch_side_by_side() -> None:
    program = program_of(relayed_alltoall(grouped=True))
    groups = [step for step in steps_of(program.ranks[0]) if step.op is Op.SEND and step.count == 4]
    assert [step.src for step in groups] == [Buffer.SCRATCH]
    assert (program.in_place, program.out_of_place) == (False, True)
    assert count_ops(program, Op.COPY) <= 4 + 2 * 2 + 2 * 2
    assert_computes(program, make_collective("alltoall", 4), random.Random(1))


def test_single_relayed_chunks_need_no_copies_but_of_own_data() -> None:
    program = program_of(relayed_alltoall(grouped=False))
    assert count_ops(program, Op.COPY) == 4


def test_for_all_runtimes_a_ring_allreduce_adds_in_scratch() -> None:
    program = program_of(ring_allreduce(3))
    used = {step.op for rank in program.ranks for step in steps_of(rank)}
    assert used == {Op.SEND, Op.RECV, Op.REDUCE, Op.COPY}
    # Two partial sums arrive at each rank; one of them is finished there and copied to the output.
    assert [rank.scratch_chunks for rank in program.ranks] == [2, 2, 2]
    assert [ops_of(rank).count("re") for rank in program.ranks] == [2, 2, 2]
    assert [ops_of(rank).count("cpy") for rank in program.ranks] == [1, 1, 1]


def test_where_steps_are_fused_an_allreduce_needs_no_re() -> None:
    program = program_of(ring_allreduce(3), runtimes="msccl")
    assert count_ops(program, Op.REDUCE) == 0
    for rank in program.ranks:
        for step in steps_of(rank):
            if step.op.receives and step.op not in (Op.RECV, Op.RECV_COPY_SEND):
                assert (step.src, step.src_offset) == (step.dst, step.dst_offset)


@pytest.mark.parametrize("runtimes", ["all", "msccl", "executor", "rccl"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_ring_allreduce_is_right_on_every_runtime(runtimes: str, pieces: int) -> None:
    schedule = ring_allreduce(4, pieces)
    assert_computes(program_of(schedule, runtimes), schedule.problem.collective, random.Random(2))


def test_reducescatter_for_all_runtimes_takes_two_files() -> None:
    schedule = by_hand(
        make_collective("reducescatter", 2), [(0.0, 0, 1, (1,), True), (0.0, 1, 0, (0,), True)]
    )
    files = {each.program.collective: each for each in lower(schedule)}
    assert files["reduce_scatter"].readers == ("msccl",)
    assert files["reducescatter"].readers == ("executor", "rccl")
    assert {(rank.input_chunks, rank.output_chunks) for rank in files["reducescatter"].program.ranks} == {
        (2, 1)
    }


def test_gather_is_cut_by_one_ranks_part_as_the_runtimes_count_it() -> None:
    schedule = by_hand(make_collective("gather", 2, 3), [(0.0, 1, 0, (3, 4, 5), False)])
    (lowered,) = lower(schedule)
    assert lowered.readers == ("executor", "rccl")
    assert lowered.program.chunks_per_loop == 3
    assert (lowered.program.min_bytes, lowered.program.max_bytes) == (3 * 2**19, 3 * 2**21)
    assert lowered.program.ranks[0].output_chunks == 6


def test_a_rank_with_nothing_to_do_still_has_a_thread_block() -> None:
    schedule = by_hand(make_collective("reduce", 1), [])
    rows = [(0.0, 0, 1, (0,), False)]
    idle = by_hand(make_collective("scatter", 2, root=0), [(0.0, 0, 1, (1,), False)])
    assert [len(rank.thread_blocks) for rank in program_of(schedule).ranks] == [1]
    assert all(rank.thread_blocks for rank in program_of(idle).ranks)
    assert rows


def test_instances_use_channels_of_their_own() -> None:
    program = program_of(ring_allgather(3), instances=2)
    assert program.num_channels == 2
    assert program.chunks_per_loop == 6
    assert_computes(program, make_collective("allgather", 3, 2), random.Random(0))


def test_sizes_default_to_half_and_twice_and_can_be_set() -> None:
    schedule = direct_allgather(2)
    program = program_of(schedule)
    assert (program.min_bytes, program.max_bytes) == (2**20, 2**22)
    (lowered,) = lower(schedule, min_bytes=1, max_bytes=10, protocol=Protocol.LL, name="mine")
    assert (lowered.program.min_bytes, lowered.program.max_bytes) == (1, 10)
    assert (lowered.program.protocol, lowered.program.name) == (Protocol.LL, "mine")


def test_a_smallest_size_over_the_largest_is_refused() -> None:
    with pytest.raises(UnitError, match="no call is of 10 to 5 bytes"):
        lower(direct_allgather(2), min_bytes=10, max_bytes=5)


def test_a_target_that_does_not_know_the_collective_is_refused_with_those_that_do() -> None:
    schedule = by_hand(make_collective("gather", 2), [(0.0, 1, 0, (1,), False)])
    with pytest.raises(CollectiveError, match="msccl has no gather") as caught:
        lower(schedule, runtimes="msccl")
    assert caught.value.hint == "--target executor or rccl"


def test_an_unknown_runtime_and_no_instances_are_refused() -> None:
    with pytest.raises(CollectiveError, match="unknown runtime 'mscclpp'"):
        lower(direct_allgather(2), runtimes="mscclpp")
    with pytest.raises(CollectiveError, match="at least one instance"):
        lower(direct_allgather(2), instances=0)


def test_a_long_connection_is_cut_over_channels_that_follow_each_other() -> None:
    schedule = ring_allreduce(4, pieces=10)
    program = program_of(schedule, runtimes="rccl")
    assert program.num_channels > 1
    for rank in program.ranks:
        assert all(len(block.steps) <= 64 for block in rank.thread_blocks)
    assert_computes(program, schedule.problem.collective, random.Random(3))
    report = verify_text(to_xml(program), targets=("rccl",))
    assert report.ok and report.facts.slot_depth == 1


def test_a_program_that_no_number_of_channels_can_hold_is_refused_by_the_limits_name() -> None:
    rows = [(2.0 * chunk, 0, 1, (chunk,), False) for chunk in range(2100)]
    schedule = by_hand(make_collective("broadcast", 2, 2100), rows)
    with pytest.raises(ProgramLimitError, match="does not fit into 32 channels") as caught:
        lower(schedule)
    assert "fewer chunks" in str(caught.value)
