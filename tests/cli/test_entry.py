"""Ctrl-C while the modules of the command are imported: exit code 130, and no traceback."""

from __future__ import annotations

import configparser
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import taccl

ROOT = Path(taccl.__file__).parents[1]

#: Takes the place of a library, and has the process interrupted in the middle of its import: by code that may
#: raise, or where Python reports what is raised and goes on.
RAISES = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
CANNOT_RAISE = f"""
class Lost:
    def __del__(self):
        {RAISES.strip().replace(chr(10), "; ")}
Lost()
"""


def interrupted_in(module: str, folder: Path, *command: str, ignores: bool = False) -> tuple[int, str, str]:
    """What a command comes to, and prints, if it is interrupted while `click` is imported."""
    (folder / "click.py").write_text(f"{module}\nraise SystemExit('went on')\n")
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignores else None,
    )
    return done.returncode, done.stdout, done.stderr


def console_script() -> tuple[str, ...]:
    """What the script that is installed as `taccl` does."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    _, entry = setup["options.entry_points"]["console_scripts"].split("=")
    module, name = entry.strip().split(":")
    return "-c", f"from {module} import {name}; {name}()"


@pytest.mark.parametrize("module", [RAISES, CANNOT_RAISE], ids=["raises", "cannot raise"])
@pytest.mark.parametrize("command", [("-m", "taccl"), console_script()], ids=["python -m", "script"])
def test_an_interrupted_import_ends_with_130_and_one_line(
    module: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    assert interrupted_in(module, tmp_path, *command) == (130, "", "error: interrupted\n")


def test_an_interrupt_while_python_tidies_up_changes_nothing() -> None:
    late = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT); "
    words = "import sys; sys.argv[1:] = ['topology', 'list']; "
    done = subprocess.run(
        [sys.executable, "-c", late + words + console_script()[1]],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "dgx-h100" in done.stdout


def test_a_process_that_is_to_ignore_ctrl_c_goes_on(tmp_path: Path) -> None:
    assert interrupted_in(RAISES, tmp_path, "-m", "taccl", ignores=True) == (1, "", "went on\n")


def test_nothing_is_imported_before_the_entry_that_takes_long() -> None:
    loaded = "import sys; before = set(sys.modules); import taccl.__main__; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ours = {name for name in done.stdout.split() if name.startswith("taccl")}
    assert ours == {"taccl", "taccl.__main__"}
    assert not {"importlib.metadata", "click"} & set(done.stdout.split())
