import json
from pathlib import Path
from typing import Any

import pytest

from taccl.errors import SketchError
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.sketch import Rotation, apply_sketch, load_sketch, parse_sketch
from taccl.topologies import build_topology

FOLDER = Path(__file__).parents[1] / "data" / "taccl" / "sketch"
FILES = sorted(FOLDER.glob("*.json"))


def applied(name: str, collective: str = "allgather") -> Problem:
    sketch = load_sketch(FOLDER / f"{name}.json")
    machine = build_topology("dgx2" if "dgx2" in name else "ndv2", nodes=sketch.nodes)
    demand = make_collective(collective, machine.num_ranks, sketch.chunks_per_rank)
    return apply_sketch(sketch, machine, demand, chunk_mb=1.0).problem


def test_there_are_eleven_files() -> None:
    assert len(FILES) == 11


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("collective", ["allgather", "alltoall", "reducescatter", "allreduce"])
def test_each_of_taccls_sketches_applies_to_its_machine(path: Path, collective: str) -> None:
    problem = applied(path.stem, collective)
    assert len(problem.symmetry) == len(json.loads(path.read_text())["symmetry_offsets"])


def test_the_fields_of_a_file_are_all_read() -> None:
    sketch = load_sketch(FOLDER / "sk1-dgx2-n2.json")
    assert (sketch.nodes, sketch.chunks_per_rank) == (2, 2)
    assert sketch.intranode.strategy == "switch"
    assert sketch.intranode.switches[0].gpus == tuple(range(16))
    assert sketch.intranode.switches[0].policy == "uc-min"
    assert [(relay.sender, relay.receivers) for relay in sketch.internode.relays] == [
        (2 * k + 1, (2 * k,)) for k in range(8)
    ]
    assert [(entry.sender, entry.owners) for entry in sketch.internode.sender_for] == [
        (2 * k + 1, (2 * k, 2 * k + 1)) for k in range(8)
    ]
    assert sketch.internode.own_first
    assert [(r.offset, r.group) for r in sketch.symmetry] == [(2, 16), (16, 32)]


def test_the_files_mean_taccls_rule_for_nics() -> None:
    assert load_sketch(FOLDER / "sk1-ndv2-n2.json").internode.nic_sharing == "static"


def test_dgx2_sk_1_has_all_links_of_both_switches_and_eight_each_way() -> None:
    network = applied("sk1-dgx2-n2").topology
    assert network.num_links == 2 * 16 * 15 + 2 * 8
    assert int(network.internode.sum()) == 2 * 8


def test_ndv2_sk_1_has_the_nvlinks_and_one_link_each_way() -> None:
    network = applied("sk1-ndv2-n2").topology
    between = [network.describe_link(int(link)) for link in network.internode.nonzero()[0]]
    assert network.num_links == 2 * 32 + 2
    assert between == ["0 -> 9", "8 -> 1"]


@pytest.mark.parametrize(
    ("name", "factor"),
    [("sk1-dgx2-n2", 1), ("sk2-dgx2-n2", 2), ("sk2-ndv2-n2", 64), ("sk1-ndv2-n4", 3), ("sk3-ndv2-n2", 8)],
)
def test_static_sharing_multiplies_beta_by_links_over_nics(name: str, factor: int) -> None:
    network = applied(name).topology
    assert set(network.beta_us_per_mb[network.internode]) == {105.0 * factor}


def test_under_static_sharing_inter_node_links_share_nothing() -> None:
    network = applied("sk2-ndv2-n2").topology
    for link in network.internode.nonzero()[0]:
        (port,) = network.ports[link]
        assert network.port_links[port] == (link,)


def minimal(**changes: Any) -> str:
    sketch = {
        "nnodes": 2,
        "intranode_sketch": {"strategy": "none"},
        "internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}},
        "symmetry_offsets": [[8, 16]],
        "hyperparameters": {"input_chunkup": 1},
    }
    return json.dumps(
        {key: value for key, value in (sketch | changes).items() if value is not None}, indent=1
    )


def test_the_smallest_file_is_read() -> None:
    assert parse_sketch(minimal()).symmetry == (Rotation(8, 16, line=15),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nnodes": None}, "'nnodes'"),
        ({"symmetry_offsets": None}, "'symmetry_offsets'"),
        ({"internode_sketch": None}, "'internode_sketch'"),
        ({"internode_sketch": {"strategy": "relay"}}, "'internode_conn'"),
        ({"internode_sketch": {"strategy": "relay", "internode_conn": "some"}}, "'some'"),
        ({"internode_sketch": {"strategy": "none", "internode_conn": "direct-map"}}, "'none'"),
        ({"intranode_sketch": {"strategy": "switch", "switches": [[0, 1]]}}, "'switch_hyperedge_strategy'"),
        (
            {
                "intranode_sketch": {
                    "strategy": "switch",
                    "switches": [[0, 1]],
                    "switch_hyperedge_strategy": [],
                }
            },
            "must have 1 values",
        ),
        ({"hyperparameters": {}}, "'input_chunkup'"),
        ({"hyperparameters": {"input_chunkup": 0}}, "1 or more"),
        ({"symmetry_offsets": [[8]]}, "2 values"),
        ({"extra": 1}, "unknown key 'extra'"),
    ],
)
def test_a_faulty_file_is_refused_with_the_fault(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SketchError) as caught:
        parse_sketch(minimal(**changes))
    assert message in caught.value.message
    assert caught.value.line is not None
