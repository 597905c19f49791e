"""What a plan computes, and whether it does so in every order: each rule shown at the smallest plan."""

from dataclasses import replace

import numpy as np
import pytest
from plan_examples import (
    CLOSE,
    HANDSHAKE,
    PLANS,
    Lines,
    all_pairs_allgather,
    multicast_allgather,
    multicast_allreduce,
    packet_allreduce,
    pipelined_relay,
    plan,
    rank,
    shared_allgather,
)
from plan_mutations import without
from plans import ALLGATHER, ALLREDUCE, DATA, EVERY_PLAN, RELAY

from taccl.backend.machine.report import Verification
from taccl.backend.mscclpp.reader import read_plan
from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp import verify_plan
from taccl.model.collective import Collective, Placement


def reported(report: Verification, severity: str = "error") -> set[str]:
    """The rules of all findings that only an execution shows."""
    return {each.rule for each in report.findings if each.severity == severity and each.layer != "structure"}


def both(
    text: str, chunks: tuple[int, int, int] = (1, 2, 1), collective: str = "allgather", **fields: object
) -> ExecutionPlan:
    """Two ranks that do the same: `{me}` and `{you}` are their numbers, remote buffers are o, i and s."""
    letters = "ois" if chunks[2] else "oi"
    return plan(
        collective,
        [
            rank(
                r,
                chunks,
                [Lines(text.format(me=r, you=1 - r), (0, 1), (0,))],
                memory=(1 - r, 1 - r),
                port=(1 - r,),
                remotes=tuple((1 - r, letter, "mp") for letter in letters),
            )
            for r in range(2)
        ],
        **fields,
    )


RELAXED_CLOSE = "nop\nrlxsignal m0\nrlxwait m0"
BODY = "put m i0 > R0:{me}\ncopy i0 > o{me}\n"


# Right plans


@pytest.mark.parametrize("name", PLANS)
def test_right_plans_of_all_kinds_are_right(name: str) -> None:
    report = verify_plan(PLANS[name])
    assert report.ok and not reported(report, "warning")
    facts = report.facts
    assert (facts.in_place if PLANS[name].in_place else facts.out_of_place) == "right"
    assert facts.races == 0 and facts.deadlock is False


def test_a_plan_of_many_ranks_is_right_if_every_pair_of_them_is() -> None:
    """64 ranks with 10,000 operations take some seconds: `all_pairs_allgather(64, 4, 2)`."""
    whole = all_pairs_allgather(10)
    assert verify_plan(whole).facts.out_of_place == "right"
    damaged = without(whole, 7, 1, 2)  # the nop between hearing of four peers and putting
    report = verify_plan(damaged)
    assert reported(report) == {"before-start"}
    assert {(each.rank, each.thread_block) for each in report.errors} == {(7, 1)}


def test_stores_through_a_switch_reach_all_members() -> None:
    assert verify_plan(multicast_allgather()).facts.out_of_place == "right"


def test_real_plans_are_right_and_two_leave_their_sources_unflushed() -> None:
    warned = {}
    for path in EVERY_PLAN:
        report = verify_plan(read_plan(path))
        assert not reported(report), path.name
        assert "right" in (report.facts.in_place, report.facts.out_of_place)
        warned[path.stem] = reported(report, "warning")
    leaning = {name for name, rules in warned.items() if rules}
    assert leaning == {"dsl-reducescatter_hier_2x4", "dsl-sendrecv_4"}
    assert all(warned[name] == {"unflushed-source"} for name in leaning)


@pytest.mark.parametrize("name", [ALLGATHER, ALLREDUCE, RELAY])
def test_no_operation_of_a_napkin_plan_can_be_left_out(name: str) -> None:
    whole = read_plan(DATA / f"{name}.json")
    harmless = {
        (r, step)
        for r, chosen in enumerate(whole.ranks)
        for step in range(len(chosen.blocks[0].operations))
        if verify_plan(without(whole, r, 0, step)).ok
    }
    # The slots of this AllReduce are free since the last call ended, and its results wait for the next nop.
    assert harmless == ({(0, 2), (1, 2)} if name == ALLREDUCE else set())


