"""What other packages add takes part as if it had come with taccl."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from taccl import synthesize
from taccl.cli.main import main
from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.registry import names
from taccl.errors import SolverError, TacclError
from taccl.plugins import added


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str) -> None:
    """A package with these entry points, as an installer leaves it on the path."""
    about = folder / "toys-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def toy_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "[taccl.engines]\nstraight = toy:ENGINE\n")


@pytest.mark.usefixtures("toy_engine")
@pytest.mark.parametrize("engine", ["straight", "auto"])
def test_an_engine_of_another_package_takes_part(engine: str) -> None:
    """An AllReduce whose bound is not met at once: it is asked for each phase."""
    assert "straight" in names()
    result = synthesize("allreduce", topology="full:4", size="4MB", engine=engine, chunks=2, time_limit=2.0)
    assert "straight" in [run.name for run in result.found.engines]


@pytest.mark.usefixtures("toy_engine")
def test_where_it_does_not_serve_its_reason_is_told() -> None:
    with pytest.raises(SolverError, match="straight does not serve this problem: some rank has no link"):
        synthesize("alltoall", topology="ring:4", size="4MB", engine="straight", time_limit=2.0)


@pytest.mark.usefixtures("toy_engine")
def test_the_command_line_knows_it() -> None:
    asked = [
        "synthesize",
        "--topology",
        "full:4",
        "--size",
        "4MB",
        "--engine",
        "straight",
        "--time-limit",
        "5",
    ]
    done = CliRunner().invoke(main, [*asked, "--no-xml"])
    assert done.exit_code == 0, done.output
    refused = CliRunner().invoke(main, [*asked[:2], "ring:4", *asked[3:]])
    assert refused.exit_code == 2


def test_without_other_packages_nothing_is_added() -> None:
    assert added("taccl.nothing", Engine) == ()


@pytest.mark.parametrize(
    ("value", "told"), [("toy:NOTHING", "cannot be loaded"), ("toy:serves", "is no Engine")]
)
def test_what_cannot_be_loaded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, told: str
) -> None:
    install(tmp_path, monkeypatch, f"[taccl.engines]\nbroken = {value}\n")
    with pytest.raises(TacclError, match=told):
        names()
