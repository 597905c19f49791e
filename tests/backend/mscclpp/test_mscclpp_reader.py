"""MSCCL++ plans are read whole, and whatever cannot be understood is reported with its place and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import ALLGATHER, DATA, EVERY_PLAN, PACKETS, RELAY, REMOVED, changed, content

from taccl.backend.mscclpp import (
    parse_plan,
    parse_plan_document,
    read_plan,
    read_plan_document,
)
from taccl.backend.plan import Channel, OpName
from taccl.backend.program import Buffer
from taccl.errors import FileError, PlanError
from taccl.support import json_text


def test_a_plan_is_what_its_file_says() -> None:
    plan = read_plan(DATA / f"{RELAY}.json")
    assert (plan.name, plan.collective, plan.protocol) == ("relay3", "broadcast", "Simple")
    assert not plan.in_place
    assert (plan.threads, plan.alignment, plan.min_bytes, plan.max_bytes) == (1024, 16, 0, 2**64 - 1)
    middle = plan.ranks[1]
    assert middle.peers_of(Channel.PORT) == (0, 2)
    assert middle.remote_buffers[0].rank == 2
    (block,) = middle.blocks
    assert block.channels_of(Channel.PORT) == (0, 1)
    assert [each.name.value for each in block.operations] == ["signal", "wait", "nop", "pwsf"]
    last = block.operations[3]
    assert (last.name, last.channel, last.channels) == (OpName.PUT_SIGNAL_FLUSH, Channel.PORT, (1,))
    assert (last.sources[0].buffer, last.targets[0].remote) == (Buffer.OUTPUT, 0)
    assert last.place == "gpus[1].threadblocks[0].ops[3]"


def test_keys_with_a_default_may_be_missing() -> None:
    optional = ("reuse_resources", "num_threads_per_block", "use_double_scratch_buffer", "buffer_alignment")
    bare = dict.fromkeys((*optional, "min_message_size", "max_message_size"), REMOVED)
    inner = {"g0.semaphores": REMOVED, "g2.b0.remote_buffer_refs": REMOVED}
    assert parse_plan(changed(RELAY, {**bare, **inner})) == read_plan(DATA / f"{RELAY}.json")


def test_bytes_and_a_byte_order_mark_are_taken_as_the_runtime_takes_them() -> None:
    text = (DATA / f"{RELAY}.json").read_text()
    assert parse_plan(b"\xef\xbb\xbf" + text.encode()) == parse_plan("\ufeff" + text) == parse_plan(text)


@pytest.mark.parametrize("path", EVERY_PLAN, ids=lambda path: path.stem)
def test_every_real_plan_is_read_without_a_fault_or_an_unknown_key(path: Path) -> None:
    document = read_plan_document(path)
    assert (document.faults, document.ignored) == ((), ())


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("name", REMOVED, "name is missing"),
        ("gpus", REMOVED, "gpus is missing"),
        ("gpus", {}, "gpus must be a list, not an object"),
        ("inplace", 1, "inplace must be true or false, not 1"),
        ("name", "\ud800", "name has half of a surrogate pair"),
        ("min_message_size", 0.5, "min_message_size must be a whole number, not 0.5"),
        (
            "max_message_size",
            2**64,
            "max_message_size is 18446744073709551616, which does not fit in 64 bits",
        ),
        ("max_message_size", 10**400, "max_message_size is a number of more than 60 digits"),
        ("num_threads_per_block", True, "num_threads_per_block must be a whole number, not true"),
        ("g0.id", REMOVED, "gpus[0].id is missing"),
        ("g1", None, "gpus[1] must be an object, not null"),
        ("g0.channels.0.channel_type", "wire", 'gpus[0].channels[0].channel_type is "wire"'),
        ("g0.channels.0.connected_to.0", "1", "gpus[0].channels[0].connected_to[0] must be a whole number"),
        ("g0.remote_buffers.0.type", "x", 'gpus[0].remote_buffers[0].type is "x"'),
        ("g0.semaphores.0", {}, "gpus[0].semaphores[0].init_value is missing"),
        ("g0.b0.id", False, "gpus[0].threadblocks[0].id must be a whole number, not false"),
        ("g0.b0.ops", REMOVED, "gpus[0].threadblocks[0].ops is missing"),
        ("g0.b0.o0.name", "glre", 'gpus[0].threadblocks[0].ops[0].name is "glre"'),
        ("g0.b0.o0.name", ["nop"], "gpus[0].threadblocks[0].ops[0].name is a list"),
        ("g0.b0.o0.channel_ids.0", {}, "ops[0].channel_ids[0] must be a whole number, not an object"),
        ("g0.b0.o3.src_buff.0.size", REMOVED, "ops[3].src_buff[0].size is missing"),
        ("g0.b0.o3.src_buff.0.type", REMOVED, "ops[3].src_buff[0] says of no buffer what it is"),
        ("g0.b0.o3.tbg_info", {"tb_id": 0}, "ops[3].tbg_info.tbg_size is missing"),
        ("g0.b0.o2.barrier_id", 3, "ops[2].num_threadblocks is missing"),
        ("g0.b0.o2.iter_context", 3, "ops[2].iter_context must be an object, not 3"),
        ("g0.b0.o2.name", "pipeline", "ops[2].ops is missing"),
    ],
)
def test_a_fault_is_told_with_its_place_and_line(place: str, value: object, message: str) -> None:
    text = changed(ALLGATHER, {place: value})
    document = parse_plan_document(text, "a.json")
    said = [f"{fault.place} {fault.message}" for fault in document.faults]
    assert any(message in each for each in said), said
    with pytest.raises(PlanError) as caught:
        parse_plan(text, "a.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("a.json:")
    assert isinstance(caught.value.line, int)


def test_the_line_is_that_of_the_value() -> None:
    text = changed(ALLGATHER, {"g1.b0.o4.name": "copi"})
    (fault,) = parse_plan_document(text).faults
    (line,) = parse_plan_document(text).lines([fault.place]).values()
    assert text.splitlines()[line - 1].strip() == '"name": "copi",'


def test_a_place_that_is_not_there_has_the_line_of_its_parent() -> None:
    text = json.dumps(content(PACKETS), indent=1)
    document = parse_plan_document(text)
    lines = document.lines(["gpus[1].threadblocks[0].id", "gpus[1].threadblocks[0].nothing", "gpus[7]"])
    assert text.splitlines()[lines["gpus[1].threadblocks[0].id"] - 1].strip() == '"id": 0,'
    assert lines["gpus[1].threadblocks[0].nothing"] < lines["gpus[1].threadblocks[0].id"]
    assert text.splitlines()[lines["gpus[7]"] - 1].strip() == '"gpus": ['


def test_of_a_very_long_text_lines_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    document = parse_plan_document(changed(PACKETS, {}))
    assert document.lines(["gpus[1]"])
    monkeypatch.setattr(json_text, "MAX_BYTES_FOR_LINES", 1000)
    assert document.lines(["gpus[1]"]) == {}


def test_keys_that_the_runtime_skips_are_kept_apart() -> None:
    text = changed(ALLGATHER, {"author": "me", "g0.b0.o0.chanel_ids": [3], "g1.input": 3})
    document = parse_plan_document(text)
    assert document.faults == ()
    assert [(each.place, each.key) for each in document.ignored] == [
        ("", "author"),
        ("gpus[0].threadblocks[0].ops[0]", "chanel_ids"),
        ("gpus[1]", "input"),
    ]
    assert parse_plan(text) == read_plan(DATA / f"{ALLGATHER}.json")


def test_a_key_given_twice_is_a_fault_and_the_last_one_counts() -> None:
    text = (DATA / f"{ALLGATHER}.json").read_text()
    text = text.replace('"output_chunks"', '"output_chunks": 7, "output_chunks"', 1)
    document = parse_plan_document(text)
    assert [fault.place for fault in document.faults] == ["gpus[0].output_chunks"]
    assert document.plan == read_plan(DATA / f"{ALLGATHER}.json")
    with pytest.raises(PlanError, match="given twice"):
        parse_plan(text)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "the file is empty", None),
        (" \n", "the file is empty", None),
        ('{"name":\n', "this is not JSON", 2),
        ("[1]", "this is not a JSON object", 1),
        ("null", "this is not a JSON object", 1),
        ('{"a": 1}', "this JSON object is no MSCCL\\+\\+ plan", 1),
        ('{"gpus": []} {}', "this is not JSON", 1),
        ('{"gpus": [],}', "this is not JSON", 1),
        ('// a plan\n{"gpus": []}', "this is not JSON", 1),
        ('{"name": "NaN",\n"gpus": NaN}', "NaN is no number in JSON", 2),
        ('{"gpus":\n\n-Infinity}', "-Infinity is no number in JSON", 3),
        ('{"gpus": [],\n"author": -1e999}', "a number is out of range", 2),
        ('{"gpus":\n' + "1" * 9000 + "}", "too many digits", 2),
        ('{"gpus":' * 100_000, "nested too deep", None),
        ('{"gpus":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep", None),
        (b'{"gpus": [],\n"name": "\xff"}', "not text in UTF-8", 2),
        ('{"gpus": []}'.encode("utf-16"), "not text in UTF-8", 1),
    ],
)
def test_what_is_no_plan_at_all_is_refused(text: str | bytes, message: str, line: int | None) -> None:
    for parse in (parse_plan, parse_plan_document):
        with pytest.raises(PlanError, match=message) as caught:
            parse(text)
        assert (caught.value.line, bool(caught.value.hint), caught.value.exit_code) == (line, True, 2)


def test_pipelines_in_pipelines_are_read_to_a_depth_that_no_plan_has() -> None:
    inner: list[object] = []
    for _ in range(60):
        inner = [{"name": "pipeline", "ops": inner}]
    (fault,) = parse_plan_document(changed(ALLGATHER, {"g0.b0.ops": inner})).faults
    assert "nested too deep" in fault.message


def test_a_file_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(json_text, "MAX_BYTES", 100)
    with pytest.raises(PlanError, match="larger than"):
        read_plan(DATA / f"{RELAY}.json")
    with pytest.raises(FileError, match="no such file"):
        read_plan(tmp_path / "nothing.json")


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), name=st.sampled_from((ALLGATHER, RELAY, PACKETS)), value=_values)
def test_any_value_anywhere_is_read_or_told_and_never_breaks_the_reader(
    data: st.DataObject, name: str, value: object
) -> None:
    plan = content(name)
    inner: object = plan
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        deeper = inner[key]
        if not isinstance(deeper, dict | list) or not deeper or data.draw(st.booleans()):
            inner[key] = value
            break
        inner = deeper
    try:
        document = parse_plan_document(json.dumps(plan))
    except PlanError:
        return
    document.lines([fault.place for fault in document.faults])
    assert document.faults or parse_plan(json.dumps(plan)) == document.plan