# Hosts


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (HANDSHAKE + BODY + CLOSE, None),
        ("nop\n" + BODY + CLOSE, "before-start"),
        ("rlxsignal m0\nrlxwait m0\n" + BODY + CLOSE, "before-start"),
        (HANDSHAKE + BODY, "outstanding-at-end"),
        (HANDSHAKE + BODY + "signal m0\nwait m0", "outstanding-at-end"),
    ],
)
def test_peers_write_into_outputs_only_while_the_kernel_of_their_owner_runs(
    text: str, rule: str | None
) -> None:
    assert reported(verify_plan(both(text))) == ({rule} if rule else set())


def test_peers_read_inputs_only_while_the_kernel_of_their_owner_runs() -> None:
    body = "rre m i0 R1:0 > o0\n"
    for text, rules in (
        (HANDSHAKE + body + "nop\nrlxsignal m0\nrlxwait m0", set()),
        ("nop\n" + body + "nop\nrlxsignal m0\nrlxwait m0", {"before-start"}),
        (HANDSHAKE + body, {"outstanding-at-end"}),
    ):
        assert reported(verify_plan(both(text, (1, 1, 0), "allreduce"))) == rules


def test_data_of_which_only_relaxed_signals_speak_are_warned_of() -> None:
    report = verify_plan(both(HANDSHAKE + BODY + "nop\nrlxsignal m0\nrlxwait m0"))
    assert report.ok and reported(report, "warning") == {"relaxed-data"}
    assert verify_plan(multicast_allreduce()).facts.in_place == "right"
    assert reported(verify_plan(multicast_allreduce(RELAXED_CLOSE)), "warning") == {"relaxed-data"}


@pytest.mark.parametrize(
    ("last", "halves", "errors", "warnings"),
    [
        ("upkt s1 > i0", True, set(), {"packet-ordered"}),
        ("repkt i0 s1 > i0", True, {"wrong-result", "race"}, set()),
        ("upkt s1 > i0", False, {"race"}, {"packet-ordered"}),
        ("nop", True, set(), set()),
    ],
    ids=["the same", "something else", "without halves", "nothing"],
)
def test_what_another_block_has_put_may_be_put_again_after_a_packet(
    last: str, halves: bool, errors: set[str], warnings: set[str]
) -> None:
    """Of mscclpp's own ReduceScatter for several nodes: all blocks unpack what one has summed and packed."""
    first = "ppkt m i0 > R0:0\nrepkt i0 s0 > i0\ncpkt i0 > s1"
    ranks = [
        rank(r, (1, 1, 2), [Lines(first), Lines(last)], memory=(1 - r,), remotes=((1 - r, "s", "m"),))
        for r in range(2)
    ]
    report = verify_plan(plan("allreduce", ranks, protocol="LL", in_place=True, double_scratch=halves))
    assert reported(report) == errors and reported(report, "warning") == warnings


def test_operations_that_look_at_no_channel_move_data_whatever_channel_they_name() -> None:
    text = HANDSHAKE + BODY.replace("copy", "copy p") + CLOSE
    assert verify_plan(both(text)).facts.out_of_place == "right"


def test_out_of_place_a_callers_input_is_left_alone() -> None:
    text = HANDSHAKE + BODY + CLOSE + "nop\ncopy o{you} > i0"
    assert reported(verify_plan(both(text))) == {"input-changed"}


# Threads, lanes, channels


