"""A solver in a process of its own: nothing of it is left, whatever happens."""

import os
import select
from pathlib import Path

import numpy as np
import pytest

from taccl.encoding.core import by_pulp
from taccl.encoding.core.by_pulp import PulpModel, find_solver, solve_by_pulp
from taccl.errors import SolverError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(by_pulp.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def at_least(most: float) -> PulpModel:
    """Minimise x with 2 x >= 3 and x <= most, x being whole."""
    one, none = np.array([1.0]), np.array([0])
    return PulpModel(
        lower=np.array([0.0]),
        upper=np.array([most]),
        cost=one,
        integer=np.array([True]),
        starts=np.array([0, 1]),
        column=none,
        value=2 * one,
        row_lower=3 * one,
        row_upper=np.array([np.inf]),
    )


def test_what_is_found_comes_back_and_no_file_stays(folder: Path) -> None:
    outcome, values = solve_by_pulp(at_least(9.0), find_solver("cbc"), 10.0, 0.0)
    assert outcome == "feasible"
    assert values is not None
    assert values.tolist() == [2.0]
    assert solve_by_pulp(at_least(1.0), find_solver("cbc"), 10.0, 0.0) == ("infeasible", None)
    assert not list(folder.iterdir())


def wait_for_the_end_of(pid: int) -> None:
    """Returns when a process has ended, and else never does."""
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([ended], [], [])
    os.close(ended)


def test_a_solver_that_hangs_is_ended_with_what_it_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = folder / "child"
    program = (
        "import pathlib, subprocess",
        "child = subprocess.Popen(['sleep', '100'])",
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))",
        "child.wait()",
    )
    sleeper = "; ".join(program)
    monkeypatch.setattr(by_pulp, "_CHILD", sleeper)
    monkeypatch.setattr(by_pulp, "BY_PULP_GRACE_S", 2.0)
    assert solve_by_pulp(at_least(9.0), "any", 0.0, 0.0) == ("unknown", None)
    wait_for_the_end_of(int(note.read_text()))
    assert list(folder.iterdir()) == [note]


def test_an_interruption_ends_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(process: object, seconds: float | None = None) -> int:
        if seconds is not None:
            raise KeyboardInterrupt
        return os.waitpid(process.pid, 0)[1]

    monkeypatch.setattr(by_pulp, "_CHILD", "import time; time.sleep(100)")
    monkeypatch.setattr(by_pulp.subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve_by_pulp(at_least(9.0), "any", 10.0, 0.0)
    assert not list(folder.iterdir())


def test_a_solver_that_fails_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_pulp, "_CHILD", "raise SystemExit('no licence')")
    with pytest.raises(SolverError, match="the solver failed: no licence"):
        solve_by_pulp(at_least(9.0), "any", 10.0, 0.0)
    assert not list(folder.iterdir())


def test_a_full_disk_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(by_pulp.np, "savez", full)
    with pytest.raises(SolverError, match="has no room for its files: No space left on device"):
        solve_by_pulp(at_least(9.0), "any", 10.0, 0.0)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["GLPK_CMD", "CHOCO_CMD", "PULP_CBC_CMD"])
def test_a_solver_is_told_as_much_as_it_takes(name: str) -> None:
    """GLPK knows no gap, Choco no start; CBC knows both, and a seed. None of them has to be installed."""
    solver = by_pulp._solver(name, 5, 0.1, 7, has_start=True)
    assert solver.timeLimit == 5
    is_cbc = name == "PULP_CBC_CMD"
    assert solver.optionsDict.get("gapRel") == (0.1 if is_cbc else None)
    assert bool(solver.optionsDict.get("warmStart")) == is_cbc
    assert solver.options == (["randomCbcSeed 7"] if is_cbc else [])


def test_a_solver_is_not_asked_with_less_than_a_second() -> None:
    """Many count whole seconds, so it would get more than there is."""
    assert solve_by_pulp(at_least(9.0), find_solver("cbc"), 0.9, 0.0) == ("unknown", None)
