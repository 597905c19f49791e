"""Copies and sums in thread blocks of their own, where a machine says what they cost."""

import itertools
from dataclasses import replace

import pytest
from small_schedules import by_hand, direct_allgather, executor_of, ops_of, ring_allreduce

from taccl.api import synthesize
from taccl.backend.lower import lower
from taccl.backend.lower.local_work import LocalWork
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.program import Buffer, Op, Program, Protocol, ThreadBlock
from taccl.backend.simulate.executor import predict_us
from taccl.backend.verify.msccl_xml import verify_text
from taccl.model.collectives import make_collective
from taccl.model.executor import Executor
from taccl.model.schedule import Schedule, Send, schedule_from_sends

EXECUTOR = executor_of()


def program_on(
    schedule: Schedule, executor: Executor | None = EXECUTOR, runtimes: str = "all", instances: int = 1
) -> Program:
    (lowered,) = lower(schedule, executor=executor, runtimes=runtimes, instances=instances)
    report = verify_text(to_xml(lowered.program), targets=lowered.readers)
    assert report.ok, report.findings
    return lowered.program


def local_blocks(program: Program, rank: int = 0) -> list[ThreadBlock]:
    return [block for block in program.ranks[rank].thread_blocks if block.send == block.recv == -1]


def words(block: ThreadBlock) -> list[str]:
    return [step.op.value for step in block.steps]


def direct_allreduce(ranks: int, pieces: int = 1, grouped: bool = True) -> Schedule:
    """Every rank gets what it adds up from all others at once, and sends its sums to all others at once."""
    rows = []
    took = 1.0 + pieces if grouped else 2.0
    for a in range(ranks):
        for b in range(ranks):
            for kind, owner, start in ((True, b, 0.0), (False, a, took * (1 if grouped else pieces))):
                chunks = tuple(range(owner * pieces, (owner + 1) * pieces))
                groups = [chunks] if grouped else [(chunk,) for chunk in chunks]
                if a != b:
                    rows += [(start + took * i, a, b, group, kind) for i, group in enumerate(groups)]
    return by_hand(make_collective("allreduce", ranks, pieces), rows)


def time_us(program: Program, schedule: Schedule, size: int, executor: Executor = EXECUTOR) -> float:
    return predict_us(program, schedule.problem.topology, executor, "Simple", size)


def test_own_data_are_copied_while_they_are_sent() -> None:
    program = program_on(direct_allgather(4))
    assert program.in_place and program.out_of_place
    for rank in range(4):
        (block,) = local_blocks(program, rank)
        assert words(block) == ["cpy"]
        assert block.steps[0].depends is None and not block.steps[0].has_dependent


def test_instances_copy_their_own_parts_side_by_side() -> None:
    assert len(local_blocks(program_on(direct_allgather(4), instances=3))) == 3


def test_a_long_copy_is_shared_until_it_is_done_with_the_schedule() -> None:
    """The sends of 4 MB take 5 us, a thread block copies 20 kB in each: as many help as there are pieces."""
    rows = [(0.0, a, 1 - a, tuple(range(4 * a, 4 * a + 4)), False) for a in range(2)]
    schedule = by_hand(make_collective("allgather", 2, 4), rows)
    assert len(local_blocks(program_on(schedule))) == 4
    small = replace(schedule, problem=replace(schedule.problem, chunk_mb=1e-4))
    assert [block.steps[0].count for block in local_blocks(program_on(small))] == [4]


def test_all_that_arrives_together_is_added_in_one_merged_run() -> None:
    program = program_on(direct_allreduce(4))
    for rank in program.ranks:
        (block,) = local_blocks(program, rank.rank)
        assert words(block) == ["cpy", "nop", "nop", "re", "re", "re"]
        copy, *_, first, second, third = block.steps
        assert (copy.dst, copy.dst_offset) == (Buffer.OUTPUT, rank.rank)
        assert {(step.src, step.dst, step.dst_offset) for step in (first, second, third)} == {
            (Buffer.SCRATCH, Buffer.OUTPUT, rank.rank)
        }
        assert first.depends is not None
        assert (second.depends, third.depends) == (None, None)
        assert [step.has_dependent for step in (first, second, third)] == [False, False, True]
        assert ops_of(rank).count("cpy") == 1  # the sum is in the output, and is sent from there


def test_a_merged_sum_is_sooner_there_than_a_chain_of_sums() -> None:
    schedule = direct_allreduce(8)
    gathered, chained = (program_on(schedule, executor) for executor in (EXECUTOR, None))
    # 6 sums and the copy to the output are saved.
    assert time_us(gathered, schedule, 2**14) < time_us(chained, schedule, 2**14) - 6 * EXECUTOR.reduce_us


