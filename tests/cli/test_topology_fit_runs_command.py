"""`taccl topology fit --runs`: what it prints and writes, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Protocol
from taccl.calibration.probe.patterns import PATTERNS

Taccl = Callable[..., Result]
PAIR = "name: pair\ngpus: 2\nlinks:\n  - {pairs: [0-1], alpha_us: 0.5, bandwidth_gbps: 25}\n"


@pytest.fixture
def inputs(taccl: Taccl) -> Taccl:
    """A machine, and a folder with one program and its times."""
    Path("pair.yaml").write_text(PAIR)
    Path("runs").mkdir()
    Path("runs", "a.xml").write_text(to_xml(PATTERNS[0].build(range(2), Protocol.LL, 1)))
    rows = [f"a.xml,{2**k},{5 + 2**k / 5e3}" for k in range(10, 22)]
    Path("runs", "times.csv").write_text("\n".join(["file,size_bytes,time_us", *rows]))
    return taccl


FIT = ("topology", "fit", "--runs", "runs", "--topology", "pair.yaml")


def test_it_prints_the_numbers_and_how_far_off_each_file_is(inputs: Taccl) -> None:
    done = inputs(*FIT)
    assert done.exit_code == 0, done.output
    assert "pair: 12 measured times of 1 programs" in done.stdout
    assert "block_gbps" in done.stdout
    assert "bootstrap over files" in done.stdout
    assert "a.xml" in done.stdout
    assert "error: median" in done.stdout


def test_the_machine_that_it_writes_is_one_that_simulate_takes(inputs: Taccl) -> None:
    done = inputs(*FIT, "-o", "fitted.yaml")
    assert done.exit_code == 0, done.output
    simulated = inputs(
        *("simulate", "runs/a.xml", "--topology", "fitted.yaml", "--size", "64KB,1MB", "--json")
    )
    assert simulated.exit_code == 0, simulated.output
    times = [run["time_us"] for run in json.loads(simulated.stdout)["results"]]
    assert times == pytest.approx([5 + 2**16 / 5e3, 5 + 2**20 / 5e3], rel=0.1)


def test_further_runs_may_follow(inputs: Taccl) -> None:
    done = inputs(
        *("topology", "fit", "--topology", "pair.yaml", "--runs"),
        *("runs/a.xml=runs/times.csv", "runs/a.xml=runs/times.csv", "--json"),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["schema"] == "taccl.topology.fit.runs/1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--runs", "runs"), "needs --topology"),
        (("--runs", "nowhere", "--topology", "pair.yaml"), "no folder of measured runs"),
        (("--runs", "runs", "--topology", "ring:3"), "is for 2 ranks"),
        (("--runs", "runs", "--topology", "pair.yaml", "--at", "1MB"), "--at"),
        (
            ("--runs", "runs", "--topology", "pair.yaml", "-o", "runs/times.csv"),
            "both an output and an input",
        ),
        (("--runs", "runs", "--topology", "pair.yaml", "-o", "no/f.yaml"), "no"),
    ],
)
def test_what_is_wrong_is_a_line_and_exit_code_2(inputs: Taccl, words: tuple[str, ...], message: str) -> None:
    before = Path("runs", "times.csv").read_text()
    done = inputs("topology", "fit", *words)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert Path("runs", "times.csv").read_text() == before
