"""Several collectives at once: joint is no slower than overlaid, overlaid than one after another."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taccl.analysis.several import WAYS, Several, several
from taccl.cli.main import main
from taccl.errors import CollectiveError
from taccl.synthesis.search import search

_HEAD = "collective: step\nranks: 4\nparts:\n"
_BESIDE = (
    _HEAD
    + "  - {name: tensor, collective: allreduce, in_groups: 2, size: 2MB}\n"
    + "  - {name: data, collective: allreduce, across_groups: 2, size: 4MB, ready: 30}\n"
    + "  - {name: experts, collective: alltoall, size: 1MB, tail: 10}\n"
)
_WAITS = _BESIDE.replace("tail: 10", "after: tensor, weight: 3")
_CHAIN = (
    _HEAD
    + "  - {name: last, collective: broadcast, members: [3, 0], size: 1MB, after: [middle]}\n"
    + "  - {name: middle, collective: broadcast, members: [2, 3], size: 1MB, after: first, ready: 5}\n"
    + "  - {name: first, collective: broadcast, members: [1, 2], size: 1MB}\n"
)
_TAIL = (
    _HEAD
    + "  - {name: first, collective: alltoall, size: 64KB, tail: 5}\n"
    + "  - {name: second, collective: gather, in_groups: 2, size: 3MB, after: first}\n"
)
_NAMED_SUMS = (
    _HEAD
    + "  - {name: small, collective: allreduce, size: 4KB}\n"
    + "  - {name: large, collective: reducescatter, in_groups: 2, size: 4MB, chunks: 2}\n"
)


def _planned(folder: Path, text: str, topology: str = "full:4") -> Several:
    path = folder / "jobs.yaml"
    path.write_text(text)
    return several(path, topology=topology, effort=200)


@pytest.mark.parametrize("text", [_BESIDE, _WAITS, _CHAIN, _TAIL, _NAMED_SUMS])
@pytest.mark.parametrize("topology", ["full:4", "ring:4", "switch:4"])
def test_each_way_is_valid_and_no_slower_than_the_one_before(
    tmp_path: Path, text: str, topology: str
) -> None:
    found = _planned(tmp_path, text, topology)
    times = [found.plans[way].makespan_us for way in WAYS]
    assert times == sorted(times, reverse=True)
    assert found.bound.value_us <= times[-1] + 1e-6
    for way in WAYS:
        plan = found.plans[way]
        plan.check()
        ends = found.parts.ends_us(plan)
        for part, asked in enumerate(found.parts.requested):
            mine = found.parts.of_chunk[plan.chunk] == part
            waited = max((ends[each] for each in asked.after), default=0.0)
            assert plan.start_us[mine].min() >= waited + asked.ready_us - 1e-6


def test_what_shares_no_port_takes_as_long_as_the_longest(tmp_path: Path) -> None:
    text = _HEAD + "".join(
        f"  - {{collective: broadcast, members: [{a}, {b}], size: {b}MB}}\n" for a, b in ((0, 1), (2, 3))
    )
    found = _planned(tmp_path, text)
    alone = [each.schedule.makespan_us for each in found.alone]
    row, overlaid, joint = (found.plans[way].makespan_us for way in WAYS)
    assert row == pytest.approx(sum(alone))
    assert overlaid == joint == pytest.approx(max(alone))
    assert found.gap == pytest.approx(0)


def test_a_chain_is_as_long_as_its_parts(tmp_path: Path) -> None:
    found = _planned(tmp_path, _CHAIN)
    total = 5 + sum(each.schedule.makespan_us for each in found.alone) - 5
    assert found.schedule.makespan_us == pytest.approx(total)
    assert found.bound.value_us == pytest.approx(total)


def test_sums_that_name_their_parts_are_overlaid_with_sums_that_are_made_once(tmp_path: Path) -> None:
    found = _planned(tmp_path, _NAMED_SUMS, "switch:4")
    assert [each.schedule.sums is not None for each in found.alone] == [True, False]
    found.schedule.check()


def test_who_waits_is_ready_when_the_joint_schedule_has_what_it_waits_for(tmp_path: Path) -> None:
    """Nothing follows the end of the first but a part that moves nothing: both end with the first."""
    text = _HEAD + (
        "  - {name: beside, collective: scatter, root: 1, size: 1MB}\n"
        "  - {name: first, collective: broadcast, root: 0, size: 3MB}\n"
        "  - {name: nothing, collective: reduce, members: [2], size: 1MB, after: first}\n"
    )
    found = _planned(tmp_path, text, "switch:4")
    ends = found.parts.ends_us(found.schedule)
    assert ends[2] == pytest.approx(ends[1])


def test_optimal_is_what_the_bound_says_too(tmp_path: Path) -> None:
    for text in (_WAITS, _TAIL):
        found = _planned(tmp_path, text, "ring:4")
        assert found.status != "optimal" or found.gap == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("text", [_BESIDE, _WAITS])
def test_who_stops_it_before_all_parts_have_a_schedule_has_none_and_later_what_is_overlaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    searched: list[object] = []

    def stopped_in(part: int) -> None:
        def searching(*words: Any) -> Any:
            searched.append(words)
            return replace(search(*words), status="interrupted" if len(searched) > part else "finished")

        searched.clear()
        monkeypatch.setattr("taccl.analysis.several.search", searching)

    stopped_in(1)
    with pytest.raises(KeyboardInterrupt):
        _planned(tmp_path, text)
    assert len(searched) == 2
    stopped_in(2)
    found = _planned(tmp_path, text)
    assert found.status == "interrupted"
    assert found.schedule is found.plans["overlaid"]
    assert 0 < found.bound.value_us <= found.schedule.makespan_us


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("in_groups: 2", "members: [0, 7]", "must be 3 or less"),
        ("ready: 30", "ready: -30", "must be 0 or more"),
        ("size: 2MB}", "size: 2MB, after: experts}", "wait for each other"),
        ("in_groups: 2", "in_groups: 3", "no groups of 3"),
        ("in_groups: 2", "in_groups: 2, members: [0, 1]", "leave one out"),
        ("after: tensor", "after: nobody", "no part is named"),
        ("name: data", "name: tensor", "two parts are named"),
        ("ranks: 4", "ranks: 8", "8"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, before: str, after: str, reason: str
) -> None:
    with pytest.raises(CollectiveError) as refused:
        _planned(tmp_path, _WAITS.replace(before, after, 1))
    assert reason in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_part_that_waits_is_for_those_who_compare(tmp_path: Path) -> None:
    from click.testing import CliRunner

    path = tmp_path / "jobs.yaml"
    path.write_text(_WAITS)
    for words in (["--collective", str(path)], ["--requests", str(path), "--size", "1MB"]):
        result = CliRunner().invoke(main, ["synthesize", "--topology", "full:4", "--no-file", "-q", *words])
        assert result.exit_code == 2, result.output
        assert "--requests" in result.output
