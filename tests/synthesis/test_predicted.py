"""Files on a machine that says what executing costs: times, bounds, refusals."""

import gzip
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

import taccl
from taccl.analysis.simulated import simulate_file
from taccl.api import synthesize
from taccl.backend.program import Protocol
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.two_sided import TwoSided
from taccl.cli.main import main
from taccl.errors import TacclError, TopologyError, VerificationError
from taccl.model.executor import SHAPES, Executor, ProtocolCosts
from taccl.model.problem import Problem
from taccl.model.units import MB
from taccl.synthesis.predicted import execute, file_bound
from taccl.topologies import load_topology

DATA = Path(__file__).parents[1] / "data"
MACHINE = DATA / "machines" / "mi300x-8.yaml"
QUICK = {"engine": "greedy", "gap": 0.95, "time_limit": 10.0}


@pytest.fixture
def allpairs(tmp_path: Path) -> Path:
    """A measured AllGather: everyone sends to everyone, in 4 thread blocks for each peer."""
    file = tmp_path / "ag.xml"
    file.write_bytes(gzip.decompress((DATA / "mi300x-8" / "ag_allpair_simple_x_4.xml.gz").read_bytes()))
    return file


def test_a_machine_with_an_executor_predicts_what_was_measured(allpairs: Path) -> None:
    """Measured, in place: 10.27 us, 14.9, 83.08 and 1090.4."""
    sizes = {"16KB": 10.27, "1MB": 14.9, "16MB": 83.08, "256MB": 1090.4}
    simulated = simulate_file(allpairs, list(sizes), topology=MACHINE)
    assert simulated.is_executed
    for run, measured in zip(simulated.sizes, sizes.values(), strict=True):
        assert run.time_us == pytest.approx(measured, rel=0.1)
        assert 0 < run.lower_bound_us <= run.time_us
        assert run.bound_source.startswith("6.2 us of launch, then ")
        assert run.figures()["rounds"] == math.ceil(run.size_bytes / 32 / (2 * MB))


def test_without_its_executor_the_same_machine_is_its_links(allpairs: Path) -> None:
    (links,) = simulate_file(allpairs, ["1MB"], topology=MACHINE, links_only=True).sizes
    assert links.figures()["launch_us"] is links.figures()["rounds"] is None
    assert links.time_us < simulate_file(allpairs, ["1MB"], topology=MACHINE).sizes[0].time_us
    assert links.steps.time_us == links.time_us


def test_the_command_says_that_the_executor_predicts(allpairs: Path) -> None:
    done = CliRunner().invoke(main, ["simulate", str(allpairs), "--topology", str(MACHINE), "--size", "1MB"])
    assert done.exit_code == 0, done.output
    assert "allgather, 8 ranks, Simple, on mi300x-8 as its executor runs it" in done.output
    as_ll = ["simulate", str(allpairs), "--topology", str(MACHINE), "--size", "1MB", "--protocol", "LL"]
    assert "8 ranks, LL, on mi300x-8 as its executor" in CliRunner().invoke(main, as_ll).output


