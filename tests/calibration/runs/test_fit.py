"""A machine's costs come back from times that it predicts for itself, and what cannot be stated is said."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from taccl.analysis.simulated import simulate_file
from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Program, Protocol
from taccl.calibration.probe.patterns import PATTERNS
from taccl.calibration.runs import FittedRuns, MeasuredRuns, fit_runs, load_runs, residuals_of
from taccl.errors import TopologyError
from taccl.model.executor import SHAPES, Executor, ProtocolCosts
from taccl.topologies import PhysicalTopology, load_topology, parse_topology

BASE = parse_topology("name: m\ngpus: 3\nlinks: [{from: gpus, to: gpus, alpha_us: 1, bandwidth_gbps: 40}]\n")
#: Pieces of 16 KB are RCCL's; msccl's have 32.
LL = ProtocolCosts(4.0, 0.0, 0.4, 2.5, 2**14, SHAPES["LL"])
SIMPLE = ProtocolCosts(8.0, 0.0, 1.2, 15.0, 2**21, SHAPES["Simple"])
EXECUTOR = Executor({"Simple": SIMPLE, "LL": LL}, reduce_us=2.0, reduce_gbps=30.0)
TRUE = replace(
    parse_topology("name: m\ngpus: 3\nlinks: [{from: gpus, to: gpus, alpha_us: 1.5, bandwidth_gbps: 32}]\n"),
    executor=EXECUTOR,
)
SIZES = [3 * 2**k for k in range(12, 25, 2)]
PATTERN = {pattern.name: pattern.build for pattern in PATTERNS}


def programs() -> list[Program]:
    return [
        *(
            PATTERN["pairs"](range(3), protocol, k)
            for protocol in (Protocol.LL, Protocol.SIMPLE)
            for k in (1, 4)
        ),
        PATTERN["pairs"](range(3), Protocol.LL, 8),
        *(PATTERN["ring"](range(3), protocol, 1) for protocol in (Protocol.LL, Protocol.SIMPLE)),
        PATTERN["sums"](range(3), Protocol.SIMPLE, 1),
    ]


def measured(folder: Path, some: list[Program], machine: PhysicalTopology = TRUE) -> MeasuredRuns:
    """The times that a machine predicts for itself, in a folder as a user brings it."""
    rows = ["file,size_bytes,time_us"]
    for program in some:
        path = folder / f"{program.name}.xml"
        path.write_text(to_xml(program))
        rows += [f"{path.name},{size},1" for size in SIZES]
    (folder / "times.csv").write_text("\n".join(rows))
    predicted = residuals_of(machine, load_runs([folder]).files)
    rows[1:] = [f"{each.file},{each.size_bytes},{each.predicted_us}" for each in predicted]
    (folder / "times.csv").write_text("\n".join(rows))
    return load_runs([folder])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> FittedRuns:
    return fit_runs(measured(tmp_path_factory.mktemp("runs"), programs()), BASE)


def test_the_costs_that_made_the_times_come_back(fitted: FittedRuns) -> None:
    found = {(each.name, each.of): each.value for each in fitted.parameters}
    true = {
        ("bandwidth_gbps", "gpu - gpu"): 32.0,
        ("launch_us", "LL"): 4.0,
        ("launch_us", "Simple"): 8.0,
        ("block_gbps", "LL"): 2.5,
        ("block_gbps", "Simple"): 15.0,
        ("slice_us", "Simple"): 1.2,
    }
    assert {key: found[key] for key in true} == pytest.approx(true, rel=0.1)
    assert np.quantile(fitted.errors, 0.9) < 0.02


def test_the_pieces_are_those_of_the_runtime_that_fits(fitted: FittedRuns) -> None:
    assert fitted.pieces == "rccl"
    assert fitted.machine.executor is not None
    assert fitted.machine.executor.costs_of("LL").piece_bytes == 2**14


def test_an_interval_holds_its_value_and_what_the_machine_said_is_kept(fitted: FittedRuns) -> None:
    assert all(each.low <= each.value <= each.high for each in fitted.parameters)
    base = {(each.name, each.of): each.base for each in fitted.parameters}
    assert base["alpha_us", "gpu - gpu"] == 1.0
    assert base["bandwidth_gbps", "gpu - gpu"] == pytest.approx(40.0)
    assert base["launch_us", "LL"] is None


def test_the_file_that_is_written_is_the_machine_and_predicts_as_it_does(
    fitted: FittedRuns, tmp_path: Path
) -> None:
    (tmp_path / "fitted.yaml").write_text(fitted.yaml())
    assert load_topology(tmp_path / "fitted.yaml") == fitted.machine
    program = tmp_path / "ring.xml"
    program.write_text(to_xml(PATTERN["ring"](range(3), Protocol.LL, 1)))
    run = simulate_file(program, [SIZES[0]], topology=tmp_path / "fitted.yaml").sizes[0]
    known = next(
        each for each in fitted.residuals if each.file == "ring_ll_1.xml" and each.size_bytes == SIZES[0]
    )
    assert run.time_us == pytest.approx(known.predicted_us, rel=1e-6)
    assert run.lower_bound_us <= run.time_us


def test_what_the_times_cannot_tell_is_said(tmp_path: Path) -> None:
    some = [PATTERN["pairs"](range(3), Protocol.LL, 1), PATTERN["ring"](range(3), Protocol.LL, 1)]
    found = fit_runs(measured(tmp_path, some), BASE)
    reported = {each.name: each.reported for each in found.parameters}
    assert not reported["bandwidth_gbps"]  # a thread block of LL is much slower than a link
    assert reported["block_gbps"]
    assert any("do not tell" in note and "bandwidth_gbps" in note for note in found.notes)


def test_an_executor_that_the_machine_has_is_where_the_search_begins_and_keeps_its_pieces(
    tmp_path: Path,
) -> None:
    some = [PATTERN["pairs"](range(3), Protocol.LL, k) for k in (1, 8)]
    odd = replace(EXECUTOR, protocols={"LL": replace(LL, piece_bytes=10000), "Simple": SIMPLE})
    found = fit_runs(measured(tmp_path, some, replace(TRUE, executor=odd)), replace(BASE, executor=odd))
    assert found.pieces is None
    assert found.machine.executor is not None
    assert found.machine.executor.costs_of("LL").piece_bytes == 10000
    assert found.machine.executor.costs_of("Simple") == SIMPLE


def test_calls_that_fall_asleep_are_found_and_the_machine_says_so(tmp_path: Path) -> None:
    sleepy = replace(LL, launch_us=200.0, sleep_after_us=260.0, wake_us=25.0)
    true = replace(TRUE, executor=replace(EXECUTOR, protocols={"LL": sleepy}))
    some = [PATTERN["pairs"](range(3), Protocol.LL, k) for k in (1, 4, 8)]
    found = fit_runs(measured(tmp_path, some, true), BASE)
    assert found.machine.executor is not None
    costs = found.machine.executor.costs_of("LL")
    assert costs.wake_us == pytest.approx(25.0, rel=0.2)
    after = next(each for each in found.parameters if each.name == "sleep_after_us")
    assert after.low <= after.value == costs.sleep_after_us <= after.high
    assert found.errors.max() < 0.02


def test_programs_for_another_number_of_gpus_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="is for 3 ranks, but ring:4 has 4 GPUs"):
        fit_runs(measured(tmp_path, programs()[:1]), "ring:4")


def test_too_few_times_for_so_many_numbers_are_refused(tmp_path: Path) -> None:
    runs = measured(tmp_path, programs()[:1])
    few = replace(runs.files[0], size_bytes=runs.files[0].size_bytes[:4], time_us=runs.files[0].time_us[:4])
    with pytest.raises(TopologyError, match="4 measured times are too few for 8 numbers"):
        fit_runs(MeasuredRuns((few,)), BASE)


def test_a_machine_without_executor_predicts_nothing(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="has no executor"):
        residuals_of(BASE, measured(tmp_path, programs()[:1]).files)
