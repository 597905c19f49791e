from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.errors import InfeasibleError
from taccl.model.collective import Collective, Placement
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.problem import Problem
from taccl.sketch import Sketch, apply_sketch, find_sketch, load_sketch, parse_sketch
from taccl.topologies import Device, Link, PhysicalTopology, build_topology


def cut_off(
    sketch: Sketch | str | None, machine: PhysicalTopology, collective: Collective
) -> InfeasibleError:
    design = parse_sketch(sketch) if isinstance(sketch, str) else sketch
    with pytest.raises(InfeasibleError) as caught:
        apply_sketch(design, machine, collective, 1.0)
    return caught.value


def one_way(*pairs: tuple[int, int]) -> PhysicalTopology:
    size = 1 + max(max(pair) for pair in pairs)
    devices = tuple(Device(f"gpu{i}", "gpu", 0, i) for i in range(size))
    return PhysicalTopology("lines", devices, tuple(Link(f"gpu{a}", f"gpu{b}", 1.0, 1.0) for a, b in pairs))


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("sketch", ["dgx2-sk-1", "ndv2-sk-1"])
def test_every_collective_can_be_done_with_the_published_relays(sketch: str, name: str) -> None:
    design = load_sketch(find_sketch(sketch))
    machine = build_topology(str(design.topology), nodes=2)
    demand = make_collective(name, machine.num_ranks)
    assert apply_sketch(design, machine, demand, 1.0).problem.collective is demand


def test_alltoall_finds_the_third_hop_that_the_sender_map_of_dgx2_sk_1_asks_for() -> None:
    design = load_sketch(find_sketch("dgx2-sk-1"))
    problem = apply_sketch(design, build_topology("dgx2"), make_collective("alltoall", 32), 1.0).problem
    usable = problem.usable(18 * 32 + 0)
    steps = [problem.topology.link_index[pair] for pair in ((18, 19), (19, 2), (2, 0))]
    assert usable[steps].all()
    assert not usable[problem.topology.link_index[17, 0]]


def test_a_relay_map_that_cuts_off_ranks_is_blamed_with_its_line() -> None:
    text = """\
intranode:
  strategy: switch
  switches:
    - gpus: [0, 1, 2, 3, 4, 5, 6, 7]
    - gpus: [8, 9, 10, 11, 12, 13, 14, 15]
internode:
  strategy: relay
  relay:
    0: [1]
"""
    fault = cut_off(text, build_topology("dgx2", nodes=2), make_collective("allgather", 32))
    assert fault.message == (
        "chunk 0 (piece 0 of rank 0's part) cannot go from rank 0 to rank 8: "
        "the inter-node strategy 'relay' has no link that leads there"
    )
    assert fault.line == 9


def test_a_switch_list_that_leaves_a_gpu_out_is_blamed_with_its_line() -> None:
    text = "intranode:\n  strategy: switch\n  switches: [{gpus: [0, 1, 2]}]\n"
    fault = cut_off(text, build_topology("switch:4"), make_collective("allgather", 4))
    assert "chunk 0 (piece 0 of rank 0's part) cannot go from rank 0 to rank 3" in fault.message
    assert "intra-node strategy 'switch'" in fault.message
    assert fault.line == 2


def test_a_sender_that_cannot_be_reached_is_blamed_with_its_line() -> None:
    text = """\
intranode:
  strategy: switch
  switches:
    - gpus: [0, 1, 2, 3, 4, 5, 6, 7]
    - gpus: [8, 9, 10, 11, 12, 13, 14, 15]
internode:
  strategy: fully-connected
  sender_for:
    0: [1]
    9: [2]
"""
    fault = cut_off(text, build_topology("dgx2"), make_collective("alltoall", 32))
    assert fault.message.startswith("chunk 72 (from rank 2 to rank 8) cannot go from rank 2 to rank 8: ")
    assert "`sender_for` lets the chunks of GPU 2 leave a node only through GPU 9" in fault.message
    assert fault.line == 10


