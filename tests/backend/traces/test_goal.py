"""GOAL files: each send has its receive, and an evaluation of its own agrees on the time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.goal import evaluate, measured
from taccl import make_problem, simulate_file, synthesize
from taccl.analysis.exported import export
from taccl.backend.graphs.document import Graphs
from taccl.backend.targets.registry import find_target
from taccl.cli.main import main
from taccl.errors import CollectiveError, TacclError, UnitError
from taccl.model.schedule import schedule_to_json


@pytest.mark.parametrize("machine", ["ring:4", "torus:3x3"])
@pytest.mark.parametrize(
    "collective", ["allreduce", "allgather", "alltoall", "broadcast", "reduce", "scatter"]
)
def test_the_time_is_that_of_simulate_within_three_per_cent(
    machine: str, collective: str, tmp_path: Path
) -> None:
    goal_us, simulated_us = measured(machine, collective, "1MB", tmp_path, effort=20)
    assert goal_us == pytest.approx(simulated_us, rel=0.03)


@pytest.mark.parametrize("target", ["all", "json", None])
def test_each_send_has_one_receive_and_all_that_moves_is_there(target: str | None, tmp_path: Path) -> None:
    made = synthesize("allreduce", topology="full:3", size="3MB", target=target or "all", effort=20)
    path = tmp_path / "file"
    if target is None:
        path.write_text(schedule_to_json(made.schedule, lower_bound_us=0.0, bound_source="none"))
    else:
        (path,) = made.write(path)
    found = export(path, size="6MB")
    assert (found.collective, found.size_bytes) == ("allreduce", 6 * 2**20)
    sent: Counter[tuple[int, int, int, int]] = Counter()
    received: Counter[tuple[int, int, int, int]] = Counter()
    for rank, events in enumerate(found.trace.ranks):
        for place, event in enumerate(events):
            assert all(before < place for before in event.after)
            if event.kind == "send":
                sent[rank, event.peer, event.tag, event.size_bytes] += 1
            elif event.kind == "recv":
                received[event.peer, rank, event.tag, event.size_bytes] += 1
    assert sent == received
    assert set(sent.values()) == {1}
    moved = sum(size for *_, size in sent)
    assert moved == 2 * sum(made.schedule.sends.size_mb) * 2**20


def test_rings_of_a_library_take_as_long_as_their_links_say(tmp_path: Path) -> None:
    path = tmp_path / "rings.env"
    path.write_text(find_target("rccl-rings").write(Graphs("ring", 4, ((0, 1, 2, 3), (0, 3, 2, 1)))))
    network = make_problem("allreduce", topology="ring:4", size="1MB").problem.topology
    took = evaluate(export(path, size="64MB").text, network)
    assert took == pytest.approx(64 * 2**20 / 66.667e3, rel=0.01)


def test_sums_take_what_they_are_said_to(tmp_path: Path) -> None:
    (path,) = synthesize("allreduce", topology="full:2", size="2MB", target="json", effort=20).write(
        tmp_path / "a"
    )
    free, dear = export(path), export(path, sum_us_per_mb=10.0)
    assert "calc 0" in free.text
    assert "calc 20000" in dear.text  # both ranks add 2 MB at once
    network = make_problem("allreduce", topology="full:2", size="2MB").problem.topology
    assert evaluate(dear.text, network) == pytest.approx(evaluate(free.text, network) + 20.0)


def test_what_cannot_be_exported_is_refused_with_the_reason(tmp_path: Path) -> None:
    (path,) = synthesize("allgather", topology="full:2", size="2MB", effort=20).write(tmp_path / "a.xml")
    with pytest.raises(UnitError, match="for which size"):
        export(path)
    with pytest.raises(CollectiveError, match="has not one for each of 2 chunks"):
        export(path, size=1)
    with pytest.raises(TacclError, match="unknown format"):
        export(path, "pcap", size="1MB")
    (plan,) = synthesize("allgather", topology="full:2", size="2MB", target="mscclpp", effort=20).write(
        tmp_path / "plan.json"
    )
    assert json.loads(plan.read_text())["name"]
    with pytest.raises(TacclError, match="write into memory of their peers") as refused:
        export(plan, size="2MB")
    assert refused.value.hint
    run = CliRunner().invoke
    done = run(main, ["export", str(path), "--size", "2MB", "-o", "-"])
    assert (done.exit_code, done.stdout.startswith("num_ranks 2")) == (0, True)
    assert run(main, ["export", str(plan), "--size", "2MB", "-o", str(tmp_path / "x")]).exit_code == 2


def test_a_size_is_rounded_as_by_other_commands_and_a_note_says_so(tmp_path: Path) -> None:
    (path,) = synthesize("allgather", topology="ring:5", size="37KB", effort=20).write(tmp_path / "a.xml")
    asked = ["export", str(path), "--size", "37KB", "-o", str(tmp_path / "a.goal")]
    said = CliRunner().invoke(main, asked).stdout.splitlines()
    assert "allgather of 37840B, 5 ranks" in said[0]
    assert said[1].startswith("note: the size of 37888 bytes is rounded down to 37840")
    assert export(path, size=37840).notes == ()


def fields_of(data: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a protobuf message, numbers and bytes, read without taccl."""
    found: list[tuple[int, int | bytes]] = []
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        value, place = varint(data, place)
        if key & 7 == 2:
            found.append((key >> 3, data[place : place + value]))
            place += value
        else:
            assert key & 7 == 0
            found.append((key >> 3, value))
    return found


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
        if data[place - 1] < 128:
            return value, place


