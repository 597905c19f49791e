import re
from dataclasses import replace

import pytest
from findings import finding
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import (
    REAL_FILES,
    block,
    direct_alltoall,
    edit,
    nop,
    program,
    ring_allgather,
    ring_allreduce,
    step,
    with_block,
    with_steps,
)
from studies import examples

from taccl.backend.msccl_xml import to_xml
from taccl.backend.verify.msccl_xml import verify_file, verify_program, verify_text
from taccl.errors import TacclError, XmlError

GOOD = to_xml(ring_allgather(3, max_bytes=2**20))


def test_a_plain_file_is_taken_by_all():
    report = verify_text(GOOD)
    assert report.findings == ()
    assert report.facts.readers == {"msccl": "yes", "executor": "yes", "rccl": "yes"}


@pytest.mark.parametrize(
    ("change", "rule", "runtimes"),
    [
        ({"collective": "alltonext"}, "collective-name", ("msccl", "executor", "rccl")),
        ({"collective": "reduce_scatter"}, "collective-name", ("executor", "rccl")),
        ({"collective": "reducescatter"}, "collective-name", ("msccl",)),
        ({"collective": "gather"}, "collective-name", ("msccl",)),
        ({"num_channels": 33}, "channel-limit", ("msccl", "executor")),
        ({"num_channels": 0}, "channel-limit", ("msccl", "executor", "rccl")),
        ({"max_bytes": 0}, "never-selected", ("msccl",)),
        ({"min_bytes": 64, "max_bytes": 64}, "never-selected", ("msccl",)),
        ({"min_bytes": 65, "max_bytes": 64}, "never-selected", ("executor", "rccl")),
        ({"min_bytes": 65, "max_bytes": 64}, "size-range", ("msccl",)),
        ({"min_bytes": -1}, "size-range", ("msccl", "executor", "rccl")),
        ({"in_place": False, "out_of_place": False}, "no-mode", ("executor", "rccl")),
        ({"chunks_per_loop": 0}, "chunks-per-loop", ("msccl", "executor", "rccl")),
        ({"name": "n" * 64}, "long-name", ("msccl",)),
    ],
)
def test_what_a_header_gets_wrong_is_said_with_the_runtimes_it_concerns(change, rule, runtimes):
    assert finding(verify_program(replace(ring_allgather(3), **change)), rule).runtimes == runtimes


def test_the_other_spelling_of_a_collective_is_offered():
    made = replace(ring_allgather(3), collective="reduce_scatter")
    assert "they spell it reducescatter" in finding(verify_program(made), "collective-name").message


def test_the_reserved_name_of_an_alltoall_is_an_error():
    assert finding(verify_program(direct_alltoall(3, name="2D")), "reserved-name").runtimes == ("msccl",)


def test_findings_of_other_runtimes_do_not_count():
    made = replace(ring_allgather(3), max_bytes=0)
    assert not verify_program(made, targets="msccl").ok
    assert verify_program(made, targets=("executor", "rccl")).ok


def test_an_unknown_runtime_is_named():
    with pytest.raises(TacclError, match="nccl"):
        verify_program(ring_allgather(2), targets="nccl")


def test_fused_steps_are_refused_by_rccl_when_called():
    report = verify_program(ring_allreduce(4))
    assert report.facts.readers == {"msccl": "yes", "executor": "yes", "rccl": "launch"}
    assert finding(report, "fused-step").runtimes == ("rccl",)


def long_block(steps):
    made = ring_allgather(2)
    return with_steps(made, 0, 2, lambda old: (*old, *[step("cpy", "i0", "o0")] * (steps - 1)))


@pytest.mark.parametrize(
    ("steps", "runtimes"),
    [
        (64, None),
        (65, ("executor", "rccl")),
        (256, ("executor", "rccl")),
        (257, ("msccl", "executor", "rccl")),
    ],
)
def test_a_block_has_so_many_steps_and_no_more(steps, runtimes):
    found = [each for each in verify_program(long_block(steps)).findings if each.rule == "step-limit"]
    assert (found[0].runtimes if found else None) == runtimes


