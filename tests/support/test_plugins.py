"""What other packages add takes part as if it had come with taccl."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from taccl import bounds, make_problem, synthesize
from taccl.cli.main import main
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.engine import Engine, Verdict
from taccl.encoding.engines.registry import ENGINES, engine_named, first_engines, names
from taccl.encoding.instance import Instance
from taccl.errors import SolverError, TacclError
from taccl.support.plugins import added
from taccl.synthesis.search import search

FULL = ("--topology", "full:4", "--size", "4MB")


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
    """An AllReduce whose bound is not met at once: it is requested each phase."""
    assert "straight" in names()
    result = synthesize("allreduce", topology="full:4", size="4MB", engine=engine, chunks=3, effort=2000)
    assert "straight" in [run.name for run in result.found.engines]


@pytest.mark.usefixtures("toy_engine")
def test_where_it_does_not_serve_its_reason_is_told() -> None:
    with pytest.raises(SolverError, match="straight does not serve this problem: some rank has no link"):
        synthesize("alltoall", topology="ring:4", size="4MB", engine="straight", time_limit=2.0)


@pytest.mark.usefixtures("toy_engine")
def test_the_command_line_knows_it() -> None:
    requested = [
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
    done = CliRunner().invoke(main, [*requested, "--no-file"])
    assert done.exit_code == 0, done.output
    refused = CliRunner().invoke(main, [*requested[:2], "ring:4", *requested[3:]])
    assert refused.exit_code == 2


def test_without_other_packages_nothing_is_added() -> None:
    assert added("taccl.nothing", Engine) == ()


@pytest.mark.parametrize(
    ("value", "reported"), [("toy:NOTHING", "cannot be loaded"), ("toy:serves", "is no Engine")]
)
def test_what_cannot_be_loaded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, reported: str
) -> None:
    install(tmp_path, monkeypatch, f"[taccl.engines]\nbroken = {value}\n")
    with pytest.raises(TacclError, match=reported):
        names()


def test_a_package_is_seen_once_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where packages are is remembered, until a folder that they are in changes."""
    monkeypatch.syspath_prepend(str(tmp_path))
    os.utime(tmp_path, (0, 0))
    assert "straight" not in names()
    install(tmp_path, monkeypatch, "[taccl.engines]\nstraight = toy:ENGINE\n")
    assert "straight" in names()


@pytest.fixture
def toy_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "[taccl.bounds]\none-link = toy_bound:BOUND\n")


@pytest.mark.usefixtures("toy_bound")
def test_a_bound_of_another_package_is_proved_and_shown() -> None:
    """A link of full:4 carries 1 MB in no less than its alpha and beta."""
    shown = {proof.kind: proof for proof in bounds("alltoall", topology="full:4", size="4MB")}
    problem = make_problem("alltoall", topology="full:4", size="4MB").problem
    link_us = problem.topology.alpha_us[0] + problem.chunk_mb * problem.topology.beta_us_per_mb[0]
    assert shown["one-link"].value_us == pytest.approx(link_us)
    assert shown["one-link"].remedy == "a faster link"
    done = CliRunner().invoke(main, ["bound", *FULL, "--collective", "alltoall"])
    assert "no link is faster than 0 -> 1" in done.output


@pytest.mark.usefixtures("toy_bound")
def test_a_bound_that_does_not_know_a_feature_is_skipped_with_its_reason() -> None:
    requested = ["synthesize", *FULL, "--no-file", "--effort", "500", "--chunks", "1", "--json"]
    for collective, declined in (("allreduce", True), ("alltoall", False)):
        done = CliRunner().invoke(main, [*requested, "--collective", collective])
        assert done.exit_code == 0, done.output
        reasons = {each["name"]: each["reason"] for each in json.loads(done.stdout)["declined"]}
        assert reasons.get("bound one-link") == ("it knows no reductions" if declined else None)


ONE_CHUNK = ("alltoall", 1, 1_500, 12.0)  # greedy alone takes 17.2 us
ANY_CHUNKS = ("broadcast", "auto", 1_600, 20.0)  # and 42.9
LONGER = ("broadcast", "auto", 4_800, 20.0)  # until every bound has had its turn


@pytest.mark.parametrize(
    ("group", "toy", "reported", "asked"),
    [
        ("engines", "LIAR", "not valid", ONE_CHUNK),
        ("engines", "LIAR", "not valid", ANY_CHUNKS),
        ("engines", "UNSURE", "ZeroDivisionError: requested", ONE_CHUNK),
        ("engines", "MUTE", "no Verdict", ONE_CHUNK),
        ("engines", "EAGER", "ZeroDivisionError: called", ONE_CHUNK),
        ("engines", "LEAVER", "SystemExit: leaving", ONE_CHUNK),
        ("engines", "WORDY", "AttributeError", ANY_CHUNKS),
        ("engines", "NOTHING", "cannot be loaded", ONE_CHUNK),
        ("bounds", "NOTHING", "cannot be loaded", ONE_CHUNK),
        ("bounds", "BROKEN", "ZeroDivisionError: proving", ONE_CHUNK),
        ("bounds", "HIGH", "above a valid schedule", ONE_CHUNK),
        ("bounds", "HIGH", "above a valid schedule", LONGER),
    ],
)
def test_what_breaks_its_promise_costs_the_others_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    toy: str,
    reported: str,
    asked: tuple[str, int | str, int, float],
) -> None:
    """A ring of four GPUs, on which other engines end far below the first schedule."""
    collective, chunks, effort, below_us = asked
    install(tmp_path, monkeypatch, f"[taccl.{group}]\ntoy = toys_that_fail:{toy}\n")
    requested = {"topology": "ring:4", "size": "1MB", "effort": effort, "chunks": chunks, "file": False}
    found = synthesize(collective, **requested).found
    assert any(reported in failure.text for failure in found.failures), found.failures
    assert found.schedule.makespan_us < below_us
    assert found.lower_bound_us <= found.schedule.makespan_us * (1 + 1e-9)


