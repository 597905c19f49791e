"""The section `executor:` of a machine's file: what it says, what is refused, and how it is written."""

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.model.executor import PROTOCOL_NAMES, SHAPES, Executor, ProtocolCosts, Shape
from taccl.topologies import load_topology, parse_topology
from taccl.topologies.executor_section import executor_lines

MACHINES = Path(__file__).parents[1] / "data" / "machines"
MACHINE = """\
name: two
gpus: 2
links:
  - {pairs: [0-1], alpha_us: 1, bandwidth_gbps: 10}
"""


def machine(section: str):
    return parse_topology(MACHINE + textwrap.dedent(section), path="two.yaml")


def test_a_machine_says_what_executing_costs() -> None:
    said = load_topology(MACHINES / "mi300x-8.yaml").executor
    assert said.protocols["LL128"] == ProtocolCosts(211.0, 0.4, 0.55, 4.46, 50176, SHAPES["LL128"])
    assert list(said.protocols) == ["Simple", "LL", "LL128"]
    assert (said.reduce_us, said.reduce_gbps, said.thread_blocks) == (4.9, 22.9, 64)
    assert said.copy_us is said.copy_gbps is None
    assert said.protocols["Simple"].piece_bytes == 2**21


def test_without_the_section_there_is_none() -> None:
    assert parse_topology(MACHINE).executor is None


def test_the_section_stays_with_each_number_of_nodes() -> None:
    nodes = """\
    name: nodes
    node:
      gpus: 1
      nics: 1
      links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 10}]
    nodes: 2
    fabric: {alpha_us: 2, bandwidth_gbps: 10}
    executor:
      reduce_us: 1
      reduce_gbps: 20
      protocols:
        LL: {launch_us: 5, hop_us: 1, slice_us: 0.2, block_gbps: 3, piece: 16KB, slots: 4, wire: 1.5}
    """
    said = parse_topology(textwrap.dedent(nodes), nodes=3).executor
    assert said.protocols["LL"].shape == Shape(1, 0, 4, True, 1.5)


COSTS = "launch_us: 5, hop_us: 1, slice_us: 0.2, block_gbps: 3, piece: 16KB"


@pytest.mark.parametrize(
    ("section", "line", "message"),
    [
        ("executor: 3", 5, "executor must be a mapping"),
        ("executor: {reduce_us: 1, reduce_gbps: 2}", 5, "executor lacks the key 'protocols'"),
        ("executor: {reduce_us: 1, reduce_gbps: 2, protocols: {}}", 5, "executor.protocols has no protocol"),
        (
            "executor: {reduce_us: 1, reduce_gbps: 2, protocols: {ll: {}}}",
            5,
            "unknown key 'll' in executor.protocols",
        ),
        (
            "executor:\n  reduce_us: 1\n  reduce_gbps: 2\n  protocols:\n    LL: {launch_us: 5}",
            9,
            "executor.protocols.LL lacks the key 'hop_us'",
        ),
        (
            f"executor:\n  reduce_us: 1\n  reduce_gbps: 0\n  protocols:\n    LL: {{{COSTS}}}",
            7,
            "executor.reduce_gbps must be",
        ),
        (
            f"executor:\n  reduce_us: 1\n  reduce_gbps: 1\n  protocols:\n    LL: {{{COSTS}, slots: 0}}",
            9,
            "executor.protocols.LL.slots must be 1 or more",
        ),
        (
            "executor:\n  reduce_us: 1\n  reduce_gbps: 1\n  protocols:\n    LL: {"
            + COSTS.replace("16KB", "much")
            + "}",
            9,
            "executor.protocols.LL.piece: 'much' is not a size",
        ),
        (
            "executor:\n  reduce_us: 1\n  reduce_gbps: 1\n  protocols:\n    LL: {"
            + COSTS.replace("launch_us: 5", "launch_us: -5")
            + "}",
            9,
            "executor.protocols.LL.launch_us must be 0 or more",
        ),
        (
            "executor:\n  reduce_us: 1\n  reduce_gbps: 1\n  protocols:\n    LL: {" + COSTS + ", wake_us: 1}",
            9,
            "executor.protocols.LL says only one of sleep_after_us and wake_us",
        ),
        (
            "executor:\n  reduce_us: 1\n  reduce_gbps: 1\n  thread_blocks: 0\n  protocols: {LL: {"
            + COSTS
            + "}}",
            8,
            "executor.thread_blocks must be 1 or more",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(section: str, line: int, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        machine(section)
    assert (caught.value.path, caught.value.line) == ("two.yaml", line)


US, GBPS = st.floats(0, 1e6), st.floats(1e-3, 1e6)
SHAPE = st.builds(
    lambda slices, least, more, cut, wire: Shape(slices, least, slices + more, cut, wire),
    st.integers(1, 8),
    st.integers(0, 2**20),
    st.integers(0, 16),
    st.booleans(),
    st.floats(1, 10),
)


@given(
    protocols=st.dictionaries(
        st.sampled_from(PROTOCOL_NAMES),
        st.builds(
            lambda sleep, *costs: ProtocolCosts(*costs, *sleep),
            st.just((None, 0.0)) | st.tuples(US, US),
            *(US, US, US, GBPS, st.integers(1, 2**40), SHAPE, st.none() | US, US),
        ),
        min_size=1,
    ),
    reduce=st.tuples(US, GBPS),
    copy=st.none() | st.tuples(US, GBPS),
    thread_blocks=st.none() | st.integers(1, 1024),
    room=US,
    sharpness=st.none() | st.floats(1, 1e3),
)
def test_what_is_written_is_read_back(protocols, reduce, copy, thread_blocks, room, sharpness) -> None:
    executor = Executor(protocols, *reduce, *(copy or (None, None)), thread_blocks, room, sharpness)
    assert parse_topology(MACHINE + "\n".join(executor_lines(executor)) + "\n").executor == executor


def test_the_usual_shape_of_a_protocol_is_not_written_out() -> None:
    lines = list(executor_lines(load_topology(MACHINES / "mi300x-8.yaml").executor))
    assert lines[:5] == [
        "executor:",
        "  reduce_us: 4.9",
        "  reduce_gbps: 22.9",
        "  thread_blocks: 64",
        "  protocols:",
    ]
    assert lines[-1] == "      piece: 49KB"
    assert not any("wire" in line or "slots" in line for line in lines)
