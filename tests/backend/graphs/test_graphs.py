"""Schedules to rings and trees: which are taken, and what the file makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from taccl import make_problem, synthesize
from taccl.analysis.exploration.library_table import library
from taccl.analysis.graph_baseline import graph_baseline
from taccl.backend.graphs.document import Graphs
from taccl.backend.graphs.loads import gbps_of
from taccl.backend.graphs.lowering import channels_of, lower_to_graphs
from taccl.backend.graphs.of_machine import graphs_of_machine
from taccl.backend.targets.graphs import TARGETS
from taccl.backend.targets.registry import find_target
from taccl.cli.main import main
from taccl.errors import CollectiveError, TacclError
from taccl.model.schedule import Schedule, schedule_from_json
from taccl.testing import check_target, napkin_schedules


def schedule_of(algorithm: str, topology: str) -> Schedule:
    """What a textbook's algorithm is on a machine."""
    found = library(algorithm, topology=topology, collective="allreduce", sizes=[2**20])
    return schedule_from_json(found.fastest_text(2**20)).schedule


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_each_target_keeps_its_promises(target: object) -> None:
    schedules = [each for each in napkin_schedules() if each.problem.topology.num_nodes == 1]
    check_target(target, schedules)


@pytest.mark.parametrize(
    ("machine", "shape", "gbps"),
    [
        ("ring:4", "ring", 66.67),  # each link once: 2 rings x 50 GB/s x 4 / 6
        ("ring:4", "tree", 66.67),  # 4 paths, each link used by 3 of them
        ("full:4", "tree", 100.0),  # 6 edges, 3 for a tree: 2 trees that share none
        ("mi300x", "ring", 192.0),  # 7 rings that use each of 56 links once
        ("mi300x", "tree", 192.0),  # 4 trees that use each of 28 edges once
    ],
)
def test_the_fastest_channels_of_machines_where_they_are_known(machine: str, shape: str, gbps: float) -> None:
    network = make_problem("allreduce", topology=machine, nodes=1, size="1MB").problem.topology
    found = graphs_of_machine(network, shape)
    assert found.gbps == pytest.approx(gbps, rel=0.01)
    assert gbps_of(network, shape, found.channels) == pytest.approx(found.gbps)


def test_the_ring_of_a_schedule_is_found_again() -> None:
    schedule = schedule_of("ring", "ring-oneway:5")
    assert channels_of(schedule, "ring") == ((0, 1, 2, 3, 4),)
    with pytest.raises(CollectiveError, match="chunk 0 of the schedule travels along no tree"):
        channels_of(schedule, "tree")
    lowered = lower_to_graphs(schedule, "ring")
    assert (lowered.origin, lowered.channels) == ("of the schedule", ((0, 1, 2, 3, 4),))
    with pytest.raises(CollectiveError, match="no tree through all 5 GPUs was found"):
        lower_to_graphs(schedule, "tree")


def test_the_trees_of_a_schedule_are_found_again_and_written_as_often_as_chunks_use_them() -> None:
    schedule = schedule_of("ring both directions", "ring:5")  # sums come from both sides, results go back
    trees = channels_of(schedule, "tree")
    assert len(trees) == len(set(trees)) == 5
    assert all(sorted(tree).count(-1) == 1 for tree in trees)
    lowered = lower_to_graphs(schedule, "tree")
    assert (lowered.origin, set(lowered.channels)) == ("of the schedule", set(trees))
    no_ring = lower_to_graphs(schedule, "ring")
    assert no_ring.origin == "of the machine's links (chunk 0 of the schedule travels along no ring)"


