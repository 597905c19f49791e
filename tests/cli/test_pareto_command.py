import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from taccl import load_topology, pareto, read_schedule
from taccl.analysis.pareto import FrontierPoint
from taccl.errors import TacclError
from taccl.topologies import parse_topology

Taccl = Callable[..., Result]

NDV2 = ("pareto", "--topology", "ndv2", "--nodes", 1, "--max-chunks", 2, "--max-steps", 2)


def test_each_point_is_a_line_with_its_time_and_bound(taccl: Taccl) -> None:
    done = taccl(*NDV2)
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[4][:5] == ["2", "2", "1", "2", "yes"]
    assert lines[5][:5] == ["2", "3", "2", "3/2", "yes"]
    assert "at least 7/6 rounds per chunk" in done.stdout
    ended, note = done.stdout.splitlines()[-2:]
    assert ended.startswith("finished, ")
    assert "ended at 2 steps and 2 chunks per rank, before the bound" in note
    assert "2 steps, 3 rounds, 2 chunks: 3/2 rounds per chunk" in done.stderr


def test_json_is_one_object_with_every_figure(taccl: Taccl) -> None:
    done = taccl(*NDV2, "--json", "-q", "--size", "1GB")
    figures = json.loads(done.stdout)
    assert done.stderr == ""
    assert (figures["least_steps"], figures["least_rounds_per_chunk"]) == (2, "7/6")
    assert [point["rounds"] for point in figures["points"]] == [2, 3]
    for point in figures["points"]:
        assert 0 < point["lower_bound_us"] <= point["time_us"]
        assert point["size_bytes"] == 2**30


@pytest.mark.parametrize(("words", "chunks"), [((), 2), (("--point", 1), 1)])
def test_the_schedule_of_a_point_can_be_written(
    taccl: Taccl, tmp_path: Path, words: tuple[object, ...], chunks: int
) -> None:
    done = taccl(*NDV2, "--schedule", "s.json", *words)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("wrote s.json: 2 steps")
    schedule = read_schedule(tmp_path / "s.json").schedule
    schedule.check()
    assert schedule.problem.collective.chunks_per_rank == chunks


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--collective", "allreduce"), "both sums and copies"),
        (("--max-steps", 1), "too few"),
        (("--time-limit", 0), "must be positive"),
        (("--point", 1), "no --schedule"),
    ],
)
def test_a_wrong_request_is_one_error(taccl: Taccl, words: tuple[object, ...], message: str) -> None:
    done = taccl("pareto", "--topology", "ring:4", *words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr


def test_bandwidths_without_a_small_ratio_are_refused(taccl: Taccl, tmp_path: Path) -> None:
    links = (
        "[{pairs: [0-1], alpha_us: 1, bandwidth_gbps: 25}, {pairs: [1-2], alpha_us: 1, bandwidth_gbps: 22}]"
    )
    (tmp_path / "odd.yaml").write_text(f"name: odd\ngpus: 3\nlinks: {links}\n")
    done = taccl("pareto", "--topology", "odd.yaml")
    assert done.exit_code == 2
    assert "no ratio of small whole numbers" in done.stderr


def test_by_default_there_are_chunks_for_a_round_in_each_step() -> None:
    """A broadcast along 3 ranks takes 2 steps, so one chunk cannot reach the bound of a round per chunk."""
    line = "{name: line, gpus: 3, links: [{pairs: [0-1, 1-2], alpha_us: 1, bandwidth_gbps: 10}]}"
    frontier = pareto("broadcast", topology=parse_topology(line))
    assert (frontier.least_steps, frontier.round_bound.rounds_per_chunk) == (2, 1)
    points = [(each.point.steps, each.point.rounds, each.point.chunks) for each in frontier.points]
    assert points == [(2, 2, 1), (3, 3, 2), (4, 4, 3), (5, 5, 4)]
    assert "5 steps and 5 chunks per rank" in frontier.notes[0]


def test_an_interrupt_keeps_the_points_found() -> None:
    def stop(found: FrontierPoint) -> None:
        raise KeyboardInterrupt

    frontier = pareto(topology=load_topology("ndv2", nodes=1), on_point=stop)
    assert len(frontier.points) == 1
    assert frontier.status == "interrupted"


def test_an_interrupt_before_any_point_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("taccl.analysis.pareto.walk", walk)
    with pytest.raises(KeyboardInterrupt):
        pareto(topology="ring:3")


def test_chunks_are_rounded_up_to_whole_bytes() -> None:
    frontier = pareto(topology="ring:3", size=1000, max_chunks=1)
    assert frontier.points[0].schedule.problem.size_bytes == 1002


def test_without_time_there_is_no_point_and_that_is_said() -> None:
    with pytest.raises(TacclError, match="no algorithm was found") as caught:
        pareto(topology="ring:3", time_limit=1e-9)
    assert caught.value.exit_code == 3
