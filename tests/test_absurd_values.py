"""No value makes a public function fail with anything but a TacclError, nor take long, nor much memory."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

import taccl
from taccl.encoding.core.options import SearchOptions
from taccl.errors import CollectiveError, SolverError, TacclError, TopologyError
from taccl.model import units
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.arguments import shown
from taccl.topologies import Device, Link, PhysicalTopology, generators

VALUES = [
    *(0, -1, 7, 2**31, 2**63, 10**22, -(10**22), 10**5000, True),
    *(0.5, -0.0, 1e308, 1e-308, math.nan, math.inf, -math.inf),
    *("", "x", "nan", "-1", "\0", "9" * 5000, b"x", Path("x"), Path()),
    *([], [1], {}, object(), print, int, 1j),
    *(np.int64(2), np.int64(-2), np.float64("nan"), np.array([1, 2])),
]

RING = {"topology": "ring:3", "size": "3MB"}
STATING = (
    *("collective", "topology", "sketch", "size", "nodes", "profile", "chunks", "root"),
    *("occupancy", "nic_sharing"),
)
SEARCH = RING | {"engine": "greedy", "time_limit": 1.0, "gap": 0.9}
LINK = {
    "name": "pair",
    "node_of": np.zeros(2, dtype=np.int64),
    "src": np.array([0]),
    "dst": np.array([1]),
    "alpha_us": np.array([1.0]),
    "beta_us_per_mb": np.array([1.0]),
    "ports": ((0,),),
    "port_names": ("it",),
}
PAIR = (Device("gpu0", "gpu", 0, 0), Device("gpu1", "gpu", 0, 1))


def machine(**cost: object) -> PhysicalTopology:
    link = {"src": "gpu0", "dst": "gpu1", "alpha_us": 1.0, "beta_us_per_mb": 1.0} | cost
    return PhysicalTopology("pair", PAIR, (Link(**link),))


CALLS: list[tuple[Callable[..., object], dict[str, object], tuple[str, ...]]] = [
    (taccl.make_problem, RING, (*STATING, "symmetry")),
    (taccl.bounds, RING, ("size", "chunks", "nodes")),
    (
        taccl.synthesize,
        SEARCH,
        (
            *("engine", "solver", "time_limit", "gap", "seed", "slack", "chunks"),
            *("protocol", "instances", "target", "min_bytes", "max_bytes"),
        ),
    ),
    (taccl.explain, RING | {"time_limit": 1.0}, ("target_time", "max_hops", "time_limit", "size")),
    (taccl.pareto, RING | {"time_limit": 1.0}, ("max_steps", "max_chunks", "time_limit", "root", "size")),
    (
        taccl.make_collective,
        {"name": "reduce", "num_ranks": 3},
        ("name", "num_ranks", "chunks_per_rank", "root"),
    ),
    (taccl.load_topology, {"source": "ndv2"}, ("source", "nodes", "profile")),
    (taccl.load_sketch, {}, ("path",)),
    (taccl.read_schedule, {}, ("path",)),
    (taccl.verify_file, {}, ("path",)),
    (SearchOptions, {}, ("engine", "time_limit_s", "gap", "seed", "solver", "slack")),
    (LogicalTopology, LINK, (*LINK, "occupancy")),
    (
        PhysicalTopology,
        {"name": "m", "devices": PAIR, "links": ()},
        ("name", "devices", "links", "occupancy"),
    ),
    (machine, {}, ("src", "alpha_us", "beta_us_per_mb")),
    (generators.ring, {"gpus": 3}, ("gpus", "alpha_us", "beta_us_per_mb", "bandwidth_gbps", "occupancy")),
    (units.parse_size, {}, ("text",)),
    (units.parse_time_us, {}, ("text",)),
    (units.beta_from_bandwidth, {}, ("bandwidth_gbps",)),
]


def survives(call: Callable[..., object], given: dict[str, object], name: str, value: object) -> None:
    try:
        call(**given | {name: value})
    except TacclError as refusal:
        assert str(refusal)


@pytest.mark.parametrize(
    ("call", "given", "name"),
    [
        pytest.param(call, given, name, id=f"{call.__name__}-{name}")
        for call, given, names in CALLS
        for name in names
    ],
)
def test_absurd_values_are_refused_in_a_sentence_or_taken(
    call: Callable[..., object],
    given: dict[str, object],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in VALUES:
        survives(call, given, name, value)


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    taccl.synthesize(**SEARCH).write(tmp_path / "a.xml")
    return tmp_path / "a.xml"


@pytest.mark.parametrize(
    "name", ["sizes", "root", "protocol", "slots", "arbitration", "copy_us_per_mb", "nodes"]
)
def test_absurd_simulations_are_refused_or_done(xml: Path, name: str) -> None:
    given = {"path": xml, "topology": "ring:3", "sizes": ["3MB"]}
    for value in VALUES:
        survives(taccl.simulate_file, given, name, value)


@pytest.mark.parametrize("name", ["targets", "collective", "root"])
def test_absurd_questions_about_a_file_are_refused_or_answered(xml: Path, name: str) -> None:
    for value in VALUES:
        survives(taccl.verify_file, {"path": xml}, name, value)


@settings(deadline=None, max_examples=100)
@given(st.floats() | st.integers() | st.text(max_size=8))
def test_any_cost_of_a_link_makes_a_machine_or_a_refusal(cost: object) -> None:
    for name in ("alpha_us", "beta_us_per_mb"):
        survives(machine, {}, name, cost)


@settings(deadline=None, max_examples=examples(20))
@given(st.sampled_from([0.0, 1e-9, 0.7, 1e9]), st.sampled_from([0.0, 1e-18, 1e-3, 20.0, 1e9]))
def test_bounds_exist_for_every_cost_that_is_taken(alpha_us: float, beta_us_per_mb: float) -> None:
    link = LINK | {"alpha_us": np.array([alpha_us]), "beta_us_per_mb": np.array([beta_us_per_mb])}
    topology = LogicalTopology(**link)
    problem = Problem(topology, taccl.make_collective("broadcast", 2), 2.0**40)
    time_us = alpha_us + 2.0**40 * beta_us_per_mb
    assert taccl.encoding.bounds.lower_bound(problem).value_us == pytest.approx(time_us)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"seed": -1}, SolverError, "a seed must be a whole number from 0 to 2147483647, not -1"),
        ({"time_limit_s": math.inf}, SolverError, "at most 2.592e+06 s (30 days), not inf s"),
        ({"time_limit_s": math.nan}, SolverError, "a time limit must be positive, not nan s"),
        ({"gap": "small"}, SolverError, "a gap is a fraction from 0 up to 1, not 'small'"),
        ({"slack": 0.5}, SolverError, "a slack is from 1 to 1e+06, not 0.5"),
    ],
)
def test_options_of_engines_say_what_they_take(
    given: dict[str, object], error: type[TacclError], words: str
) -> None:
    with pytest.raises(error) as refused:
        SearchOptions(**given)
    assert words in str(refused.value)


def test_instances_are_refused_before_the_search() -> None:
    with pytest.raises(TacclError, match="instances must be a whole number from 1 to 32, not 1000000"):
        taccl.synthesize(**RING, instances=10**6)


def test_a_collective_made_by_hand_is_looked_at() -> None:
    whole = taccl.make_collective("allgather", 3)
    for broken in (
        {"owner": np.array([0, 1, 9])},
        {"owner": np.array([0])},
        {"chunks_per_size": 0},
        {"inputs": type(whole.inputs)(np.array([7]), np.array([0]), np.array([0]))},
    ):
        with pytest.raises(CollectiveError):
            replace(whole, **broken)


def test_a_number_too_long_to_be_spelled_is_told_by_its_length() -> None:
    assert shown(10**5000) == "a number of more than 60 digits"
    assert shown("9" * 5000) == "'" + "9" * 59 + "..."
    assert shown(math.nan) == "nan"
    with pytest.raises(TopologyError, match="a number of more than 60 digits"):
        taccl.load_topology("ndv2", nodes=10**5000)
