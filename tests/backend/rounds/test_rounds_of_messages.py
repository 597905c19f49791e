"""Files become rounds of messages that compute their collective, however they are called."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import REAL_FILES, block, direct_alltoall, program, ring_allgather, ring_allreduce, step
from small_schedules import direct_allgather, program_of
from strategies import schedules
from studies import examples

from taccl.api import make_problem
from taccl.backend.lower import lower
from taccl.backend.msccl_xml import read_xml
from taccl.backend.mscclpp import read_plan
from taccl.backend.one_sided import OneSided
from taccl.backend.program import Buffer
from taccl.backend.rounds.lowering import lower_to_rounds
from taccl.backend.rounds.rounds import Message, Place, Round
from taccl.backend.rounds.timing import time_rounds
from taccl.backend.rounds.verify import check_rounds
from taccl.backend.two_sided import TwoSided
from taccl.errors import TacclError, TopologyError, VerificationError

PLANS = Path(__file__).parents[2] / "data" / "mscclpp"


def call_of(made):
    return TwoSided.of(made).one_call(None, None)


def carried_out(rounds, inputs):
    """The outputs of all ranks, from inputs of one number a chunk, by nothing but what rounds promise."""
    memory = []
    for rank, (size_in, size_out, scratch) in enumerate(rounds.sizes):
        shift = rounds.in_place_shift[rank] if rounds.in_place else 0
        first, then = (max(0, shift), max(0, -shift)) if rounds.in_place else (0, size_in)
        whole = np.full(max(first + size_in, then + size_out) + scratch, np.nan)
        whole[first : first + size_in] = inputs[rank][:size_in]
        parts = {
            Buffer.INPUT: whole[first : first + size_in],
            Buffer.OUTPUT: whole[then : then + size_out],
            Buffer.SCRATCH: whole[len(whole) - scratch :],
        }
        memory.append(parts)

    def at(rank, place, count):
        return memory[rank][place.buffer][place.offset : place.offset + count]

    def add(locals_):
        for local in locals_:
            total = sum(at(local.rank, source, local.count).copy() for source in local.sources)
            at(local.rank, local.target, local.count)[:] = total

    add(rounds.before)
    for each in rounds.rounds:
        arriving = [at(m.source, m.read, m.count).copy() for m in each.messages]
        for message, data in zip(each.messages, arriving, strict=True):
            at(message.target, message.written, message.count)[:] = data
        add(each.after)
    return [parts[Buffer.OUTPUT] for parts in memory]


def test_a_ring_takes_a_round_for_each_of_its_steps():
    rounds = lower_to_rounds(call_of(ring_allreduce(4)))
    assert len(rounds.rounds) == rounds.fewest == 6
    assert len(rounds.chain) == 7
    assert {each.most_operations for each in rounds.rounds} == {2}


def test_an_alltoall_takes_one_round_and_no_scratch():
    rounds = lower_to_rounds(call_of(direct_alltoall(4)))
    assert len(rounds.rounds) == 1
    assert len(rounds.rounds[0].messages) == 12
    assert all(size[2] == 0 for size in rounds.sizes)


def test_in_place_an_alltoall_receives_in_scratch_what_would_be_written_over():
    rounds = lower_to_rounds(call_of(direct_alltoall(4)), in_place=True)
    assert len(rounds.rounds) == 1
    assert all(size[2] == 3 for size in rounds.sizes)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("make", [ring_allreduce, ring_allgather])
def test_what_rounds_compute_is_what_numpy_computes(make, in_place):
    rounds = lower_to_rounds(call_of(make(3)), in_place=in_place)
    inputs = [np.arange(8.0) + 100 * rank for rank in range(3)]
    outputs = carried_out(rounds, inputs)
    size = rounds.sizes[0][0]
    parts = [each[:size] for each in inputs]
    wanted = sum(parts) if make is ring_allreduce else np.concatenate(parts)
    assert all(np.array_equal(output, wanted) for output in outputs)


def follow_each_other(round_):
    """Messages of one pair that could be one: each reads and writes on where the other ends."""
    begins = {(m.source, m.target, m.read, m.written) for m in round_.messages}
    return [
        m
        for m in round_.messages
        if (
            *(m.source, m.target),
            *(replace(place, offset=place.offset + m.count) for place in (m.read, m.written)),
        )
        in begins
    ]


@given(schedule=schedules(), in_place=st.booleans(), pipelined=st.booleans(), most=st.integers(2, 5))
@settings(max_examples=examples(20), deadline=None)
def test_any_schedule_becomes_rounds(schedule, in_place, pipelined, most):
    call = TwoSided.of(lower(schedule)[0].program).one_call(schedule.problem.collective, None)
    rounds = lower_to_rounds(call, in_place=in_place, pipelined=pipelined, most_operations=most)
    check_rounds(rounds, call.expectation, 1, most)
    assert not any(follow_each_other(each) for each in rounds.rounds)
    fewest = lower_to_rounds(call, in_place=in_place)
    assert len(fewest.rounds) == fewest.fewest <= len(rounds.rounds)
    wanted = call.expectation
    inputs = [2.0 ** np.arange(int(size)) * 3.0**rank for rank, size in enumerate(wanted.input_size)]
    outputs = carried_out(rounds, inputs)
    for rank, offset, value in zip(
        wanted.wanted_rank, wanted.wanted_offset, wanted.wanted_value, strict=True
    ):
        sums = [
            sum(inputs[r][k] for k, ranks, _ in some for r in range(len(inputs)) if ranks >> r & 1)
            for some in wanted.values[value]
        ]
        assert any(outputs[rank][offset] == pytest.approx(each) for each in sums)


def test_pipelined_rounds_keep_the_order_of_thread_blocks():
    """Two chunks go 0 -> 1 -> 2 over one thread block each: at once in two rounds, or in turn in three."""
    relay = (
        block(0, -1, 0, step("r", "o0"), step("r", "o1")),
        block(1, 2, -1, step("s", "o0", wait=(0, 0)), step("s", "o1", wait=(0, 1))),
    )
    relay = (
        replace(relay[0], steps=tuple(replace(each, has_dependent=True) for each in relay[0].steps)),
        relay[1],
    )
    made = program(
        "broadcast",
        2,
        (
            block(0, 1, -1, step("s", "i0"), step("s", "i1")),
            block(1, -1, -1, step("cpy", "i0", "o0", count=2)),
        ),
        relay,
        (block(0, -1, 1, step("r", "o0"), step("r", "o1")),),
    )
    call = TwoSided.of(made).one_call(None, 0)
    assert len(lower_to_rounds(call).rounds) == 2
    assert len(lower_to_rounds(call, pipelined=True).rounds) == 3


def test_a_round_of_too_many_operations_is_cut():
    call = call_of(direct_alltoall(4))
    rounds = lower_to_rounds(call, most_operations=2)
    assert rounds.fewest == 1
    assert all(each.most_operations <= 2 for each in rounds.rounds)
    assert len(rounds.rounds) == 3
    with pytest.raises(TacclError, match="from 2"):
        lower_to_rounds(call, most_operations=1)


@pytest.mark.parametrize("name", ["napkin-allreduce_2", "napkin-relay_3", "repo-allreduce_packet_2"])
def test_plans_for_mscclpp_become_rounds(name):
    call = OneSided.of(read_plan(PLANS / f"{name}.json")).one_call(None, None)
    assert lower_to_rounds(call).rounds


def test_a_file_that_is_wrong_becomes_nothing():
    made = ring_allreduce(3)
    wrong = replace(made, collective="allgather", chunks_per_loop=3)
    with pytest.raises(VerificationError):
        call_of(wrong)


@pytest.mark.parametrize(
    "name", ["mscclang-allgather_recursive_doubling_8", "mscclang-alltoall_two_step_2x8"]
)
def test_real_files_become_few_rounds(name):
    rounds = lower_to_rounds(call_of(read_xml(REAL_FILES / f"{name}.xml")))
    assert len(rounds.rounds) == {"allgather": 3, "alltoall": 2}[rounds.collective]


def test_all_pairs_in_many_chunks_send_each_peer_one_message():
    """What goes to others stands between neighbours in the order of memory."""
    rounds = lower_to_rounds(call_of(program_of(direct_allgather(3, pieces=4))))
    assert [each.most_operations for each in rounds.rounds] == [4]


def damaged(rounds):
    """Rounds with one fault each."""
    first = rounds.rounds[0]
    message = first.messages[0]

    def with_first(*messages, after=first.after):
        return replace(rounds, rounds=(Round(tuple(messages), after), *rounds.rounds[1:]))

    yield "not sent", with_first(*first.messages[1:])
    yield "twice there", with_first(message, *first.messages)
    yield "elsewhere", with_first(replace(message, written=Place(Buffer.OUTPUT, 0)), *first.messages[1:])
    yield "outside", with_first(replace(message, read=Place(Buffer.INPUT, 99)), *first.messages[1:])
    yield "not added", with_first(*first.messages, after=first.after[1:])
    yield "to itself", with_first(Message(0, 0, message.read, message.written, 1), *first.messages[1:])
    swapped = (rounds.rounds[1], first, *rounds.rounds[2:])
    yield "too early", replace(rounds, rounds=swapped)


def test_each_fault_of_rounds_is_found():
    call = call_of(ring_allreduce(3))
    rounds = lower_to_rounds(call)
    for what, each in damaged(rounds):
        with pytest.raises(VerificationError):
            check_rounds(each, call.expectation, 1, 256)
            pytest.fail(what)


def test_rounds_take_as_long_as_their_messages_and_launches():
    """Each of a ring's 2 x 2 steps moves one chunk of 1 MB over a link, 5 us after the one before."""
    network = make_problem("allreduce", topology="ring:3", size="3MB", executor=False).problem.topology
    rounds = lower_to_rounds(call_of(ring_allreduce(3)))
    link_us = float(network.alpha_us[0] + network.beta_us_per_mb[0])
    timed = time_rounds(rounds, network, 1.0, 5.0)
    assert timed.time_us == pytest.approx(4 * (5.0 + link_us))
    assert timed.launches_us == 20.0
    mesh = make_problem("alltoall", topology="ring:8", size="8MB", executor=False).problem.topology
    with pytest.raises(TopologyError, match="joins ranks"):
        time_rounds(lower_to_rounds(call_of(direct_alltoall(8))), mesh, 1.0, 5.0)
