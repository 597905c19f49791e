"""What running a program says: right, wrong or stuck; in every mode, type and way of running it."""

import random
from dataclasses import replace

import numpy as np
import pytest
from fuzzing import no_free_link
from programs import (
    REAL_FILES,
    block,
    direct_alltoall,
    edit,
    nop,
    program,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    send_first,
    step,
    with_block,
    with_steps,
)
from strategies import random_network, random_schedule

from taccl.backend.execute import execute
from taccl.backend.execute.call import DTYPES, OPS
from taccl.backend.execute.deadline import Deadline
from taccl.backend.lower import lower
from taccl.backend.msccl_xml import read_xml
from taccl.backend.verify.msccl_xml import verify_program
from taccl.errors import CollectiveError, TacclError, VerificationError
from taccl.model.collective import Collective, Placement
from taccl.model.collectives import COLLECTIVES, make_collective

LOCAL = ("threads", "turns")
SMALL = 4 * 3 * 8 * 16  # bytes: whole elements for every program and type here


def lowered(name, ranks=4, root=None, **options):
    """A program of a random schedule of a collective."""
    dice = random.Random(name)
    collective = make_collective(name, ranks, 2, root)
    network = no_free_link(random_network(ranks, dice))
    return lower(random_schedule(collective, network, dice), runtimes="executor", **options)[0].program


@pytest.mark.parametrize("ranks_as", LOCAL)
@pytest.mark.parametrize(
    "made", [ring_allreduce(4), ring_allgather(4), direct_alltoall(3), scratch_allreduce(4)]
)
def test_right_programs_are_right(made, ranks_as):
    outcome = execute(made, ranks_as=ranks_as, size_bytes=SMALL)
    assert (outcome.verdict, outcome.wrong, outcome.findings) == ("right", 0, ())
    assert outcome.checked > 0


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_in_the_modes_that_its_program_claims(name):
    made = lowered(name)
    assert made.out_of_place
    for in_place in (False, True) if made.in_place else (False,):
        outcome = execute(made, in_place=in_place, ranks_as="turns", size_bytes=SMALL * 16)
        assert outcome.verdict == "right", outcome.findings


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_every_type_with_every_reduction(dtype, op):
    outcome = execute(ring_allreduce(4), dtype=dtype, op=op, ranks_as="turns", size_bytes=SMALL)
    assert outcome.verdict == "right", outcome.findings
    assert outcome.checked == 4 * SMALL // np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_contribution_that_is_left_out_shows_in_every_type(dtype):
    forgetful = edit(ring_allreduce(4), 1, 0, 1, op=step("rcs").op)
    outcome = execute(forgetful, dtype=dtype, ranks_as="turns", size_bytes=SMALL)
    assert outcome.verdict == "wrong"
    assert "of buffer o is wrong" in outcome.findings[0]


def test_a_rank_per_process():
    outcome = execute(scratch_allreduce(3), ranks_as="processes", size_bytes=SMALL, piece_bytes=64, slots=1)
    assert (outcome.verdict, outcome.ranks_as) == ("right", "processes"), outcome.findings


def test_processes_that_wait_for_one_another_are_named():
    outcome = execute(send_first(2, count=3), ranks_as="processes", size_bytes=SMALL, piece_bytes=16)
    assert outcome.verdict == "hangs"
    assert len(outcome.findings) == 2


def test_a_failing_step_in_a_process_is_reported():
    with pytest.raises(VerificationError, match=r"step 1 \(r\) receives a piece of"):
        execute(edit(send_first(2, count=1), 1, 0, 1, count=2), ranks_as="processes", size_bytes=SMALL)


@pytest.mark.parametrize("ranks_as", LOCAL)
def test_whether_it_hangs_depends_on_how_much_a_connection_holds(ranks_as):
    """Paired facts: three pieces each way pass through connections of three slots, not of two."""
    made = send_first(2, count=3)

    def verdict(**cut):
        return execute(made, ranks_as=ranks_as, size_bytes=6 * 16, **cut).verdict

    assert verdict() == "right", "all chunks fit in one piece"
    assert verdict(piece_bytes=16) == "hangs"
    assert verdict(piece_bytes=16, slots=3) == "right"
    assert verdict(piece_bytes=8, slots=3) == "right", "chunks larger than a piece come in two iterations"