def many_blocks(count):
    made = ring_allgather(2)
    extra = [block(3 + k, -1, -1, step("cpy", "i0", f"s{k}")) for k in range(count - 3)]
    blocks = (*made.ranks[0].thread_blocks, *extra)
    ranks = (replace(made.ranks[0], thread_blocks=blocks, scratch_chunks=count), made.ranks[1])
    return replace(made, ranks=ranks)


@pytest.mark.parametrize(
    ("count", "runtimes"),
    [
        (64, None),
        (65, ("rccl",)),
        (216, ("rccl",)),
        (217, ("msccl", "rccl")),
        (1025, ("msccl", "executor", "rccl")),
    ],
)
def test_a_rank_has_so_many_blocks_and_no_more(count, runtimes):
    report = verify_program(many_blocks(count))
    found = [each for each in report.findings if each.rule == "thread-block-limit"]
    assert (found[0].runtimes if found else None) == runtimes
    assert any(each.rule == "resident-blocks" for each in report.findings) == (count > 108)


def test_blocks_that_are_waited_for_need_small_ids():
    made = many_blocks(140)
    made = edit(made, 0, 139, 0, has_dependent=True)
    made = edit(made, 0, 2, 0, depends=(139, 0))
    assert finding(verify_program(made), "wait-range").runtimes == ("msccl", "executor", "rccl")


def test_the_element_room_of_a_reader_is_counted():
    made = replace(many_blocks(400), max_bytes=2**10)
    for number in range(3, 20):
        made = with_steps(made, 0, number, lambda old: old * 230)
    assert "4095" in finding(verify_program(made), "reader-room").message


def test_a_rank_without_thread_blocks_cannot_be_launched():
    made = direct_alltoall(2)
    made = replace(made, ranks=(made.ranks[0], replace(made.ranks[1], thread_blocks=())))
    assert finding(verify_program(made), "no-thread-block").rank == 1


def test_block_ids_without_holes():
    made = with_block(ring_allgather(2), 0, 2, id=5)
    assert (
        "has 3 thread blocks with the ids 0, 1, 5"
        in finding(verify_program(made), "thread-block-ids").message
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"send": 0}, "peer-range"),
        ({"send": 7}, "peer-range"),
        ({"recv": -2}, "peer-range"),
        ({"send": -1}, "missing-peer"),
        ({"channel": 1}, "channel-range"),
        ({"channel": -1}, "channel-range"),
    ],
)
def test_a_block_with_impossible_ends_is_named(change, rule):
    found = finding(verify_program(with_block(ring_allgather(3), 0, 0, **change)), rule)
    assert (found.rank, found.thread_block) == (0, 0)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"count": 0}, "count-range"),
        ({"count": 72}, "count-range"),
        ({"count": -1}, "count-range"),
        ({"dst_offset": 40000}, "offset-range"),
        ({"dst_offset": 3}, "declared-chunks"),
        ({"depends": (9, 0)}, "wait-range"),
        ({"depends": (1, 9)}, "wait-range"),
    ],
)
def test_a_step_with_impossible_numbers_is_named(change, rule):
    found = finding(verify_program(edit(ring_allgather(3), 0, 2, 0, **change)), rule)
    assert (found.rank, found.thread_block, found.step) == (0, 2, 0)


def test_microsoft_msccl_compares_buffer_sizes_with_the_collective():
    made = ring_allgather(3)
    ranks = (replace(made.ranks[0], output_chunks=4), *made.ranks[1:])
    found = finding(verify_program(replace(made, ranks=ranks)), "buffer-chunks")
    assert (found.runtimes, found.rank) == (("msccl",), 0)


def test_a_buffer_that_a_rank_does_not_name_may_be_zero():
    made = ring_allreduce(3)
    ranks = tuple(replace(rank, output_chunks=0) for rank in made.ranks)
    assert verify_program(replace(made, ranks=ranks), targets="msccl").ok