def test_threads_of_a_block_meet_at_nops_only_but_one_thread_keeps_its_own_order() -> None:
    start, end = HANDSHAKE + "put m i0 > R2:0\nnop\nsignal m0\nwait m0\nnop\n", RELAXED_CLOSE
    good = start + "re i0 s0 > o0\n" + end
    assert verify_plan(both(good, (1, 1, 1), "allreduce")).ok
    same_start = start + "copy s0 > o0\nre o0 i0 > o0\n" + end
    assert verify_plan(both(same_start, (1, 1, 1), "allreduce")).ok
    shifted = HANDSHAKE + "put m i0+2 > R2:0+2\nnop\nsignal m0\nwait m0\nnop\ncopy s0+2 > o0+2\n"
    for place, rules in (("o0+2 i0+2 > o0+2", set()), ("o1 i1 > o1\nre o0 i0 > o0", {"race"})):
        text = f"{shifted}re {place}\n{end}"
        assert reported(verify_plan(both(text, (2, 2, 2), "allreduce"))) == rules


def test_an_operation_must_not_read_what_its_other_threads_write() -> None:
    text = "copy i0 > s0\nnop\ncopy s0+2 > s1+2\n"
    assert reported(verify_plan(both(text, (1, 1, 3), "test"))) == {"race"}


def test_what_a_lane_has_heard_holds_for_what_it_does_next_and_for_no_other_lane() -> None:
    """Rank 0 puts in the lane that waited. On rank 1 lane 0 puts, and lane 1 has heard that rank 2 runs."""
    relay = read_plan(DATA / f"{RELAY}.json")
    assert verify_plan(relay).ok
    assert reported(verify_plan(without(relay, 1, 0, 2))) == {"before-start"}


def test_a_port_reads_its_source_some_time_after_it_was_pushed() -> None:
    start = "signal p0\nwait p0\nnop\ncopy i0 > s0\ncopy i0 > o{me}\nnop\n"
    rewrites = "nop\ncopy o{me} > s0\nwait p0"
    assert reported(verify_plan(both(start + "pwsf p0 s0 > R0:{me}\n" + rewrites))) == set()
    assert reported(verify_plan(both(start + "pws p0 s0 > R0:{me}\n" + rewrites))) == {"race"}


@pytest.mark.parametrize(("source", "found"), [("i0", {"reused-buffer"}), ("s1", set())])
def test_with_reused_resources_ports_read_the_buffers_of_the_first_call(source: str, found: set[str]) -> None:
    """The runtime registers them once, with the context that then serves calls of all buffers."""
    text = (
        f"copy i0 > s1\nsignal p0\nwait p0\nnop\npwsf p0 {source} > R2:0\nwait p0\nnop\ncopy s0 > o{{you}}\n"
    )
    made = both(text + "copy i0 > o{me}", (1, 2, 2))
    report = verify_plan(replace(made, reuse_resources=True, max_bytes=2**20))
    assert {error.rule for error in report.errors} == found
    assert verify_plan(replace(made, max_bytes=2**20)).ok


def test_a_source_that_is_not_flushed_may_be_rewritten_by_its_host() -> None:
    text = "signal p0\nwait p0\nnop\npws p0 i0 > R0:{me}\ncopy i0 > o{me}\nwait p0"
    report = verify_plan(both(text))
    assert report.ok and reported(report, "warning") == {"unflushed-source"}


def test_a_port_signal_says_nothing_of_puts_on_another_channel() -> None:
    text = "signal p0\nwait p0\nnop\nput p{put} i0 > R0:{r}\nsignal p0\nwait p0\ncopy i0 > o{r}"

    def found(put: int) -> set[str]:
        ranks = [
            rank(
                r,
                (1, 2, 0),
                [Lines(text.format(put=put, r=r), (), (0, 1))],
                port=(1 - r, 1 - r),
                remotes=((1 - r, "o", "p"),),
            )
            for r in range(2)
        ]
        return reported(verify_plan(plan("allgather", ranks)))

    assert found(0) == set()
    assert found(1) == {"outstanding-at-end"}


