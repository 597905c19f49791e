"""Lowering of schedules that name their partial sums: made at several ranks, sent on more than once."""

import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from interleaving import assert_computes
from small_schedules import count_ops, executor_of, network, program_of
from strategies_sums import named_sums
from studies import examples

from taccl.backend.lower import lower
from taccl.backend.lower.instances import cut_into_instances
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.program import Op
from taccl.backend.verify.msccl_xml import verify_text
from taccl.model.collectives import allreduce
from taccl.model.executor import Executor
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends


@settings(max_examples=examples(20), deadline=None)
@given(
    schedule=named_sums(),
    runtimes=st.sampled_from(["all", "msccl", "executor", "rccl"]),
    instances=st.integers(1, 2),
    executor=st.sampled_from([None, executor_of()]),
    seed=st.integers(0, 1000),
)
def test_every_program_computes_its_collective_in_any_order(
    schedule: Schedule, runtimes: str, instances: int, executor: Executor | None, seed: int
) -> None:
    finer = cut_into_instances(schedule, instances)[0].problem.collective
    for lowered in lower(schedule, runtimes=runtimes, instances=instances, executor=executor):
        assert_computes(lowered.program, finer, random.Random(seed))


@settings(max_examples=examples(13), deadline=None)
@given(
    schedule=named_sums(),
    runtimes=st.sampled_from(["all", "msccl", "rccl"]),
    executor=st.sampled_from([None, executor_of()]),
)
def test_every_program_passes_verification(
    schedule: Schedule, runtimes: str, executor: Executor | None
) -> None:
    for lowered in lower(schedule, runtimes=runtimes, executor=executor):
        report = verify_text(to_xml(lowered.program), targets=lowered.readers)
        assert report.ok, report.findings


def problem(ranks: int) -> Problem:
    return Problem(network(ranks, list(itertools.permutations(range(ranks), 2))), allreduce(ranks), 1.0)


def recursive_doubling(ranks: int) -> Schedule:
    requested = problem(ranks)
    index, chunks = requested.topology.link_index, tuple(range(ranks))
    sends = []
    for bit in range(ranks.bit_length() - 1):
        for rank in range(ranks):
            have = sum(1 << other for other in range(ranks) if other >> bit == rank >> bit)
            start = bit * (1.0 + ranks)
            sends.append(Send(chunks, index[rank, rank ^ (1 << bit)], start, sums=(have,) * ranks))
    return schedule_from_sends(requested, sends)


def test_a_step_of_recursive_doubling_adds_one_message_to_one_sum() -> None:
    program = program_of(recursive_doubling(4))
    # A send, a receive and an addition for each of two steps; then the sum is copied to the output.
    assert count_ops(program, Op.SEND) == count_ops(program, Op.RECV) == count_ops(program, Op.REDUCE) == 8
    assert count_ops(program, Op.COPY) == 4
    assert program.in_place


def test_one_shot_sends_the_input_and_adds_up_what_comes() -> None:
    requested = problem(3)
    sends = [
        Send((0, 1, 2), requested.topology.link_index[a, b], 0.0, sums=(1 << a,) * 3)
        for a, b in itertools.permutations(range(3), 2)
    ]
    program = program_of(schedule_from_sends(requested, sends))
    assert count_ops(program, Op.SEND) == 6
    # The first message becomes the sum; its own contribution and the other message are added.
    assert count_ops(program, Op.REDUCE) == 6
    assert program.in_place


def test_a_group_of_a_partial_and_a_whole_sum_is_one_send() -> None:
    requested = problem(2)
    there, back = requested.topology.link_index[0, 1], requested.topology.link_index[1, 0]
    sends = [
        Send((0,), back, 0.0, sums=(0b10,)),
        Send((0, 1), there, 2.0, sums=(0, 0b01)),
        Send((1,), back, 5.0, sums=(0,)),
    ]
    schedule = schedule_from_sends(requested, sends)
    schedule.check()
    program = program_of(schedule)
    assert count_ops(program, Op.SEND) == 3
    assert_computes(program, requested.collective, random.Random(0))
