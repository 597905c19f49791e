"""SIGTERM is Ctrl-C. Each test runs a process of its own, because a signal goes to a whole process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taccl.backend.verify.msccl_xml import verify_file

#: A machine with a first schedule at once, and none of the engines done within a minute.
HARD = (
    "--topology",
    "ndv2",
    "--nodes",
    "2",
    "--collective",
    "alltoall",
    "--size",
    "16MB",
    "--time-limit",
    "60",
    "--no-executor",
)

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `taccl` in an empty folder, with another one for its temporary files."""
    started = []
    (tmp_path / "temporary").mkdir()

    def begin(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "taccl", *words],
            cwd=tmp_path,
            env=os.environ | {"TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], word: str) -> bool:
    """Wait until standard error has a line with the word; False if it ends without."""
    assert process.stderr is not None
    return any(word in line for line in process.stderr)


@pytest.mark.parametrize("engine", ["cp", "lns", "milp"])
def test_sigterm_keeps_the_best_schedule_so_far(start: Start, tmp_path: Path, engine: str) -> None:
    process = start("synthesize", *HARD, "--engine", engine, "-o", "a.xml")
    assert said(process, "gap")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "(interrupted)" in output
    assert verify_file(tmp_path / "a.xml").ok


def test_sigterm_before_anything_is_found_exits_130_and_keeps_the_file_that_was_there(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # so that the process says how far it is
    (tmp_path / "a.json").write_text("old")
    process = start(
        "pareto",
        "--topology",
        "torus:4x4",
        "--collective",
        "alltoall",
        "--max-steps",
        "30",
        "--schedule",
        "a.json",
        "-q",
    )
    assert said(process, "taccl.analysis.pareto")  # the command is running, and far from its end
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (130, "")
    assert "error: interrupted" in errors
    assert (tmp_path / "a.json").read_text() == "old"


def test_a_solver_that_pulp_drives_ends_with_us_and_leaves_no_files(start: Start, tmp_path: Path) -> None:
    hard = ("--sketch", "ndv2-sk-1", "--collective", "alltoall", "--time-limit", "60", "--no-executor")
    process = start(
        "synthesize", *hard, "--engine", "milp", "--solver", "cbc", "--schedule", "a.json", "--no-file"
    )
    assert said(process, "gap")
    folder = tmp_path / "temporary"
    while process.poll() is None and not list(folder.glob("*/*.mps")):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert (tmp_path / "a.json").exists()
    assert not list(folder.iterdir())
    assert not processes_about(folder)


def processes_about(folder: Path) -> list[str]:
    """Command lines that name the folder."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if str(folder) in line]


#: An object is interrupted while it is deleted, where Python reports what is raised and goes on.
DELETED = """
import signal, threading
from taccl.cli.signals import terminated_as_interrupted

class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

with terminated_as_interrupted():
    try:
        deleted = Deleted()
        del deleted
        threading.Event().wait(60)
        print("lost")
    except KeyboardInterrupt:
        print("heard")
"""


def test_an_interrupt_of_code_that_cannot_raise_comes_again() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", DELETED],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=30,  # well before what it waits for is over
    )
    assert (done.stdout, done.stderr) == ("heard\n", "")
