from dataclasses import replace

import numpy as np
import pytest
from programs import (
    block,
    direct_alltoall,
    edit,
    program,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
    with_steps,
)

from taccl.backend.machine.report import Collector
from taccl.backend.program import Buffer, Op
from taccl.backend.verify.msccl_xml import verify_program
from taccl.backend.verify.msccl_xml.expected import expect_collective, expect_standard
from taccl.errors import VerificationError
from taccl.model.collective import Collective, Placement
from taccl.model.collectives import make_collective


def rules(made, targets="msccl", **options):
    return {finding.rule for finding in verify_program(made, targets=targets, **options).errors}


def first(made, rule, **options):
    found = [each for each in verify_program(made, targets="msccl", **options).findings if each.rule == rule]
    assert found, rule
    return found[0]


@pytest.mark.parametrize(
    "made",
    [ring_allreduce(2), ring_allreduce(5), ring_allgather(4), direct_alltoall(4), scratch_allreduce(3)],
    ids=lambda made: f"{made.collective}-{made.num_ranks}",
)
def test_a_right_program_has_no_errors(made):
    report = verify_program(made, targets="msccl")
    assert report.ok, report.errors
    report.raise_for_findings()


def test_a_missing_contribution_is_named():
    """Rank 1 passes chunk 0 on without adding its own."""
    broken = edit(ring_allreduce(3), 1, 0, 1, op=Op.RECV_COPY_SEND)
    finding = first(broken, "wrong-result")
    assert (
        "of rank 0 should hold the sum of input chunk 0 of ranks 0-2, but lacks that of rank 1"
        in finding.message
    )
    assert (finding.rank, finding.thread_block, finding.step) == (0, 0, 3)


def test_a_contribution_that_counts_twice_is_named():
    doubled = with_steps(scratch_allreduce(2), 0, 0, lambda steps: (*steps[:-1], steps[-1], steps[-1]))
    doubled = with_steps(
        doubled, 0, 0, lambda steps: (replace(steps[0], has_dependent=False), replace(steps[1], depends=None))
    )
    doubled = edit(doubled, 0, 1, 2, depends=(0, 1))
    assert "rank 1 more than once" in first(doubled, "wrong-result").message


def test_a_wrong_source_is_named():
    broken = edit(direct_alltoall(3), 0, 1, 0, src_offset=2)
    message = first(broken, "wrong-result").message
    assert "should hold input chunk 1 of rank 0, but holds input chunk 2 of rank 0" in message


def test_an_output_that_nobody_writes_is_named():
    broken = with_steps(direct_alltoall(3), 1, 0, lambda steps: ())
    finding = first(broken, "wrong-result")
    assert (
        "o[1] of rank 1 should hold input chunk 1 of rank 1, but holds nothing that was written"
        in finding.message
    )
    assert finding.thread_block is None


def test_unwritten_memory_in_a_result_is_an_error():
    broken = edit(ring_allgather(3), 0, 2, 0, src=Buffer.OUTPUT, src_offset=0)
    assert {"wrong-result", "unwritten-read"} <= rules(broken)


def test_unwritten_memory_that_is_read_for_nothing_is_a_warning():
    made = with_steps(ring_allgather(3, scratch=2), 0, 2, lambda steps: (step("cpy", "s0", "s1"), *steps))
    report = verify_program(made, targets="msccl")
    assert report.ok
    assert [finding.rule for finding in report.warnings] == ["unwritten-read"]


def test_an_input_that_changes_out_of_place_is_an_error():
    """The fused ring sums in the input buffer, which is right in place only."""
    both = replace(ring_allreduce(3), out_of_place=True)
    report = verify_program(both, targets="executor")
    assert (report.facts.in_place, report.facts.out_of_place) == ("right", "wrong")
    assert "input-changed" in rules(both, targets="executor")


def test_rewriting_an_input_with_what_it_holds_is_no_change():
    made = with_steps(ring_allgather(3), 0, 2, lambda steps: (step("cpy", "i0", "i0"), *steps))
    assert verify_program(made, targets="msccl").facts.out_of_place == "right"


def test_both_modes_are_checked_if_both_are_claimed():
    report = verify_program(replace(ring_allgather(4), in_place=True), targets="executor")
    assert (report.facts.in_place, report.facts.out_of_place) == ("right", "right")


