from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import (
    block,
    direct_alltoall,
    edit,
    nop,
    program,
    ring_allgather,
    scratch_allreduce,
    step,
    with_block,
    with_steps,
)
from runtime_model import outcomes
from studies import examples

from taccl.backend.machine.report import Collector
from taccl.backend.machine.run import run_acts
from taccl.backend.program import Buffer, Op, Protocol
from taccl.backend.verify.msccl_xml import verify_program
from taccl.backend.verify.msccl_xml.columns import Columns
from taccl.backend.verify.msccl_xml.connections import connect
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.unfold import unfold_acts


def found(made, rule, targets="msccl"):
    return [each for each in verify_program(made, targets=targets).findings if each.rule == rule]


def test_a_wait_that_is_dropped_is_a_race():
    broken = edit(ring_allgather(3), 0, 0, 1, depends=None)
    (finding,) = found(broken, "race")
    assert "rank 0, thread block 1, step 0 (r): out of place, writes o[2]" in finding.message
    assert "which rank 0, thread block 0, step 1 (s) reads" in finding.message
    assert (finding.rank, finding.severity) == (0, "error")
    assert "depid" in finding.hint


def test_two_writers_of_one_chunk_race():
    twice = with_steps(ring_allgather(2), 0, 2, lambda steps: (*steps, step("cpy", "i0", "o1")))
    assert found(twice, "race")


def test_two_readers_do_not_race():
    made = with_steps(ring_allgather(2, scratch=1), 0, 2, lambda steps: (*steps, step("cpy", "i0", "s0")))
    assert not found(made, "race")


def test_order_through_other_ranks_counts():
    """Rank 0 sends i0 in one block and gets it back in another: the message is the order."""
    made = program(
        "allreduce",
        1,
        (block(0, 1, -1, step("s", "i0")), block(1, -1, 1, step("r", "i0"))),
        (block(0, 0, 0, step("rrcs", "i0")),),
        in_place=True,
        out_of_place=False,
    )
    assert verify_program(made, targets="msccl").ok


def test_a_race_that_only_aliasing_makes_is_found_in_place_only():
    """The sends of an alltoall read i while the receives write o."""
    both = replace(direct_alltoall(3), in_place=True)
    races = found(both, "race", targets="executor")
    assert races
    assert all("in place" in finding.message for finding in races)


def test_a_later_flag_of_the_same_block_is_as_good():
    """The receive waited for says nothing, but the copy after it does."""
    made = ring_allgather(3)
    made = edit(made, 0, 1, 0, has_dependent=False)
    made = with_steps(made, 0, 1, lambda steps: (*steps, step("cpy", "o2", "o2", tells=True)))
    report = verify_program(made, targets="msccl")
    assert [finding.rule for finding in report.findings] == ["indirect-wait"]
    assert outcomes(made, 20) == {"right"}


def test_a_wait_for_a_flag_that_never_comes_hangs():
    broken = edit(ring_allgather(3), 0, 1, 0, has_dependent=False)
    (finding,) = found(broken, "endless-wait")
    assert "waits for step 0 of thread block 1" in finding.message
    assert verify_program(broken).facts.deadlock is True
    assert outcomes(broken, 5) == {"hangs"}


def test_waiting_for_an_own_later_step_hangs():
    broken = with_steps(
        ring_allgather(2),
        0,
        2,
        lambda steps: (replace(steps[0], depends=(2, 1)), step("cpy", "o0", "o0", tells=True)),
    )
    assert found(broken, "deadlock")


def test_the_cycle_of_a_deadlock_is_told_step_by_step():
    made = program(
        "alltoall",
        2,
        (block(0, 1, 1, step("r", "o1"), step("s", "i1"), step("cpy", "i0", "o0")),),
        (block(0, 0, 0, step("r", "o0"), step("s", "i0"), step("cpy", "i1", "o1")),),
    )
    (finding,) = found(made, "deadlock")
    assert (
        "rank 0, thread block 0, step 0 (r) waits for data on channel 0 from rank 1 to rank 0"
        in finding.message
    )
    assert (
        "rank 1, thread block 0, step 0 (r) waits for data on channel 0 from rank 0 to rank 1"
        in finding.message
    )
    assert verify_program(made).facts.races is None


def crossing(sends, count=1, **changes):
    """Two ranks that both send `sends` times before they receive."""
    size = sends * count
    ranks = []
    for rank in range(2):
        steps = [step("s", f"i{(1 - rank) * size + k * count}", count=count) for k in range(sends)]
        steps += [step("r", f"o{(1 - rank) * size + k * count}", count=count) for k in range(sends)]
        steps += [step("cpy", f"i{rank * size}", f"o{rank * size}", count=size)]
        ranks.append((block(0, 1 - rank, 1 - rank, *steps),))
    return program("alltoall", 2 * size, *ranks, **changes)