def test_help_is_there_whatever_other_packages_add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is imported anew, as in a shell."""
    install(tmp_path, monkeypatch, "[taccl.engines]\nbroken = toy:NOTHING\n")
    monkeypatch.delitem(sys.modules, "taccl.cli.synthesize", raising=False)
    assert CliRunner().invoke(main, ["synthesize", "--help"]).exit_code == 0
    assert CliRunner().invoke(main, ["--help"]).exit_code == 0


@pytest.mark.parametrize(
    ("command", "group", "toy", "reported"),
    [
        (("synthesize", "--engine", "unsure"), "engines", "UNSURE", "the engine 'unsure'"),
        (
            ("synthesize", "--engine", "unsure", "--chunks", "1"),
            "engines",
            "UNSURE",
            "ZeroDivisionError: requested",
        ),
        (("synthesize", "--engine", "mute", "--chunks", "1"), "engines", "MUTE", "no Verdict"),
        (("synthesize", "--engine", "toy"), "engines", "NOTHING", "toys_that_fail:NOTHING"),
        (("synthesize", "--explain-stages"), "engines", "UNSURE", "the engine 'unsure'"),
        (("synthesize", "--explain-stages"), "engines", "NOTHING", "cannot be loaded"),
        (("synthesize", "--explain-stages", "--engine", "unsure"), "engines", "UNSURE", "requested"),
        (("bound",), "bounds", "BROKEN", "the bound 'broken' (toys_that_fail:BROKEN)"),
        (("bound",), "bounds", "BROKEN", "ZeroDivisionError: proving"),
        (("bound",), "bounds", "NOTHING", "cannot be loaded"),
        (("explain",), "bounds", "BROKEN", "ZeroDivisionError: proving"),
    ],
)
def test_the_bug_of_another_package_is_told_as_its_own_where_it_is_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    group: str,
    toy: str,
    reported: str,
) -> None:
    install(tmp_path, monkeypatch, f"[taccl.{group}]\ntoy = toys_that_fail:{toy}\n")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [command[0], *FULL, *command[1:]])
    assert done.exit_code == 2, done.output
    assert reported in done.stderr
    assert "which an installed package adds" in done.stderr
    assert "repair or remove that package" in done.stderr
    assert "a bug in taccl" not in done.stderr


@pytest.mark.parametrize("statement", ["raise SystemExit('gone')", "1 / 0", "import nothing_of_that_name"])
def test_a_package_that_fails_while_it_is_imported_ends_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    (tmp_path / "fails_at_import.py").write_text(statement)
    install(tmp_path, monkeypatch, "[taccl.engines]\ntoy = fails_at_import:ENGINE\n")
    found = synthesize("alltoall", topology="full:4", size="4MB", chunks=1, effort=300, file=False).found
    assert "'fails_at_import:ENGINE', which an installed package adds" in found.failures[0].text
    refused = CliRunner().invoke(main, ["synthesize", *FULL, "--engine", "toy"])
    assert (refused.exit_code, "cannot be loaded" in refused.stderr) == (2, True)


def test_an_engine_that_is_whole_is_found_beside_one_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "[taccl.engines]\nbroken = toy:NOTHING\nstraight = toy:ENGINE\n")
    assert engine_named("straight").about == "every chunk straight to its rank"
    found = synthesize("alltoall", topology="full:4", size="4MB", chunks=1, effort=500, file=False).found
    assert [failure.name for failure in found.failures] == ["broken"]


def test_first_schedules_are_looked_for_with_the_engines_that_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs that come late are known to few engines, so those of other packages are requested, too."""
    install(tmp_path, monkeypatch, "[taccl.engines]\ntoy = toys_that_fail:UNSURE_OF_ALL\n")
    plain = make_problem("allgather", topology="ring:3", size="3MB").problem
    late = replace(plain, ready_us=np.array([0.0, 0.0, 5.0]))
    search(late, SearchOptions(effort=300)).schedule.check()
    failures: list[tuple[str, Exception]] = []
    whole = list(first_engines(Instance(late), lambda name, fault: failures.append((name, fault))))
    assert [engine.name for engine in whole] == ["routes", "cp", "lns"]
    assert "ZeroDivisionError: requested" in str(failures[0][1])
    with pytest.raises(TacclError, match="unsure-of-all"):
        list(first_engines(Instance(late)))


def test_a_bug_of_taccl_itself_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(instance: Instance) -> Verdict:
        raise ZeroDivisionError("ours")

    own = replace(engine_named("milp"), serves=broken)
    ours = tuple(own if each.name == "milp" else each for each in ENGINES)
    monkeypatch.setattr("taccl.encoding.engines.registry.ENGINES", ours)
    done = CliRunner().invoke(main, ["synthesize", *FULL, "--engine", "milp", "--no-file"])
    assert done.exit_code == 1
    assert "a bug in taccl" in done.stderr
