"""With LL on RCCL, a send says that it is done while its source may still be read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_schedules import executor_of, network
from strategies import schedules

from taccl.backend.lower import lower
from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Buffer, Op, Program, Protocol
from taccl.backend.target import THREAD_BLOCKS, ThreadBlocks
from taccl.backend.verify.msccl_xml import verify_text
from taccl.model.collectives import make_collective
from taccl.model.executor import Executor
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends


def exchange() -> Schedule:
    """Two ranks send each other all that they have, and both add it up."""
    problem = Problem(network(2, [(0, 1), (1, 0)]), make_collective("allreduce", 2), chunk_mb=1.0)
    return schedule_from_sends(problem, [Send((0, 1), link, 0.0, sums=(1 << link,) * 2) for link in (0, 1)])


def only_program(schedule: Schedule, protocol: Protocol, runtime: str) -> Program:
    (lowered,) = lower(schedule, protocol=protocol, runtimes=runtime)
    report = verify_text(to_xml(lowered.program), targets=lowered.readers)
    assert report.ok, report.findings
    return lowered.program


def copies_behind_sends(program: Program) -> list[int]:
    return [
        number
        for rank in program.ranks
        for block in rank.thread_blocks
        for number, step in enumerate(block.steps)
        if step.op is Op.COPY and number and block.steps[number - 1].op is Op.SEND
    ]


def test_what_overwrites_the_source_waits_for_a_copy_behind_the_send() -> None:
    program = only_program(exchange(), Protocol.LL, "rccl")
    for rank in program.ranks:
        (sender,) = (block for block in rank.thread_blocks if block.send >= 0)
        sent, copied = sender.steps
        assert (sent.op, copied.op, copied.count, copied.dst) == (Op.SEND, Op.COPY, 1, Buffer.SCRATCH)
        assert copied.has_dependent and not sent.has_dependent


@pytest.mark.parametrize(
    ("protocol", "runtime"), [(Protocol.SIMPLE, "rccl"), (Protocol.LL128, "all"), (Protocol.LL, "executor")]
)
def test_other_protocols_and_runtimes_need_no_copy(protocol: Protocol, runtime: str) -> None:
    assert not copies_behind_sends(only_program(exchange(), protocol, runtime))


@settings(max_examples=25, deadline=None)
@given(
    schedule=schedules(),
    routes=st.sampled_from(THREAD_BLOCKS),
    executor=st.sampled_from([None, executor_of()]),
)
def test_every_program_for_ll_passes_verification(
    schedule: Schedule, routes: ThreadBlocks, executor: Executor | None
) -> None:
    for lowered in lower(schedule, protocol=Protocol.LL, thread_blocks=routes, executor=executor):
        assert verify_text(to_xml(lowered.program), targets=lowered.readers).ok
