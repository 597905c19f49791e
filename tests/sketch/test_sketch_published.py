import os
from pathlib import Path

import pytest

from taccl.errors import FileError, SketchError
from taccl.model.collectives import chunk_bytes, make_collective
from taccl.sketch import Sketch, apply_sketch, find_sketch, load_sketch, published_sketches
from taccl.topologies import build_topology

NAMES = (
    "dgx2-n1-sk-1",
    "dgx2-sk-1",
    "dgx2-sk-2",
    "dgx2-sk-3",
    "ndv2-n1-sk-1",
    "ndv2-sk-1",
    "ndv2-sk-2",
    "ndv2-sk-3",
)
TACCL = Path(__file__).parents[1] / "data" / "taccl" / "sketch"


def test_all_published_sketches_are_there() -> None:
    assert tuple(sketch.name for sketch in published_sketches()) == NAMES


@pytest.mark.parametrize("sketch", published_sketches(), ids=lambda sketch: sketch.name)
def test_each_says_what_it_is_meant_for(sketch: Sketch) -> None:
    assert sketch.description
    assert sketch.topology in ("dgx2", "ndv2")
    assert sketch.nodes
    machine = build_topology(sketch.topology, nodes=sketch.nodes)
    demand = make_collective("allgather", machine.num_ranks, sketch.chunks_per_rank)
    assert sketch.size
    assert chunk_bytes(demand.chunks_per_size, sketch.size) in (2**10, 2**20)


@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce"])
@pytest.mark.parametrize("sketch", published_sketches(), ids=lambda sketch: sketch.name)
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_each_serves_every_collective_on_one_node_and_more(sketch: Sketch, name: str, nodes: int) -> None:
    machine = build_topology(str(sketch.topology), nodes=nodes)
    demand = make_collective(name, machine.num_ranks, sketch.chunks_per_rank)
    problem = apply_sketch(sketch, machine, demand, 1.0).problem
    assert problem.topology.num_nodes == nodes


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("dgx2-sk-1", "sk1-dgx2-n2"),
        ("dgx2-sk-2", "sk2-dgx2-n2"),
        ("dgx2-n1-sk-1", "sk1-dgx2-n1"),
        ("ndv2-sk-1", "sk1-ndv2-n2"),
        ("ndv2-sk-2", "sk2-ndv2-n2"),
        ("ndv2-sk-3", "sk3-ndv2-n2"),
        ("ndv2-n1-sk-1", "sk1-ndv2-n1"),
    ],
)
def test_ours_and_taccls_allow_the_same(ours: str, theirs: str) -> None:
    mine, other = load_sketch(find_sketch(ours)), load_sketch(TACCL / f"{theirs}.json")
    assert (mine.nodes, mine.chunks_per_rank) == (other.nodes, other.chunks_per_rank)
    machine = build_topology(str(mine.topology), nodes=mine.nodes)
    demand = make_collective("alltoall", machine.num_ranks)
    a, b = (apply_sketch(sketch, machine, demand, 1.0).problem for sketch in (mine, other))
    assert (a.topology.src == b.topology.src).all()
    assert (a.topology.dst == b.topology.dst).all()
    for mine_is, other_is in (
        (a.limits.may_use, b.limits.may_use),
        (a.limits.own_first, b.limits.own_first),
        (a.limits.link_preference, b.limits.link_preference),
    ):
        assert (mine_is is None) == (other_is is None)
        assert mine_is is None or (mine_is == other_is).all()
    assert [list(ranks) for ranks in a.symmetry] == [list(ranks) for ranks in b.symmetry]


def test_a_published_name_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ndv2-sk-1").mkdir()
    assert load_sketch(find_sketch("ndv2-sk-1")).name == "ndv2-sk-1"


def test_a_path_is_left_as_it_is(tmp_path: Path) -> None:
    for path in (
        tmp_path / "mine",
        Path("mine.yaml"),
        Path("a.json"),
        Path("folder") / "mine",
    ):
        assert find_sketch(path) == path
        assert find_sketch(os.fspath(path)) == path


def test_a_bare_name_that_is_a_file_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("intranode: {strategy: none}")
    assert load_sketch(find_sketch("mine")).name == "mine"


def test_an_unknown_name_is_named_with_its_nearest_neighbour() -> None:
    with pytest.raises(SketchError, match="there is no sketch 'ndv2-sk1'") as caught:
        find_sketch("ndv2-sk1")
    assert "ndv2-sk-1" in (caught.value.hint or "")


def test_a_path_that_is_not_there_is_a_file_error() -> None:
    with pytest.raises(FileError, match="no such file"):
        load_sketch(find_sketch("missing.yaml"))
