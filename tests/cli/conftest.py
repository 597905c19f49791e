from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from taccl.cli.main import main


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_engine: the fault is found by the engines, not before them")


Taccl = Callable[..., Result]


@pytest.fixture
def taccl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taccl:
    """Run the command in an empty folder; `result.stdout` and `result.stderr` are apart."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words])

    return run