def test_lanes_that_push_to_one_channel_do_so_in_no_order_until_they_meet() -> None:
    puts, rest = "put p0,0 i0 i1 > R0:{first} R0:{second}\n", "wait p0\ncopy i0+2 > o{first}+2"
    for between, rules in (("nop\n", set()), ("", {"outstanding-at-end"})):
        text = f"signal p0\nwait p0\nnop\n{puts}{between}signal p0\n{rest}"
        ranks = [
            rank(
                r,
                (2, 4, 0),
                [Lines(text.format(first=2 * r, second=2 * r + 1), (), (0,))],
                port=(1 - r,),
                remotes=((1 - r, "o", "p"),),
            )
            for r in range(2)
        ]
        assert reported(verify_plan(plan("allgather", ranks))) == rules


def test_of_signals_of_two_lanes_to_one_end_either_may_be_first() -> None:
    """Rank 1 puts into rank 2 and tells rank 0, which tells rank 2: in the lane that has heard, or in two."""

    def found(reported_on: str, waits: str) -> set[str]:
        ranks = [
            rank(0, (1, 1, 1), [Lines(f"wait m0\n{reported_on}", (0, 1))], memory=(1, 2)),
            rank(
                1,
                (1, 1, 1),
                [Lines("rlxwait m1\nnop\nput m i0 > R0:0\nnop\nsignal m0", (0, 1))],
                memory=(0, 2),
                remotes=((2, "s", "m"),),
            ),
            rank(2, (1, 1, 1), [Lines(f"rlxsignal m1\n{waits}", (0, 1))], memory=(0, 1)),
        ]
        return reported(verify_plan(plan("custom", ranks)))

    assert found("signal m1", "wait m0\nnop\ncopy s0 > o0") == set()
    assert found("signal m1,1", "wait m0\nnop\ncopy s0 > o0\nwait m0") == {"race"}
    assert found("nop\nsignal m1,1", "wait m0\nnop\ncopy s0 > o0\nwait m0") == set()


# Counters


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("signal m1\n" + HANDSHAKE + BODY + CLOSE + "wait m1", set()),
        ("signal m0\n" + HANDSHAKE + BODY + CLOSE, {"unequal-signals"}),
        ("wait m1\n" + HANDSHAKE + BODY + CLOSE + "signal m1", {"deadlock"}),
        ("wait m1\n" + HANDSHAKE + BODY + CLOSE, {"deadlock", "unequal-signals"}),
    ],
)
def test_every_call_waits_for_as_many_signals_as_it_gets(text: str, rules: set[str]) -> None:
    found = reported(verify_plan(both(text)))
    assert rules <= found and bool(rules) == bool(found)


def test_signals_that_nobody_waits_for_are_warned_of() -> None:
    report = verify_plan(both("signal m1\n" + HANDSHAKE + BODY + CLOSE))
    assert report.ok and reported(report, "warning") == {"unread-signal"}


def test_several_blocks_at_one_end_of_a_channel_are_an_error() -> None:
    shared = shared_allgather()
    chosen = shared.ranks[0]
    blocks = tuple(replace(each, channels=chosen.blocks[0].channels) for each in chosen.blocks)
    mutant = replace(shared, ranks=(replace(chosen, blocks=blocks), shared.ranks[1]))
    assert "shared-channel-end" in reported(verify_plan(mutant))


def test_semaphores_return_to_their_value_and_have_one_block_that_acquires() -> None:
    one, two = "copy i0 > s0\nnop\nsem_release sem=0", "sem_acquire sem=0\nnop\ncopy s0 > o0"

    def found(*texts: str, value: int = 0) -> set[str]:
        blocks = [Lines(text) for text in texts]
        ranks = [rank(r, (1, 1, 1), blocks, semaphores=(value,)) for r in range(2)]
        return reported(verify_plan(plan("custom", ranks)))

    assert found(one, two) == set()
    assert found(one, two, value=1) == {"race"}
    assert found(one.replace("nop", "copy i0 > o0"), two) == {"race"}
    assert "unequal-releases" in found(one + "\nsem_release sem=0", two)
    assert found(one, two, "sem_acquire sem=0") == {"shared-semaphore", "unequal-releases", "deadlock"}


