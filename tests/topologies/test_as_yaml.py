"""A machine written as YAML is read back as the same machine, or refused with the reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.model.executor import SHAPES, Executor, ProtocolCosts
from taccl.topologies import Device, Link, PhysicalTopology, load_topology, parse_topology
from taccl.topologies.as_yaml import topology_text

LL = ProtocolCosts(5.0, 0.5, 0.25, 3.2, 16384, SHAPES["LL"])
EXECUTOR = Executor({"LL": LL}, 4.0, 25.0, thread_blocks=64)


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("ring:5", None),
        ("ring-oneway:4", None),
        ("switch:8", None),
        ("torus:2x3", None),
        ("ndv2", 1),
        ("ndv2", 2),
        ("dgx2", 1),
        ("dgx2", 3),
        ("a100", 2),
    ],
)
def test_a_machine_of_the_catalogue_comes_back(name: str, nodes: int | None) -> None:
    machine = load_topology(name, nodes=nodes)
    back = parse_topology(topology_text(machine))
    assert back.name == machine.name
    assert back.occupancy == machine.occupancy
    assert back.gpu == machine.gpu
    assert set(back.devices) == set(machine.devices)
    assert set(back.links) == set(machine.links)
    assert [gpu.name for gpu in back.gpus] == [gpu.name for gpu in machine.gpus]


def test_an_executor_comes_back() -> None:
    machine = replace(load_topology("ring:3"), executor=EXECUTOR)
    assert parse_topology(topology_text(machine)).executor == EXECUTOR


def test_lines_of_comment_stand_before_it() -> None:
    text = topology_text(load_topology("ring:3"), ["measured in May", ""])
    assert text.startswith("# measured in May\n#\nname: ")
    assert parse_topology(text).num_ranks == 3


def test_all_to_all_is_said_in_two_words() -> None:
    text = topology_text(load_topology("switch:64"))
    assert "from: gpus\n    to: switches" in text
    assert "gpu63" not in text


costs = st.floats(1e-6, 1e6)


@given(
    st.integers(2, 5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), costs, costs), max_size=12),
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8),
)
def test_any_machine_of_one_node_comes_back(
    gpus: int, links: list[tuple[int, int, float, float]], name: str
) -> None:
    devices = tuple(Device(f"gpu{number}", "gpu", 0, number) for number in range(gpus))
    joined = {
        (src, dst): Link(f"gpu{src}", f"gpu{dst}", alpha, beta)
        for src, dst, alpha, beta in links
        if src != dst and src < gpus and dst < gpus
    }
    machine = PhysicalTopology(name, devices, tuple(joined.values()))
    back = parse_topology(topology_text(machine))
    assert back.name == name
    assert back.devices == machine.devices
    assert set(back.links) == set(machine.links)


@pytest.mark.parametrize(("name", "nodes"), [("dgx2-teccl", 2), ("ndv2-teccl", 2)])
def test_what_the_language_cannot_say_is_refused(name: str, nodes: int) -> None:
    with pytest.raises(TopologyError, match="cannot be written as a file: "):
        topology_text(load_topology(name, nodes=nodes))