def test_in_place_an_alltoall_overwrites_what_it_still_has_to_send():
    one_block = program(
        "alltoall",
        2,
        (block(0, 1, 1, step("r", "o1"), step("s", "i1"), step("cpy", "i0", "o0")),),
        (block(0, 0, 0, step("s", "i0"), step("r", "o0"), step("cpy", "i1", "o1")),),
        in_place=True,
    )
    facts = verify_program(one_block, targets="executor").facts
    assert (facts.in_place, facts.out_of_place) == ("wrong", "right")


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (2, {"dst_offset": 3}, "writes o[3], but buffer o of this rank has chunks 0 .. 2"),
        (2, {"src_offset": -1}, "reads i[-1]"),
        (2, {"count": 2}, "reads i[0] .. i[1], but buffer i of this rank has chunks 0 .. 0"),
        (2, {"src": Buffer.SCRATCH}, "buffer s of this rank has no chunk"),
    ],
)
def test_a_step_outside_its_buffer_is_named(number, change, words):
    assert words in first(edit(ring_allgather(3), 0, number, 0, **change), "out-of-bounds").message


def broadcast(root, n=3, **changes):
    """The root sends to every other rank and copies for itself."""
    ranks = []
    for rank in range(n):
        if rank == root:
            sends = [block(k, k, -1, step("s", "i0", count=2)) for k in range(n) if k != root]
            blocks = [replace(each, id=place) for place, each in enumerate(sends)]
            ranks.append((*blocks, block(n - 1, -1, -1, step("cpy", "i0", "o0", count=2))))
        else:
            ranks.append((block(0, -1, root, step("r", "o0", count=2)),))
    return program("broadcast", 2, *ranks, **changes)


def reverse_of_broadcast(root, n=3):
    ranks = []
    for rank in range(n):
        if rank == root:
            receives = [step("cpy", "i0", "o0", count=2, tells=True)]
            blocks = [block(0, -1, -1, *receives)]
            waited = (0, 0)
            for place, peer in enumerate([k for k in range(n) if k != root], start=1):
                blocks.append(
                    block(place, -1, peer, step("rrc", "o0", count=2, wait=waited, tells=place < n - 1))
                )
                waited = (place, 0)
            ranks.append(tuple(blocks))
        else:
            ranks.append((block(0, root, -1, step("s", "i0", count=2)),))
    return program("reduce", 2, *ranks)


def gather(root, n=3):
    ranks = []
    for rank in range(n):
        if rank == root:
            blocks = [block(0, -1, -1, step("cpy", "i0", f"o{rank}"))]
            for place, peer in enumerate([k for k in range(n) if k != root], start=1):
                blocks.append(block(place, -1, peer, step("r", f"o{peer}")))
            ranks.append(tuple(blocks))
        else:
            ranks.append((block(0, root, -1, step("s", "i0")),))
    return program("gather", 1, *ranks)


def scatter(root, n=3):
    ranks = []
    for rank in range(n):
        if rank == root:
            blocks = [block(0, -1, -1, step("cpy", f"i{rank}", "o0"))]
            for place, peer in enumerate([k for k in range(n) if k != root], start=1):
                blocks.append(block(place, peer, -1, step("s", f"i{peer}")))
            ranks.append(tuple(blocks))
        else:
            ranks.append((block(0, -1, root, step("r", "o0")),))
    return program("scatter", 1, *ranks)


@pytest.mark.parametrize("made", [broadcast, reverse_of_broadcast, gather, scatter])
@pytest.mark.parametrize("root", [0, 1, 2])
def test_the_root_is_found(made, root):
    report = verify_program(made(root), targets="executor")
    assert report.ok, report.errors
    assert report.facts.root == root


@pytest.mark.parametrize("root", [0, 1])
def test_the_root_of_a_gather_in_place_is_found_without_a_copy(root):
    receive = block(0, -1, 1 - root, step("r", f"o{1 - root}"))
    send = block(0, root, -1, step("s", "i0"))
    ranks = ((receive,), (send,)) if root == 0 else ((send,), (receive,))
    report = verify_program(program("gather", 1, *ranks, in_place=True, out_of_place=False), targets="rccl")
    assert report.ok, report.errors
    assert report.facts.root == root


@pytest.mark.parametrize("made", [broadcast, reverse_of_broadcast, gather, scatter])
def test_another_root_than_the_one_asked_for_is_wrong(made):
    assert "wrong-result" in {finding.rule for finding in verify_program(made(1), root=2).errors}


def test_a_broadcast_in_place_is_right_too():
    both = broadcast(1, in_place=True)
    assert verify_program(both, targets="msccl").facts.in_place == "right"


def test_a_broadcast_that_reads_another_rank_s_input_is_wrong():
    broken = edit(broadcast(0), 1, 0, 0, op=Op.RECV)
    broken = with_steps(broken, 1, 0, lambda steps: (*steps, step("cpy", "i0", "o0")))
    assert "wrong-result" in rules(broken, root=0)