@pytest.mark.parametrize("instances", [1, 2])
def test_named_sums_of_what_arrives_together_are_one_merged_run_in_the_output(instances: int) -> None:
    """Everyone sends all of its data to everyone, and sums by itself: nothing is copied to be sent."""
    ranks = 4
    requested = direct_allreduce(ranks).problem
    link, everything = requested.topology.link_index, tuple(range(ranks))
    sends = [
        Send(everything, link[a, b], 0.0, sums=(1 << a,) * ranks)
        for a, b in itertools.permutations(range(ranks), 2)
    ]
    schedule = schedule_from_sends(requested, sends)
    schedule = replace(schedule, problem=replace(requested, chunk_mb=1e-4))
    gathered, chained = (program_on(schedule, executor, instances=instances) for executor in (EXECUTOR, None))
    assert gathered.in_place and gathered.out_of_place
    for rank in gathered.ranks:
        for block in local_blocks(gathered, rank.rank):
            assert [word for word in words(block) if word != "nop"] == ["cpy", "re", "re", "re"]
            assert {step.dst for step in block.steps if step.op is Op.REDUCE} == {Buffer.OUTPUT}
        assert ops_of(rank).count("cpy") == instances
    assert time_us(gathered, schedule, 2**10) < time_us(chained, schedule, 2**10) - EXECUTOR.reduce_us


def test_neighbours_are_summed_in_one_step_where_that_takes_no_longer() -> None:
    small = direct_allreduce(3, pieces=4)
    small = replace(small, problem=replace(small.problem, chunk_mb=1e-4))
    (block,) = local_blocks(program_on(small))
    assert [(step.op, step.count) for step in block.steps if step.op is not Op.NOP] == [
        (Op.COPY, 4),
        (Op.REDUCE, 4),
        (Op.REDUCE, 4),
    ]
    assert len(local_blocks(program_on(direct_allreduce(3, pieces=4)))) == 4


def test_what_comes_much_later_is_added_by_itself() -> None:
    """Rank 0 gets one contribution at 2 us, one at 4 and one at 1000."""
    rows = [(0.0, 1, 0, (0,), True), (2.0, 2, 0, (0,), True), (998.0, 3, 0, (0,), True)]
    program = program_on(by_hand(make_collective("reduce", 4, root=0), rows))
    (block,) = local_blocks(program)
    assert words(block) == ["cpy", "nop", "re", "re", "re"]
    assert [step.depends is None for step in block.steps if step.op is Op.REDUCE] == [False, True, False]


def test_a_partial_sum_of_one_message_is_added_where_it_lands() -> None:
    """A ring adds one message to a rank's own data at each step, and copies nothing before."""
    plain, with_costs = (program_on(ring_allreduce(4), executor) for executor in (None, EXECUTOR))
    for before, after in zip(plain.ranks, with_costs.ranks, strict=True):
        assert ops_of(after).count("re") == ops_of(before).count("re") == 3
        assert ops_of(after).count("cpy") == ops_of(before).count("cpy") == 1


def test_sums_of_many_rounds_stay_with_those_who_receive() -> None:
    def pays(chunk_bytes: float) -> bool:
        return LocalWork(EXECUTOR, "Simple", chunk_bytes, 100.0, 1).gathering_pays(7)

    assert pays(2**10) and pays(2**21)
    assert not pays(2**25)


def test_no_more_thread_blocks_are_taken_than_the_machine_runs_at_once() -> None:
    """Sums that have no thread block left run in those that receive; with none too many it is as it was."""
    schedule = direct_allreduce(4, pieces=4, grouped=False)
    free = program_on(schedule)
    tight = program_on(schedule, executor_of(thread_blocks=4))
    assert {len(rank.thread_blocks) for rank in free.ranks} == {3 + 4}
    assert {len(rank.thread_blocks) for rank in tight.ranks} == {4}
    for rank in tight.ranks:
        assert sum("re" in words(block) for block in rank.thread_blocks) == 4


def test_over_the_limits_of_a_runtime_local_steps_run_beside_the_others() -> None:
    """40 receives are more than a run of sums takes, and 39 sends leave no room to wait for them all."""
    rows = [(0.0, a, 0, (0,), True) for a in range(1, 40)]
    program = program_on(by_hand(make_collective("reduce", 40, root=0), rows))
    assert not local_blocks(program)


def test_targets_with_fused_steps_add_on_receipt() -> None:
    program = program_on(direct_allreduce(2), runtimes="executor")
    assert not any(word == "re" for rank in program.ranks for word in ops_of(rank))
    assert not local_blocks(program)


def test_a_machine_without_executor_gets_the_files_that_it_always_got() -> None:
    plain = synthesize("allreduce", topology="full:4", size="1MB", chunks=1, engine="greedy", gap=0.99)
    (again,) = lower(
        plain.schedule,
        min_bytes=plain.files[0].program.min_bytes,
        max_bytes=plain.files[0].program.max_bytes,
        name=plain.files[0].program.name,
        protocol=Protocol.SIMPLE,
    )
    assert plain.files[0].text == to_xml(again.program)
