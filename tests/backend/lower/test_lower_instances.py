import random
from dataclasses import replace

import numpy as np
from interleaving import assert_computes
from small_schedules import by_hand, program_of, ring_allgather, steps_of

from taccl.backend.lower.instances import cut_into_instances
from taccl.backend.program import Op
from taccl.model.collectives import make_collective


def test_one_instance_is_the_schedule_itself() -> None:
    schedule = ring_allgather(3)
    cut, instance = cut_into_instances(schedule, 1)
    assert cut is schedule
    assert instance.tolist() == [0] * len(schedule)


def test_each_instance_takes_a_stretch_of_every_part() -> None:
    cut, instance = cut_into_instances(ring_allgather(2, pieces=2), 3)
    assert cut.problem.collective.chunks_per_rank == 6
    assert cut.problem.size_bytes == ring_allgather(2, pieces=2).problem.size_bytes
    assert {number: sorted(cut.chunk[instance == number].tolist()) for number in range(3)} == {
        0: [0, 1, 6, 7],
        1: [2, 3, 8, 9],
        2: [4, 5, 10, 11],
    }


def test_groups_within_a_part_stay_neighbours() -> None:
    program = program_of(ring_allgather(3, pieces=2), instances=2)
    for rank in program.ranks:
        assert rank.scratch_chunks == 0
        assert {step.count for step in steps_of(rank) if step.op is Op.RECV} == {2}


def test_groups_of_different_instances_are_different_groups() -> None:
    cut, _ = cut_into_instances(ring_allgather(3, pieces=2), 2)
    assert cut.sends.count.tolist() == [2] * (2 * 3 * 2)


def test_chunks_of_ones_own_collective_are_cut_where_they_lie() -> None:
    swap = replace(make_collective("alltoall", 2), name="swap")
    schedule = by_hand(swap, [(0.0, 0, 1, (1,), False), (0.0, 1, 0, (2,), False)])
    cut, _ = cut_into_instances(schedule, 2)
    collective = cut.problem.collective
    assert collective.inputs.buffer_size(2).tolist() == [4, 4]
    assert np.bincount(collective.outputs.rank).tolist() == [4, 4]
    assert_computes(program_of(schedule, instances=2), collective, random.Random(0))


def test_groups_across_the_parts_of_one_vector_stay_neighbours() -> None:
    """All ranks have chunk k of an AllReduce at k, so an instance takes one stretch of the whole."""
    everything = tuple(range(3))
    schedule = by_hand(make_collective("broadcast", 2, 3, root=0), [(0.0, 0, 1, everything, False)])
    cut, instance = cut_into_instances(schedule, 2)
    assert cut.chunk[instance == 1].tolist() == [3, 4, 5]
    there_and_back = [(0.0, 1, 0, (0, 1), True), (9.0, 0, 1, (0, 1), False)]
    cut, instance = cut_into_instances(by_hand(make_collective("allreduce", 2), there_and_back), 2)
    assert cut.chunk[instance == 1].tolist() == [2, 3, 2, 3]
