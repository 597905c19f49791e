import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import taccl
from taccl import api, load_topology, make_collective, make_problem, read_schedule, synthesize
from taccl.backend.verify.msccl_xml import verify_text
from taccl.encoding.core.options import SearchOptions
from taccl.errors import CollectiveError, SketchError, TacclError, TopologyError
from taccl.model.collective import Collective
from taccl.model.problem import Problem
from taccl.model.units import KB, MB
from taccl.sketch import load_sketch
from taccl.synthesis.inputs import Inputs, choose_topology, inputs_of
from taccl.synthesis.request import Request
from taccl.synthesis.search import Found, search
from taccl.topologies import Device, PhysicalTopology

PROFILES = Path(__file__).parent / "data" / "taccl" / "topo"

#: Ends as soon as there is a schedule.
QUICK = {"engine": "greedy", "gap": 0.9, "time_limit": 10.0}


def test_a_result_holds_what_it_proves_and_what_it_writes(tmp_path: Path) -> None:
    result = synthesize("allgather", topology="ring:3", size="3MB", **QUICK)
    result.schedule.check()
    assert result.time_us == result.schedule.makespan_us
    assert 0 < result.lower_bound_us <= result.time_us
    assert result.gap == pytest.approx(1 - result.lower_bound_us / result.time_us)
    assert result.busbw_gbps == pytest.approx(result.algbw_gbps * 2 / 3)
    assert result.verified
    assert result.write(tmp_path / "ag.xml") == (tmp_path / "ag.xml",)
    assert (tmp_path / "ag.xml").read_text() == result.files[0].text
    json.dumps(result.figures(), allow_nan=False)


def test_a_schedule_written_as_json_is_read_back_with_its_bound(tmp_path: Path) -> None:
    result = synthesize("allgather", topology="ring:3", size="3MB", file=False, **QUICK)
    result.write_schedule(tmp_path / "s.json")
    saved = read_schedule(tmp_path / "s.json")
    assert saved.schedule.makespan_us == result.time_us
    assert saved.lower_bound_us == result.lower_bound_us


def test_a_machine_a_sketch_and_a_collective_may_be_objects() -> None:
    machine = load_topology("ndv2", nodes=1)
    sketch = load_sketch(Path(taccl.__file__).parents[1] / "sketches" / "ndv2-n1-sk-1.yaml")
    gather = make_collective("allgather", 8, 2)
    stated = make_problem(gather, topology=machine, sketch=sketch, size="16MB", executor=False)
    assert stated.topology is machine
    assert stated.problem.collective is gather
    assert stated.problem.chunk_mb == 1.0


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({"size": 32 * KB}, 32 * KB),
        ({"sketch": "ndv2-sk-1"}, 16 * MB),
        ({"sketch": "ndv2-sk-1", "nodes": 4}, 16 * MB),
        ({"sketch": "ndv2-sk-1", "profile": PROFILES / "topo-ndv2-1KB.json"}, 16 * KB),
        ({"topology": "ndv2", "profile": PROFILES / "topo-ndv2-32KB.json"}, 16 * 32 * KB),
        ({"topology": "ndv2", "profile": PROFILES / "topo-ndv2-32KB.json", "chunks": 2}, 2 * 16 * 32 * KB),
        ({"topology": "ndv2", "profile": PROFILES / "topo-ndv2-1KB.json", "size": "16MB"}, 16 * MB),
    ],
    ids=["size", "sketch", "sketch with nodes", "profile before sketch", "profile", "chunks", "size first"],
)
def test_the_size_is_the_one_asked_for_else_the_profiles_else_the_sketchs(
    given: dict[str, object], size: int
) -> None:
    given = {"topology": "ndv2", **given} if "sketch" not in given else given
    assert make_problem("allgather", **given).problem.size_bytes == size


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_a_size_that_does_not_divide_is_rounded_down_with_a_note(collective: str) -> None:
    stated = make_problem(collective, topology="ring:3", size="1MB")
    assert stated.problem.size_bytes == 3 * 349520
    assert stated.notes == (
        "the size of 1048576 bytes is rounded down to 1048560, as nccl-tests does: 3 equal chunks of 349520 "
        "bytes",
    )


def test_chunks_come_from_the_caller_else_from_the_sketch() -> None:
    assert make_problem(sketch="dgx2-sk-1").problem.collective.chunks_per_rank == 2
    assert make_problem(sketch="dgx2-sk-1", chunks=4).problem.collective.chunks_per_rank == 4
    assert make_problem(topology="ring:3", size="3MB").problem.collective.chunks_per_rank == 1