@pytest.mark.parametrize("ranks_as", LOCAL)
def test_stuck_blocks_are_named_with_what_they_wait_for(ranks_as):
    outcome = execute(send_first(2, count=3), ranks_as=ranks_as, size_bytes=6 * 16, piece_bytes=16)
    assert sorted(outcome.findings) == [
        "rank 0, thread block 0, step 0 (s) waits for room on channel 0 from rank 0 to rank 1, which holds 2",
        "rank 1, thread block 0, step 0 (s) waits for room on channel 0 from rank 1 to rank 0, which holds 2",
    ]
    with pytest.raises(VerificationError, match="hangs"):
        outcome.raise_for_findings()


def test_a_wait_for_a_step_that_never_tells_hangs_and_is_named():
    silent = edit(ring_allgather(4), 2, 1, 0, has_dependent=False)
    silent = edit(silent, 2, 1, 1, has_dependent=False)
    outcome = execute(silent, ranks_as="turns", size_bytes=SMALL)
    assert outcome.verdict == "hangs"
    assert any(
        "rank 2, thread block 0, step 1 (s) waits for step 0 of thread block 1" in each
        for each in outcome.findings
    )


def test_a_later_step_ends_a_wait_too():
    quiet = edit(ring_allgather(4), 2, 1, 0, has_dependent=False)
    assert execute(quiet, ranks_as="turns", size_bytes=SMALL).verdict == "right"


def test_a_nop_that_waits_for_nothing_shifts_the_numbers_that_are_published():
    """As in the runtimes: the receive publishes one less than its place, and the wait never ends."""
    made = ring_allgather(3)
    shifted = with_steps(
        made, 0, 1, lambda steps: (steps[0], nop(None), replace(steps[1], has_dependent=True))
    )
    waiting = edit(shifted, 0, 0, 1, depends=(1, 2))
    assert execute(waiting, ranks_as="turns", size_bytes=SMALL).verdict == "hangs"
    assert execute(edit(shifted, 0, 0, 1, depends=(1, 1)), ranks_as="turns", size_bytes=SMALL).ok


def test_reductions_in_a_row_are_merged_and_add_every_source():
    sums = [step("re", f"s{k}", "i0") for k in range(2)]
    parts = [step("r", "s0"), step("r", "s1")]
    root = (
        block(0, -1, 1, parts[0]),
        block(1, -1, 2, replace(parts[1], has_dependent=True)),
        block(2, -1, -1, nop((0, 0)), replace(sums[0], depends=(1, 0)), sums[1]),
    )
    root = (replace(root[0], steps=(replace(parts[0], has_dependent=True),)), *root[1:])
    others = [(block(0, 0, -1, step("s", "i0")),)] * 2
    made = program("reduce", 1, root, *others, scratch=2, in_place=True, out_of_place=False)
    outcome = execute(made, size_bytes=64, ranks_as="turns")
    assert (outcome.verdict, outcome.root) == ("right", 0), outcome.findings


@pytest.mark.parametrize("name", ["broadcast", "reduce", "gather", "scatter"])
def test_the_root_is_the_one_that_fits(name):
    made = lowered(name, root=2)
    assert execute(made, ranks_as="turns", size_bytes=SMALL * 16).root == 2
    wrong = execute(made, ranks_as="turns", size_bytes=SMALL * 16, root=1)
    assert (wrong.verdict, wrong.root) == ("wrong", 1)


def test_reading_memory_that_nobody_wrote_is_seen():
    made = edit(scratch_allreduce(3), 0, 0, 2, src_offset=0)
    assert execute(with_scratch(made, 9), ranks_as="turns", size_bytes=SMALL).verdict == "wrong"
    unwritten = edit(with_scratch(scratch_allreduce(3), 9), 0, 0, 1, src_offset=8)
    outcome = execute(unwritten, ranks_as="turns", size_bytes=SMALL)
    assert "is nan" in outcome.findings[0]


def with_scratch(made, chunks):
    return replace(made, ranks=tuple(replace(rank, scratch_chunks=chunks) for rank in made.ranks))