def test_the_last_of_several_acquisitions_knows_of_every_block_that_released() -> None:
    parts = [f"copy i{k} > s{k}\nnop\nsem_release sem=0" for k in range(2)]
    both_of = "sem_acquire sem=0\nsem_acquire sem=0\nnop\ncopy s0+2 > o0+2"
    one_of = "sem_acquire sem=0\nnop\ncopy s0+2 > o0+2\nsem_acquire sem=0"
    for text, rules in ((both_of, set()), (one_of, {"race"})):
        blocks = [Lines(each) for each in (*parts, text)]
        ranks = [rank(r, (2, 2, 2), blocks, semaphores=(0,)) for r in range(2)]
        assert reported(verify_plan(plan("custom", ranks))) == rules


def test_a_semaphore_may_gather_the_same_blocks_twice_where_barriers_keep_the_rounds_apart() -> None:
    rounds = "copy i{k} > s{k}\nnop\nsem_release sem=0\n{between}copy s{k} > s{other}\nnop\nsem_release sem=0"
    gather = "sem_acquire sem=0\nsem_acquire sem=0\nnop\n"

    def found(between: str) -> set[str]:
        blocks = [Lines(rounds.format(k=k, other=2 + k, between=between)) for k in range(2)]
        blocks.append(Lines(f"{gather}copy s0+2 > s4+2\n{between}{gather}copy s2+2 > o0+2"))
        ranks = [rank(r, (2, 2, 6), blocks, semaphores=(0,)) for r in range(2)]
        return reported(verify_plan(plan("custom", ranks)))

    assert found("barrier bar=0/3\n") == set()
    assert found("nop\n") == {"race"}


def test_a_circle_of_waits_is_told_with_its_members() -> None:
    (finding,) = [
        each
        for each in verify_plan(both("wait m0\nsignal m0\n" + HANDSHAKE + BODY + CLOSE)).findings
        if each.rule == "deadlock"
    ]
    assert (finding.rank, finding.thread_block, finding.step) == (0, 0, 0)
    assert "2 thread blocks are stuck" in finding.message and "rank 1, thread block 0" in finding.message


# Calls one after the other


def test_scratch_is_used_again_only_once_its_reader_is_known_to_be_done() -> None:
    take = "put m i0 > R2:0\nnop\nsignal m0\nwait m0\nnop\nre i0 s0 > o0\n"
    assert reported(verify_plan(both(take, (1, 1, 1), "allreduce"))) == {"race"}
    assert reported(verify_plan(both(HANDSHAKE + take, (1, 1, 1), "allreduce"))) == set()
    assert (
        reported(verify_plan(both(take + "nop\nrlxsignal m0\nrlxwait m0", (1, 1, 1), "allreduce"))) == set()
    )


def test_packets_need_two_halves_of_scratch_or_word_from_their_readers() -> None:
    exchange = "ppkt m i0 > R2:0\nupkt s0 > o{you}\ncopy i0 > o{me}"
    send = "ppkt m i0 > R0:0\ncopy i0 > o0"
    one_way = plan(
        "broadcast",
        [
            rank(0, (1, 1, 1), [Lines(send)], memory=(1,), remotes=((1, "s", "m"),)),
            rank(1, (1, 1, 1), [Lines("upkt s0 > o0")], memory=(0,)),
        ],
        protocol="LL",
    )
    assert reported(verify_plan(both(exchange, protocol="LL"))) == {"race"}
    assert reported(verify_plan(both(exchange, protocol="LL", double_scratch=True))) == set()
    assert reported(verify_plan(replace(one_way, double_scratch=True))) == {"race"}
    assert reported(verify_plan(packet_allreduce(double=False))) == set()


