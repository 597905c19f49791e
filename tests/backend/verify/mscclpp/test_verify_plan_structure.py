"""Each thing that MSCCL++ would refuse, ignore or overwrite memory with is reported by its own rule.

One plan that is right, one thing broken in it, one rule: the tables read from the contract of the runtime.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from findings import finding
from plan_parts import Places, found, op, own, pipeline, remote, rules, switch, with_switches
from plans import ALLGATHER, ALLREDUCE, DATA, EVERY_PLAN, PACKETS, RELAY, REMOVED, changed, content, edited

from taccl.backend.machine.report import Collector, Finding
from taccl.backend.mscclpp import parse_plan
from taccl.backend.verify.mscclpp import verify_plan_file
from taccl.backend.verify.mscclpp.verifier import check_structure
from taccl.backend.verify.mscclpp.versions import NEWEST, VERSIONS

ROOT = Path(__file__).parents[4]
#: The only thing to say of the plans that were written by hand: they leave their largest size open.
OPEN = {"open-size"}


COPY = op("copy", [own(0)], [own(0, buffer="o")])
PUT = op("put", [own(0)], [remote(0)], channel_type="memory")
PORT = {"channel_type": "port", "channel_ids": [0]}
ALONE = op("barrier", barrier_id=0, num_threadblocks=1)
SLOT = own(0, buffer="s")
SEMAPHORE: Places = {"g0.semaphores": [{"init_value": 0}]}
OUTPUT_OF_1 = {"rank": 1, "type": "o", "access_channel_types": ["port"]}


def idle_blocks(count: int) -> list[Any]:
    return [{"id": number, "ops": [], "channels": []} for number in range(count)]


@pytest.mark.parametrize("name", [ALLGATHER, ALLREDUCE, RELAY, PACKETS])
def test_a_right_plan_has_no_errors(name: str) -> None:
    text = changed(name, {})
    assert rules(text) == set()
    usual = OPEN | ({"port-memory-ids", "no-flush", "port-source-base"} if name == RELAY else set())
    assert rules(text, "warning") == usual


@pytest.mark.parametrize("path", EVERY_PLAN, ids=lambda path: path.stem)
def test_every_real_plan_is_taken_by_every_release(path: Path) -> None:
    assert rules(path.read_text()) == set()
    assert set(verify_plan_file(path).facts.readers.values()) == {"yes"}


@pytest.mark.parametrize(
    ("name", "places", "rule"),
    [
        (ALLGATHER, {"g0.b0.o0.name": "glre"}, "unknown-operation"),
        (ALLGATHER, {"g0.b0.ops": REMOVED}, "missing-key"),
        (ALLGATHER, {"inplace": 1}, "bad-value"),
        (ALLGATHER, {"gpus": []}, "no-ranks"),
        (ALLGATHER, {"g0.id": 1}, "rank-id"),
        (ALLGATHER, {"g1.b0.id": 1}, "block-id"),
        (ALLGATHER, {"g1.threadblocks": []}, "no-thread-block"),
        (ALLREDUCE, {"g0.output_chunks": 0}, "chunk-count"),
        (ALLREDUCE, {"g0.input_chunks": -1}, "chunk-count"),
        (ALLREDUCE, {"g0.scratch_chunks": 2**31}, "chunk-count"),
        (ALLGATHER, {"g0.output_chunks": 3}, "chunk-size"),
        (ALLREDUCE, {"g0.output_chunks": 4}, "chunk-size"),
        (ALLREDUCE, {"g1.input_chunks": 4, "g1.output_chunks": 4}, "chunk-size"),
        (ALLGATHER, {"g0.channels.0.connected_to": [0]}, "channel-peer"),
        (ALLGATHER, {"g0.channels.0.connected_to": [2]}, "channel-peer"),
        (ALLGATHER, {"g0.channels.0.connected_to": [-1]}, "channel-peer"),
        (ALLGATHER, {"g0.remote_buffers.0.rank": 0}, "remote-buffer"),
        (ALLGATHER, {"g0.remote_buffers.0.rank": 9}, "remote-buffer"),
        (ALLGATHER, {"g0.remote_buffers.0.type": "s"}, "remote-buffer"),
        (ALLGATHER, {"g0.b0.channels.0.channel_ids": [1]}, "block-channel"),
        (ALLGATHER, {"g0.b0.channels.0.channel_type": "port"}, "block-channel"),
        (ALLGATHER, {"g0.b0.remote_buffer_refs.0.remote_buffer_ids": [1]}, "block-remote-buffer"),
        (ALLGATHER, {"g0.b0.remote_buffer_refs.0.access_channel_type": "port"}, "block-remote-buffer"),
        (ALLGATHER, {"num_threads_per_block": 2048}, "thread-count"),
        (ALLGATHER, {"num_threads_per_block": 48}, "thread-count"),
        (ALLGATHER, {"num_threads_per_block": 0}, "thread-count"),
        (ALLGATHER, {"buffer_alignment": 0}, "alignment"),
        (ALLREDUCE, {"buffer_alignment": 8}, "alignment"),
        (ALLGATHER, {"min_message_size": 2**31}, "message-size"),
        (ALLGATHER, {"min_message_size": -1}, "message-size"),
        (ALLGATHER, {"max_message_size": -1}, "message-size"),
        (ALLGATHER, {"min_message_size": 64, "max_message_size": 32}, "no-message-size"),
        (ALLGATHER, {"max_message_size": 31}, "no-message-size"),
        (ALLGATHER, {"max_message_size": 2**32}, "offset-range"),
        (PACKETS, {"max_message_size": 2**30}, "offset-range"),
        (PACKETS, {"protocol": "Simple"}, "packets-in-simple"),
        (PACKETS, {"protocol": "ll"}, "packets-in-simple"),
    ],
)
def test_what_is_wrong_with_ranks_channels_and_sizes(name: str, places: Places, rule: str) -> None:
    assert rules(changed(name, places)) == {rule}


def test_a_custom_plan_whose_buffers_differ_is_only_right_for_calls_that_know_it() -> None:
    assert "chunk-size" not in rules(changed(ALLREDUCE, {"collective": "custom"}), "warning")
    differ = changed(ALLREDUCE, {"collective": "custom", "g0.input_chunks": 3})
    assert "chunk-size" in rules(differ, "warning")
    assert "chunk-size" not in rules(differ)


@pytest.mark.parametrize(
    ("places", "rule"),
    [
        ({"g0.b0.o0.channel_ids": [1]}, "channel-number"),
        ({"g0.b0.o0.channel_ids": [-1]}, "channel-number"),
        ({"g0.b0.o0.channel_type": REMOVED}, "channel-type"),
        ({"g0.b0.o0.channel_type": "none"}, "channel-type"),
        ({"g0.b0.o0.channel_type": "switch"}, "channel-type"),
        ({"g0.b0.o3.channel_type": REMOVED}, "channel-type"),
        ({"g0.b0.o3.dst_buff.0.buffer_id": 2}, "operand-number"),
        ({"g0.b0.o3.src_buff": REMOVED}, "operand-count"),
        ({"g0.b0.o3.dst_buff": []}, "operand-count"),
        ({"g0.b0.o8.dst_buff": []}, "operand-count"),
        ({"g0.b0.o3.dst_buff.0": own(0)}, "operand-kind"),
        ({"g0.b0.o3.src_buff.0": remote(0)}, "operand-kind"),
        ({"g0.b0.o8.src_buff.0": remote(0)}, "operand-kind"),
        ({"g0.b0.o3.src_buff.0.index": 2}, "operand-bounds"),
        ({"g0.b0.o3.dst_buff.0.index": 2}, "operand-bounds"),
        ({"g0.b0.o3.dst_buff.0.index": -1}, "operand-bounds"),
        ({"g0.b0.o3.dst_buff.0.index": 2**32}, "operand-bounds"),
        ({"g0.b0.o3.dst_buff.0.size": 2, "g0.b0.o3.src_buff.0.index": 1}, "operand-bounds"),
        ({"g0.b0.o8.src_buff.1.index": 1}, "operand-bounds"),
        ({"g0.b0.o8.src_buff.0.size": 2}, "operand-bounds"),
        ({"g0.b0.o2.dst_buff": [remote(0, number=7)], "g0.b0.o2.channel_type": "memory"}, "operand-number"),
        ({"g0.b0.o3.src_buff.0.size": 0, "g0.b0.o3.dst_buff.0.size": 0}, "empty-range"),
        ({"g0.b0.o2.src_buff": [own(0, 0)]}, "empty-range"),
        ({"g0.b0.o2.dst_buff": [remote(0)]}, "channel-type"),
        ({"g0.b0.o8.reduce_op": "max"}, "reduce-op"),
        ({"g0.b0.o4": {**ALONE, "semaphore_ids": []}}, None),
        ({"g0.b0.o4": {**ALONE, "semaphore_ids": [0]}}, "overlapping-fields"),
        ({"g0.b0.o0.barrier_id": 0, "g0.b0.o0.num_threadblocks": 1}, "overlapping-fields"),
        ({"g0.b0.o4": op("barrier")}, "barrier-members"),
        ({"g0.b0.o4": op("barrier", barrier_id=0, num_threadblocks=2)}, "barrier-members"),
        ({"g0.b0.o4": op("barrier", barrier_id=0, num_threadblocks=0)}, "barrier-members"),
        ({"g0.b0.o4": op("barrier", barrier_id=16, num_threadblocks=1)}, "barrier-id"),
        ({"g0.b0.o4": op("sem_release", semaphore_ids=[0])}, "semaphore-id"),
        ({"g0.b0.o4": op("get", [remote(0)], [own(1)], channel_type="memory")}, "get-offsets"),
        ({"g0.b0.o4": {**PUT, "src_buff": [own(0), SLOT], "dst_buff": [remote(0)] * 2}}, "put-sources"),
        ({"g0.b0.o3.tbg_info": {"tb_id": 2, "tbg_size": 2}}, "share"),
        ({"g0.b0.o3.tbg_info": {"tb_id": 0, "tbg_size": 0}}, "share"),
        ({"g0.b0.o4": {**COPY, "name": "pipeline", "ops": [COPY]}}, "pipeline-turns"),
        ({"g0.b0.o4": pipeline(COPY, unit=24)}, "pipeline-unit"),
        ({"g0.b0.o4": pipeline(COPY, unit=0)}, "pipeline-unit"),
        ({"g0.b0.o4": pipeline(pipeline(COPY))}, "nested-pipeline"),
        ({"g0.b0.o4": pipeline(COPY, chunks=2)}, "pipeline-operand"),
        ({"g0.b0.o4": pipeline({**COPY, "tbg_info": {"tb_id": 0, "tbg_size": 2}})}, "pipeline-operand"),
        ({"g0.b0.o4": pipeline(COPY, unit=16), "max_message_size": 2**22}, "pipeline-turns"),
        ({"g0.b0.o4": {"name": "nop", "ops": [COPY]}}, "ignored-field"),
        ({"g0.b0.ops": [{"name": "nop"}] * 65}, "operation-limit"),
        ({"g0.b0.ops": [{"name": "nop"}] * 63 + [pipeline(COPY)]}, "operation-limit"),
        ({"g0.b0.channels.0.channel_ids": [0] * 17}, "channel-limit"),
        ({"g0.b0.remote_buffer_refs.0.remote_buffer_ids": [0] * 17}, "remote-buffer-limit"),
        ({"g0.b0.o0.channel_ids": [0] * 9}, "channel-ids-limit"),
        ({"g0.b0.o4": op("re", [own(0)] * 11, [own(1)])}, "operand-limit"),
        ({**SEMAPHORE, "g0.b0.o4": op("sem_release", semaphore_ids=[0] * 16)}, None),
        ({**SEMAPHORE, "g0.b0.o4": op("sem_release", semaphore_ids=[0] * 17)}, "semaphore-limit"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_operation(places: Places, rule: str | None) -> None:
    errors = [each for each in found(changed(ALLREDUCE, places)) if each.severity == "error"]
    assert {each.rule for each in errors} == (set() if rule is None else {rule})
    assert all("rank 0, thread block 0" in each.message and each.hint for each in errors)


def test_the_operations_of_a_block_may_be_sixty_four() -> None:
    assert rules(changed(ALLREDUCE, {"g0.b0.ops": [{"name": "nop"}] * 64})) == set()


def test_ten_operands_are_too_many_for_the_oldest_release_alone() -> None:
    text = changed(ALLREDUCE, {"g0.b0.o4": op("re", [own(0)] * 10, [own(1)])})
    (limit,) = [each for each in found(text) if each.severity == "error"]
    assert (limit.rule, limit.runtimes) == ("operand-limit", ("mscclpp-0.8",))


@pytest.mark.parametrize(
    ("places", "rule"),
    [
        ({"g0.b0.o1.channel_ids": []}, "channel-count"),
        ({"g1.b0.o3.channel_ids": [0]}, "port-target-owner"),
        ({"g1.remote_buffers.0.rank": 0}, "port-target-owner"),
        ({"g0.b0.o1.channel_ids": [1]}, "channel-number"),
        ({"g0.b0.o1.channel_type": "memory"}, "operand-number"),
        ({"g0.b0.o1": op("get", [remote(0)], [own(0)], channel_type="port")}, "channel-type"),
        ({"g0.b0.o2": op("flush", [], [remote(0)] * 2, **PORT)}, "channel-count"),
        ({"g2.b0.o1.channel_type": REMOVED}, "channel-type"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_put_through_a_port(places: Places, rule: str) -> None:
    assert rules(changed(RELAY, places)) == {rule}


@pytest.mark.parametrize(
    ("places", "rule"),
    [
        ({"g0.b0.o0.src_buff.0.size": 3}, "operand-bounds"),
        ({"g0.b0.o0.dst_buff.0.index": 3}, "operand-bounds"),
        ({"g0.b1.o1.src_buff.0.index": 3}, "operand-bounds"),
        ({"g0.remote_buffers.0.type": "o"}, "packets-outside-scratch"),
        ({"g0.b0.o2": op("cpkt", [own(0)], [own(0)])}, "packets-outside-scratch"),
        ({"g0.b0.o2": op("recpkt", [own(0), SLOT], [own(0), own(0)])}, "packets-outside-scratch"),
        ({"g0.scratch_chunks": 6}, "double-scratch"),
        ({"g0.b0.o2": PUT}, "double-scratch"),
        ({"g0.b0.o2": op("copy", [own(0)], [own(0, buffer="s")])}, "mixed-scratch"),
        ({"use_double_scratch_buffer": False, "g0.b0.o2": PUT}, "mixed-scratch"),
        ({"g0.b0.o0": pipeline(op("cpkt", [own(0)], [own(0, buffer="s")]))}, "packets-in-pipeline"),
        ({"g0.b0.o1.src_buff": [own(0)], "g0.b0.o1.dst_buff": []}, "operand-count"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_packets(places: Places, rule: str) -> None:
    assert rule in rules(changed(PACKETS, places))
    assert rules(changed(PACKETS, places)) <= {rule, "mixed-scratch"}


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        (([0, 1], [0, 1]), None),
        (([0, 1], [1, 0]), "switch-group"),
        (([0, 1], [1]), "switch-group"),
        (([0, 2], [0, 1]), "switch-group"),
        (([0, 0, 1], [0, 1]), "switch-group"),
    ],
)
def test_members_of_a_switch_channel_list_the_same_ranks(members: Any, rule: str | None) -> None:
    assert rules(changed(ALLREDUCE, with_switches(members))) == (set() if rule is None else {rule})


def test_switch_channels_are_made_in_one_order() -> None:
    three = [[0, 1], [0, 1, 2], [1, 2]]
    orders = {0: [0, 1], 1: [0, 1, 2], 2: [1, 2]}
    for last, is_right in ((orders[2], True), (orders[2][::-1], False)):
        places: Places = {}
        for rank, order in {**orders, 2: last}.items():
            groups = [{"size": len(three[each]), "ranks": three[each]} for each in order]
            places[f"g{rank}.channels.1"] = {
                "channel_type": "switch",
                "buffer_type": "o",
                "rank_groups": groups,
            }
        assert rules(changed(RELAY, places)) == (set() if is_right else {"switch-group"})


@pytest.mark.parametrize(
    ("operation", "rule"),
    [
        (op("glres", [switch(0)], [switch(1)]), None),
        (pipeline(op("glres", [switch(0)], [switch(0)], channel_type="switch", reduce_op="sum")), None),
        (op("gstore", [own(0)], [switch(1)]), None),
        (op("glres", [switch(0, 2)], [switch(1, 2)]), "operand-bounds"),
        (op("glres", [{**switch(0), "switch_channel_id": 1}], [switch(1)]), "operand-number"),
        (op("glres", [own(0)], [switch(1)]), "operand-kind"),
        (op("glres", [switch(0)], [switch(1), {**switch(0), "switch_channel_id": 1}]), "operand-number"),
    ],
)
def test_operations_of_switch_channels(operation: Any, rule: str | None) -> None:
    text = changed(ALLREDUCE, {**with_switches(), "g0.b0.o4": operation})
    assert rules(text) == (set() if rule is None else {rule})
    assert "needs-hopper" in rules(text, "warning")


def test_a_side_of_a_switch_operation_is_one_range() -> None:
    """Chunks are those of the first range, the channel is that of the last."""
    two = {**with_switches(), "g0.b0.channels.1.channel_ids": [0, 0]}
    for last, expected in ((0, set()), (1, {"operand-number"})):
        targets = [switch(1), {**switch(0), "switch_channel_id": last}]
        assert rules(changed(ALLREDUCE, {**two, "g0.b0.o4": op("glres", [switch(0)], targets)})) == expected


def test_sums_in_the_switch_have_remainders_too() -> None:
    """ALLGATHER has no other sums: without them an alignment below 16 is only a warning."""
    places = {
        **with_switches(buffer="o"),
        "buffer_alignment": 8,
        "g0.b0.o4": op("glres", [switch(0)], [switch(1)]),
    }
    assert rules(changed(ALLGATHER, places)) == {"alignment"}


@pytest.mark.parametrize(
    ("name", "places", "rule"),
    [
        (ALLGATHER, {"author": "me"}, "ignored-key"),
        (ALLGATHER, {"name": ""}, "plan-name"),
        (ALLGATHER, {"collective": "all_gather"}, "collective-name"),
        (ALLGATHER, {"protocol": "LL128"}, "protocol"),
        (ALLGATHER, {"buffer_alignment": 8}, "alignment"),
        (ALLGATHER, {"g0.channels.0.connected_to": [1, 1]}, "nameless-channel"),
        (ALLGATHER, {"g0.remote_buffers.1": {**OUTPUT_OF_1, "access_channel_types": []}}, "remote-buffer"),
        (ALLGATHER, {"g0.b0.o3.channel_ids": [0]}, "ignored-field"),
        (ALLGATHER, {"g0.b0.o4.src_buff.1": own(0)}, "ignored-field"),
        (ALLGATHER, {"g0.b0.o4.dst_buff.1": own(1, buffer="o")}, "ignored-field"),
        (ALLGATHER, {"g0.b0.o2.tbg_info": {"tb_id": 0, "tbg_size": 1}}, "ignored-field"),
        (ALLGATHER, {"g0.b0.o2.semaphore_ids": [0]}, "ignored-field"),
        (ALLGATHER, {"g0.b0.o0.channel_ids": []}, "no-effect"),
        (ALLGATHER, {"g0.b0.o2": op("sem_acquire")}, "no-effect"),
        (ALLGATHER, {"g0.b0.o2": pipeline()}, "pipeline-turns"),
        (ALLGATHER, {"g0.b0.o3.dst_buff.0.type": "o"}, "ignored-key"),
        (ALLREDUCE, {"g0.b0.o3.src_buff.0.size": 2}, "operand-size"),
        (ALLREDUCE, {"g0.b0.o8.dst_buff.0.size": 9}, "operand-size"),
        (ALLREDUCE, {"g0.threadblocks": idle_blocks(110)}, "resident-blocks"),
        (ALLREDUCE, {"g0.b0.o3.tbg_info": {"tb_id": 0, "tbg_size": 2}}, "share-too-fine"),
        (RELAY, {"g0.b0.o2": op("flush", channel_type="port", channel_ids=[0])}, "flush"),
        (RELAY, {"g0.b0.o1.channel_ids": [0, 0]}, "ignored-field"),
        (PACKETS, {"g0.b1.o1.src_buff.0.type": "i"}, "ignored-type"),
    ],
)  # fmt: skip
def test_what_may_be_a_mistake_is_a_warning(name: str, places: Places, rule: str) -> None:
    before = rules(changed(name, {}), "warning")
    text = changed(name, places)
    assert rules(text) == set()
    assert rules(text, "warning") == before | {rule}


def test_a_share_of_enough_bytes_is_not_told() -> None:
    places = {"g0.b0.o3.tbg_info": {"tb_id": 0, "tbg_size": 2}, "min_message_size": 64}
    assert rules(changed(ALLREDUCE, places), "warning") == OPEN


def test_a_wait_at_a_channel_whose_other_end_has_no_name_never_ends() -> None:
    places = {"g0.channels.0.connected_to": [1, 1], "g0.b0.channels.0.channel_ids": [1]}
    text = changed(ALLGATHER, places)
    assert rules(text) == {"wait-without-end"}
    assert rules(text, "warning") == {"nameless-channel", *OPEN}


@pytest.mark.parametrize(
    ("collective", "chunks", "buffer", "is_wrong"),
    [
        ("allgather", (1, 2), "o", False),
        ("allgather", (1, 2), "i", True),
        ("reducescatter", (2, 1), "i", False),
        ("reducescatter", (2, 1), "o", True),
    ],
)
def test_in_place_peers_are_addressed_through_the_buffer_that_begins_alike(
    collective: str, chunks: tuple[int, int], buffer: str, is_wrong: bool
) -> None:
    places: Places = {"collective": collective}
    for rank in range(2):
        places |= {
            f"g{rank}.input_chunks": chunks[0],
            f"g{rank}.output_chunks": chunks[1],
            f"g{rank}.remote_buffers.0.type": buffer,
            f"g{rank}.b0.o3": PUT,
            f"g{rank}.b0.o4": COPY,
        }
    assert rules(changed(ALLGATHER, {**places, "inplace": True})) == (
        {"in-place-addressing"} if is_wrong else set()
    )
    assert rules(changed(ALLGATHER, places)) == set()


@pytest.mark.parametrize(("source", "severity"), [("s", "warning"), ("i", "error")])
def test_a_put_of_packets_through_a_port_takes_packets_and_is_the_first_plan(
    source: str, severity: str
) -> None:
    put = op("ppkt", [own(0, buffer=source)], [remote(0)], channel_type="port", channel_ids=[0])
    places: Places = {
        "protocol": "LL",
        "g0.b0.o1": put,
        "g0.remote_buffers.0.type": "s",
        **{f"g{rank}.scratch_chunks": 1 for rank in range(3)},
    }
    assert finding_of(changed(RELAY, places), "packets-through-port").severity == severity


def finding_of(text: str, rule: str) -> Finding:
    return next(each for each in found(text) if each.rule == rule)


def test_reused_resources_leave_only_scratch_to_peers() -> None:
    text = changed(ALLREDUCE, {"reuse_resources": True})
    assert rules(text) == {"reused-buffer"}
    assert "reused-scratch" not in rules(
        changed(ALLREDUCE, {"reuse_resources": True, "max_message_size": 2**26})
    )
    assert "reused-scratch" in rules(changed(ALLREDUCE, {"reuse_resources": True, "max_message_size": 2**28}))


def test_ports_have_so_many_ids() -> None:
    one = OUTPUT_OF_1
    assert rules(changed(RELAY, {"g0.remote_buffers": [one] * 509})) == set()
    assert rules(changed(RELAY, {"g0.remote_buffers": [one] * 510})) == {"port-memory-limit"}
    many = {"g0.channels.0.connected_to": [1] * 1025, "g1.channels.0.connected_to": [0] * 1025 + [2]}
    second = {"g1.b0.channels.0.channel_ids": [0, 1025]}
    assert rules(changed(RELAY, {**many, **second})) == {"port-channel-limit"}


def test_more_blocks_than_any_gpu_runs_at_once_is_an_error() -> None:
    assert rules(changed(ALLREDUCE, {"g0.threadblocks": idle_blocks(305)})) == {"resident-blocks"}


@pytest.mark.parametrize(
    ("operation", "releases"),
    [
        (op("recpkt", [own(0), own(0, buffer="s")], [own(0), own(1, buffer="s")]), ["mscclpp-0.8"]),
        (op("gstore", [own(0)], [switch(0)]), ["mscclpp-0.8", "mscclpp-0.9"]),
    ],
)
def test_an_operation_is_refused_by_releases_that_do_not_know_it(operation: Any, releases: list[str]) -> None:
    text = changed(PACKETS, {**with_switches(), "g0.b0.o2": operation})
    unknown = finding_of(text, "unknown-operation")
    assert (list(unknown.runtimes), unknown.refusal) == (releases, "load")


def test_what_older_releases_do_otherwise_is_a_warning_unless_they_are_asked_about(tmp_path: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(changed(ALLREDUCE, {**with_switches(), "g0.b0.o4": op("gstore", [own(0)], [switch(1)])}))
    report = verify_plan_file(path)
    assert report.facts.readers == {"mscclpp-0.8": "no", "mscclpp-0.9": "no", "mscclpp-0.10": "yes"}
    assert finding(report, "unknown-operation").severity == "warning"
    for requested in ("all", "mscclpp-0.9", [version.name for version in VERSIONS]):
        assert finding(verify_plan_file(path, targets=requested), "unknown-operation").severity == "error"
    assert NEWEST.name == "mscclpp-0.10"


def test_findings_have_the_line_of_what_they_are_about(tmp_path: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(changed(ALLGATHER, {"g1.b0.o3.dst_buff.0.index": 5}))
    bounds = finding(verify_plan_file(path), "operand-bounds")
    assert (bounds.rank, bounds.thread_block, bounds.step) == (1, 0, 3)
    lines = path.read_text().splitlines()
    assert bounds.line is not None
    assert (lines[bounds.line - 1].strip(), lines[bounds.line].strip()) == ("{", '"name": "put",')


def test_a_plan_of_many_operations_is_checked_with_each_rule_told_a_few_times() -> None:
    plan = content(ALLGATHER)
    block = plan["gpus"][0]["threadblocks"][0]
    wrong = edited(plan, {"g0.b0.ops": [*block["ops"], *[op("copy", [own(9)], [own(9, buffer="o")])] * 50]})
    collector = Collector()
    check_structure(parse_plan(str(wrong).replace("'", '"').replace("False", "false")), collector)
    reported = [each for each in collector.findings() if each.rule == "operand-bounds"]
    assert len(reported) == 21 and "80 more" in reported[-1].message


def test_the_page_names_every_rule() -> None:
    """Of structure; a rule is the first text that is handed to a finding."""
    sources = (ROOT / "taccl" / "backend" / "verify" / "mscclpp").glob("*.py")
    calls = re.compile(r"subject\.(?:file|rank|block|operation)\(\s*(?:\w+,\s*){0,2}\"([a-z0-9-]+)\"")
    named = {match[1] for path in sources for match in calls.finditer(path.read_text())}
    assert len(named) > 50
    page = (ROOT / "docs" / "mscclpp.md").read_text()
    assert not {rule for rule in named if f"`{rule}`" not in page}


def test_the_plans_of_this_folder_say_where_they_are_from() -> None:
    page = (DATA / "README.md").read_text()
    for path in EVERY_PLAN:
        name = path.relative_to(DATA).as_posix()
        assert f"`{name}`" in page or f"`{name.split('-')[0]}-*`" in page
