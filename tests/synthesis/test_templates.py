"""Requests that are too large to be planned whole: one node's chunks are planned."""

from __future__ import annotations

from pathlib import Path

import pytest

import taccl
from taccl.errors import ProgramLimitError, SolverError, TooLargeError
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
        Template(template.collective, saved.schedule).check()
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


def test_a_file_of_all_ranks_is_refused_before_any_search() -> None:
    with pytest.raises(ProgramLimitError, match="no file of all ranks"):
        taccl.synthesize("allgather", **(WHAT | {"file": True}))


def test_an_engine_that_plans_no_single_node_is_told() -> None:
    with pytest.raises(SolverError, match="greedy plans no single node"):
        taccl.synthesize("allgather", **WHAT, engine="greedy")