def test_packets_speak_for_the_reads_of_their_thread_and_publish_no_other_data() -> None:
    text = "put m i0 > R0:{me}\nnop\nppkt m i0 > R2:0\nupkt s0 > s3\nnop\ncopy i0 > o{me}"
    report = verify_plan(both(text, (1, 2, 4), protocol="LL", double_scratch=True))
    assert {"before-start", "outstanding-at-end"} <= reported(report)


def test_a_packet_is_not_put_where_another_of_this_call_is() -> None:
    text = "ppkt m i0 > R2:0\nppkt m i1 > R2:0\nupkt s0 > o0\ncopy i0 > o1"
    report = verify_plan(both(text, (2, 2, 2), "custom", protocol="LL", double_scratch=True))
    assert "packet-slot-twice" in reported(report)


def test_the_reader_of_a_packet_that_is_put_twice_may_have_read_the_first() -> None:
    """So it knows nothing of the second, and what it sends may be used before the second has come."""
    slots = "cpkt i0 > s0\n{again}upkt s0 > o{me}\nppkt m o{me} > R2:1\nupkt s1 > o{you}"
    pushed = "cpkt i0 > s0\n{again}rppkt p0 s0 > R2:1\nupkt s1 > o{you}\ncopy i0 > o{me}"
    for text, again in ((slots, "cpkt i0 > s0\n"), (pushed, "rppkt p0 s0 > R2:1\n")):
        for repeated, rules in (("", set()), (again, {"race"} if text is pushed else set())):
            exchange = text.replace("{again}", repeated)
            report = verify_plan(both(exchange, (1, 2, 2), protocol="LL", double_scratch=True))
            assert reported(report) == rules


def test_a_port_sends_packets_as_they_lie_and_does_not_wait_for_them() -> None:
    """What other threads have not written by then is never sent, and the reader waits for it for ever."""
    text = "cpkt i0 > s0\n{meet}ppkt p0 s0 > R2:1\nupkt s1 > o{you}\ncopy i0 > o{me}"
    relay = "cpkt i0 > s2\nnop\nppkt p0 s2 > R2:0\n{read}ppkt p0 s0 > R2:1\nupkt s1 > o{me}\n"
    for right, step, taken, rule in (
        (text, "{meet}", "nop\n", "race"),
        (relay + "upkt s0 > o{you}", "{read}", "upkt s0 > o{you}\nnop\n", "unwritten-read"),
    ):
        for there, rules in ((taken, set()), ("", {rule})):
            plan_ = both(right.replace(step, there), (1, 2, 3), protocol="LL", double_scratch=True)
            assert reported(verify_plan(plan_)) >= rules
            assert verify_plan(plan_).ok == (not rules)


def test_packets_that_nobody_writes_are_waited_for_in_vain() -> None:
    text = "ppkt m i0 > R2:0\nupkt s1 > o{you}\ncopy i0 > o{me}"
    report = verify_plan(both(text, (1, 2, 2), protocol="LL", double_scratch=True))
    assert reported(report) == {"deadlock"}


# Parts and slices


def test_blocks_that_cut_their_ranges_unlike_race() -> None:
    """A block waits for the partner of its own part, which has not put all that is read here."""
    whole = shared_allgather()
    assert verify_plan(whole).ok

    def read(k: int) -> str:
        return f"{HANDSHAKE}put m i0+2 > R0:0+2 share={k}/2\nnop\nsignal m0\nwait m0\nnop\n"

    def build(last: str) -> ExecutionPlan:
        ranks = [
            rank(
                r,
                (2, 2, 2),
                [Lines(read(k) + last.format(k=k), (k,)) for k in range(2)],
                memory=(1 - r, 1 - r),
                remotes=((1 - r, "s", "m"),),
            )
            for r in range(2)
        ]
        return plan("custom", ranks)

    assert reported(verify_plan(build("copy s0+2 > o0+2 share={k}/2"))) == set()
    assert reported(verify_plan(build("copy s0 > o0 share={k}/2\ncopy s1 > o1 share={k}/2"))) == {"race"}