def test_both_spellings_of_reduce_scatter_mean_the_same():
    ranks = []
    for rank in range(2):
        ranks.append(
            (
                block(
                    0,
                    1 - rank,
                    1 - rank,
                    step("s", f"i{1 - rank}"),
                    step("cpy", f"i{rank}", "o0"),
                    step("rrc", "o0"),
                ),
            )
        )
    for name, runtime in (("reduce_scatter", "msccl"), ("reducescatter", "executor")):
        made = program(name, 2, *ranks)
        made = replace(made, ranks=tuple(replace(rank, output_chunks=1) for rank in made.ranks))
        assert verify_program(made, targets=runtime).ok
        assert "collective-name" in {finding.rule for finding in verify_program(made).errors}


def test_chunks_that_the_ranks_cannot_share_are_an_error():
    broken = replace(ring_allgather(3), chunks_per_loop=4)
    assert "no-such-collective" in rules(broken)


def test_chunks_that_no_step_can_reach_are_an_error():
    assert "no-such-collective" in rules(replace(ring_allgather(2), chunks_per_loop=10**6))


def custom(num_ranks=2):
    """Rank 0 hands its second chunk to rank 1, which wants it first; both hold the same chunk 2."""
    return Collective(
        name="handover",
        num_ranks=num_ranks,
        chunks_per_rank=2,
        chunks_per_size=2,
        inputs=Placement(np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([0, 1, 1])),
        outputs=Placement(np.array([1]), np.array([1]), np.array([0])),
        reduces=np.zeros(3, dtype=np.bool_),
        owner=np.array([0, 0, 1]),
        in_place_shift=np.zeros(num_ranks, dtype=np.int64),
    )


def handover(offset):
    return program(
        "custom", 2, (block(0, 1, -1, step("s", f"i{offset}")),), (block(0, -1, 0, step("r", "o0")),)
    )


def test_a_custom_collective_is_checked_against_what_is_given():
    assert verify_program(handover(1), collective=custom(), targets="msccl").ok
    assert rules(handover(0), collective=custom()) == {"wrong-result"}


def test_a_custom_collective_that_is_not_given_is_said_to_be_unchecked():
    report = verify_program(handover(0), targets="msccl")
    assert report.ok
    assert report.facts.out_of_place == "not checked"
    assert [finding.rule for finding in report.warnings] == ["unknown-result"]


def test_a_program_may_cut_the_chunks_of_the_collective_further():
    finer = program(
        "custom",
        4,
        (block(0, 1, -1, step("s", "i2", count=2)),),
        (block(0, -1, 0, step("r", "o0", count=2)),),
    )
    assert verify_program(finer, collective=custom(), targets="msccl").ok


def test_a_collective_for_other_ranks_or_of_another_name_is_refused():
    assert "no-such-collective" in rules(handover(1), collective=make_collective("allgather", 3))
    assert "no-such-collective" in rules(ring_allgather(3), collective=make_collective("alltoall", 3))


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize(
    "name",
    ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce", "gather", "scatter"],
)
def test_the_collectives_written_here_agree_with_those_of_the_package(name, ranks, pieces):
    """Two accounts of each collective, of which neither knows the other."""
    root = 1 if name in ("broadcast", "reduce", "gather", "scatter") else None
    collective = make_collective(name, ranks, pieces, root)
    loop = collective.chunks_per_size // (ranks if name in ("gather", "scatter") else 1)
    made = program(name, loop, *[()] * ranks)
    own = expect_standard(made, root, Collector())
    given = expect_collective(made, collective, Collector())
    for mine, theirs in (
        (own.input_size, given.input_size),
        (own.output_size, given.output_size),
        (own.in_place_shift, given.in_place_shift),
        (own.has_input, given.has_input),
    ):
        assert mine.tolist() == theirs.tolist()
    assert wanted_of(own) == wanted_of(given)


def wanted_of(expectation):
    rows = zip(expectation.wanted_rank, expectation.wanted_offset, expectation.wanted_value, strict=True)
    return {(int(rank), int(offset)): expectation.values[value] for rank, offset, value in rows}


def test_many_findings_of_one_kind_are_counted_rather_than_listed():
    broken = with_steps(ring_allreduce(8), 0, 0, lambda steps: [replace(steps[0], src_offset=1), *steps[1:]])
    wrong = [finding for finding in verify_program(broken).errors if finding.rule == "wrong-result"]
    assert len(wrong) <= 21


def test_raising_lists_the_findings():
    with pytest.raises(VerificationError) as caught:
        verify_program(edit(direct_alltoall(3), 0, 1, 0, src_offset=2)).raise_for_findings()
    assert "but holds input chunk 2 of rank 0" in str(caught.value)
    assert caught.value.exit_code == 4
