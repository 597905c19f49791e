import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_schedules import by_hand, direct_allgather, program_of, ring_allgather, ring_allreduce, steps_of
from strategies import schedules
from timing import assert_keeps_the_schedules_times

from taccl.backend.lower import lower
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.program import Op, Program
from taccl.backend.verify.msccl_xml import verify_text
from taccl.errors import ProgramLimitError, TacclError
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule


def is_pipelined(schedule: Schedule) -> bool:
    return schedule.problem.topology.occupancy == "pipelined"


def lanes_are_paired(program: Program) -> None:
    sends = [(b.channel, r.rank, b.send) for r in program.ranks for b in r.thread_blocks if b.send >= 0]
    receives = [(b.channel, b.recv, r.rank) for r in program.ranks for b in r.thread_blocks if b.recv >= 0]
    assert len(set(sends)) == len(sends)
    assert sorted(sends) == sorted(receives)


@settings(max_examples=40, deadline=None)
@given(schedule=schedules())
def test_no_thread_block_delays_the_schedule(schedule: Schedule) -> None:
    # Overlapping messages to one sum may wait for each other's latency: see `order`.
    assume(not (schedule.problem.collective.is_reduction and is_pipelined(schedule)))
    for lowered in lower(schedule):
        assert_keeps_the_schedules_times(lowered.program, schedule)


@settings(max_examples=25, deadline=None)
@given(schedule=schedules(["allreduce", "broadcast", "allgather"]))
def test_no_fused_step_delays_the_schedule(schedule: Schedule) -> None:
    assume(not (schedule.problem.collective.is_reduction and is_pipelined(schedule)))
    for lowered in lower(schedule, runtimes="msccl"):
        assert_keeps_the_schedules_times(lowered.program, schedule)


def test_a_group_that_arrives_while_another_contribution_waits_is_added_apart() -> None:
    # Rank 0's group of three takes until 4; of its chunks, rank 1 sends one by 2 that rank 2 has to pass on.
    rows = [(0.0, 0, 2, (0, 1, 2), True), (0.0, 1, 2, (0,), True), (2.0, 1, 2, (1,), True)]
    rows += [(4.0, 1, 2, (2,), True)]
    rows += [(6.0, 2, 0, (0, 1, 2), False), (6.0, 2, 1, (0, 1, 2), False)]
    schedule = by_hand(make_collective("allreduce", 3), rows)
    (lowered,) = lower(schedule, runtimes="msccl")
    assert_keeps_the_schedules_times(lowered.program, schedule)
    (takes,) = (block for block in lowered.program.ranks[2].thread_blocks if block.recv == 0)
    assert takes.steps[0].op is Op.RECV


@settings(max_examples=25, deadline=None)
@given(schedule=schedules())
def test_no_two_thread_blocks_share_a_peer_direction_and_channel(schedule: Schedule) -> None:
    for lowered in lower(schedule, instances=2):
        lanes_are_paired(lowered.program)


@settings(max_examples=25, deadline=None)
@given(schedule=schedules(), runtimes=st.sampled_from(["all", "executor"]))
def test_a_one_way_thread_block_sends_or_receives(schedule: Schedule, runtimes: str) -> None:
    for lowered in lower(schedule, runtimes=runtimes, thread_blocks="one-way"):
        lanes_are_paired(lowered.program)
        for rank in lowered.program.ranks:
            assert all(-1 in (block.send, block.recv) for block in rank.thread_blocks)
            assert not any(step.op.receives and step.op.sends for step in steps_of(rank))


def test_more_one_way_thread_blocks_than_a_runtime_has_are_refused_with_a_way_out() -> None:
    with pytest.raises(ProgramLimitError) as refused:
        lower(direct_allgather(8), runtimes="rccl", instances=5, thread_blocks="one-way")
    assert "70 thread blocks; the limit is 64" in str(refused.value.findings)
    assert "two-way" in str(refused.value.hint)
    assert lower(direct_allgather(8), runtimes="rccl", instances=4, thread_blocks="one-way")


def test_thread_blocks_are_two_way_or_one_way() -> None:
    with pytest.raises(TacclError, match="unknown thread_blocks 'three-way'"):
        lower(direct_allgather(3), thread_blocks="three-way")


