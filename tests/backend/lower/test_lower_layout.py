from dataclasses import replace

import numpy as np
import pytest
from small_schedules import by_hand, count_ops, program_of, relayed_alltoall, steps_of

from taccl.backend.lower.layout import chunk_orders
from taccl.backend.program import Buffer, Op
from taccl.model.collective import Placement
from taccl.model.collectives import make_collective

SCATTER = [(0.0, 0, 1, (1, 3), False), (0.0, 0, 2, (2,), False), (4.0, 1, 3, (3,), False)]


def test_only_alltoall_has_more_than_one_order_worth_trying() -> None:
    assert len(chunk_orders(make_collective("alltoall", 3, 2))) == 2
    for name in ("allgather", "reducescatter", "allreduce", "broadcast", "reduce", "gather", "scatter"):
        assert len(chunk_orders(make_collective(name, 3, 2))) == 1


def test_the_second_order_of_alltoall_is_by_destination() -> None:
    by_source, by_destination = chunk_orders(make_collective("alltoall", 2))
    assert by_source.tolist() == [0, 1, 2, 3]
    assert by_destination.tolist() == [0, 2, 1, 3]


def test_what_arrives_out_of_order_for_the_output_waits_in_scratch_and_is_copied_on() -> None:
    # Chunks 0 and 2 are no neighbours in the output of rank 1, but leave it side by side; more take 0 and 1.
    rows = [(0.0, 0, 1, (0, 2), False), (3.0, 1, 2, (0, 2), False)]
    rows += [(3.0, 0, 1, (1,), False), (6.0, 1, 2, (1,), False)]
    for start, src, dst in ((0.0, 0, 3), (3.0, 3, 4), (6.0, 4, 5)):
        rows += [(start, src, dst, (0, 1), False), (start + 3, src, dst, (2,), False)]
    program = program_of(by_hand(make_collective("broadcast", 6, 3), rows))
    rank = program.ranks[1]
    landed = [step for step in steps_of(rank) if step.op is Op.RECV and step.count == 2]
    sent = [step for step in steps_of(rank) if step.op is Op.SEND and step.src is Buffer.SCRATCH]
    assert [(step.dst, step.dst_offset) for step in landed] == [(Buffer.SCRATCH, 0)]
    assert [(step.src_offset, step.count) for step in sent] == [(0, 2)]
    assert rank.scratch_chunks == 2


def test_own_chunks_that_are_no_neighbours_are_gathered_before_they_leave_together() -> None:
    program = program_of(by_hand(make_collective("scatter", 4), SCATTER))
    root = program.ranks[0]
    (group,) = [step for step in steps_of(root) if step.op is Op.SEND and step.count == 2]
    assert group.src is Buffer.SCRATCH
    assert group.depends is not None or steps_of(root)[0].op is Op.COPY
    assert sum(step.op is Op.COPY for step in steps_of(root)) == 3


def test_own_neighbours_leave_from_the_input() -> None:
    rows = [(0.0, 0, 1, (1, 2), False), (4.0, 1, 2, (2,), False)]
    program = program_of(by_hand(make_collective("scatter", 3), rows))
    assert [(s.src, s.count) for s in steps_of(program.ranks[0]) if s.op is Op.SEND] == [(Buffer.INPUT, 2)]
    assert program.ranks[0].scratch_chunks == 0


@pytest.mark.parametrize("grouped", [True, False])
def test_scratch_has_no_holes_and_everything_in_it_is_written(grouped: bool) -> None:
    for rank in program_of(relayed_alltoall(grouped)).ranks:
        written: set[int] = set()
        for step in steps_of(rank):
            if step.op in (Op.RECV, Op.COPY) and step.dst is Buffer.SCRATCH:
                written |= set(range(step.dst_offset, step.dst_offset + step.count))
        assert written == set(range(rank.scratch_chunks))


def test_partial_sums_of_a_group_are_added_by_one_step() -> None:
    rows = [(0.0, 0, 2, (0, 1, 2), True), (0.0, 1, 2, (0, 1, 2), True)]
    program = program_of(by_hand(make_collective("reduce", 3, 3, root=2), rows))
    assert [step.count for step in steps_of(program.ranks[2]) if step.op is Op.REDUCE] == [3, 3]
    assert count_ops(program, Op.COPY) == 1


def test_sums_are_kept_in_scratch_so_that_rccl_sees_what_other_thread_blocks_added() -> None:
    rows = [(0.0, 0, 2, (0,), True), (0.0, 1, 2, (0,), True)]
    program = program_of(by_hand(make_collective("reduce", 3, root=2), rows), runtimes="rccl")
    for step in steps_of(program.ranks[2]):
        if step.op is Op.REDUCE:
            assert step.dst is Buffer.SCRATCH and step.src in (Buffer.SCRATCH, Buffer.INPUT)


def test_a_relay_without_data_of_its_own_adds_up_what_it_gets() -> None:
    sums = make_collective("reduce", 3, root=2)
    only_two = replace(
        sums,
        name="my-sum",
        inputs=Placement(np.array([0, 0]), np.array([0, 1]), np.array([0, 0])),
    )
    rows = [(0.0, 0, 2, (0,), True), (0.0, 1, 2, (0,), True)]
    program = program_of(by_hand(only_two, rows))
    assert program.collective == "custom"
    assert sorted(step.op.value for step in steps_of(program.ranks[2])) == ["cpy", "r", "r", "re"]