def test_the_faster_channels_of_the_machine_are_taken_with_the_reason() -> None:
    lowered = lower_to_graphs(schedule_of("double binary tree", "full:4"), "tree")
    assert lowered.gbps == pytest.approx(100.0, rel=0.01)
    assert lowered.origin.startswith("of the machine's links (")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"collective": "allgather", "topology": "ring:4"}, "made from AllReduce, not from allgather"),
        ({"topology": "ndv2", "nodes": 2}, "those of one node, and this machine has 2"),
        ({"topology": "full:17"}, "through 17 GPUs are not searched for, only through 16"),
    ],
)
def test_what_no_graph_is_for_is_refused_before_any_search(
    given: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taccl.synthesis.search.search", None)
    with pytest.raises(TacclError, match=said) as caught:
        synthesize(**({"collective": "allreduce", "size": "1MB", "target": "rccl-trees"} | given))
    assert caught.value.hint


def test_a_file_is_read_back_as_the_same_graphs() -> None:
    for name, channels in (
        ("rccl-trees", ((-1, 0, 1, 0), (1, -1, 1, 2))),
        ("rccl-rings", ((0, 1, 2, 3), (0, 2, 1, 3))),
        ("nccl-graph", ((0, 1, 2, 3), (0, 2, 1, 3))),
    ):
        target = find_target(name)
        graphs = Graphs("tree" if "tree" in name else "ring", 4, channels, gbps=10.0)
        again = target.parse(target.write(graphs).encode(), None, lambda: None)
        assert (again.shape, again.channels) == (graphs.shape, channels)


@pytest.mark.parametrize(
    ("gpu", "kind", "typed"),
    [("A100", "switches", "NVL"), ("A100", "pcie", "PHB"), (None, "switches", "PHB")],
)
def test_paths_are_of_nvlink_where_the_machine_says_so(
    tmp_path: Path, gpu: str | None, kind: str, typed: str
) -> None:
    machine = tmp_path / "machine.yaml"
    said = "" if gpu is None else f"gpu: {gpu}\n"
    machine.write_text(
        f"name: four\n{said}node:\n  gpus: 4\n  {kind}: [middle]\n"
        "  links:\n    - {from: gpus, to: middle, alpha_us: 1, bandwidth_gbps: 20}\n"
    )
    made = synthesize("allreduce", topology=machine, size="1MB", target="nccl-graph", effort=20)
    assert set(re.findall(r'typeintra="(\w+)"', made.files[0].text)) == {typed}


def test_a_file_takes_as_long_as_its_links_say() -> None:
    graphs = Graphs("tree", 4, ((-1, 0, 1, 2), (-1, 0, 3, 0)))
    network = make_problem("allreduce", topology="ring:4", size="1MB").problem.topology
    unfolded = find_target("rccl-trees").unfold(graphs)
    for run in unfolded.run(requested()):
        assert run.verdict == "right"
    took = unfolded.simulate(network, 1024 / unfolded.chunks, settings()).time_us
    least = 1024 * 2**20 / gbps_of(network, "tree", graphs.channels) / 1e3
    assert least <= took <= 1.5 * least  # a few pieces fill a tree less well than a library's many


def requested() -> object:
    from taccl.backend.execute.deadline import Deadline
    from taccl.backend.execute.requested import RunRequested

    return RunRequested(Deadline(20.0), size_bytes=2**20, ranks_as="turns")


def settings() -> object:
    from taccl.backend.simulate.settings import SimulationSettings

    return SimulationSettings()


def test_verify_takes_variables_and_says_how_many_gpus(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(main, ["verify", "--env", "RCCL_TREES=(0(1)(2))"]).exit_code == 0
    assert run(main, ["verify", "--env", "export NCCL_RINGS='0 1 2'", "--ranks", "3"]).exit_code == 0
    refused = run(main, ["verify", "--env", "NCCL_RINGS=0 1 2", "--ranks", "4"])
    assert (refused.exit_code, "lacks GPU 3" in refused.output) == (4, True)
    assert run(main, ["verify"]).exit_code == 2
    unknown = run(main, ["verify", "--env", "NCCL_ALGO=Ring"])
    assert (unknown.exit_code, "RCCL_TREES" in unknown.output) == (2, True)
    dump = tmp_path / "dump.xml"
    dump.write_text('<graphs version="1"><graph id="0"/></graphs>')
    found = run(main, ["verify", str(dump), "--target", "all"])
    assert (found.exit_code, "--target nccl-graph" in found.output) == (2, True)


def test_a_dump_of_one_of_several_nodes_is_checked_and_not_simulated(tmp_path: Path) -> None:
    gpus = "".join(f'<gpu dev="{rank:x}000" rank="{rank}"/>' for rank in (2, 3))
    graph = (
        '<graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" '
        'speedinter="10" typeintra="NVL" '
        f'typeinter="PIX" samechannels="1"><channel><net dev="a1"/>{gpus}<net dev="a1"/></channel></graph>'
    )
    dump = tmp_path / "dump.xml"
    dump.write_text(f'<graphs version="1">{graph}</graphs>')
    run = CliRunner().invoke
    assert run(main, ["verify", str(dump)]).exit_code == 0
    refused = run(main, ["simulate", str(dump), "--topology", "full:2", "--size", "1MB"])
    assert (refused.exit_code, "to other nodes" in refused.output) == (2, True)


def test_the_graphs_of_a_file_are_simulated_next_to_a_bound(tmp_path: Path) -> None:
    dump, lines = tmp_path / "dump.xml", tmp_path / "trees.env"
    rings = Graphs("ring", 4, ((0, 1, 2, 3), (0, 3, 2, 1)), gbps=66.0)
    dump.write_text(find_target("nccl-graph").write(rings))
    lines.write_text("RCCL_TREES='(0(1(2(3))))'\n")
    found = graph_baseline(dump, topology="ring:4", sizes=["256MB"])
    assert [each.graphs.shape for each in found.times] == ["ring", "tree"]
    ring, tree = found.times  # both chains are trees of their own, with two of four edges in common
    assert ring.bound_us <= ring.time_us <= 1.01 * ring.bound_us
    assert tree.time_us >= 1.3 * tree.bound_us
    (slow,) = graph_baseline(lines, topology="ring:4", sizes=["256MB"]).times
    one_way = 2**28 / 50e3
    assert one_way <= slow.time_us <= 1.2 * one_way
    run = CliRunner().invoke
    words = ["baseline", "rccl", "--topology", "ring:4", "--graph", str(lines), "--json", "--size", "1MB"]
    shown = run(main, words)
    assert (shown.exit_code, "taccl.baseline.library/1" in shown.output) == (0, True)
    for more, said in (
        (["--topology", "ring:5"], "the graphs are of 4 GPUs of one node, and ring:5 has 5"),
        (["--topology", "ring:4", "--collective", "allgather"], "simulates allreduce"),
        (["--topology", "ring:4", "--gpu", "H100"], "no use for --gpu"),
    ):
        refused = run(main, ["baseline", "nccl", "--graph", str(dump), *more])
        assert (refused.exit_code, said in refused.output) == (2, True), refused.output
    dump.write_text("<algo/>")
    assert run(main, ["baseline", "nccl", "--graph", str(dump), "--topology", "ring:4"]).exit_code == 2