def test_a_part_of_ranges_of_unlike_lengths_means_nothing() -> None:
    """Each range is cut by its own size, so parts but the first begin at unlike places of a chunk."""
    text = HANDSHAKE + "put m i0+2 > R0:0 share={part}/2\n" + CLOSE
    found = [
        {each.rule for each in verify_plan(both(text.replace("{part}", part), (2, 2, 0), "custom")).errors}
        for part in "01"
    ]
    assert found == [set(), {"uneven-operands"}]


def test_pipelines_are_looked_at_for_several_turns() -> None:
    right = pipelined_relay()
    reader = right.ranks[1].blocks[1]
    (pipeline,) = reader.operations
    shorter = replace(pipeline, turns=replace(pipeline.turns, unit_bytes=32))
    blocks = (right.ranks[1].blocks[0], replace(reader, operations=(shorter,)))
    mutant = replace(right, ranks=(right.ranks[0], replace(right.ranks[1], blocks=blocks)))
    assert "unequal-releases" in reported(verify_plan(mutant))


def test_pipelines_are_looked_at_where_they_take_unequally_many_turns() -> None:
    """144 bytes are one slice of 144 and two of 128; 128 bytes are one of both, and 160 two of both."""
    up = "pipeline turns=144/1\n  sem_release sem=0\n"
    down = "pipeline turns=128/1\n  sem_acquire sem=0\n"
    alone = rank(0, (1, 1, 0), [Lines(up + down + "copy i0 > o0")], semaphores=(0,))
    for least, most, rules in ((128, 128, set()), (160, 160, set()), (128, 160, {"deadlock"})):
        requested = plan("broadcast", [alone], min_bytes=least, max_bytes=most)
        assert reported(verify_plan(requested)) >= rules
        assert verify_plan(requested).ok == (not rules)


# What is wanted


def test_a_wrong_output_is_told_with_what_it_holds_and_who_wrote_it() -> None:
    report = verify_plan(both(HANDSHAKE + "put m i0 > R0:{me}\ncopy i0 > o{you}\n" + CLOSE))
    assert report.facts.out_of_place == "wrong"
    found = [each for each in report.findings if each.rule == "wrong-result"]
    assert found[0].rank is not None and "should hold input chunk" in found[0].message


def test_what_is_left_of_an_earlier_call_is_not_right() -> None:
    early = without(read_plan(DATA / f"{ALLREDUCE}.json"), 0, 0, 1)
    messages = [each.message for each in verify_plan(early).findings if each.rule == "wrong-result"]
    assert any("after call 2" in each and "from an earlier call" in each for each in messages)


def test_memory_that_nobody_has_written_is_not_to_be_read() -> None:
    text = "copy i0 > o{me}\ncopy s0 > o{you}"
    assert reported(verify_plan(both(text))) == {"unwritten-read", "wrong-result"}


def test_a_broadcast_may_have_any_root_unless_one_is_given() -> None:
    relay = read_plan(DATA / f"{RELAY}.json")
    assert verify_plan(relay).facts.root == 0
    assert verify_plan(relay, root=0).ok
    assert reported(verify_plan(relay, root=2)) == {"wrong-result"}


@pytest.mark.parametrize(("group", "step", "right"), [(4, 1, True), (2, 1, True), (4, -1, False)])
def test_sendrecv_goes_round_all_ranks_or_round_groups(group: int, step: int, right: bool) -> None:
    ranks = []
    for r in range(4):
        first = r // group * group
        after, before = (first + (r + each - first) % group for each in (step, -step))
        ends = (1, 0) if group == 2 and r % 2 else (0, 1)  # both channels lead to one peer
        ranks.append(
            rank(
                r,
                (1, 1, 0),
                [Lines("signal p1\nwait p0\nnop\npwsf p0 i0 > R0:0\nwait p1", (), ends)],
                port=(after, before),
                remotes=((after, "o", "p"),),
            )
        )
    report = verify_plan(plan("sendrecv", ranks))
    assert reported(report) == (set() if right else {"wrong-result"})
    if right:  # what comes from one neighbour overwrites what is still to go to the other
        assert "race" in reported(verify_plan(plan("sendrecv", ranks, in_place=True)))


