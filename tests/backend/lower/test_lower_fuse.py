import random

from hypothesis import given, settings
from interleaving import assert_computes
from small_schedules import by_hand, count_ops, ops_of, program_of, ring_allgather
from strategies import schedules
from studies import examples

from taccl.backend.lower import lower
from taccl.backend.program import Op
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule

CHAIN = [(2.0 * (chunk + hop), hop, hop + 1, (chunk,), False) for chunk in range(3) for hop in range(3)]


def test_a_chain_passes_on_what_it_receives_in_one_step() -> None:
    program = program_of(by_hand(make_collective("broadcast", 4, 3), CHAIN), runtimes="msccl")
    assert ops_of(program.ranks[1]) == ["rcs"] * 3
    assert ops_of(program.ranks[2]) == ["rcs"] * 3
    assert ops_of(program.ranks[3]) == ["r"] * 3


def test_a_chain_of_additions_stores_nothing_on_its_way() -> None:
    rows = [(2.0 * hop, hop, hop + 1, (0,), True) for hop in range(3)]
    program = program_of(by_hand(make_collective("reduce", 4, root=3), rows), runtimes="executor")
    assert [ops_of(rank) for rank in program.ranks] == [["s"], ["rrs"], ["rrs"], ["cpy", "rrc"]]
    assert [rank.scratch_chunks for rank in program.ranks] == [0, 0, 0, 0]
    assert_computes(program, make_collective("reduce", 4, root=3), random.Random(0))


def test_the_root_of_a_sum_adds_keeps_and_passes_on_in_one_step() -> None:
    rows = [
        (0.0, 0, 1, (0,), True),
        (2.0, 1, 0, (0,), False),
        (0.0, 1, 0, (1,), True),
        (2.0, 0, 1, (1,), False),
    ]
    program = program_of(by_hand(make_collective("allreduce", 2), rows), runtimes="msccl")
    assert count_ops(program, Op.RECV_REDUCE_COPY_SEND) >= 1
    assert_computes(program, make_collective("allreduce", 2), random.Random(0))


def test_a_chunk_that_another_block_sends_at_once_is_not_kept_back_by_fusing() -> None:
    rows = [(0.0, 0, 1, (0,), False), (2.0, 1, 2, (0,), False), (2.0, 1, 3, (0,), False)]
    program = program_of(by_hand(make_collective("broadcast", 4), rows), runtimes="msccl")
    assert sorted(ops_of(program.ranks[1])) == ["r", "s", "s"]


def test_a_ring_in_step_is_not_fused_since_one_slot_would_not_do() -> None:
    program = program_of(ring_allgather(4), runtimes="msccl")
    assert count_ops(program, Op.RECV_COPY_SEND) < 4 * 2


def test_groups_are_not_fused() -> None:
    rows = [(0.0, 0, 1, (0, 1), False), (3.0, 1, 2, (0, 1), False)]
    program = program_of(by_hand(make_collective("broadcast", 3, 2), rows), runtimes="msccl")
    assert count_ops(program, Op.RECV_COPY_SEND) == 0


def test_rccl_gets_no_fused_step() -> None:
    program = program_of(by_hand(make_collective("broadcast", 4, 3), CHAIN), runtimes="rccl")
    assert {op for rank in program.ranks for op in ops_of(rank)} <= {"s", "r", "cpy", "re", "nop"}


@settings(max_examples=examples(13), deadline=None)
@given(schedule=schedules(["allreduce", "reducescatter", "reduce", "broadcast", "allgather"]))
def test_fusing_keeps_the_meaning(schedule: Schedule) -> None:
    (lowered,) = lower(schedule, runtimes="msccl")
    for seed in range(3):
        assert_computes(lowered.program, schedule.problem.collective, random.Random(seed))
