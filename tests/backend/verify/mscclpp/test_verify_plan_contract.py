"""The contract of the runtime, section by section: what damages a right plan, and the rule that says so.

What `test_verify_plan_structure.py` shows of a rule is not shown again; here are the operations and the kinds
of channel that it leaves out. Sections are those of the contract (MSCCLPP_JSON).
"""

from __future__ import annotations

import pytest
from plan_parts import Places, op, own, pipeline, remote, rules, switch, with_switches
from plans import ALLGATHER, ALLREDUCE, PACKETS, RELAY, REMOVED, changed

from taccl.backend.mscclpp import parse_plan_document
from taccl.backend.verify.mscclpp.verifier import verify_plan_document

SLOT = own(0, buffer="s")
REDUCE = op("re", [own(0), own(1)], [own(0, buffer="o")])
PORT = {"channel_type": "port", "channel_ids": [0]}
MEMORY = {"channel_type": "memory"}
MANY = [{"type": "i", "index": 0, "size": 1}] * 11


@pytest.mark.parametrize(
    ("section", "name", "places", "rule"),
    [
        *(("0.2", ALLGATHER, {key: REMOVED}, "missing-key") for key in ("name", "collective", "protocol")),
        *(("0.2", ALLGATHER, {key: REMOVED}, "missing-key") for key in ("inplace", "gpus")),
        *(
            ("0.2", ALLGATHER, {f"g1.{key}": REMOVED}, "missing-key")
            for key in ("id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks")
        ),
        ("0.2", ALLGATHER, {"g1.channels": REMOVED}, "missing-key"),
        ("0.2", ALLGATHER, {"g1.remote_buffers": REMOVED}, "missing-key"),
        *(("0.2", ALLGATHER, {f"g1.b0.{key}": REMOVED}, "missing-key") for key in ("id", "ops", "channels")),
        ("0.2", ALLGATHER, {"g1.b0.o2.name": REMOVED}, "missing-key"),
        ("0.4", ALLREDUCE, {"g1.input_chunks": 0}, "chunk-count"),
        ("0.6", RELAY, {"g0.b0.channels.0.channel_ids": [0] * 17}, "channel-limit"),
        ("0.6", RELAY, {"g0.b0.remote_buffer_refs.0.remote_buffer_ids": [0] * 17}, "remote-buffer-limit"),
        ("0.6", RELAY, {"g1.b0.o1.channel_ids": [0, 1] * 5}, "channel-ids-limit"),
        ("0.6", ALLREDUCE, {"g0.b0.o4": op("res", MANY, [own(0)], **MEMORY)}, "operand-limit"),
        ("0.6", ALLREDUCE, {"g0.b0.o4": op("barrier", barrier_id=-1, num_threadblocks=1)}, "barrier-id"),
        ("1.1", ALLGATHER, {"inplace": "true"}, "bad-value"),
        ("1.1", ALLGATHER, {"num_threads_per_block": 1040}, "thread-count"),
        ("1.1", PACKETS, {"buffer_alignment": 8}, "alignment"),
        ("1.1", ALLREDUCE, {"max_message_size": 2**64}, "bad-value"),
        ("1.2", RELAY, {"g0.channels.0.channel_type": "Port"}, "bad-value"),
        ("1.2", RELAY, {"g0.remote_buffers.0.access_channel_types": ["switch"]}, "bad-value"),
        ("1.2", ALLREDUCE, {"g0.semaphores": [{}]}, "missing-key"),
        ("1.3", ALLREDUCE, {"g0.b0.remote_buffer_refs.0.remote_buffer_ids": [-1, 1]}, "block-remote-buffer"),
        ("1.4", ALLREDUCE, {"g0.b0.o3.dst_buff.0.index": REMOVED}, "missing-key"),
        ("1.4", ALLREDUCE, {"g0.b0.o3.src_buff.0.size": REMOVED}, "missing-key"),
        ("1.4", ALLREDUCE, {"g0.b0.o3.src_buff.0.type": REMOVED}, "missing-key"),
        ("1.4", ALLREDUCE, {"g0.b0.o4": op("barrier", barrier_id=0)}, "missing-key"),
        ("1.4", ALLREDUCE, {"g0.b0.o3.tbg_info": {"tb_id": 0}}, "missing-key"),
        ("1.4", ALLREDUCE, {"g0.b0.o3.tbg_info": {"tb_id": -1, "tbg_size": 2}}, "share"),
        *(
            ("1.4", ALLREDUCE, {"g0.b0.o4": op(name, [own(0), *sources], [own(0), *targets])}, "channel-type")
            for name, sources, targets in (
                ("res", [], [remote(0)]),
                ("rre", [remote(0)], []),
                ("rres", [remote(0)], [remote(0)]),
            )
        ),
        *(
            ("1.4", ALLREDUCE, {"g0.b0.o4": op(name, channel_ids=[0], **kind)}, "channel-type")
            for name in ("signal", "rlxsignal", "wait", "rlxwait")
            for kind in ({}, {"channel_type": "switch"})
        ),
        ("2.1", ALLREDUCE, {"g0.b0.o4": op("sem_acquire", semaphore_ids=[0])}, "semaphore-id"),
        ("2.1", ALLREDUCE, {"g0.b0.o4": pipeline({"name": "nop"}, chunks=0)}, "pipeline-turns"),
        ("2.1", ALLREDUCE, {"g0.b0.o4": pipeline(REDUCE, unit=-16)}, "pipeline-unit"),
        ("2.1", ALLREDUCE, {"g0.b0.o4": pipeline({**REDUCE, "reduce_op": "min"})}, "reduce-op"),
        *(
            ("2.2", ALLREDUCE, {"g0.b0.o4": op(name, [own(0)], [own(0)], reduce_op="max")}, "reduce-op")
            for name in ("re", "res")
        ),
        ("2.2", ALLREDUCE, {"g0.b0.o4": op("copy", [own(0)], [])}, "operand-count"),
        ("2.2", ALLREDUCE, {"g0.b0.o4": op("re", [own(0), own(2)], [own(0)])}, "operand-bounds"),
        ("2.2", ALLREDUCE, {"g0.b0.o4": op("re", [own(0), remote(0)], [own(0)], **MEMORY)}, "operand-kind"),
        ("2.2", ALLREDUCE, {"g0.b0.o4": op("rre", [own(0), own(1)], [own(0)], **MEMORY)}, "operand-kind"),
        ("2.2", ALLREDUCE, {"g0.b0.o4": op("get", [own(0)], [own(0)], **MEMORY)}, "operand-kind"),
        ("2.2", ALLREDUCE, {"g0.b0.o4": op("get", [remote(0)], [remote(0)], **MEMORY)}, "operand-kind"),
        ("2.2", RELAY, {"g0.b0.o2": op("rre", [own(0), remote(0)], [own(0)], **PORT)}, "channel-type"),
        ("2.2", RELAY, {"g0.b0.o2": op("res", [own(0)], [own(0), remote(0)], **PORT)}, "channel-type"),
        ("2.2", RELAY, {"g0.b0.o1.dst_buff.0.index": 1}, "operand-bounds"),
        ("2.2", RELAY, {"g0.b0.o1.dst_buff.0.size": 2}, "operand-bounds"),
        *(("2.3", PACKETS, {"protocol": each}, "packets-in-simple") for each in ("LL128", "Simple")),
        ("2.4", RELAY, {"use_double_scratch_buffer": True, "g2.scratch_chunks": 1}, "double-scratch"),
        ("3.1", RELAY, {"g1.b0.o3.tbg_info": {"tb_id": 1, "tbg_size": 1}}, "share"),
        ("3.3", ALLREDUCE, {"min_message_size": 65, "max_message_size": 95}, "no-message-size"),
        ("4.1", ALLREDUCE, {"collective": "reducescatter"}, "chunk-size"),
    ],
)  # fmt: skip
def test_each_rule_is_told_of_all_that_it_concerns(
    section: str, name: str, places: Places, rule: str
) -> None:
    assert rules(changed(name, places)) == {rule}, section


