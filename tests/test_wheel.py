"""The wheel has all files of the package, and commands run from it where the sources are not.

`make package` does so in clean environments, with all of the commands.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from installed import built_wheel, missing, tried

_MAIN = "from taccl.cli.main import main; main(prog_name='taccl')"


@pytest.mark.skipif(find_spec("setuptools") is None, reason="builds a wheel, which takes setuptools")
def test_commands_run_from_the_wheel(tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path)
    assert missing(wheel) == []
    place, empty = tmp_path / "place", tmp_path / "empty"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(place)]
    subprocess.run([sys.executable, "-m", "pip", *install, str(wheel)], check=True)
    empty.mkdir()
    env = {**os.environ, "PYTHONPATH": str(place)}
    where = [sys.executable, "-c", "import taccl; print(taccl.__file__)"]
    assert subprocess.check_output(where, cwd=empty, env=env, text=True).startswith(str(place))
    assert list(tried([sys.executable, "-c", _MAIN], empty, env, most=4)) == []