@pytest.mark.parametrize("protocol, slots", [(Protocol.SIMPLE, 2), (Protocol.LL, 8), (Protocol.LL128, 8)])
def test_a_connection_holds_as_many_sends_as_the_protocol_says(protocol, slots):
    assert verify_program(crossing(slots, protocol=protocol), targets="msccl").facts.slot_depth == slots
    (finding,) = found(crossing(slots + 1, protocol=protocol), "deadlock")
    assert f"holds {slots} pieces" in finding.message
    assert "waits for room" in finding.message


def test_rendezvous_is_enough_where_one_side_receives_first():
    assert verify_program(ring_allgather(4), targets="msccl").facts.slot_depth == 1


def test_large_calls_cut_a_step_into_pieces_that_may_not_fit():
    """cnt=4 is one piece of small chunks and four of chunks over half a MiB."""
    small = crossing(1, 4, max_bytes=8 * 2**19 + 1)
    large = crossing(1, 4, max_bytes=8 * 2**21)
    assert verify_program(small, targets="msccl").ok
    assert verify_program(small).facts.deadlock_split is True
    (finding,) = found(large, "deadlock")
    facts = verify_program(large, targets="msccl").facts
    assert (facts.deadlock, facts.deadlock_whole, facts.safe_bytes) == (True, False, 8 * 2**20)
    assert 'maxBytes="8388608"' in finding.hint
    assert verify_program(replace(large, max_bytes=facts.safe_bytes + 1), targets="msccl").ok


def test_no_upper_limit_means_the_finest_pieces():
    unlimited = crossing(1, 4, max_bytes=0)
    assert "deadlock" in {finding.rule for finding in verify_program(unlimited, targets="executor").errors}


@st.composite
def relays(draw):
    """Messages that travel around a ring through fused steps, each block's steps a little out of order."""
    n = draw(st.integers(2, 4))
    message = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1), st.sampled_from((1, 2, 5, 9)))
    steps = [[] for _ in range(n)]
    for start, hops, count in draw(st.lists(message, min_size=1, max_size=7)):
        for hop in range(hops + 1):
            kind = "s" if hop == 0 else "r" if hop == hops else "rcs"
            steps[(start + hop) % n].append(step(kind, "i0", count=count))
    for rank, place in draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, 8)), max_size=9)):
        pair = steps[rank][place : place + 2]
        if {each.op for each in pair} == {Op.SEND, Op.RECV}:  # others keep the order of their connection
            steps[rank][place : place + 2] = reversed(pair)
    ranks = [(block(0, (r + 1) % n, (r - 1) % n, *steps[r]),) for r in range(n)]
    return program("custom", 9, *ranks)


@settings(max_examples=examples(27), deadline=None)
@given(relays())
def test_more_slots_larger_pieces_and_fewer_iterations_never_hurt(made):
    """What `deadlock` relies on, so that the hardest setting decides."""
    collector = Collector()
    executed = ExecutedSteps.of(Columns.of(made))
    acts = unfold_acts(executed, connect(executed, collector))
    assume(not collector.fatal)

    def ends_with(slots, pieces, iterations=2):
        return run_acts(acts, capacity=slots, chunks_per_piece=pieces, iterations=iterations).ends

    settings_tried = [(slots, pieces) for slots in (1, 2, 8) for pieces in (1, 2, 71)]
    ends = {each: ends_with(*each) for each in settings_tried}
    for slots, pieces in settings_tried:
        for more_slots, larger in settings_tried:
            if more_slots >= slots and larger >= pieces:
                assert ends[more_slots, larger] or not ends[slots, pieces]
        assert len({ends_with(slots, pieces, count) for count in (1, 2, 4)}) == 1


def test_a_send_without_a_receive_is_named():
    broken = with_steps(direct_alltoall(3), 0, 1, lambda steps: (*steps, step("s", "i0")))
    (finding,) = found(broken, "unmatched-transfer")
    assert "this send on channel 0 from rank 0 to rank 1 has no other end" in finding.message
    assert (finding.rank, finding.thread_block, finding.step) == (0, 1, 2)


def test_a_peer_that_does_not_answer_is_named():
    broken = with_block(direct_alltoall(3), 0, 1, channel=1)
    broken = replace(broken, num_channels=2)
    assert "no thread block of rank 1 receives from rank 0 on that channel" in " ".join(
        finding.message for finding in found(broken, "unmatched-connection")
    )


def test_two_blocks_must_not_share_a_connection():
    made = direct_alltoall(2)
    made = replace(
        made,
        ranks=(
            replace(
                made.ranks[0], thread_blocks=(*made.ranks[0].thread_blocks, block(2, 1, -1, step("s", "i1")))
            ),
            made.ranks[1],
        ),
    )
    assert (
        "thread blocks 1 and 2 of rank 0 both send to rank 1 on channel 0"
        in found(made, "shared-connection")[0].message
    )


def test_both_ends_must_agree_on_the_count():
    broken = edit(crossing(1, 2), 1, 0, 1, count=1)
    (finding,) = found(broken, "count-mismatch")
    assert "receives 1 chunks where rank 0, thread block 0, step 0 (s) sends 2" in finding.message


def merged(*steps, scratch=3):
    """Rank 0 sums its scratch, filled by another block, into o0; a reduce over one chunk."""
    return program("custom", 1, (block(0, -1, -1, *steps),), scratch=scratch)