def test_a_receive_and_a_send_that_do_not_overlap_share_a_thread_block() -> None:
    program = program_of(ring_allgather(5))
    assert {len(rank.thread_blocks) for rank in program.ranks} == {1}
    lanes_are_paired(program)


def test_a_receive_that_would_hold_a_send_up_has_a_thread_block_of_its_own() -> None:
    # Rank 1 takes a group from 0 until 4, and sends at 1.
    rows = [(0.0, 0, 1, (0, 1, 2), False), (1.0, 1, 2, (3,), False)]
    rows += [(0.0, 2, 0, (6, 7, 8), False), (5.0, 2, 1, (6, 7, 8), False)]
    rows += [(0.0, 1, 0, (3, 4, 5), False), (3.0, 1, 2, (4, 5), False), (0.0, 0, 2, (0, 1, 2), False)]
    program = program_of(by_hand(make_collective("allgather", 3, 3), rows))
    for block in program.ranks[1].thread_blocks:
        assert not (block.recv == 0 and block.send == 2)
    lanes_are_paired(program)


def test_waited_for_thread_blocks_have_the_lowest_ids() -> None:
    program = program_of(ring_allreduce(5, pieces=6), runtimes="rccl")
    for rank in program.ranks:
        waited = {step.depends[0] for b in rank.thread_blocks for step in b.steps if step.depends}
        assert waited <= set(range(len(waited)))


def test_own_data_are_copied_last_and_after_they_were_sent() -> None:
    program = program_of(direct_allgather(4))
    for rank in program.ranks:
        (block,) = [b for b in rank.thread_blocks if any(step.op is Op.COPY for step in b.steps)]
        assert block.steps[-1].op is Op.COPY
        waits = sum(step.op is Op.NOP for step in block.steps) + (block.steps[-1].depends is not None)
        assert waits + (block.send >= 0) == 3


def test_own_data_are_copied_first_where_too_many_sends_would_have_to_be_waited_for() -> None:
    program = program_of(direct_allgather(40))
    for rank in program.ranks:
        assert not any(step.op is Op.NOP for b in rank.thread_blocks for step in b.steps)
        sends = [step for b in rank.thread_blocks for step in b.steps if step.op is Op.SEND]
        assert sum(step.depends is not None for step in sends) >= 38
    lanes_are_paired(program)


def test_nops_wait_and_stand_before_a_step_that_waits() -> None:
    for schedule in (direct_allgather(5), ring_allreduce(4, pieces=10)):
        for rank in program_of(schedule).ranks:
            for block in rank.thread_blocks:
                for step, after in zip(block.steps, [*block.steps[1:], None], strict=True):
                    if step.op is Op.NOP:
                        assert step.depends is not None and not step.has_dependent
                        assert after is not None and after.depends is not None
                        assert (step.src_offset, step.dst_offset, step.count) == (-1, -1, 0)


def test_copies_of_own_data_get_a_thread_block_where_all_others_are_full() -> None:
    rows = [
        (2.0 * piece, a, b, (a * 62 + piece,), False)
        for a in range(5)
        for b in range(5)
        if a != b
        for piece in range(62)
    ]
    program = program_of(by_hand(make_collective("allgather", 5, 62), rows))
    for rank in program.ranks:
        (local,) = [block for block in rank.thread_blocks if block.send == block.recv == -1]
        assert [step.op.value for step in local.steps] == ["nop", "nop", "nop", "cpy"]
        assert len(rank.thread_blocks) == 2 * 4 + 1


def test_copies_of_what_arrived_get_other_thread_blocks_where_one_has_too_many() -> None:
    # Rank 1 gets every other chunk in one send, each for its own place in the output; others take pairs.
    evens, odds = tuple(range(0, 130, 2)), tuple(range(1, 130, 2))
    rows = [(0.0, 0, 1, evens, False), (66.0, 0, 1, odds, False)]
    for start, src, dst in ((0.0, 0, 2), (3.0, 2, 3)):
        rows += [(start + 3 * pair, src, dst, (2 * pair, 2 * pair + 1), False) for pair in range(65)]
    schedule = by_hand(make_collective("broadcast", 4, 130), rows)
    for lowered in lower(schedule):
        report = verify_text(to_xml(lowered.program), targets=lowered.readers)
        assert report.ok, report
        local = [block for block in lowered.program.ranks[1].thread_blocks if block.send == block.recv == -1]
        assert sum(step.op is Op.COPY for block in local for step in block.steps) == 130
