"""The flat JSON of actions: it is read back, verified in every order, run, simulated and shown."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taccl
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.requested import RunRequested
from taccl.backend.flat_json import actions_to_json, parse_actions_document
from taccl.backend.flat_json.lowering import lower_flat
from taccl.backend.flat_json.unfolded import Flat
from taccl.backend.flat_json.verify import verify_actions
from taccl.backend.machine.unequal import Requested
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.flat_json import TARGETS
from taccl.errors import CollectiveError, FileError, TacclError, UnitError, VerificationError
from taccl.model.schedule import Schedule
from taccl.synthesis.collective_file import load_collective, load_requested
from taccl.testing import check_target

#: Bytes from rank to rank: their largest common measure is 4, and some are a hundred thousand times that.
UNEQUAL = np.array([[0, 100_004, 300], [64, 0, 500_000], [1000, 100, 0]])
NAMES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce", "gather", "scatter")
Content = dict[str, Any]


@cache
def scheduled(name: str) -> Schedule:
    """A schedule on a ring of three; `unequal` is an AlltoAll of unequal parts."""
    if name == "unequal":
        found = taccl.synthesize("alltoall", topology="ring:3", sizes=UNEQUAL, file=False, effort=60)
    else:
        root = 1 if name in NAMES[4:] else None
        found = taccl.synthesize(
            name, topology="ring:3", size="3MB", chunks=2, root=root, file=False, effort=60
        )
    return found.schedule


@cache
def text_of(name: str) -> str:
    return actions_to_json(lower_flat(scheduled(name), LoweringOptions()))


def changed(name: str, change: Callable[[Content], object]) -> str:
    content = json.loads(text_of(name))
    change(content)
    return json.dumps(content)


def rules(text: str) -> set[str]:
    return {finding.rule for finding in verify_actions(parse_actions_document(text)).errors}


def run(text: str, seed: int = 0, **requested: Any) -> taccl.Execution:
    file = Flat.of_document(parse_actions_document(text))
    wanted = RunRequested(Deadline(60.0), size_bytes=4096, **{"seed": seed, **requested})
    (outcome,) = file.run(wanted)
    return outcome


@pytest.mark.parametrize("name", [*NAMES, "unequal"])
def test_a_schedule_becomes_a_file_that_is_right_in_every_order(name: str) -> None:
    (lowered,) = TARGETS[0].lower(scheduled(name), LoweringOptions())
    document = parse_actions_document(text_of(name))
    assert document.whole() == lowered.program
    is_whole = lowered.collective is None
    wanted = scheduled(name).problem.collective if is_whole else lowered.collective
    report = verify_actions(document, collective=wanted)
    assert report.findings == ()
    assert (report.facts.out_of_place, report.facts.races, report.facts.deadlock) == ("right", 0, False)
    for seed in range(5):
        assert run(text_of(name), seed).verdict == "right"


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_sums_are_whatever_reduction_and_type_the_call_has(op: str, dtype: str) -> None:
    assert run(text_of("allreduce"), op=op, dtype=dtype).verdict == "right"


@pytest.mark.parametrize("name", [*NAMES, "unequal"])
def test_a_wait_that_is_left_out_is_found(name: str) -> None:
    waits = [
        (rank, index, wait)
        for rank, of_rank in enumerate(json.loads(text_of(name))["ranks"])
        for index, action in enumerate(of_rank["actions"])
        for wait in range(len(action["after"]))
    ]
    for rank, index, wait in random.Random(0).sample(waits, min(10, len(waits))):
        text = changed(name, lambda top: top["ranks"][rank]["actions"][index]["after"].pop(wait))  # noqa: B023
        assert rules(text) & {"race", "wrong-result"}, (rank, index, wait)


def test_what_verification_accepts_runs_right_in_random_orders() -> None:
    dice, accepted = random.Random(1), 0
    for _ in range(60):
        text = changed("allreduce", lambda top: mutate(top, dice))
        try:
            report = verify_actions(parse_actions_document(text))
        except FileError:
            continue
        if report.ok:
            accepted += 1
            assert all(run(text, seed).verdict == "right" for seed in range(3))
    assert accepted


def mutate(top: Content, dice: random.Random) -> None:
    """One change of a number, a place or an order."""
    actions = dice.choice(top["ranks"])["actions"]
    action = dice.choice(actions)
    kind = dice.randrange(4)
    if kind == 0 and action["after"]:
        action["after"].pop(dice.randrange(len(action["after"])))
    elif kind == 1:
        action["elements"] = dice.choice([1, 2, 3])
    elif kind == 2:
        key = dice.choice([key for key in ("from", "to") if key in action])
        action[key] = [dice.choice(["output", "scratch"]), dice.randrange(4)]
    else:
        action["after"].append(dice.randrange(len(actions)))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda top: top["ranks"][0]["actions"][1].update(after=[1]), "after"),
        (lambda top: first(top, "send").update(elements=99), "out-of-bounds"),
        (lambda top: first(top, "receive").update(to=["input", 0]), "input-changed"),
        (lambda top: first(top, "send").update(peer=0), "peer"),
        (lambda top: first(top, "send").update(peer=7), "peer"),
        (lambda top: first(top, "send").update(message=99), "unmatched"),
        (
            lambda top: first(top, "receive").update(elements=3 - first(top, "receive")["elements"]),
            "mismatch",
        ),
        (lambda top: top.update(root=1), "root"),
        (lambda top: top["ranks"][0].update(output=[1, 0, 2, 3, 4, 5]), "not-standard"),
        (lambda top: top["ranks"][0].update(output=[0, 0, 2, 3, 4, 5]), "chunk-twice"),
        (lambda top: [rank["input"].clear() for rank in top["ranks"]], "no-source"),
        (lambda top: top.update(sums=True) or top["ranks"][0]["input"].clear(), "no-source"),
        (lambda top: top["ranks"].clear(), "no-ranks"),
        (lambda top: top.update(min_bytes=2, max_bytes=1), "sizes"),
        (lambda top: top.update(call_elements=12), "call-elements"),
        (lambda top: top.update(chunk_elements=2**63), "bad-value"),
        (lambda top: top.update(min_bytes="2"), "bad-value"),
        (lambda top: top.update(colour="red"), "bad-value"),
        (lambda top: top.pop("sums"), "bad-value"),
        (lambda top: top.update(chunk_elements=[1, 2]), "bad-value"),
        (lambda top: first(top, "send").pop("after"), "bad-value"),
        (lambda top: first(top, "send").update({"from": ["heap", 0]}), "bad-value"),
        (lambda top: first(top, "send").update({"from": ["input", -1]}), "bad-value"),
        (lambda top: first(top, "send").update(do="sendrecv"), "bad-value"),
    ],
)
def test_what_no_executor_could_run_is_refused_with_its_line(
    change: Callable[[Content], object], rule: str
) -> None:
    report = verify_actions(parse_actions_document(changed("allgather", change)))
    assert rule in {finding.rule for finding in report.errors}
    assert report.facts.readers == {"actions": "yes" if rule in ("not-standard", "call-elements") else "no"}


def first(top: Content, do: str) -> Content:
    found: Content = next(action for action in top["ranks"][0]["actions"] if action["do"] == do)
    return found


def test_actions_that_wait_for_each_other_across_ranks_are_a_deadlock() -> None:
    def cross(top: Content) -> None:
        for rank in top["ranks"]:
            receives = [index for index, one in enumerate(rank["actions"]) if one["do"] == "receive"]
            rank["actions"].sort(key=lambda one: one["do"] != "receive")
            for number, action in enumerate(rank["actions"]):
                action["after"] = list(range(min(number, len(receives))))

    text = changed("broadcast", cross)
    assert "deadlock" not in rules(text)  # the root has no receives to wait for
    assert rules(changed("alltoall", cross)) == {"deadlock"}


def test_lists_that_hang_from_first_to_last_are_a_warning() -> None:
    def receive_first(top: Content) -> None:
        for rank in top["ranks"]:  # on three ranks everybody sends its own part, and waits for nothing
            assert all(not action["after"] for action in rank["actions"])
            rank["actions"].sort(key=lambda action: action["do"] != "receive")

    report = verify_actions(parse_actions_document(changed("allgather", receive_first)))
    assert report.ok
    assert {finding.rule for finding in report.warnings} == {"list-order"}


@pytest.mark.parametrize("text", ["", "[]", '{"format": "taccl-actions", "version": 2}', '{"format": "x"}'])
def test_what_is_no_file_of_actions_is_refused(text: str) -> None:
    with pytest.raises(FileError):
        parse_actions_document(text, "a.json")


def test_more_elements_than_can_be_counted_are_refused() -> None:
    document = parse_actions_document(enormous(2**16))
    assert [finding.rule for finding in verify_actions(document).errors] == ["bad-value"]
    with pytest.raises(FileError, match="is too large: chunks and buffers"):
        document.whole()
    assert not verify_actions(parse_actions_document(enormous(2**15))).errors


def enormous(chunks: int) -> str:
    """A file of chunks of 2**44 elements, each in one input and there only."""

    def grow(top: Content) -> None:
        top.update(collective="own", chunks=chunks, chunk_elements=2**44, sums=False)
        for rank in top["ranks"]:
            rank.update(input=[], output=[], scratch=0, actions=[])
        top["ranks"][0]["input"] = list(range(chunks))

    return changed("allgather", grow)


def test_a_file_for_another_collective_is_told() -> None:
    document = parse_actions_document(text_of("allgather"))
    report = verify_actions(document, collective=scheduled("alltoall").problem.collective)
    assert {finding.rule for finding in report.errors} == {"other-collective"}


def test_a_collective_is_verified_in_the_pieces_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("collective: own\nranks: 3\nchunks:\n  - {from: 0, to: [1, 2]}\n  - {from: 1, to: 2}\n")
    found = taccl.synthesize(path, topology="ring:3", size="1MB", chunks=2, file=False, effort=60)
    text = actions_to_json(lower_flat(found.schedule, LoweringOptions()))
    report = verify_actions(parse_actions_document(text), collective=load_collective(path, 3))
    assert report.findings == ()


def test_a_file_of_unequal_chunks_is_not_for_as_many_chunks_of_other_sizes(tmp_path: Path) -> None:
    sizes = "0,480,96\n1440,0,48\n0,0,96\n"
    tables = {"own": sizes, "equal": "0,48,48\n48,0,48\n0,0,48\n"}
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    table = np.array([line.split(",") for line in sizes.split()], dtype=np.int64)
    for chunks in (1, 3):
        schedule = taccl.synthesize(
            "alltoall", topology="ring:3", sizes=table, chunks=chunks, file=False, effort=20
        ).schedule
        document = parse_actions_document(actions_to_json(lower_flat(schedule, LoweringOptions())))
        own, equal = (load_collective(tmp_path / f"{name}.csv") for name in tables)
        assert not verify_actions(document, collective=own).errors
        assert [each.rule for each in verify_actions(document, collective=equal).errors] == [
            "other-collective"
        ]


def sized(path: Path, *sizes: str) -> Requested:
    chunks = ("{from: 0, to: [1, 2]", "{from: 1, to: [0, 2]", "{sum: [0, 2], to: 1")
    rows = "".join(f"  - {chunk}, size: {size}}}\n" for chunk, size in zip(chunks, sizes, strict=True))
    path.write_text(f"collective: own\nranks: 3\nchunks:\n{rows}")
    return load_requested(path)


@pytest.mark.parametrize("chunks", [1, 2, 128])
@pytest.mark.parametrize("second", ["1.0000001", "1.234567", "1.23456789012", "0.333333", "0.5", "2"])
def test_relative_sizes_are_those_of_the_file_up_to_rounding(
    tmp_path: Path, second: str, chunks: int
) -> None:
    path = tmp_path / "own.yaml"
    wanted = sized(path, "1", second, "1")
    schedule = taccl.synthesize(
        path, topology="ring:3", size="1GB", chunks=chunks, file=False, effort=20
    ).schedule
    document = parse_actions_document(actions_to_json(lower_flat(schedule, LoweringOptions())))
    assert verify_actions(document, collective=wanted).ok
    factor = 1 + 2e-6
    for others in (
        ("1", f"{float(second) * factor:.12f}", "1"),
        ("1", second, f"{1 / factor:.12f}"),
        ("1.5", "1", "1"),
        ("1MB", f"{round(float(second) * 2**20)}B", "1.5MB"),
    ):
        report = verify_actions(document, collective=sized(path, *others))
        assert {finding.rule for finding in report.errors} == {"other-collective"}, others


def test_equal_chunks_are_not_for_sizes_whose_difference_is_more_than_rounding(tmp_path: Path) -> None:
    path = tmp_path / "equal.yaml"
    sized(path, "1GB", "1GB", "1GB")
    schedule = taccl.synthesize(path, topology="ring:3", chunks=1, file=False, effort=20).schedule
    document = parse_actions_document(actions_to_json(lower_flat(schedule, LoweringOptions())))
    report = verify_actions(document, collective=sized(path, "1", "1.0000001", "1"))
    assert {finding.rule for finding in report.errors} == {"other-collective"}


def test_sizes_in_bytes_are_compared_exactly(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    wanted = sized(path, "1000003B", "1000033B", "7B")
    schedule = taccl.synthesize(path, topology="ring:3", chunks=1, file=False, effort=20).schedule
    document = parse_actions_document(actions_to_json(lower_flat(schedule, LoweringOptions())))
    assert verify_actions(document, collective=wanted).ok
    report = verify_actions(document, collective=sized(path, "1000004B", "1000033B", "7B"))
    assert {finding.rule for finding in report.errors} == {"other-collective"}


def test_sizes_that_no_file_can_be_checked_for_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "prime.csv"
    table.write_text("0,1GB\n3,0\n")
    with pytest.raises(CollectiveError, match="times what divides them all"):
        load_collective(table)


def test_unequal_chunks_are_counted_in_their_largest_common_measure() -> None:
    program = lower_flat(scheduled("unequal"), LoweringOptions())
    assert program.element_bytes == 4
    assert sum(program.chunk_elements) * 4 == UNEQUAL.sum()
    assert [sum(program.chunk_elements[chunk] for chunk in rank.input) * 4 for rank in program.ranks] == list(
        UNEQUAL.sum(axis=1)
    )


def test_chunks_of_no_whole_bytes_are_refused() -> None:
    from dataclasses import replace

    schedule = scheduled("unequal")
    odd = replace(schedule, problem=replace(schedule.problem, chunk_mb=schedule.problem.chunk_mb * 1.1))
    with pytest.raises(CollectiveError, match="no whole number"):
        lower_flat(odd, LoweringOptions())


def test_a_file_takes_as_long_on_its_links_as_its_schedule() -> None:
    schedule = scheduled("allgather")
    file = Flat.of_document(parse_actions_document(text_of("allgather")))
    topology = schedule.problem.topology
    simulated = file.simulate(topology, schedule.problem.chunk_mb, SimulationSettings())
    assert simulated.time_us == pytest.approx(schedule.makespan_us)
    assert any("receive" in line for line in file.describe(0, simulated))
    assert file.timeline(simulated).bars


def test_calls_that_no_file_of_actions_serves_are_refused() -> None:
    for requested in (
        *({"in_place": True}, {"ranks_as": "processes"}, {"op": "avg"}, {"dtype": "int3"}),
        *({"slots": 1}, {"piece_bytes": 16}, {"calls": 3}, {"seed": -1}),
    ):
        with pytest.raises(TacclError):
            run(text_of("allgather"), **requested)


def test_a_file_of_no_sound_structure_is_not_run() -> None:
    text = changed("alltoall", lambda top: first(top, "receive").update(elements=7))
    with pytest.raises(VerificationError, match="cannot be run"):
        run(text)


def test_the_target_keeps_the_promises_of_targets() -> None:
    from taccl.backend.targets.registry import find_target

    check_target(find_target("json"))


def test_a_file_serves_the_call_that_it_is_made_for() -> None:
    def other(top: Content) -> None:
        top["element_bytes"] *= 100

    assert "sizes" in rules(changed("allgather", other))


@pytest.mark.parametrize("chunks", [None, 3])
@pytest.mark.parametrize(
    ("collective", "requested", "words"),
    [
        ("gather", {"size": "1MB", "min_bytes": 2**20, "max_bytes": 2**21}, "1MB to 2MB.* one rank's part"),
        ("scatter", {"size": "1MB", "max_bytes": 2**18 - 2**10, "min_bytes": 1}, "one rank's part"),
        ("allgather", {"size": "1MB", "max_bytes": 2**19}, "made for"),
        ("allgather", {"size": "999999TB"}, "too large numbers"),
        ("allgather", {"size": "1MB", "max_bytes": 2**44 + 1}, "too large numbers"),
    ],
)
def test_calls_that_no_file_can_serve_are_refused_before_a_search(
    collective: str, requested: dict[str, Any], words: str, chunks: int | None
) -> None:
    searched: list[object] = []
    with pytest.raises(UnitError, match=words):
        taccl.synthesize(
            collective,
            **{"topology": "ring:4", "target": "json", "effort": 20, "chunks": chunks, **requested},
            on_progress=searched.append,
        )
    assert not searched


def test_calls_of_gather_are_given_by_the_part_of_a_rank() -> None:
    made = taccl.synthesize(
        "gather",
        **{"topology": "ring:4", "size": "1MB", "min_bytes": 2**18, "max_bytes": 2**18},
        target="json",
        effort=20,
    )
    assert made.files


def test_a_file_of_several_collectives_is_simulated_as_it_is_verified(tmp_path: Path) -> None:
    wanted = tmp_path / "step.yaml"
    parts = "[{collective: allgather, members: [0, 1], size: 3KB}, {collective: alltoall, size: 1KB}]"
    wanted.write_text(f"collective: step\nranks: 4\nparts: {parts}\n")
    made = taccl.synthesize(wanted, topology="ring:4", target="json", effort=30).files[0]
    path = tmp_path / "step.json"
    path.write_text(made.text)
    document = parse_actions_document(made.text)
    assert verify_actions(document, collective=load_collective(wanted)).ok
    times = [
        taccl.simulate_file(path, topology="ring:4", collective=custom).sizes[0] for custom in (None, wanted)
    ]
    assert times[0].time_us == times[1].time_us
    program = document.program
    assert times[0].size_bytes == program.call_elements * program.element_bytes