def test_nodes_come_from_the_caller_else_from_the_sketch() -> None:
    assert make_problem(sketch="ndv2-sk-1").problem.num_ranks == 16
    assert make_problem(sketch="ndv2-sk-1", nodes=4).problem.num_ranks == 32


def test_occupancy_and_nic_sharing_are_the_callers_to_change() -> None:
    pipelined = make_problem(sketch="ndv2-sk-1", occupancy="pipelined").problem.topology
    assert pipelined.occupancy == "pipelined"
    shared = make_problem(sketch="ndv2-sk-1", nodes=4, nic_sharing="static").problem.topology
    plain = make_problem(sketch="ndv2-sk-1", nodes=4).problem.topology
    assert shared.beta_us_per_mb.max() == pytest.approx(3 * plain.beta_us_per_mb.max())


def test_notes_say_which_symmetry_a_root_leaves_out() -> None:
    assert any("symmetry" in note for note in make_problem("broadcast", sketch="ndv2-sk-1").notes)


def test_one_rank_has_nothing_to_do() -> None:
    alone = PhysicalTopology("alone", (Device("gpu0", "gpu", 0, 0),), ())
    result = synthesize("allgather", topology=alone, size="1MB", file=False)
    assert (result.time_us, result.gap, result.status) == (0.0, 0.0, "optimal")
    assert math.isinf(result.algbw_gbps)
    assert json.dumps(result.figures(), allow_nan=False)


@pytest.mark.parametrize(
    ("error", "given"),
    [
        (TopologyError, {}),
        (CollectiveError, {"topology": "ring:3"}),
        (SketchError, {"topology": "ring:3", "size": "3MB", "nic_sharing": "static"}),
        (TacclError, {"topology": "ring:3", "size": "3MB", "protocol": "LL256"}),
        (TacclError, {"topology": "ring:3", "size": "3MB", "target": "nccl"}),
    ],
)
def test_a_wrong_request_is_a_taccl_error(error: type[TacclError], given: dict[str, object]) -> None:
    with pytest.raises(error) as caught:
        synthesize(**given)
    assert caught.value.hint


@pytest.mark.parametrize("given", [{"nodes": 2}, {"profile": PROFILES / "topo-ndv2-1MB.json"}])
def test_what_only_a_name_can_use_is_refused_with_a_topology_object(given: dict[str, object]) -> None:
    with pytest.raises(TacclError, match="of no use"):
        choose_topology(load_topology("ndv2"), **given)


@pytest.mark.parametrize("collective", [make_collective("broadcast", 3), "c.yaml"])
def test_a_collective_that_says_its_root_takes_no_other(
    collective: Collective | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text("collective: c\nranks: 3\nchunks: [{from: 0, to: 1}]\n")
    with pytest.raises(TacclError, match="root is of no use"):
        make_problem(collective, topology="ring:3", size="3MB", root=1)


def test_a_file_for_msccl_with_both_flags_serves_both_calls_by_way_of_a_copy() -> None:
    """It looks at inplace alone, so the file itself is called in place only."""
    (file,) = synthesize("allgather", topology="ring:3", size="3MB", target="msccl", **QUICK).files
    assert 'inplace="1" outofplace="1"' in file.text
    copy = file.text.replace('inplace="1"', 'inplace="0"')
    for text, used in ((file.text, "in_place"), (copy, "out_of_place")):
        report = verify_text(text, targets="msccl")
        assert report.ok
        assert getattr(report.facts, used) == "right"


@pytest.mark.parametrize(("stating_s", "left_s"), [(3.0, 7.0), (9.5, 1.0), (30.0, 1.0)])
def test_stating_the_problem_counts_against_the_time_limit(
    stating_s: float, left_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second is left for the search, however long that took."""
    now_s, limits_s = [0.0], []

    def slowly(request: Request) -> Inputs:
        now_s[0] += stating_s
        return inputs_of(request)

    def listening(problem: Problem, options: SearchOptions, *given: Any) -> Found:
        limits_s.append(options.time_limit_s)
        return search(problem, options, *given)

    clock = SimpleNamespace(monotonic=lambda: now_s[0])
    monkeypatch.setattr(api, "time", clock)
    monkeypatch.setattr("taccl.encoding.core.options.time", clock)
    monkeypatch.setattr("taccl.synthesis.job.inputs_of", slowly)
    monkeypatch.setattr("taccl.synthesis.searcher.search", listening)
    taccl.synthesize("allgather", topology="ring:4", size="4KB", chunks=1, time_limit=10, file=False)
    assert limits_s == [left_s]