def test_out_of_place_the_input_must_stay():
    made = replace(ring_allgather(3), in_place=False)
    extra = with_steps(made, 0, 2, lambda steps: (*steps, step("cpy", "o0", "i0")))
    assert execute(extra, ranks_as="turns", size_bytes=SMALL).verdict == "right", "the same is put back"
    changed = with_steps(made, 0, 2, lambda steps: (*steps, step("re", "o0", "i0")))
    outcome = execute(changed, ranks_as="turns", size_bytes=SMALL)
    assert outcome.verdict == "wrong"
    assert any("rank 0: chunk 0 of buffer i is wrong" in each for each in outcome.findings)


def test_a_piece_that_nobody_takes_is_wrong():
    made = with_steps(ring_allgather(3), 0, 0, lambda steps: (*steps, step("s", "i0")))
    outcome = execute(made, ranks_as="turns", size_bytes=SMALL)
    assert outcome.findings == ("1 pieces on channel 0 from rank 0 to rank 1 were sent and never received",)


def test_ends_of_a_connection_that_disagree_about_the_count_are_refused():
    made = edit(send_first(2, count=2), 1, 0, 1, count=1)
    for ranks_as in LOCAL:
        with pytest.raises(VerificationError, match="rank 1, thread block 0, step 1"):
            execute(made, ranks_as=ranks_as, size_bytes=SMALL)


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (edit(ring_allreduce(4), 0, 0, 0, src_offset=4), "reads chunk 4 of buffer i, which has 4"),
        (edit(ring_allreduce(4), 0, 0, 0, src_offset=3, count=2), "reads chunk 3 .. 4"),
        (edit(ring_allgather(4), 0, 1, 0, dst_offset=-1), "writes chunk -1 of buffer o"),
        (edit(ring_allreduce(4), 0, 0, 0, count=0), "has a cnt of 0"),
        (with_block(ring_allgather(4), 0, 0, send=-1), "no send peer"),
        (with_block(ring_allgather(4), 0, 1, recv=-1), "no receive peer"),
        (with_block(ring_allgather(4), 0, 0, send=9), "cannot send to rank 9"),
        (with_block(ring_allgather(4), 0, 2, send=1), "thread block 0 both send to rank 1 on channel 0"),
    ],
)
def test_what_cannot_be_executed_is_refused_with_its_place(damaged, said):
    with pytest.raises(VerificationError, match="cannot be executed") as refused:
        execute(damaged, size_bytes=SMALL)
    assert said in str(refused.value)
    assert "rank 0, thread block" in str(refused.value)


def test_a_race_shows_in_some_orders_and_not_in_others():
    """The send of a received chunk no longer waits for the receive."""
    racing = edit(ring_allgather(3), 0, 0, 1, depends=None)
    seen = {execute(racing, ranks_as="turns", size_bytes=SMALL, seed=seed).verdict for seed in range(40)}
    assert seen == {"right", "wrong"}


def test_one_seed_is_one_order():
    racing = edit(ring_allgather(3), 0, 0, 1, depends=None)

    def verdicts():
        return [execute(racing, ranks_as="turns", size_bytes=SMALL, seed=k).verdict for k in range(12)]

    assert verdicts() == verdicts()


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("mscclang-allreduce_a100_ring_8", "right"),
        ("mscclang-allreduce_pcie_hierarchical_4", "wrong"),
        ("mscclang-pipeline_a100_ring_8", "wrong"),
        ("rccl-alltoall-8n-0-9kb", "right"),
        ("sched-ncv4-ag_hier_4_LL", "right"),
        ("sched-ndv4-a2a2ll", "right"),
        ("taccl-ndv2x2-allgather-sk1-1MB", "right"),
    ],
)
def test_files_that_others_made(name, verdict):
    made = read_xml(REAL_FILES / f"{name}.xml")
    size = made.chunks_per_loop * 8
    assert execute(made, size_bytes=size).verdict == verdict
    assert execute(made, size_bytes=size, ranks_as="turns").verdict == verdict


def test_a_file_that_is_right_only_with_large_pieces():
    made = read_xml(REAL_FILES / "mscclang-allgather_recursive_doubling_8.xml")
    size = made.chunks_per_loop * 8
    assert execute(made, size_bytes=size).verdict == "right"
    assert execute(made, size_bytes=size, piece_bytes=8).verdict == "hangs"