def test_reductions_are_merged_as_the_runtimes_merge_them():
    """The cnt of the last of a run holds for all of it."""
    made = merged(step("re", "s0", "o0", count=2), step("re", "s1", "o0"))
    assert "merged-counts" in {finding.rule for finding in verify_program(made).errors}
    apart = merged(step("re", "s0", "o0", tells=True), step("re", "s1", "o0"))
    assert "merged-counts" not in {finding.rule for finding in verify_program(apart).errors}


def test_a_nop_inside_a_run_of_reductions_is_an_error():
    waits = (
        block(
            0,
            -1,
            -1,
            step("re", "s0", "i0"),
            nop((1, 0)),
            step("re", "s1", "i0"),
            step("cpy", "i0", wait=(1, 0)),
        ),
        block(1, -1, -1, step("cpy", "i0", "s1", tells=True)),
    )
    made = program("custom", 1, waits, scratch=2, in_place=True, out_of_place=False)
    rules = {finding.rule for finding in verify_program(made).errors}
    assert {"torn-reduction", "race"} <= rules


def test_a_run_of_more_than_sixteen_reductions_is_an_error():
    """A run is cut at the sixteenth of its block, so a second run can grow beyond."""
    first = [step("re", "s0", "o0") for _ in range(10)]
    second = [step("re", "s0", "i0") for _ in range(17)]
    rules = {
        finding.rule for finding in verify_program(merged(*first, step("cpy", "s0", "s1"), *second)).errors
    }
    assert "merged-too-many" not in rules
    late = [*first, step("cpy", "s0", "s1"), *first, step("cpy", "s0", "s1"), *second]
    found = [each for each in verify_program(merged(*late)).errors if each.rule == "merged-too-many"]
    assert [each.runtimes for each in found] == [("msccl", "executor")], "RCCL has no array that would end"


@pytest.mark.parametrize(
    ("steps", "rule"),
    [
        ((step("cpy", "i0", "o0"), nop((1, 0))), "trailing-nop"),
        ((nop(None), step("cpy", "i0", "o0")), "idle-nop"),
        ((nop((1, 0)), step("cpy", "i0", "o0")), "nop-chain"),
    ],
)
def test_traps_with_nops_are_errors(steps, rule):
    made = program(
        "custom",
        1,
        (block(0, -1, -1, *steps), block(1, -1, -1, step("cpy", "i0", "s0", tells=True))),
        scratch=1,
    )
    assert rule in {finding.rule for finding in verify_program(made).errors}


def test_a_nop_without_a_wait_shifts_the_numbers_that_are_published():
    """The runtime counts the second copy as step 1, so a wait for step 2 never ends."""
    made = program(
        "custom",
        1,
        (
            block(0, -1, -1, step("cpy", "i0", "s0"), nop(None), step("cpy", "s0", "s1", tells=True)),
            block(1, -1, -1, step("cpy", "s1", "o0", wait=(0, 2))),
        ),
        scratch=2,
    )
    rules = {finding.rule for finding in verify_program(made).errors}
    assert {"idle-nop", "endless-wait"} <= rules


def test_a_step_that_overlaps_itself_is_an_error():
    made = program("custom", 4, (block(0, -1, -1, step("cpy", "s0", "s1", count=3)),), scratch=4)
    assert "overlap" in {finding.rule for finding in verify_program(made).errors}


def test_rccl_is_warned_of_data_that_it_may_not_see():
    made = scratch_allreduce(3)
    assert {finding.rule for finding in verify_program(made, targets="rccl").warnings} == {"rccl-visibility"}
    for rank in range(3):
        for number in (1, 2):
            made = edit(made, rank, number, 2, src=Buffer.OUTPUT)
    assert not verify_program(made, targets="rccl").warnings


def test_a_copy_onto_itself_is_nothing_that_rccl_could_miss():
    """In place the own chunk is copied onto itself, and the send that waits for it reads it as i."""
    made = ring_allgather(3, in_place=True, out_of_place=False)
    for rank in range(3):
        made = edit(made, rank, 2, 0, has_dependent=True)
        made = edit(made, rank, 0, 0, depends=(2, 0))
    assert verify_program(made, targets="rccl").findings == ()


def test_a_copy_onto_itself_may_run_beside_sends_but_not_beside_what_changes_the_cell():
    """Out of place it writes another cell; in place what it writes is there."""
    sends = block(0, 1, -1, step("s", "i0"))
    receives = block(1, -1, 1, step("r", "o1"))
    copies = block(2, -1, -1, step("cpy", "i0", "o0"))
    other = (
        block(0, 0, -1, step("s", "i0")),
        block(1, -1, 0, step("r", "o0")),
        block(2, -1, -1, step("cpy", "i0", "o1")),
    )
    made = program("allgather", 2, (sends, receives, copies), other, in_place=True)
    assert verify_program(made, targets="executor").findings == ()
    writes = block(3, -1, -1, step("cpy", "o1", "o0"))
    clash = program("allgather", 2, (sends, receives, copies, writes), other, in_place=True)
    assert found(clash, "race", "executor")
