"""Requests that are too large to be planned whole: one node's chunks are planned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import taccl
from taccl.cli.main import main
from taccl.errors import CollectiveError, FileError, ProgramLimitError, SolverError, TooLargeError
from taccl.model.template import Template

#: Places of AllGather on 24 ranks, which count as too many here.
MOST = 24 * 24 - 1
WHAT = {"topology": "a100", "nodes": 3, "size": "48MB", "effort": 500, "file": False}


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taccl.support.size_limits.MAX_PLACES", MOST)


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "AllReduce"])
def test_a_cluster_too_large_to_be_planned_whole_has_a_template(collective: str, tmp_path: Path) -> None:
    result = taccl.synthesize(collective, **WHAT)
    template = result.template
    assert template is not None
    assert result.schedule is template.part
    figures = result.to_dict()
    assert (figures["ranks"], figures["nodes"], figures["images"]) == (24, 3, 3)
    assert figures["collective"] == template.collective
    assert "times 3 images" in result.summary()
    assert 0 < result.lower_bound_us <= result.time_us
    assert 0 < result.any_chunks.value_us <= result.lower_bound_us
    factor = 2 if template.collective == "allreduce" else 1
    assert result.busbw_gbps == pytest.approx(result.algbw_gbps * factor * 23 / 24)
    for name in ("part.json", "part.parquet"):
        result.write_schedule(tmp_path / name)
        saved = taccl.read_schedule(tmp_path / name)
        Template(template.collective, saved.schedule, template.images).check()
        assert saved.lower_bound_us == result.lower_bound_us


def test_the_same_whole_takes_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    template = taccl.synthesize("allgather", **WHAT).template
    monkeypatch.undo()
    whole = taccl.synthesize("allgather", **WHAT, engine="hierarchical", chunks=1, executor=False)
    assert whole.template is None
    assert template is not None
    assert template.makespan_us == pytest.approx(whole.time_us)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"collective": "alltoall"}, "too large"),
        ({"topology": "ring:25", "nodes": None}, "too large"),
        ({"executor": True}, "too large"),
        ({"symmetry": "auto"}, "too large"),
        ({"without": "node0.gpu0-node0.nic0"}, "cannot stand for all: its nodes differ"),
    ],
)
def test_what_has_no_template_is_too_large_as_before(changed: dict[str, object], words: str) -> None:
    with pytest.raises(TooLargeError, match=words):
        taccl.synthesize(**({"collective": "allgather"} | WHAT | changed))


def test_a_file_with_no_room_is_refused_before_any_search() -> None:
    with pytest.raises(ProgramLimitError, match="no file of all ranks"):
        taccl.synthesize("allgather", **(WHAT | {"file": True}))


def test_ranks_are_written_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = taccl.synthesize("allreduce", **(WHAT | {"file": True, "target": "json"}))
    assert result.by_rank is not None
    assert not result.files  # it is too large to be verified as a whole
    result.write(tmp_path / "all.json")
    result.by_rank.write(tmp_path / "node1.json", range(8, 16))
    whole, part = (json.loads((tmp_path / name).read_text()) for name in ("all.json", "node1.json"))
    assert part["ranks"] == whole["ranks"][8:16]
    for ranks in (range(0), range(23, 25), range(-1, 3), range(0, 8, 2)):
        with pytest.raises(CollectiveError, match=r"consecutive ones of 0 \.\. 23"):
            result.by_rank.write(tmp_path / "none.json", ranks)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=1000))
    with pytest.raises(FileError, match="1000B are free"):
        result.write(tmp_path / "none.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.json", "node1.json"]
    monkeypatch.undo()
    assert taccl.simulate_file(tmp_path / "all.json", topology="a100", nodes=3, size="48MB") is not None


def test_the_command_writes_ranks_of_a_template(tmp_path: Path) -> None:
    words = [*("synthesize", "--topology", "a100", "--nodes", "3", "--size", "48MB", "--effort", "100", "-q")]
    path = str(tmp_path / "r.json")
    to_json = ("-o", path, "--target", "json")
    done = CliRunner().invoke(main, [*words, "--target", "json", "--ranks", "0-7", "-o", path])
    assert done.exit_code == 0
    assert json.loads(Path(path).read_text())["num_ranks"] == 24
    for wrong, says in (
        (("--ranks", "7", "--no-file"), "written to a file"),
        (("--ranks", "a-b", "-o", path), "names no ranks"),
        (("--ranks", "7-0", "-o", path), "names no ranks"),
        (("--ranks", "0-7", "-o", path, "--nodes", "1"), "one node of a100 cannot stand for all"),
        (("--ranks", "0-24", *to_json), "--ranks 0-24 names ranks that there are not: a100 has 0-23"),
        (("--ranks", f"24-{10**39}", *to_json), "names ranks that there are not"),
        (("--ranks", "24", *to_json), "--ranks 24 names ranks that there are not"),
        (("--ranks", "0-7", *to_json, "--max-size", "24MB"), "of 48MB, and 24MB to 24MB"),
    ):
        done = CliRunner().invoke(main, [*words, *wrong])
        assert done.exit_code == 2
        assert says in done.output
    done = CliRunner().invoke(main, [*words, "--ranks", "0-7", "-o", path])
    assert "a template has no file of all ranks for" in done.output


def test_an_engine_that_plans_no_single_node_is_told() -> None:
    with pytest.raises(SolverError, match="greedy plans no single node"):
        taccl.synthesize("allgather", **WHAT, engine="greedy")
