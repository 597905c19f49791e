"""Where results go: standard output as a file, and outputs that fail."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from taccl.backend.verify.msccl_xml import verify_text
from taccl.cli import signals
from taccl.model.schedule import schedule_from_json

Taccl = Callable[..., Result]

RING = ("--topology", "ring:3", "--size", "3MB", "--engine", "greedy", "--gap", "0.9")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def test_a_file_on_standard_output_has_it_for_itself(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "-q", "-o", "-")
    assert done.exit_code == 0, done.stderr
    assert verify_text(done.stdout, targets=["msccl"]).ok
    assert "lower bound" in done.stderr
    assert "wrote standard output: for msccl, executor, rccl" in done.stderr
    assert "MSCCL_XML_FILES" not in done.stderr
    assert not list(Path().iterdir())


def test_a_schedule_on_standard_output_can_be_read_back(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "-q", "-o", "a.xml", "--schedule", "-")
    schedule_from_json(done.stdout)
    assert [path.name for path in Path().iterdir()] == ["a.xml"]
    done = taccl("pareto", "--topology", "ring:3", "--size", "3MB", "-q", "--schedule", "-")
    schedule_from_json(done.stdout)
    assert "wrote standard output" in done.stderr


def test_a_page_and_a_sketch_can_go_to_standard_output(taccl: Taccl) -> None:
    assert taccl("synthesize", *RING, "-q", "-o", "a.xml").exit_code == 0
    done = taccl("show", "a.xml", "--html", "-")
    assert done.stdout.startswith("<!")
    assert "wrote standard output" in done.stderr
    done = taccl("sketch", "init", "ndv2", "-o", "-")
    assert done.stdout == taccl("sketch", "init", "ndv2").stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-o", "-", "--schedule", "-"), "only one output"),
        (("-o", "-", "--json"), "both want standard output"),
        (("-o", "-", "--collective", "reduce-scatter"), "makes two files"),
    ],
)
def test_standard_output_takes_one_thing(taccl: Taccl, words: tuple[str, ...], why: str) -> None:
    done = taccl("synthesize", *RING, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert why in done.stderr


def test_one_target_of_reduce_scatter_is_one_file(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "-q", "--collective", "reduce-scatter", "--target", "rccl", "-o", "-")
    assert verify_text(done.stdout, targets=["rccl"]).ok


@needs_full
def test_what_one_output_cannot_hold_another_one_keeps(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "-q", "-o", FULL, "--schedule", "a.json")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: /dev/full: cannot be written: No space left")
    schedule_from_json(Path("a.json").read_text())
    assert "lower bound" in done.stdout
    assert "wrote a.json" in done.stdout
    assert "wrote /dev/full" not in done.stdout
    assert "no file written" not in done.stdout


def test_a_name_that_leads_in_a_circle_is_refused(taccl: Taccl) -> None:
    Path("loop").symlink_to("loop")
    for option in ("-o", "--schedule"):
        done = taccl("synthesize", *RING, option, "loop")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("error: loop: cannot be written")
    for words in (("show",), ("verify",), ("simulate",), ("run",), ("sketch", "check")):
        done = taccl(*words, "loop")
        assert done.exit_code == 2
        assert "loop" in done.stderr
        assert "internal error" not in done.stderr


def test_without_a_working_directory_only_names_that_need_one_are_refused(
    taccl: Taccl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, kept = tmp_path / "gone", tmp_path / "a.xml"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = taccl("synthesize", *RING, "-o", "a.xml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: a.xml: cannot be written")
    assert taccl("show", "a.xml").exit_code == 2
    assert taccl("synthesize", *RING, "-o", kept).exit_code == 0
    assert kept.exists()


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C is heard, also where whoever started the tests ignores it, as shells do in the background."""
    before = signals.signal.signal(signals.signal.SIGINT, signals.signal.default_int_handler)
    yield
    signals.signal.signal(signals.signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_one_interruption_leaves_what_is_short_undisturbed() -> None:
    with pytest.raises(KeyboardInterrupt), signals.undisturbed():
        signals.signal.raise_signal(signals.signal.SIGTERM)
        done = "after the first"
        signals.signal.raise_signal(signals.signal.SIGINT)
        done = "after the second"
    assert done == "after the first"


def command(*words: str, **how: object) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-m", "taccl", *words], stderr=subprocess.PIPE, env=environment, text=True, **how
    )


def test_a_closed_pipe_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    process = command("topology", "list", stdout=subprocess.PIPE, cwd=tmp_path)
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == "error: standard output: was closed before all was written (as by `| head`)\n"


@needs_full
@pytest.mark.parametrize("words", [("topology", "list"), ("--help",), ("verify", "--help")])
def test_a_full_standard_output_is_an_error_in_a_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        process = command(*words, stdout=full, cwd=tmp_path)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == "error: standard output: cannot be written: No space left on device\n"


@needs_full
def test_a_search_whose_progress_nobody_can_read_goes_on(taccl: Taccl, tmp_path: Path) -> None:
    with FULL.open("w") as full:
        words = ["synthesize", *RING, "-o", "a.xml", "--json"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-m", "taccl", *words],
            stdout=subprocess.PIPE,
            stderr=full,
            env=environment,
            cwd=tmp_path,
            check=True,
            timeout=60,
        )
    assert json.loads(done.stdout)["files"][0]["path"] == "a.xml"
    assert (tmp_path / "a.xml").exists()