def test_json_is_as_its_schema_says(allpairs: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    said = simulate_file(allpairs, ["1MB"], topology=MACHINE).to_dict()
    jsonschema.validate(said, taccl.json_schema("taccl.simulate/1"))
    assert said["executor"] is said["protocol_overhead"] is True
    assert said["results"][0]["launch_us"] == 6.2


@pytest.mark.parametrize(
    "options", [{"slots": 3}, {"arbitration": "first-come"}, {"copy_us_per_mb": 1.0}], ids=str
)
def test_what_the_executor_says_is_not_asked_of_the_user(allpairs: Path, options: dict) -> None:
    with pytest.raises(TacclError, match="the machine's executor says how a file is executed"):
        simulate_file(allpairs, ["1MB"], topology=MACHINE, **options)


def test_a_timeline_is_there_by_links_alone(allpairs: Path) -> None:
    (run,) = simulate_file(allpairs, ["1MB"], topology=MACHINE).sizes
    with pytest.raises(TacclError, match="no timeline of steps"):
        run.plot()
    shown = CliRunner().invoke(main, ["show", str(allpairs), "--topology", str(MACHINE), "--size", "1MB"])
    assert shown.exit_code == 0, shown.output
    assert "by the links' costs alone" in shown.output


def test_a_hang_has_no_time_but_a_cycle(tmp_path: Path) -> None:
    file = tmp_path / "ar.xml"
    file.write_bytes(gzip.decompress((DATA / "mi300x-8" / "ar_allpair_simple_x_1.xml.gz").read_bytes()))
    simulate_file(file, ["32MB"], topology=MACHINE)
    with pytest.raises(VerificationError, match="the program hangs") as caught:
        simulate_file(file, ["64MB"], topology=MACHINE)
    assert any("waits for room" in finding for finding in caught.value.findings)
    assert caught.value.path == str(file)


def test_more_thread_blocks_than_a_gpu_runs_at_once_hang(allpairs: Path) -> None:
    machine = load_topology(MACHINE)
    few = replace(machine, executor=replace(machine.executor, thread_blocks=27))
    with pytest.raises(VerificationError, match="has 28 thread blocks, but a GPU of the machine runs 27"):
        simulate_file(allpairs, ["1MB"], topology=few)


def test_a_protocol_that_the_machine_does_not_know_is_refused(allpairs: Path) -> None:
    machine = load_topology(MACHINE)
    only = Executor({"LL": machine.executor.protocols["LL"]}, 1.0, 10.0)
    with pytest.raises(TopologyError, match="says nothing about the protocol Simple") as caught:
        simulate_file(allpairs, ["1MB"], topology=replace(machine, executor=only))
    assert "it knows LL" in str(caught.value)


PROTOCOLS = {"Simple": 2**21, "LL": 2**14, "LL128": 50176}
COSTS = st.builds(
    lambda *each: each,
    st.floats(0, 20),
    st.floats(0, 5),
    st.floats(0, 5),
    st.floats(0.5, 200),
    st.sampled_from([1, 16, 256]),
    st.none() | st.floats(0, 5),
    st.floats(0, 5),
)


@given(
    costs=COSTS,
    protocol=st.sampled_from(list(PROTOCOLS)),
    shape=st.sampled_from(["ring:4", "mesh:2x2", "switch:4", "full:3"]),
    collective=st.sampled_from(["allgather", "reducescatter", "allreduce", "alltoall", "broadcast"]),
    size_kb=st.integers(1, 4096),
    instances=st.sampled_from([1, 2]),
)
@settings(max_examples=examples(13), deadline=None)
def test_no_program_is_faster_than_the_bound(
    costs: tuple, protocol: str, shape: str, collective: str, size_kb: int, instances: int
) -> None:
    """Whatever the costs: a file that verification passes takes at least as long as its bound says."""
    launch, hop, slice_us, gbps, shrink, empty, least = costs
    piece = max(1024, PROTOCOLS[protocol] // shrink)
    said = ProtocolCosts(launch, hop, slice_us, gbps, piece, SHAPES[protocol], empty, least)
    executor = Executor({protocol: said}, 1.0, 50.0)
    result = synthesize(collective, topology=shape, size=f"{size_kb * 24}KB", chunks=1, **QUICK)
    problem: Problem = replace(
        result.problem, topology=replace(result.problem.topology, executor=executor), symmetry=()
    )
    for file in result.files[:1]:
        done = execute(
            TwoSided.of(file.program), problem, problem.chunk_mb, SimulationSettings(Protocol(protocol))
        )
        assert done.bound.value_us <= (done.time_us - done.raised_us) * (1 + 1e-9)
        assert done.bound.value_us >= launch


def test_a_bound_of_wires_is_met_where_thread_blocks_are_fast() -> None:
    """Two ranks swap 64 MB: thread blocks are much faster than the links, so only those count."""
    result = synthesize("allgather", topology="ring:2", size="128MB", chunks=1, **QUICK)
    network = result.problem.topology
    executor = Executor({"Simple": ProtocolCosts(5, 0, 0, 1e4, 2**22, SHAPES["Simple"])}, 0, 1e4)
    problem = replace(result.problem, topology=replace(network, executor=executor))
    file = TwoSided.of(result.files[0].program)
    done = execute(file, problem, problem.chunk_mb, SimulationSettings(Protocol.SIMPLE))
    wires = float(network.alpha_us[0] + 64 * network.beta_us_per_mb[0])
    assert done.bound.value_us == pytest.approx(5 + wires)
    assert done.time_us == pytest.approx(5 + wires, rel=0.02)
    assert file_bound(problem, file, "Simple") == done.bound