def swap() -> Collective:
    """Two ranks change chunks."""
    chunk, zero = np.arange(2), np.zeros(2, dtype=np.int64)
    return Collective(
        name="swap",
        num_ranks=2,
        chunks_per_rank=1,
        chunks_per_size=1,
        inputs=Placement(chunk, chunk, zero),
        outputs=Placement(chunk, 1 - chunk, zero),
        reduces=np.zeros(2, dtype=np.bool_),
        owner=chunk,
        in_place_shift=zero,
    )


def test_a_custom_collective_is_checked_where_it_is_given() -> None:
    text = HANDSHAKE + "put m i0+2 > R0:0+2\n" + CLOSE
    swaps = both(text, (2, 2, 0), "custom")
    report = verify_plan(swaps)
    assert report.ok and reported(report, "warning") == {"unknown-result"}
    assert verify_plan(swaps, collective=swap()).facts.out_of_place == "right"
    keeps = both("copy i0+2 > o0+2", (2, 2, 0), "custom")
    assert reported(verify_plan(keeps, collective=swap())) == {"wrong-result"}


def test_in_place_a_copy_onto_itself_changes_nothing() -> None:
    text = HANDSHAKE + BODY.replace("i0 > R0", "o{me} > R0") + CLOSE
    assert verify_plan(both(text, in_place=True)).facts.in_place == "right"


def test_whether_a_plan_would_serve_the_other_calls_too_is_told() -> None:
    facts = verify_plan(read_plan(DATA / f"{ALLREDUCE}.json")).facts
    assert (facts.in_place, facts.out_of_place) == ("right", "right")
    facts = verify_plan(packet_allreduce()).facts  # it writes the sums to i
    assert (facts.in_place, facts.out_of_place) == ("right", "not claimed")


def test_a_chunk_of_sums_has_every_contribution_once() -> None:
    twice = "put m i0 > R2:0\nnop\nsignal m0\nwait m0\nnop\nre i0 s0 s0 > o0\n"
    text = HANDSHAKE + twice + RELAXED_CLOSE
    report = verify_plan(both(text, (1, 1, 1), "allreduce"))
    assert any("more than once" in each.message for each in report.errors)
    assert {each.layer for each in report.errors} == {"meaning"}


def test_what_is_too_large_to_be_executed_is_said_to_be() -> None:
    long = both("pipeline turns=16/1\n  copy i0 > o0", (1, 1, 0), "custom", min_bytes=2**24)
    assert reported(verify_plan(long)) == {"too-large"}
    wide = both("copy i0+4000000 > o0+4000000", (4_000_000, 4_000_000, 0), "custom")
    assert reported(verify_plan(wide)) == {"too-large"}


# What ports and channels do otherwise than a plan says


def test_in_place_a_port_reads_its_source_from_where_the_allocation_begins() -> None:
    text = "signal p0\nwait p0\nnop\npwsf p0 {source} > R0:{{me}}\nwait p0"
    for source, rules in (("o{me}", set()), ("i0", {"port-source-base", "wrong-result"})):
        whole = both(text.format(source=source), (1, 2, 0), in_place=True)
        report = verify_plan(whole)
        assert rules <= {each.rule for each in report.errors} and report.ok == (not rules)
        assert {each.rank for each in report.errors if each.rule == "port-source-base"} <= {1}


def test_on_a_memory_channel_a_put_never_signals() -> None:
    text = HANDSHAKE + "pws m0 i0 > R0:{me}\ncopy i0 > o{me}\n" + CLOSE
    report = verify_plan(both(text))
    assert report.ok and "channel-type" in {each.rule for each in report.findings}
    assert "deadlock" in reported(verify_plan(both(text.replace("\nsignal m0", ""))))
