from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_schedules import by_hand, network, ring_allreduce
from strategies import schedules

from taccl import synthesize
from taccl.backend.limits import LIMITS, RuntimeLimits
from taccl.backend.lower import lower
from taccl.backend.lower.least import check_problem_fits, check_sends_fit
from taccl.backend.program import Program
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.errors import CollectiveError, ProgramLimitError
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule

RANDOM = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def allgather(chunks: int) -> Problem:
    """Two ranks that both send all they have."""
    return Problem(network(2, [(0, 1), (1, 0)]), make_collective("allgather", 2, chunks), chunk_mb=1.0)


def just_enough_for(program: Program) -> RuntimeLimits:
    """A runtime that holds this program, and nothing larger."""
    steps = max(sum(len(block.steps) for block in rank.thread_blocks) for rank in program.ranks)
    blocks = max(len(rank.thread_blocks) for rank in program.ranks)
    return RuntimeLimits(
        blocks=blocks,
        steps=-(-steps // blocks),  # so that all blocks together hold no more
        channels=program.num_channels,
        buffer_chunks=max(max(rank.input_chunks, rank.output_chunks) for rank in program.ranks),
        elements=1 + program.num_ranks + blocks + steps,
    )


@RANDOM
@given(schedules(), st.sampled_from(["msccl", "executor", "rccl"]), st.integers(1, 3))
def test_what_a_program_takes_is_never_refused(schedule: Schedule, runtime: str, instances: int) -> None:
    try:
        (lowered,) = lower(schedule, runtimes=runtime, instances=instances)
    except (CollectiveError, ProgramLimitError):
        return
    with (
        patch.dict(LIMITS, {runtime: just_enough_for(lowered.program)}),
        patch("taccl.backend.lower.least.MAX_CELLS", cells_of(lowered.program)),
    ):
        check_problem_fits(schedule.problem, (runtime,), instances)
        check_sends_fit(schedule, (runtime,), instances)


def cells_of(program: Program) -> int:
    """All chunks of its buffers and steps."""
    buffers = sum(rank.input_chunks + rank.output_chunks + rank.scratch_chunks for rank in program.ranks)
    blocks = (block for rank in program.ranks for block in rank.thread_blocks)
    return buffers + sum(step.count for block in blocks for step in block.steps)


def test_more_than_can_be_checked_is_told_before_anything_is_lowered() -> None:
    """Six ranks both ways: 1 + 2 + 3 + 2 + 1 transfers of each rank's chunks, of which all but 6 may stay."""
    options = {"size": "6MB", "chunks": 1, "effort": 100, "executor": False, "file": False}
    schedule = synthesize("alltoall", topology="ring:6", **options).schedule
    for runtime, moved in (("rccl", 6 * 9 * 2), ("msccl", 6 * 9)):
        least = moved + 6 * (9 - 6)
        with patch("taccl.backend.lower.least.MAX_CELLS", least):
            check_sends_fit(schedule, (runtime,), 1)
        with (
            patch("taccl.backend.lower.least.MAX_CELLS", least - 1),
            pytest.raises(ProgramLimitError) as fault,
        ):
            check_sends_fit(schedule, (runtime,), 1)
        assert f"at least {least} chunks in all buffers and steps" in fault.value.findings[0]


def test_more_than_can_be_checked_is_told_of_the_program_before_it_is_written() -> None:
    schedule = ring_allreduce(3)
    (lowered,) = lower(schedule, runtimes="msccl")
    cells = cells_of(lowered.program)
    with patch("taccl.backend.lower.least.MAX_CELLS", cells):
        lower(schedule, runtimes="msccl")
    with patch("taccl.backend.lower.least.MAX_CELLS", cells - 1), pytest.raises(ProgramLimitError) as fault:
        lower(schedule, runtimes="msccl")
    assert list(fault.value.findings) == [
        f"{cells} chunks in all buffers and steps; the limit is {cells - 1}"
    ]


@pytest.mark.parametrize("name", ["all", *LIMITS])
def test_a_buffer_that_is_too_large_is_told_before_the_search_with_what_would_fit(name: str) -> None:
    target = find_target(name)
    target.check_problem(allgather(16384), LoweringOptions())
    with pytest.raises(ProgramLimitError, match="no program for allgather on 2 ranks fits") as fault:
        target.check_problem(allgather(16385), LoweringOptions())
    assert list(fault.value.findings) == ["rank 0: at least 32770 chunks in a buffer; the limit is 32768"]
    assert fault.value.hint == "--chunks 16384 or fewer, or --no-file for the schedule alone"


def test_fewer_instances_are_what_fits_where_those_are_too_many() -> None:
    with pytest.raises(ProgramLimitError) as fault:
        check_problem_fits(allgather(16384), ("msccl",), instances=2)
    assert fault.value.hint == "fewer --instances, or --no-file for the schedule alone"


def test_a_receive_that_is_sent_on_is_one_step_only_where_steps_are_fused() -> None:
    """Each rank of three receives four chunks and sends four: 4 steps or 8, and 2 + 3 other elements."""
    schedule = ring_allreduce(3)
    small = RuntimeLimits(64, 64, 32, elements=11)
    with patch.dict(LIMITS, {"rccl": small, "msccl": small}):
        check_sends_fit(schedule, ("msccl",), 1)
        with pytest.raises(ProgramLimitError) as fault:
            check_sends_fit(schedule, ("rccl",), 1)
    assert list(fault.value.findings) == ["rank 0: at least 13 XML elements to keep; the limit is 11"]


def test_a_rank_with_more_peers_than_thread_blocks_is_told_before_anything_is_lowered() -> None:
    schedule = ring_allreduce(3)  # one peer before and one behind: a block for each instance
    check_sends_fit(schedule, ("rccl",), 64)
    with pytest.raises(ProgramLimitError) as fault:
        check_sends_fit(schedule, ("rccl",), 65)
    assert "rank 0: at least 65 thread blocks; the limit is 64" in fault.value.findings


def test_more_sends_than_steps_are_told_before_anything_is_lowered() -> None:
    chunks = 4096
    rows = [(2.0 * chunk, 0, 1, (chunk,), False) for chunk in range(chunks)]
    schedule = by_hand(make_collective("broadcast", 2, chunks, 0), rows)
    with pytest.raises(ProgramLimitError, match="the program is too large for msccl") as fault:
        lower(schedule, runtimes="msccl")
    assert list(fault.value.findings) == ["rank 0: at least 4100 XML elements to keep; the limit is 4095"]