def test_the_topology_is_blamed_when_no_sketch_forbids_anything() -> None:
    machine = one_way((0, 1), (1, 2))
    for sketch in (None, "intranode: {strategy: none}"):
        fault = cut_off(sketch, machine, make_collective("allgather", 3))
        assert "from rank 1 to rank 0: lines has no links that lead there" in fault.message
        assert fault.line is None


def test_a_broadcast_needs_ways_from_its_root_only() -> None:
    machine = one_way((0, 1), (1, 2))
    assert apply_sketch(None, machine, make_collective("broadcast", 3), 1.0).problem.num_chunks == 1
    assert "from rank 1 to rank 0" in cut_off(None, machine, make_collective("broadcast", 3, root=1)).message


def test_a_reduce_needs_ways_to_its_root_only() -> None:
    machine = one_way((0, 1), (1, 2))
    assert apply_sketch(None, machine, make_collective("reduce", 3, root=2), 1.0).problem.num_chunks == 1
    fault = cut_off(None, machine, make_collective("reduce", 3, root=0))
    assert "the contribution of rank 1 to chunk 0" in fault.message
    assert "from rank 1 to rank 0" in fault.message


def test_an_allreduce_needs_ways_to_the_owner_and_back() -> None:
    fault = cut_off(None, one_way((0, 1), (1, 2)), make_collective("allreduce", 3))
    assert "from rank 1 to rank 0" in fault.message


def test_a_chunk_with_several_sources_needs_a_way_from_one() -> None:
    zero = np.zeros(2, dtype=np.int64)
    two_sources = Collective(
        name="custom",
        num_ranks=4,
        chunks_per_rank=1,
        chunks_per_size=1,
        inputs=Placement(zero, np.array([0, 3]), zero),
        outputs=Placement(zero, np.array([1, 2]), zero),
        reduces=np.array([False]),
        owner=np.array([0]),
        in_place_shift=np.zeros(4, dtype=np.int64),
    )
    machine = one_way((0, 1), (3, 2))
    problem: Problem = apply_sketch(None, machine, two_sources, 1.0).problem
    assert problem.num_chunks == 1


def test_a_machine_without_nics_is_explained_and_not_a_crash() -> None:
    text = "intranode: {strategy: switch, switches: [{gpus: [0, 1]}]}\ninternode: {strategy: none}\n"
    fault = cut_off(text, build_topology("dgx2-teccl", nodes=2), make_collective("allgather", 32))
    assert "intra-node strategy 'switch'" in fault.message


def test_the_error_of_a_file_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("intranode:\n  strategy: switch\n  switches: [{gpus: [0, 1]}]\n")
    fault = cut_off(load_sketch(path), build_topology("switch:3"), make_collective("allgather", 3))
    assert str(fault).startswith(f"{path}:2: chunk 0 ")
    assert fault.exit_code == 3


@given(
    pairs=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda p: p[0] != p[1]), min_size=1),
    root=st.integers(0, 4),
    name=st.sampled_from(["broadcast", "reduce", "allgather", "allreduce", "scatter"]),
)
@settings(max_examples=60, deadline=None)
def test_a_demand_is_refused_exactly_when_there_is_no_way(
    pairs: set[tuple[int, int]], root: int, name: str
) -> None:
    devices = tuple(Device(f"gpu{i}", "gpu", 0, i) for i in range(5))
    links = tuple(Link(f"gpu{a}", f"gpu{b}", 1.0, 1.0) for a, b in sorted(pairs))
    graph = nx.DiGraph(sorted(pairs))
    graph.add_nodes_from(range(5))
    rooted = name in ("broadcast", "reduce", "scatter")
    if rooted:
        reached = nx.descendants(graph.reverse() if name == "reduce" else graph, root)
        possible = len(reached) == 4
    else:
        possible = nx.is_strongly_connected(graph)
    collective = make_collective(name, 5, root=root if rooted else None)
    machine = PhysicalTopology("drawn", devices, links)
    if possible:
        assert apply_sketch(None, machine, collective, 1.0).problem.topology.num_links == len(pairs)
    else:
        assert "no links that lead there" in cut_off(None, machine, collective).message
