import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Send, schedule_from_sends, schedule_to_json

Taccl = Callable[..., Result]

MACHINE = """\
name: four-in-a-row
gpus: 4
links:
  - {pairs: [0-1, 1-2, 2-3], alpha_us: 0.7, bandwidth_gbps: 25}
"""


@pytest.fixture
def files(taccl: Taccl) -> tuple[Path, Path]:
    """An XML and the schedule that it was made from, in the current folder, with their machine."""
    Path("machine.yaml").write_text(MACHINE)
    words = ("--topology", "machine.yaml", "--size", "4MB", "--engine", "greedy", "--effort", "300")
    done = taccl("synthesize", *words, "-o", "ag.xml", "--schedule", "ag.json", "-q")
    assert done.exit_code == 0, done.output
    return Path("ag.xml"), Path("ag.json")


def bars_of(page: Path) -> int:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return len(json.loads(found[1])["bars"]["lane"])


def test_a_schedule_is_shown_with_its_time_bound_and_gap(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("show", files[1])
    assert done.exit_code == 0
    for label in ("time", "lower bound", "gap", "algbw", "START us"):
        assert label in done.stdout


def test_an_xml_is_shown_step_by_step(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("show", files[0], "--rank", 2)
    assert done.exit_code == 0
    assert "rank 2: " in done.stdout
    assert "rank 1: " not in done.stdout
    assert "rank 2's chunk 0" in done.stdout


def test_on_a_machine_an_xml_has_times_with_their_bound(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("show", files[0], "--topology", "machine.yaml", "--size", "4MB")
    assert done.exit_code == 0, done.output
    assert re.search(r"^time +[\d.]+ us$", done.stdout, re.MULTILINE)
    assert re.search(r"^lower bound +[\d.]+ us", done.stdout, re.MULTILINE)
    assert re.search(r"\d \.\. [\d.]+ us", done.stdout)


def test_a_page_and_a_trace_have_all_transfers(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("show", files[1], "--html", "s.html", "--trace", "s.json")
    assert done.exit_code == 0
    transfers = len(json.loads(files[1].read_text())["transfers"]["chunk"])
    assert bars_of(Path("s.html")) == transfers
    assert f"wrote s.html: {transfers} bars, {transfers} transfers" in done.stdout
    phases = [event["ph"] for event in json.loads(Path("s.json").read_text())["traceEvents"]]
    assert phases.count("s") == phases.count("f") == transfers

    done = taccl("show", files[0], "--html", "x.html")
    assert f"{transfers} transfers" in done.stdout
    assert "note: No times are known" in done.stdout


def test_an_input_is_never_overwritten(taccl: Taccl, files: tuple[Path, Path]) -> None:
    before = files[1].read_bytes()
    for option in ("--html", "--trace"):
        done = taccl("show", files[1], option, files[1])
        assert done.exit_code == 2
        assert "both an output and an input" in done.stderr
    assert files[1].read_bytes() == before


def test_outputs_that_cannot_be_written_are_refused_first(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("show", files[1], "--html", "page.html", "--trace", "no/such/folder/t.json")
    assert done.exit_code == 2
    assert "does not exist" in done.stderr
    assert not Path("page.html").exists()
    assert taccl("show", "missing.xml", "--html", ".").stderr.startswith("error: .: this is a folder")


def test_a_file_that_was_there_stays_when_the_input_is_wrong(taccl: Taccl) -> None:
    Path("page.html").write_text("mine")
    Path("wrong.json").write_text('{"format": "something else"}')
    done = taccl("show", "wrong.json", "--html", "page.html")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: wrong.json")
    assert Path("page.html").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe\x00", b"[1, 2]", b"{"])
def test_neither_xml_nor_a_schedule_exits_2(taccl: Taccl, content: bytes) -> None:
    Path("file").write_bytes(content)
    done = taccl("show", "file")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: file")


def test_a_missing_file_and_a_folder_exit_2(taccl: Taccl) -> None:
    for name, said in (("missing", "there is no such file"), (".", "this is a directory, not a file")):
        done = taccl("show", name)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {name}: {said}")


def test_options_of_no_use_are_refused(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("show", files[1], "--topology", "machine.yaml")
    assert done.exit_code == 2
    assert "a schedule knows its machine" in done.stderr
    done = taccl("show", files[0], "--size", "4MB")
    assert done.exit_code == 2
    assert "give --topology or --sketch" in done.stderr
    done = taccl("show", files[0], "--html", "x.html", "--rank", 1)
    assert done.exit_code == 2
    assert not Path("x.html").exists()
    done = taccl("show", files[0], "--rank", 9)
    assert done.exit_code == 2
    assert "there is no rank 9" in done.stderr


def claim(path: Path, bound_us: float, why: str) -> None:
    """Write a bound into the file of a schedule, as anybody can."""
    saved = json.loads(path.read_text())
    path.write_text(json.dumps(saved | {"lower_bound_us": bound_us, "bound_source": why}))


@pytest.fixture
def slow(taccl: Taccl) -> Path:
    """One chunk over one link, which takes 1 us, and leaves 1 us late."""
    topology = LogicalTopology(
        name="chain",
        node_of=np.zeros(2, dtype=np.int64),
        src=np.array([0]),
        dst=np.array([1]),
        alpha_us=np.array([0.0]),
        beta_us_per_mb=np.array([1.0]),
        ports=((0,),),
        port_names=("the link",),
    )
    problem = Problem(topology, make_collective("broadcast", 2), 1.0)
    path = Path("slow.json")
    path.write_text(schedule_to_json(schedule_from_sends(problem, [Send((0,), 0, 1.0)])))
    return path


@pytest.mark.parametrize("command", ["show", "simulate"])
def test_a_bound_that_a_file_claims_is_told_as_a_claim_and_never_shown_as_the_bound(
    taccl: Taccl, slow: Path, command: str
) -> None:
    claim(slow, 1.98, "proved\x1b[31m by me")
    done = taccl(command, slow)
    assert done.exit_code == 0, done.output
    assert "note" in done.stdout
    assert "the file claims a bound of 1.98 us ('proved [31m by me'), which is not proved here" in done.stdout
    assert done.stdout.count("1.98") == 1
    assert re.search(r"1\.00 .*latency of chunk 0", done.stdout)


@pytest.mark.parametrize("bound_us", [0.0, 0.3, 1.0])
def test_what_a_file_claims_is_not_told_where_as_much_is_proved(
    taccl: Taccl, slow: Path, bound_us: float
) -> None:
    claim(slow, bound_us, "proved by me")
    for command in ("show", "simulate"):
        done = taccl(command, slow)
        assert "proved by me" not in done.stdout
        assert re.search(r"1\.00 .*latency of chunk 0", done.stdout)


def test_a_page_tells_the_claim_too(taccl: Taccl, slow: Path) -> None:
    claim(slow, 1.98, "proved by me")
    done = taccl("show", slow, "--html", "page.html")
    assert "note: the file claims a bound of 1.98 us" in done.stdout
    assert "which is not proved here" in Path("page.html").read_text()


def test_a_symmetry_that_a_file_makes_up_raises_no_bound(taccl: Taccl, slow: Path) -> None:
    saved = json.loads(slow.read_text())
    slow.write_text(json.dumps(saved | {"symmetry": [[1, 0]]}))
    for command in ("show", "simulate"):
        done = taccl(command, slow)
        assert done.exit_code == 0, done.output
        assert re.search(r"1\.00 .*latency of chunk 0", done.stdout)


PLAN = Path(__file__).parents[1] / "data" / "mscclpp" / "napkin-relay_3.json"


def test_a_plan_is_shown_with_what_its_numbers_mean(taccl: Taccl) -> None:
    done = taccl("show", PLAN, "--rank", "1")
    assert done.exit_code == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "rank 1: 1 thread block; chunks: 1 in, 1 out, 0 scratch" in lines
    assert "3 pwsf o[0] rank 2 o[0] port channel 1 (rank 2)" in lines
    assert not any(line.startswith("rank 0:") for line in lines)


def test_on_a_machine_the_operations_of_a_plan_have_times(taccl: Taccl) -> None:
    done = taccl("show", PLAN, "--topology", "switch:3", "--size", "1MB")
    assert done.exit_code == 0, done.stderr
    assert "lower bound" in done.stdout
    assert "START us" in done.stdout


def test_a_plan_has_a_page_and_a_trace(taccl: Taccl) -> None:
    done = taccl(
        "show", PLAN, "--topology", "switch:3", "--size", "1MB", "--html", "p.html", "--trace", "p.json"
    )
    assert done.exit_code == 0, done.stderr
    assert "wrote p.html: 6 bars, 2 transfers" in done.stdout
    assert bars_of(Path("p.html")) == 6
    trace = json.loads(Path("p.json").read_text())
    assert trace["otherData"]["lower bound"]
    assert {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"} >= {
        "pwsf i[0] to rank 1 o[0]"
    }
    done = taccl("show", PLAN, "--html", "p.html")
    assert "note: No times are known" in done.stdout


def test_the_options_for_a_plan_are_checked(taccl: Taccl) -> None:
    assert taccl("show", PLAN, "--rank", "7").exit_code == 2
    assert taccl("show", PLAN, "--size", "1MB").exit_code == 2
    assert taccl("show", PLAN, "--rank", "1", "--html", "p.html").exit_code == 2
    Path("hangs.json").write_text(PLAN.read_text().replace('"signal"', '"nop"', 1))
    done = taccl("show", "hangs.json", "--html", "p.html")
    assert (done.exit_code, Path("p.html").exists()) == (4, False)
    assert "hangs.json: the plan hangs" in done.stderr