def test_without_a_known_collective_nothing_is_checked():
    made = replace(ring_allgather(3), collective="alltonext")
    sized = replace(made, ranks=tuple(replace(rank, input_chunks=1, output_chunks=3) for rank in made.ranks))
    outcome = execute(sized, size_bytes=SMALL)
    assert (outcome.verdict, outcome.checked, outcome.ok) == ("not checked", 0, True)


def test_a_collective_given_as_data_is_checked():
    """Rank 0's chunk goes to rank 1; both contribute to the sum at rank 0."""
    places = Placement(np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([0, 1, 0]))
    wanted = Placement(np.array([0, 1]), np.array([1, 0]), np.array([0, 0]))
    collective = Collective(
        name="mine",
        num_ranks=2,
        chunks_per_rank=1,
        chunks_per_size=2,
        inputs=places,
        outputs=wanted,
        reduces=np.array([False, True]),
        owner=np.array([0, 0]),
        in_place_shift=np.zeros(2, dtype=np.int64),
    )
    zero = block(0, 1, 1, step("s", "i0"), step("cpy", "i1", "o0"), step("rrc", "o0"))
    one = block(0, 0, 0, step("r", "o0"), step("s", "i0"))
    made = program("custom", 2, (zero,), (one,))
    assert execute(made, collective=collective, size_bytes=64).verdict == "right"
    sloppy = with_steps(made, 0, 0, lambda steps: (steps[0], steps[1], replace(steps[2], op=step("r").op)))
    assert execute(sloppy, collective=collective, size_bytes=64).verdict == "wrong"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"size_bytes": 2**50}, TacclError, "a smaller --size"),
        ({"size_bytes": 15}, CollectiveError, "--size 16 or more"),
        ({"dtype": "complex64"}, TacclError, "unknown dtype"),
        ({"op": "avg"}, TacclError, "unknown reduction"),
        ({"slots": 0}, TacclError, "at least one piece"),
        ({"piece_bytes": 2}, TacclError, "holds no element"),
        ({"root": 1}, CollectiveError, "has no root"),
        ({"root": 7}, CollectiveError, "no rank"),
        ({"ranks_as": "fibres"}, TacclError, "one of threads"),
    ],
)
def test_a_call_that_does_not_fit_says_what_would(options, error, said):
    with pytest.raises(error) as refused:
        execute(ring_allgather(4), **options)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"chunks_per_loop": 2_000_000_000}, "nchunksperloop is 2000000000, and steps reach no chunk beyond"),
        ({"scratch": 2**31 - 1}, "a buffer of 2147483647 chunks"),
    ],
)
def test_numbers_that_no_step_reaches_are_refused_before_any_memory_is_taken(change, said):
    made = ring_allgather(4)
    if "scratch" in change:
        ranks = tuple(replace(rank, scratch_chunks=change["scratch"]) for rank in made.ranks)
        made = replace(made, ranks=ranks)
    else:
        made = replace(made, **change)
    with pytest.raises(CollectiveError) as refused:
        execute(made)
    assert said in str(refused.value)
    assert not verify_program(made, targets="executor").ok


def test_a_size_that_does_not_divide_is_rounded_down_with_a_note():
    """4 chunks of 4-byte elements: 1001 bytes are 62 elements each, 992 bytes together."""
    rounded, whole = (execute(ring_allgather(4), size_bytes=size) for size in (1001, 992))
    assert (rounded.size_bytes, rounded.verdict) == (992, "right")
    assert "1001 bytes is rounded down to 992" in rounded.notes[0]
    assert whole.notes == ()


def test_the_default_size_is_one_that_the_program_serves():
    made = replace(ring_allgather(4), min_bytes=0, max_bytes=2**14)
    assert execute(made).size_bytes == 2**14
    assert execute(replace(made, min_bytes=2**21, max_bytes=2**22)).size_bytes == 2**21


def test_a_program_that_takes_too_long_is_given_up():
    with pytest.raises(VerificationError, match="not at an end after"):
        execute(ring_allreduce(4), size_bytes=2**20, piece_bytes=64, deadline=Deadline(0.05))
