"""Steps of several chunks: what a fused step passes on is there before all of it is."""

import random
from dataclasses import replace

import pytest
from fuzzing import outcomes, random_train
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import block, edit, program, step
from studies import examples

from taccl.backend.execute import execute
from taccl.backend.program import Protocol
from taccl.backend.verify.msccl_xml import verify_program

READERS = ("executor",)


def round_trip(lands_at, count=2, **changes):
    """Broadcast from rank 0: its scratch goes through ranks 1 and 2, in fused steps, and comes back there.

    What comes back is written from s[lands_at] on, where the first send may still be reading.
    """
    last = f"s{lands_at}"
    ranks = (
        (
            block(
                0, 1, -1, step("cpy", "i0", "s1", count, tells=True), step("s", "s1", count=count, tells=True)
            ),
            block(1, -1, 2, step("r", last, count=count, wait=(0, 0)), step("cpy", last, "o0", count)),
        ),
        (block(0, 2, 0, step("rcs", "o0", count=count)),),
        (block(0, 0, 1, step("rcs", "o0", count=count)),),
    )
    options = {"protocol": Protocol.LL, "scratch": 2 * count + 2, "max_bytes": 2**26, **changes}
    return program("broadcast", count, *ranks, **options)


def races(made):
    return [finding for finding in verify_program(made, targets=READERS).errors if finding.rule == "race"]


def test_what_fused_steps_bring_back_may_come_before_the_first_send_is_done():
    """The first chunk returns to where the second still is: wrong in some orders, and no longer ok."""
    made = round_trip(lands_at=2)
    (finding,) = races(made)
    assert "rank 0, thread block 1, step 0 (r): out of place, writes s[2]" in finding.message
    assert "fused steps pass on each chunk before they have the next" in finding.message
    assert "wrong" in outcomes(made, 40, readers=READERS)


@pytest.mark.parametrize(("lands_at", "count"), [(1, 2), (1, 3), (3, 2), (4, 3)])
def test_each_chunk_is_read_before_it_returns(lands_at, count):
    """Back to its own place, or to where nothing is read, it does no harm."""
    made = round_trip(lands_at, count)
    assert not races(made)
    assert outcomes(made, 20, readers=READERS) == {"right"}


def test_a_wait_for_the_send_puts_that_right():
    made = round_trip(lands_at=2)
    made = edit(made, 0, 1, 0, depends=(0, 1))
    assert not races(made)
    assert outcomes(made, 20, readers=READERS) == {"right"}


def test_a_step_that_takes_all_before_it_passes_anything_on_puts_that_right():
    made = round_trip(lands_at=2)
    apart = (block(0, 0, 1, step("r", "o0", count=2), step("s", "o0", count=2)),)
    ranks = (*made.ranks[:2], replace(made.ranks[2], thread_blocks=apart))
    made = replace(made, ranks=ranks)
    assert not races(made)
    assert outcomes(made, 20, readers=READERS) == {"right"}


def test_what_comes_before_the_first_send_comes_before_all_that_it_brings_back():
    """The copy into s[1] is done before the first chunk leaves: its order needs no wait of its own."""
    assert not races(edit(round_trip(lands_at=1), 0, 1, 0, depends=None))


@pytest.mark.parametrize("protocol", list(Protocol))
def test_a_chunk_that_returns_where_an_earlier_one_was_read(protocol):
    """Simple hands on whole slices, in order; the threads of LL and LL128 are in none."""
    assert bool(races(round_trip(lands_at=0, protocol=protocol))) == (protocol is not Protocol.SIMPLE)


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_train_that_execution_shows_to_be_wrong_passes(seed):
    made = random_train(random.Random(seed))
    if verify_program(made, targets=READERS).ok:
        assert outcomes(made, 30, seed, readers=READERS) == {"right"}


def crossing(name, **changes):
    """Two ranks that send each other four chunks in one step before they take any."""
    ranks = tuple(
        (block(0, 1 - rank, 1 - rank, step("s", "i0", count=4), step("r", "s0", count=4)),)
        for rank in range(2)
    )
    made = program(name, 4, *ranks, scratch=4)
    return replace(made, **changes)


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
@pytest.mark.parametrize("chunk_bytes", [2**17, 2**18, 2**19])
def test_simple_broadcast_and_reduce_group_only_512_kib_of_chunks(name, chunk_bytes):
    """Two pieces fit into a connection. At 256 KiB a chunk four chunks are two pieces; at 512 KiB, four."""
    made = crossing(name, max_bytes=4 * chunk_bytes)
    report = verify_program(made, targets="executor")
    hangs = "deadlock" in {finding.rule for finding in report.errors}
    assert hangs == (chunk_bytes > 2**18)
    ran = execute(made, in_place=False, ranks_as="turns", size_bytes=4 * chunk_bytes)
    assert (ran.verdict == "hangs") == hangs
    other = crossing("allreduce", max_bytes=4 * chunk_bytes)
    assert "deadlock" not in {finding.rule for finding in verify_program(other, targets="executor").errors}


def test_the_size_up_to_which_a_simple_broadcast_ends_is_told():
    facts = verify_program(crossing("broadcast", max_bytes=2**24), targets="executor").facts
    assert (facts.deadlock, facts.safe_bytes) == (True, 4 * 2**18)
    fits = crossing("broadcast", max_bytes=facts.safe_bytes)
    assert verify_program(fits, targets="executor").facts.deadlock is False
