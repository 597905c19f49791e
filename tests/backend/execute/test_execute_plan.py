"""Plans run on real arrays: right ones are right in any order, and what is taken away shows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from plan_mutations import without

from taccl.backend.execute import execute_plan
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.one_sided.call import make_plan_call
from taccl.backend.execute.one_sided.operands import lanes_of
from taccl.backend.execute.one_sided.run import PlanJob
from taccl.backend.execute.requested import RunRequested
from taccl.backend.mscclpp import read_plan
from taccl.backend.one_sided import OneSided
from taccl.backend.plan import (
    BlockChannels,
    Channel,
    ExecutionPlan,
    Operation,
    OpName,
    PlanBlock,
    Share,
    Turns,
)
from taccl.backend.program import Buffer
from taccl.backend.targets.registry import unfold_file
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import CollectiveError, TacclError, VerificationError
from tests.backend import plan_examples as examples
from tests.backend.plan_examples import CLOSE, HANDSHAKE, Lines, packet_ports
from tests.backend.plans import (
    DATA,
    NOP,
    PUBLISHED,
    alone,
    among,
    copy,
    exchange_of_packets,
    exchange_over_ports,
    own,
    plan_of,
    with_operations,
)

PLANS = sorted(DATA.glob("*.json"))


def verdicts(plan: ExecutionPlan, seeds: int = 40) -> set[str]:
    return {execute_plan(plan, seed=seed, size_bytes=512).verdict for seed in range(seeds)}


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", range(4))
def test_real_plans_are_right_in_any_order(path: Path, seed: int) -> None:
    run = execute_plan(read_plan(path), seed=seed, size_bytes=2**12)
    assert (run.verdict, run.wrong, run.findings, run.notes) == ("right", 0, (), ())
    assert run.checked > 0
    assert run.calls == 3


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_others_are_right_too(path: Path) -> None:
    assert execute_plan(read_plan(path), seed=1, size_bytes=2**14).verdict == "right"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_sums_are_right_in_each_type(dtype: str) -> None:
    assert execute_plan(plan_of("napkin-allreduce_2"), dtype=dtype, size_bytes=1024).verdict == "right"
    assert execute_plan(plan_of("repo-allreduce_packet_2"), dtype=dtype, size_bytes=1024).verdict == "right"


@pytest.mark.parametrize("ranks_as", ["threads", "processes"])
def test_ranks_may_be_threads_or_processes(ranks_as) -> None:
    plan = plan_of("napkin-relay_3")
    assert execute_plan(plan, ranks_as=ranks_as, size_bytes=1024).verdict == "right"


@pytest.mark.parametrize("ranks_as", ["turns", "threads", "processes"])
def test_a_plan_that_hangs_says_where_each_block_stands(ranks_as) -> None:
    plan = without(plan_of("napkin-allgather_2"), 0, 0, 6)  # its signal that data is there
    run = execute_plan(plan, ranks_as=ranks_as, size_bytes=512, calls=1)
    assert run.verdict == "hangs"
    assert run.findings == (
        "rank 1, thread block 0, operation 7 (wait): waits for signal 2 on memory channel 0 of rank 1 (to "
        "rank 0); 1 came",
    )


ALLGATHER_STEPS = {
    0: {"hangs"},  # rlxsignal: nobody may write
    1: {"right", "wrong"},  # rlxwait
    2: {"right", "wrong"},  # nop: the lane that waits is one of many
    3: {"wrong"},  # put
    4: {"wrong"},  # copy
    5: {"right", "wrong"},  # nop: the signal overtakes what others of its block write
    6: {"hangs"},  # signal
    7: {"right", "wrong"},  # wait
}


@pytest.mark.parametrize(("step", "expected"), ALLGATHER_STEPS.items())
def test_no_operation_of_the_napkin_allgather_can_be_left_out(step: int, expected: set[str]) -> None:
    assert verdicts(without(plan_of("napkin-allgather_2"), 0, 0, step)) == expected


@pytest.mark.parametrize("step", [0, 1, 2])
def test_no_operation_of_the_relay_can_be_left_out(step: int) -> None:
    """A signal says that a kernel has begun, a nop lets another lane know what one has heard."""
    assert verdicts(without(plan_of("napkin-relay_3"), 1, 0, step)) & {"wrong", "hangs"}


def test_what_is_wrong_is_told_with_its_bytes() -> None:
    run = execute_plan(without(plan_of("napkin-allgather_2"), 1, 0, 4), size_bytes=512, calls=1)
    assert run.verdict == "wrong"
    assert run.wrong == 64
    (finding,) = run.findings
    assert finding.startswith(
        "rank 1: chunk 1 of buffer o is wrong in 64 of 64 elements, in bytes 256 .. 511; the first is nan"
    )


def test_packets_in_one_half_of_scratch_are_overtaken_by_the_next_call() -> None:
    assert verdicts(exchange_of_packets(double_scratch=True)) == {"right"}
    assert "hangs" in verdicts(exchange_of_packets(double_scratch=False))


def test_signals_that_nobody_waits_for_are_told() -> None:
    plan = plan_of("napkin-allgather_2")
    operations = plan.ranks[0].blocks[0].operations
    run = execute_plan(with_operations(plan, 0, (*operations, operations[0])), size_bytes=512)
    assert any("9 signals came" in note and "6 were waited for" in note for note in run.notes)


def test_shares_cover_their_range() -> None:
    parts = tuple((copy(share=Share(number, 3)),) for number in range(3))
    assert execute_plan(among(parts), size_bytes=4 * 16 * 5).verdict == "right"
    assert execute_plan(among(parts[1:]), size_bytes=4 * 16 * 5).verdict == "wrong"


def test_a_pipeline_takes_a_slice_each_turn() -> None:
    turns = Operation(OpName.PIPELINE, turns=Turns(48, 4), inner=(copy(),))
    run = execute_plan(alone(turns), size_bytes=4 * 64)
    assert run.verdict == "right"
    assert run.steps == 2


def test_semaphores_order_blocks_and_keep_their_values() -> None:
    first = (
        Operation(OpName.COPY, sources=(own(Buffer.INPUT, 0, 4),), targets=(own(Buffer.SCRATCH, 0, 4),)),
        NOP,
        Operation(OpName.RELEASE, semaphores=(0,)),
    )
    second = (
        Operation(OpName.ACQUIRE, semaphores=(0,)),
        NOP,
        Operation(OpName.COPY, sources=(own(Buffer.SCRATCH, 0, 4),), targets=(own(Buffer.OUTPUT, 0, 4),)),
    )
    assert verdicts(among((first, second), semaphores=(0,))) == {"right"}
    assert "wrong" in verdicts(among((first, second), semaphores=(1,)))
    assert verdicts(among((first[:2], second), semaphores=(0,)), 2) == {"hangs"}


def test_threads_of_a_block_stride_from_where_a_range_begins() -> None:
    """Equal ranges fall on equal threads, without a nop; shifted ones do not."""
    into = Operation(OpName.COPY, sources=(own(Buffer.INPUT, 0, 4),), targets=(own(Buffer.SCRATCH, 0, 4),))
    out = Operation(OpName.COPY, sources=(own(Buffer.SCRATCH, 0, 4),), targets=(own(Buffer.OUTPUT, 0, 4),))
    halves = tuple(
        Operation(
            OpName.COPY, sources=(own(Buffer.SCRATCH, first, 2),), targets=(own(Buffer.OUTPUT, first, 2),)
        )
        for first in (0, 2)
    )
    assert verdicts(alone(into, out)) == {"right"}
    assert "wrong" in verdicts(alone(into, *halves))
    assert verdicts(alone(into, NOP, *halves)) == {"right"}


@pytest.mark.parametrize("name", [OpName.COPY_TO_PACKETS, OpName.READ_PUT_PACKETS, OpName.COPY_FROM_PACKETS])
def test_sources_that_the_kernel_never_looks_at_are_not_summed(name: OpName) -> None:
    plan = packet_ports()
    for rank in range(2):
        operations = plan.ranks[rank].blocks[0].operations
        more = (replace(each, sources=each.sources * 2) if each.name is name else each for each in operations)
        plan = with_operations(plan, rank, tuple(more))
    assert plan != packet_ports()
    assert verdicts(plan, 4) == {"right"}


def test_a_put_through_a_port_reads_its_source_later() -> None:
    """Without a flush, what follows in the block may change the source before it is sent."""
    plan = exchange_over_ports()
    assert "wrong" in verdicts(plan)
    for rank in (0, 1):
        operations = list(plan.ranks[rank].blocks[0].operations)
        operations[4] = replace(operations[4], name=OpName.PUT_SIGNAL_FLUSH)
        plan = with_operations(plan, rank, tuple(operations))
    assert verdicts(plan) == {"right"}


def test_blocks_have_an_odd_number_of_lanes_and_one_for_each_channel() -> None:
    channels = (BlockChannels(Channel.MEMORY, tuple(range(8))),)
    signals = Operation(OpName.SIGNAL, Channel.MEMORY, tuple(range(8)))
    assert lanes_of(PlanBlock(0, (signals,), channels)) == 9
    assert lanes_of(PlanBlock(0, (NOP,))) == 3


# what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"op": "max"}, "MSCCL\\+\\+ sums, whatever"),
        ({"dtype": "float64"}, "does not sum"),
        ({"size_bytes": 16}, "has no 16 bytes for each of the 2 chunks"),
        ({"calls": 0}, "number of calls"),
        ({"root": 1}, "allreduce has no root"),
        ({"ranks_as": "fibres"}, "cannot run as"),
    ],
)
def test_calls_that_the_runtime_does_not_serve_are_refused(options, message: str) -> None:
    with pytest.raises(TacclError, match=message):
        execute_plan(plan_of("napkin-allreduce_2"), **options)


def test_a_size_outside_of_the_window_is_refused() -> None:
    plan = replace(plan_of("napkin-allreduce_2"), min_bytes=1024, max_bytes=4096)
    assert execute_plan(plan).size_bytes == 4096
    with pytest.raises(CollectiveError, match="serves calls of 1024 to 4096 bytes, not of 512"):
        execute_plan(plan, size_bytes=512)


def test_ranges_outside_of_their_buffers_are_refused() -> None:
    with pytest.raises(VerificationError, match="cannot be executed") as caught:
        list(OneSided.of(alone(copy(size=5))).run(RunRequested(Deadline(60.0))))
    assert "touches chunks 0 .. 4" in caught.value.findings[0]


def test_buffers_that_are_not_those_of_the_collective_are_refused() -> None:
    plan = replace(alone(copy()), collective="allgather")
    with pytest.raises((CollectiveError, VerificationError)):
        execute_plan(replace(plan, ranks=(replace(plan.ranks[0], output_chunks=8),)))


def test_scratch_that_plans_share_has_room_for_64_mb_of_payload() -> None:
    plan = replace(alone(copy()), reuse_resources=True)
    with pytest.raises(CollectiveError, match="reuse_resources there are 67108864"):
        execute_plan(plan, size_bytes=2**26 + 64)


def test_what_has_been_sent_is_told_of_all_turns_of_a_pipeline() -> None:
    plan = plan_of("napkin-relay_3")
    wait, put, keep = plan.ranks[0].blocks[0].operations
    piped = Operation(OpName.PIPELINE, turns=Turns(16, 1), inner=(put,))
    call = make_plan_call(with_operations(plan, 0, (wait, piped, keep)), RunRequested(size_bytes=64))
    assert PlanJob(replace(call, calls=1), False).planned == 4 + 1
    assert PlanJob(replace(call, calls=3), False).planned == 3 * (4 + 1)


def test_it_ends_when_its_time_is_over() -> None:
    clock = iter(range(10**6))
    with pytest.raises(VerificationError, match="not at an end after"):
        execute_plan(plan_of("napkin-relay_3"), deadline=Deadline(50, lambda: float(next(clock))))


@pytest.mark.parametrize(("looks", "doing"), [(2, "reading the program"), (50, "checking the plan")])
def test_reading_and_checking_a_plan_look_at_the_clock(looks: int, doing: str) -> None:
    clock = itertools.count()
    path = DATA / "napkin-relay_3.json"
    objects = path.read_text().count("{")
    limit = looks if doing.startswith("reading") else objects + looks
    requested = RunRequested(Deadline(limit, lambda: float(next(clock))))
    with pytest.raises(VerificationError, match=f"over the limit of {limit} s, while {doing}\n") as reported:
        list(unfold_file(path, path.read_bytes(), "run", requested.deadline.look).run(requested))
    assert reported.value.hint == "a longer --timeout"


def test_ranks_of_sendrecv_may_be_in_groups() -> None:
    """Four that send in pairs; those that keep their own are in no group."""

    def pairs(text: str, ranks: int) -> ExecutionPlan:
        rows = [
            examples.rank(r, (1, 1, 0), [Lines(text, (0,))], memory=(r ^ 1,), remotes=((r ^ 1, "o", "m"),))
            for r in range(ranks)
        ]
        return examples.plan("sendrecv", rows)

    swap = pairs(HANDSHAKE + "put m i0 > R0:0\n" + CLOSE, 4)
    assert execute_plan(swap, size_bytes=64).verdict == "right"
    assert verify_plan(swap).ok
    assert execute_plan(pairs("copy i0 > o0", 4), size_bytes=64).verdict == "wrong"