@pytest.mark.parametrize(
    ("section", "name", "places", "rule"),
    [
        ("1.1", ALLGATHER, {"protocol": "ll"}, "protocol"),
        ("5", ALLREDUCE, {"g0.b0.o4": op("re", [own(0)], [own(0), own(1)])}, "ignored-field"),
        ("5", ALLREDUCE, {"g0.b0.o4": op("rre", [own(0)], [own(0), own(1)])}, "ignored-field"),
        ("5", PACKETS, {"g0.b0.o0.channel_ids": [0]}, "ignored-field"),
        ("2.3", PACKETS, {"g0.b0.o2": op("upkt", [own(0, buffer="o")], [own(1)])}, "ignored-type"),
        ("2.3", PACKETS, {"g0.b0.o2": op("repkt", [own(0), own(0)], [own(0)])}, "ignored-type"),
    ],
)
def test_what_the_runtime_never_looks_at_is_a_warning(
    section: str, name: str, places: Places, rule: str
) -> None:
    text = changed(name, places)
    assert rules(text) == set(), section
    assert rule in rules(text, "warning"), section


@pytest.mark.parametrize("buffers", [("i", "o"), ("o", "s")])
def test_members_of_a_switch_channel_span_one_buffer(buffers: tuple[str, str]) -> None:
    """Each member binds its own: a store through the switch would land in unlike places."""
    places = with_switches(buffer=buffers[0])
    places["g1.channels.1"] = {**places["g1.channels.1"], "buffer_type": buffers[1]}
    assert rules(changed(ALLREDUCE, {**places, "g0.b0.o4": op("glres", [switch(0)], [switch(0)])})) == {
        "switch-group"
    }


@pytest.mark.parametrize(
    "places",
    [
        {"g0.b0.o0.channel_ids": [0] * 20_000},
        {"g0.b0.o3.src_buff": MANY * 100, "g0.b0.o3.dst_buff": [remote(0)] * 1100},
        {f"key{number}": 0 for number in range(2000)},
    ],
    ids=["channel_ids", "operands", "keys"],
)  # fmt: skip
def test_what_is_far_too_large_is_told_without_looking_at_all_of_it(places: Places) -> None:
    report = verify_plan_document(parse_plan_document(changed(ALLREDUCE, places)))
    assert report.findings and len(report.findings) < 60
