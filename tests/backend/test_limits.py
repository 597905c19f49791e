from dataclasses import replace

import pytest
from small_schedules import direct_allgather, program_of

from taccl.backend.limits import LIMITS, check_limits, limits_of
from taccl.backend.program import Buffer, Op, Program, Step, ThreadBlock
from taccl.errors import ProgramLimitError

COPY = Step(Op.COPY, Buffer.INPUT, 0, Buffer.OUTPUT, 0, 1)


def with_blocks(blocks: list[ThreadBlock]) -> Program:
    program = program_of(direct_allgather(2))
    return replace(program, ranks=(replace(program.ranks[0], thread_blocks=tuple(blocks)), program.ranks[1]))


def block(number: int, steps: int = 1, send: int = -1, step: Step = COPY) -> ThreadBlock:
    return ThreadBlock(number, send, -1, 0, (step,) * steps)


def test_what_several_runtimes_hold_is_the_least_of_each() -> None:
    both = limits_of(["msccl", "rccl"])
    assert (both.blocks, both.steps, both.channels) == (64, 64, 32)
    assert limits_of(["msccl"]) == LIMITS["msccl"]


def test_a_program_within_all_limits_is_accepted() -> None:
    check_limits(program_of(direct_allgather(2)), LIMITS)
    check_limits(with_blocks([block(0, steps=64)]), LIMITS)


@pytest.mark.parametrize(
    ("program", "finding"),
    [
        (with_blocks([block(i) for i in range(65)]), "rank 0: 65 thread blocks; the limit is 64"),
        (with_blocks([block(0, steps=65)]), "rank 0, thread block 0: 65 steps; the limit is 64"),
        (
            with_blocks([block(0, step=replace(COPY, count=72))]),
            "rank 0, thread block 0: a step of 72 chunks; the limit is 71",
        ),
        (
            with_blocks([block(0, step=replace(COPY, depends=(64, 0)))]),
            "rank 0: thread block 64 is waited for; only ids below 64 can be waited for",
        ),
        (
            with_blocks([block(i, send=1) for i in range(33)]),
            "rank 0, channel 0: 33 thread blocks send; the limit is 32",
        ),
        (
            with_blocks([block(i, steps=64) for i in range(64)]),
            "rank 0: 4163 XML elements to keep; the limit is 4095",
        ),
    ],
)
def test_each_limit_is_named_with_the_rank_and_the_number(program: Program, finding: str) -> None:
    with pytest.raises(ProgramLimitError, match="too large for msccl, executor and rccl") as caught:
        check_limits(program, LIMITS)
    assert any(each.startswith(finding) for each in caught.value.findings)
    assert caught.value.hint is not None and "fewer chunks" in caught.value.hint


def test_limits_of_the_whole_program_are_named() -> None:
    program = program_of(direct_allgather(2))
    with pytest.raises(ProgramLimitError, match="too large for msccl") as caught:
        check_limits(replace(program, num_channels=33, num_ranks=1025), ["msccl"])
    assert caught.value.findings == ("1025 ranks; the limit is 1024", "33 channels; the limit is 32")


def test_a_scratch_that_offsets_cannot_reach_is_named() -> None:
    program = program_of(direct_allgather(2))
    ranks = (replace(program.ranks[0], scratch_chunks=32769), program.ranks[1])
    with pytest.raises(ProgramLimitError) as caught:
        check_limits(replace(program, ranks=ranks), ["executor"])
    assert caught.value.findings == ("rank 0: a buffer of 32769 chunks; the limit is 32768",)
