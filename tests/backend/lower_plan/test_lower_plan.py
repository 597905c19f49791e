"""Plans made of schedules and of two-sided programs: right, with nothing in them that is not needed."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl import synthesize
from taccl.backend.lower_plan import lower_to_plan, translate
from taccl.backend.lower_plan.fits import check_plan_fits, check_problem_fits, checked_window
from taccl.backend.lower_plan.gathering import pull
from taccl.backend.lower_plan.plans import land_apart
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.lower_plan.turns import take_turns
from taccl.backend.plan import Channel, OpName
from taccl.backend.program import Program
from taccl.backend.target import LoweringOptions
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import CollectiveError, ProgramLimitError, UnitError, VerificationError
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule
from taccl.model.units import MB
from tests.backend.lowered_plans import all_names, assert_right, names
from tests.backend.plan_mutations import without
from tests.backend.programs import (
    block,
    direct_alltoall,
    program,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
)
from tests.backend.small_schedules import (
    Row,
    by_hand,
    direct_allgather,
    direct_reducescatter,
    executor_of,
    on_nodes,
    relayed_alltoall,
)
from tests.backend.small_schedules import ring_allgather as allgather
from tests.backend.small_schedules import ring_allreduce as allreduce


def broadcast(ranks: int) -> Schedule:
    """From rank 0 along a line."""
    rows: list[Row] = [(2.0 * a, a, a + 1, (0,), False) for a in range(ranks - 1)]
    return by_hand(make_collective("broadcast", ranks), rows)


SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "allgather": allgather,
    "direct allgather": direct_allgather,
    "allreduce": allreduce,
    "reducescatter": direct_reducescatter,
    "broadcast": broadcast,
}


def options(**changes: object) -> LoweringOptions:
    return replace(LoweringOptions(), **changes)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_collective_becomes_a_plan_that_is_right(name: str, ranks: int) -> None:
    plan = lower_to_plan(SCHEDULES[name](ranks), options())
    assert_right(plan)
    assert plan.in_place == (plan.collective in ("allreduce", "broadcast"))


@pytest.mark.parametrize(
    "changes", [{}, {"protocol": "LL"}, {"instances": 2}], ids=["Simple", "LL", "shared"]
)
@pytest.mark.parametrize("node_of", [(0, 0, 0), (0, 0, 1)], ids=["node", "nodes"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_plans_for_other_calls_than_usual_are_right(
    name: str, node_of: tuple[int, ...], changes: dict[str, object]
) -> None:
    in_place = name not in ("allreduce", "broadcast")
    plan = lower_to_plan(on_nodes(SCHEDULES[name](3), *node_of), options(in_place=in_place, **changes))
    assert_right(plan)
    assert plan.in_place is in_place


def test_in_place_a_rank_has_its_own_part_where_it_belongs() -> None:
    apart, within = (lower_to_plan(direct_allgather(3), options(in_place=each)) for each in (False, True))
    assert "copy" in all_names(apart)
    assert "copy" not in all_names(within)


@pytest.mark.parametrize(("name", "buffer"), [("direct allgather", "o"), ("reducescatter", "i")])
def test_in_place_peers_use_the_buffer_that_begins_alike_at_all_ranks(name: str, buffer: str) -> None:
    plan = lower_to_plan(SCHEDULES[name](3), options(in_place=True), passes=(pull, add_at_once))
    assert_right(plan)
    remote = {each.buffer.value for rank in plan.ranks for each in rank.remote_buffers}
    assert remote - {"s"} == {buffer}


@pytest.mark.parametrize("in_place", [True, False])
def test_whoever_writes_what_nobody_else_touches_waits_for_no_other_thread_block(in_place: bool) -> None:
    plan = lower_to_plan(direct_allgather(4), options(in_place=in_place))
    assert not any(rank.semaphores for rank in plan.ranks)


def test_no_alltoall_is_in_place() -> None:
    with pytest.raises(CollectiveError, match="serves no calls in place"):
        lower_to_plan(relayed_alltoall(grouped=False), options(in_place=True))


@pytest.mark.parametrize("node_of", [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("name", SCHEDULES)
def test_packets_need_no_signals_and_two_halves_of_scratch(name: str, node_of: tuple[int, ...]) -> None:
    plan = lower_to_plan(on_nodes(SCHEDULES[name](4), *node_of), options(protocol="LL"))
    assert_right(plan)
    assert (plan.protocol, plan.double_scratch) == ("LL", True)
    assert len({rank.scratch_chunks for rank in plan.ranks}) == 1
    assert not {"signal", "wait", "put"} & all_names(plan)


def test_packets_are_added_and_sent_on_as_they_come() -> None:
    (words,) = names(lower_to_plan(allreduce(3), options(protocol="LL")))
    assert words == ["ppkt", "respkt", "respkt", "rppkt", "nop", "upkt", "upkt"]


def test_a_sender_that_hears_nothing_from_its_receiver_waits_until_that_has_begun() -> None:
    plan = lower_to_plan(broadcast(3), options(protocol="LL"))
    assert [names(plan, rank) for rank in range(3)] == [
        [["rlxwait", "nop", "ppkt"]],
        [["rlxsignal", "rlxwait", "nop", "rppkt", "upkt"]],
        [["rlxsignal", "upkt"]],
    ]


def test_packets_of_fused_steps_are_refused() -> None:
    with pytest.raises(CollectiveError, match="is not made of packets"):
        translate(ring_allreduce(3), packets=True)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("node_of", [(0, 0, 0, 0), (0, 0, 1, 1)])
def test_a_relayed_alltoall_becomes_a_plan_that_is_right(grouped: bool, node_of: tuple[int, ...]) -> None:
    assert_right(lower_to_plan(on_nodes(relayed_alltoall(grouped), *node_of), options()))


@pytest.mark.parametrize("name", SCHEDULES)
def test_nodes_reach_each_other_through_ports(name: str) -> None:
    plan = lower_to_plan(on_nodes(SCHEDULES[name](4), 0, 0, 1, 1), options())
    assert_right(plan)
    for rank in plan.ranks:
        for kind in (Channel.MEMORY, Channel.PORT):
            is_near = {peer // 2 == rank.rank // 2 for peer in rank.peers_of(kind)}
            assert is_near <= {kind is Channel.MEMORY}
        assert all(
            (Channel.MEMORY in each.access) == (each.rank // 2 == rank.rank // 2)
            for each in rank.remote_buffers
        )
    assert "pwsf" in all_names(plan)


@settings(max_examples=examples(6), deadline=None)
@given(
    name=st.sampled_from(["allgather", "allreduce"]),
    ranks=st.integers(2, 4),
    pieces=st.integers(1, 3),
    instances=st.integers(1, 3),
    knows_costs=st.booleans(),
    protocol=st.sampled_from(["Simple", "LL"]),
    data=st.data(),
)
def test_pieces_instances_and_nodes_make_no_plan_wrong(
    name: str,
    ranks: int,
    pieces: int,
    instances: int,
    knows_costs: bool,
    protocol: str,
    data: st.DataObject,
) -> None:
    node_of = data.draw(st.lists(st.integers(0, 1), min_size=ranks, max_size=ranks))
    made = {"allgather": allgather, "allreduce": allreduce}[name](ranks, pieces)
    schedule = on_nodes(made, *node_of)
    executor = executor_of() if knows_costs else None
    passes = [each for each in (take_turns, pull, add_at_once, land_apart) if data.draw(st.booleans())]
    try:
        plan = lower_to_plan(
            schedule, options(instances=instances, executor=executor, protocol=protocol), passes=passes
        )
    except UnitError as fault:
        assert schedule.problem.size_bytes % (16 * schedule.problem.collective.chunks_per_size * instances)
        assert "multiples" in str(fault)
        return
    assert_right(plan)


@pytest.mark.parametrize(
    "made",
    [
        *(ring_allreduce(n) for n in (2, 3, 4)),
        *(ring_allgather(n) for n in (2, 4)),
        direct_alltoall(3),
        scratch_allreduce(3),
    ],
    ids=lambda made: f"{made.collective}-{made.num_ranks}",
)
def test_programs_of_msccl_become_plans_that_are_right(made: Program) -> None:
    for node_of in (None, [rank % 2 for rank in range(made.num_ranks)]):
        assert_right(checked_window(translate(made, node_of)))


@pytest.mark.parametrize(
    "made", [allgather(2), allgather(3), direct_reducescatter(2), broadcast(3), allreduce(2)]
)
def test_no_operation_of_a_plan_can_be_spared(made: Schedule) -> None:
    plan = lower_to_plan(made, options())
    for rank in plan.ranks:
        for each in rank.blocks:
            for at in range(len(each.operations)):
                assert not verify_plan(without(plan, rank.rank, each.id, at)).ok, (rank.rank, each.id, at)


def test_what_nobody_else_touches_is_written_straight_to_its_place() -> None:
    plan = lower_to_plan(allgather(3), options())
    assert [rank.scratch_chunks for rank in plan.ranks] == [0, 0, 0]
    assert all_names(plan) == {"rlxsignal", "rlxwait", "nop", "put", "copy", "signal", "wait"}


def test_what_is_added_lands_in_scratch_which_is_used_again_when_it_surely_is_free() -> None:
    plan = translate(ring_allreduce(3))
    assert [rank.scratch_chunks for rank in plan.ranks] == [2, 2, 2]
    assert "res" in all_names(plan)


def test_only_the_last_put_of_a_channel_waits_until_it_is_complete_where_sources_stay() -> None:
    plan = lower_to_plan(on_nodes(allgather(3), 0, 1, 2), options())
    (words,) = names(plan)
    assert [word for word in words if word.startswith("pws")] == ["pws", "pwsf"]
    assert_right(plan)


def test_sums_are_stored_where_they_are_wanted_and_sent_on_in_one_pass() -> None:
    (words,) = names(lower_to_plan(allreduce(3), options()))
    assert (words.count("res"), words.count("re"), words.count("copy")) == (2, 0, 0)


def test_scratch_that_peers_are_done_with_at_the_end_of_a_call_needs_no_handshake() -> None:
    assert "rlxwait" not in all_names(lower_to_plan(allreduce(3), options()))


def test_scratch_that_a_port_may_still_read_after_a_call_is_not_written_before_the_next_one_began() -> None:
    through_scratch = program(
        "broadcast",
        2,
        (
            block(0, 1, -1, step("s", "i0"), step("s", "i1"), step("cpy", "i1", "o1")),
            block(1, -1, 1, step("r", "o0")),
        ),
        (
            block(0, -1, 0, step("r", "s0", tells=True), step("r", "o1", tells=True)),
            block(
                1,
                2,
                -1,
                step("cpy", "s0", "o0", wait=(0, 0)),
                step("s", "s0", tells=True),  # its bytes leave when they like
                step("s", "o1", wait=(0, 1)),
            ),
            block(2, 0, -1, step("s", "o0", wait=(1, 1))),
        ),
        (block(0, -1, 1, step("r", "o0"), step("r", "o1")),),
        scratch=1,
    )
    assert_right(translate(through_scratch, [0, 0, 1]))


def test_who_has_heard_of_a_peer_needs_no_handshake_with_it() -> None:
    there_and_back = program(
        "custom",
        1,
        (block(0, 1, -1, step("s", "i0")), block(1, -1, 1, step("r", "o0"), channel=1)),
        (
            block(0, -1, 0, step("r", "o0", tells=True)),
            block(1, 0, -1, step("s", "o0", wait=(0, 0)), channel=1),
        ),
    )
    plan = translate(replace(there_and_back, collective="broadcast"))
    words = [word for rank in range(2) for words in names(plan, rank) for word in words]
    assert (words.count("rlxsignal"), words.count("rlxwait")) == (1, 1)
    assert words.count("sem_release") == words.count("sem_acquire") == 1


def test_in_place_a_copy_onto_itself_is_left_out_and_peers_are_addressed_where_all_begin_alike() -> None:
    made = replace(ring_allgather(3), in_place=True)
    apart, together = translate(made, in_place=False), translate(made, in_place=True)
    for plan in (apart, together):
        assert_right(checked_window(plan))
    assert "copy" not in all_names(together)
    assert {each.buffer.value for rank in together.ranks for each in rank.remote_buffers} == {"o"}


def test_a_thread_block_with_too_many_operations_becomes_several() -> None:
    sends = [step("s", f"i{k}") for k in range(60)]
    receives = [step("r", f"o{k}") for k in range(60)]
    copies = [step("cpy", f"i{k}", f"o{k}") for k in range(60)]
    turns = [each for pair in zip(sends, copies, strict=True) for each in pair]
    made = program("broadcast", 60, (block(0, 1, -1, *turns),), (block(0, -1, 0, *receives),))
    plan = translate(made)
    assert_right(checked_window(plan))
    assert len(plan.ranks[0].blocks) > 3
    assert max(len(each.operations) for rank in plan.ranks for each in rank.blocks) <= 64


def test_plans_that_differ_have_different_names() -> None:
    plans = [translate(ring_allreduce(n)) for n in (2, 3)] + [translate(ring_allgather(3))]
    assert len({plan.name for plan in plans}) == 3


def test_what_the_runtime_has_no_room_for_is_refused_with_the_limit() -> None:
    plan = translate(ring_allreduce(3))
    many = replace(plan.ranks[0], blocks=plan.ranks[0].blocks * 305)
    with pytest.raises(ProgramLimitError, match="too large for MSCCL") as caught:
        check_plan_fits(replace(plan, ranks=(many, *plan.ranks[1:])))
    assert caught.value.findings == ("rank 0: 305 thread blocks; the limit is 304, which all run at once",)


def test_a_plan_serves_sizes_of_whole_units_with_offsets_of_32_bits() -> None:
    plan = replace(translate(ring_allreduce(3)), min_bytes=100, max_bytes=10**12)
    served = checked_window(plan)
    assert (served.min_bytes, served.max_bytes % 48, served.max_bytes < 2**32) == (144, 0, True)
    with pytest.raises(UnitError, match="multiples of 48 bytes"):
        checked_window(plan, 100)
    with pytest.raises(UnitError, match="at most 4294967295 bytes"):
        checked_window(replace(plan, min_bytes=2**31 - 1, max_bytes=2**31))


@pytest.mark.parametrize(
    ("size", "least", "most", "said", "fits"),
    [
        (2**32, None, None, "which 4294967296 bytes exceed by 1", (2**31, None, None)),
        (2**33, 3 * 2**30, None, "exceed by 4294967297", (2**31, 2**31 - 32, None)),
        (
            3 * 2**30,
            3 * 2**30,
            None,
            "31 bits: 3221225472 bytes exceed 2147483616, .* by 1073741856",
            (3 * 2**30, 2**31 - 32, None),
        ),
        (64, 128, None, "has to serve them", (64, 64, 128)),
        (64, None, 32, "has to serve them", (64, 32, 64)),
    ],
)
def test_a_size_that_is_refused_before_the_search_is_told_with_one_that_is_not(
    size: int, least: int | None, most: int | None, said: str, fits: tuple[int | None, ...]
) -> None:
    problem = allgather(2).problem
    assert problem.collective.chunks_per_size == 2
    with pytest.raises(UnitError, match=said) as caught:
        check_problem_fits(replace(problem, chunk_mb=size / 2 / MB), 1, least, most)
    words = (caught.value.hint or "").split()
    reported = {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    requested = {"--size": size, "--min-size": least, "--max-size": most} | reported
    assert tuple(requested.values()) == fits
    check_problem_fits(
        replace(problem, chunk_mb=(requested["--size"] or 0) / 2 / MB), 1, *list(requested.values())[1:]
    )


@pytest.mark.parametrize(
    ("made", "requested", "said"),
    [
        (replace(ring_allreduce(2), collective="gather"), None, "has no gather"),
        (ring_allreduce(2), False, "serves no calls out of place"),
        (ring_allgather(2), True, "serves no calls in place"),
        (replace(ring_allreduce(2), in_place=False, out_of_place=True), None, "writes into the input"),
    ],
)
def test_what_no_plan_can_do_is_refused(made: Program, requested: bool | None, said: str) -> None:
    with pytest.raises(CollectiveError, match=said):
        translate(made, in_place=requested)


@pytest.mark.parametrize(
    "blocks",
    [
        ((block(0, 1, -1, step("s")),), (block(0, -1, -1),)),
        ((block(0, 1, -1, step("s", count=2)),), (block(0, -1, 0, step("r", "o0")),)),
        ((block(0, -1, 0, step("r", "o0")), block(1, 0, -1, step("s"))), (block(0, -1, -1),)),
        (
            (block(0, 1, 1, step("r", "o0"), step("s", "o0")),),
            (block(0, 0, 0, step("r", "o0"), step("s", "o0")),),
        ),
    ],
)
def test_what_no_runtime_executes_is_refused(blocks: tuple[tuple[object, ...], ...]) -> None:
    with pytest.raises(VerificationError):
        translate(program("broadcast", 2, *blocks))


def test_names_of_operations_are_those_of_plans() -> None:
    assert all_names(translate(scratch_allreduce(3))) <= {name.value for name in OpName}


def test_where_no_way_to_make_a_plan_fits_nobody_says_that_options_help_which_were_given() -> None:
    with pytest.raises(ProgramLimitError, match="no way to make the plan fits") as reported:
        synthesize(
            "allgather", topology="ring:4", size="1GB", chunks=1, target="mscclpp", protocol="LL", effort=200
        )
    assert any("it serves calls of 64 to" in each for each in reported.value.findings)
    assert any("--size" in each for each in reported.value.findings)
    assert reported.value.hint == "--no-file keeps the schedule"