def test_a_crowded_channel_is_named():
    n = 35
    ranks = [
        tuple(
            block(
                k,
                (r + k + 1) % n,
                (r - k - 1) % n,
                step("s", f"i{(r + k + 1) % n}"),
                step("r", f"o{(r - k - 1) % n}"),
            )
            for k in range(n - 1)
        )
        for r in range(n)
    ]
    assert (
        "is one of 34"
        in finding(verify_program(program("alltoall", n, *ranks)), "blocks-per-channel").message
    )


def test_silly_scratch_is_a_warning():
    made = replace(many_blocks(64), max_bytes=2**60)
    assert finding(verify_program(made), "scratch-size").severity == "warning"


def test_simple_broadcasts_between_nodes_are_a_warning():
    made = replace(ring_allgather(2), collective="broadcast", chunks_per_loop=2)
    assert finding(verify_program(made), "simple-across-nodes").severity == "warning"


def test_a_program_of_nothing_is_an_error():
    made = program("allreduce", 1, (block(0, -1, -1),), (block(0, -1, -1),))
    assert finding(verify_program(made), "no-steps").severity == "error"


def test_huge_buffers_are_refused_rather_than_tried():
    made = ring_allgather(2)
    ranks = tuple(replace(rank, scratch_chunks=2**31 - 1) for rank in made.ranks)
    assert finding(verify_program(replace(made, ranks=ranks)), "too-large")
    assert not verify_program(replace(made, chunks_per_loop=2**31 - 2)).ok


def test_a_nop_that_others_wait_for_is_a_warning():
    made = ring_allgather(3)
    made = with_steps(
        made, 0, 0, lambda steps: (steps[0], replace(nop((1, 0)), has_dependent=True), steps[1])
    )
    report = verify_program(made)
    assert report.ok
    assert finding(report, "nop-hasdep").step == 1


def test_a_file_that_is_not_msccl_xml_is_an_error_not_a_report(tmp_path):
    (tmp_path / "a.xml").write_text("<plan/>")
    with pytest.raises(XmlError):
        verify_file(tmp_path / "a.xml")


def test_a_report_is_made_of_plain_data():
    import json

    report = verify_file(REAL_FILES / "mscclang-allreduce_pcie_hierarchical_4.xml")
    reported = json.loads(json.dumps(report.as_dict()))
    assert reported["ok"] is False
    assert reported["facts"]["in_place"] == "wrong"
    assert {"layer", "severity", "rule", "message", "rank", "line", "hint"} <= reported["findings"][0].keys()


_EXTREMES = ["-2147483648", "-2", "-1", "0", "1", "2", "3", "64", "71", "255", "32767", "32768", "2147483647"]


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_any_numbers_in_a_file_give_a_report_or_a_clean_error(data):
    """Hostile numbers cost neither a traceback nor much time or memory."""
    numbers = list(re.finditer(r'(?<=")-?[0-9]+(?=")', GOOD))
    text = GOOD
    chosen = data.draw(st.lists(st.integers(0, len(numbers) - 1), min_size=1, max_size=3, unique=True))
    for place in sorted(chosen, reverse=True):
        found = numbers[place]
        text = text[: found.start()] + data.draw(st.sampled_from(_EXTREMES)) + text[found.end() :]
    try:
        report = verify_text(text)
    except XmlError as error:
        assert error.line is not None
    else:
        assert report.ok == (not report.errors)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_words_in_a_file_give_a_report_or_a_clean_error(data):
    words = list(re.finditer(r'(?<=")[a-zA-Z]+(?=")', GOOD))
    found = words[data.draw(st.integers(0, len(words) - 1))]
    known = ["s", "r", "re", "rrc", "rcs", "rrs", "rrcs", "nop", "cpy", "i", "o", "LL", "custom"]
    known += ["allreduce", "reduce", "broadcast", "gather", "scatter", "alltoall", "reduce_scatter"]
    text = GOOD[: found.start()] + data.draw(st.sampled_from(known)) + GOOD[found.end() :]
    try:
        report = verify_text(text)
    except XmlError as error:
        assert error.line is not None
    else:
        assert report.ok == (not report.errors)