def test_a_note_on_the_size_of_unequal_chunks_speaks_of_their_elements(tmp_path: Path) -> None:
    sizes = np.array([[0, 3, 7], [2, 0, 1], [1, 5, 0]])
    made = synthesize("alltoall", topology="ring:3", sizes=sizes, chunks=1, target="json", effort=20)
    (path,) = made.write(tmp_path / "own.json")
    elements = export(path).size_bytes
    (note,) = export(path, size=2 * elements + 1).notes
    assert f"rounded down to {2 * elements}, a whole number of bytes for each of {elements} elements" in note
    assert "equal chunks" not in note.replace("unequal chunks", "")
    assert not export(path, size=2 * elements).notes
    (noted, *_) = simulate_file(path, topology="ring:3", sizes=[2 * elements + 1]).notes
    assert noted == note


def test_chakra_has_a_node_for_each_event(tmp_path: Path) -> None:
    (path,) = synthesize("allreduce", topology="full:3", size="3MB", target="json", effort=20).write(
        tmp_path / "a"
    )
    made = CliRunner().invoke(main, ["export", str(path), "--format", "chakra", "-o", str(tmp_path / "ar")])
    assert f"wrote {tmp_path / 'ar.0.et'} .. {tmp_path / 'ar.'}" in made.stdout
    assert made.exit_code == 0, made.output
    for rank, events in enumerate(export(path, "goal").trace.ranks):
        data, place, messages = (tmp_path / f"ar.{rank}.et").read_bytes(), 0, []
        while place < len(data):
            length, place = varint(data, place)
            messages.append(fields_of(data[place : place + length]))
            place += length
        assert messages[0] == [(1, b"0.0.4")]
        assert len(messages) == 1 + len(events)
        for number, (message, event) in enumerate(zip(messages[1:], events, strict=True)):
            node = dict(message)
            assert (node[1], node[3]) == (number, {"calc": 4, "send": 5, "recv": 6}[event.kind])
            after, deps = node.get(5, b""), []
            while after:
                before, used = varint(after, 0)
                deps.append(before)
                after = after[used:]
            assert tuple(deps) == event.after
            attributes = {
                dict(fields_of(value))[1]: next(v for k, v in fields_of(value) if k != 1)
                for key, value in message
                if key == 10
            }
            assert attributes[b"is_cpu_op"] == 0
            if event.kind != "calc":
                assert (attributes[b"comm_size"], attributes[b"comm_tag"]) == (event.size_bytes, event.tag)
                ends = (attributes[b"comm_src"], attributes[b"comm_dst"])
                assert ends == ((rank, event.peer) if event.kind == "send" else (event.peer, rank))
    refused = CliRunner().invoke(main, ["export", str(path), "--format", "chakra", "-o", "-"])
    assert refused.exit_code == 2
