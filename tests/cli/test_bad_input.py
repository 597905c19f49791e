"""What users get wrong: each ends with a line on standard error and the exit code of its kind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.model.problem import Problem

Taccl = Callable[..., Result]

SKETCH = """\
topology: ndv2
nodes: 2
size: 16MB
chunks_per_rank: 1
intranode:
  strategy: none
internode:
  strategy: relay
  relay:
    0: [1]
symmetry:
  - {rotate: node, within: machine}
"""


def fails(done: Result, code: int, *words: str) -> None:
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    assert done.stderr.startswith("error: "), done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


@pytest.fixture(autouse=True)
def no_solver_runs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Bad input is found before any engine is requested, unless a test says that it needs one."""
    if "needs_engine" in request.keywords:
        return

    def solve(problem: Problem, options: SearchOptions, *rest: object) -> Iterator[Update]:
        raise AssertionError("an engine was requested")
        yield

    monkeypatch.setattr("taccl.synthesis.search.solve", solve)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("topology: ndv2\n", "", ("topology",)),
        ("chunks_per_rank", "chunks_per_rnak", ("unknown key", "chunks_per_rank", "s.yaml:4")),
        ("nodes: 2", "nodes: two", ("s.yaml:2", "whole number")),
        ("0: [1]", "0: [8]", ("s.yaml:10", "8")),
        ("rotate: node", "rotate: 1", ("s.yaml:12",)),
        ("internode:", "internode: [", ("not YAML", "s.yaml")),
        (SKETCH, "", ("empty", "s.yaml")),
        (SKETCH, "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", ("anchors", "s.yaml:1")),
    ],
    ids=[
        "missing key",
        "unknown key",
        "wrong type",
        "rank out of range",
        "no symmetry",
        "not YAML",
        "0-byte file",
        "YAML bomb",
    ],
)
def test_a_wrong_sketch_is_named_with_its_line(
    taccl: Taccl, old: str, new: str, words: tuple[str, ...]
) -> None:
    assert old in SKETCH
    Path("s.yaml").write_text(SKETCH.replace(old, new))
    fails(taccl("synthesize", "--sketch", "s.yaml"), 2, *words)


def test_a_relay_map_that_cuts_off_a_rank_exits_3_and_names_its_line(taccl: Taccl) -> None:
    Path("s.yaml").write_text(
        SKETCH.replace("    0: [1]", "    0: [1]\n  sender_for:\n    0: [0, 1]\n    2: [2]")
    )
    done = taccl("synthesize", "--sketch", "s.yaml")
    assert done.exit_code in (2, 3)
    fails(done, done.exit_code, "s.yaml:")


@pytest.mark.parametrize(
    ("value", "word"), [("0", "positive"), ("-1", "positive"), (".nan", "finite"), (".inf", "finite")]
)
def test_an_impossible_bandwidth_is_named_with_its_line(taccl: Taccl, value: str, word: str) -> None:
    Path("m.yaml").write_text(
        f"name: pair\ngpus: 2\nlinks:\n  - {{pairs: [0-1], alpha_us: 0.5, bandwidth_gbps: {value}}}\n"
    )
    fails(taccl("synthesize", "--topology", "m.yaml", "--size", "1MB"), 2, "m.yaml:4", word)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--size", "2"), ("2 bytes", "3 chunks", "3 bytes or more")),
        (("--size", "0"), ("positive",)),
        (("--size", "much"), ("not a size",)),
        (("--size", "3MB", "--nodes", "0"), ("node",)),
        (("--size", "3MB", "--collective", "allgaher"), ("unknown collective 'allgaher'", "allgather")),
        (("--size", "3MB", "--collective", "broadcast", "--root", "3"), ("root 3",)),
        (("--size", "3MB", "--root", "1"), ("has no root",)),
        (("--size", "3MB", "--chunks", "0"), ("--chunks",)),
        (("--size", "3MB", "--time-limit", "0"), ("time limit must be positive",)),
        (("--size", "3MB", "--time-limit", "nan"), ("time limit must be positive",)),
        (("--size", "3MB", "--gap", "1.5"), ("gap is a fraction",)),
        (("--size", "3MB", "--protocol", "LL256"), ("--protocol",)),
        (
            ("--size", "3MB", "--target", "mscclpp", "--protocol", "LL128"),
            ("mscclpp has no protocol 'LL128'",),
        ),
        (("--size", "3MB", "--ranks", "0-1", "-o", "x.xml"), ("one node of ring:3 cannot stand for all",)),
        (("--size", "3MB", "--sketch", "ndv2-sk-1"), ("cannot have 2", "the sketch ndv2-sk-1 is for 2")),
        (("--size", "3MB", "--profile", "missing.json"), ("missing.json",)),
        (("--size", "3MB", "--sketch", "missing.yaml"), ("missing.yaml", "no such file")),
        (("--size", "3MB", "--sketch", "ndv2-sk-9"), ("ndv2-sk-9", "ndv2-sk-")),
        (("--size", "3MB", "--collective", "missing.yaml"), ("missing.yaml", "no such file")),
        (("--size", "3MB", "--nic-sharing", "static"), ("part of a sketch",)),
        (("--size", "3MB", "--collective", "gather", "--target", "msccl"), ("msccl", "--target")),
        (("--size", "3MB", "--min-size", "2MB", "--max-size", "1MB"), ("no call",)),
        (("--size", "3MB", "--no-file", "-o", "x.xml"), ("--no-file",)),
        (("--size", "3MB", "-o", "x", "--schedule", "x"), ("both an output and another output",)),
        (("--sizee", "3MB"), ("--sizee",)),
        ((), ("no size is given",)),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_try(
    taccl: Taccl, words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    fails(taccl("synthesize", "--topology", "ring:3", *words), 2, *expected)


def test_without_topology_and_sketch_the_user_is_told_to_give_one(taccl: Taccl) -> None:
    fails(taccl("synthesize", "--size", "1MB"), 2, "no topology is given", "taccl topology list")


def test_an_unknown_machine_is_refused(taccl: Taccl) -> None:
    fails(taccl("synthesize", "--topology", "dgx3", "--size", "1MB"), 2, "'dgx3'", "dgx2")


def test_a_folder_as_sketch_is_refused(taccl: Taccl, tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    fails(taccl("synthesize", "--sketch", "folder.yaml"), 2, "folder.yaml", "directory")


def test_a_folder_as_collective_is_refused(taccl: Taccl, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    words = ("--topology", "ring:3", "--size", "3MB", "--collective", "folder")
    fails(taccl("synthesize", *words), 2, "folder", "directory")


@pytest.mark.parametrize("option", ["--output", "--schedule"])
@pytest.mark.parametrize(("where", "why"), [(".", "folder"), ("missing/x", "does not exist")])
def test_an_unwritable_output_is_found_before_solving(
    taccl: Taccl, option: str, where: str, why: str
) -> None:
    fails(taccl("synthesize", "--topology", "ring:3", "--size", "3MB", option, where), 2, why)


def test_an_output_over_an_input_is_refused(taccl: Taccl) -> None:
    Path("s.yaml").write_text(SKETCH)
    fails(taccl("synthesize", "--sketch", "s.yaml", "-o", "./s.yaml"), 2, "both an output and an input")
    assert Path("s.yaml").read_text() == SKETCH


def test_an_output_that_exists_is_kept_on_failure(taccl: Taccl) -> None:
    Path("ag.xml").write_text("old")
    fails(taccl("synthesize", "--topology", "ring:3", "--size", "2", "-o", "ag.xml"), 2)
    assert Path("ag.xml").read_text() == "old"
    assert [path.name for path in Path().iterdir()] == ["ag.xml"]


@pytest.mark.needs_engine
@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--engine", "magic", ("unknown engine 'magic'", "greedy")),
        ("--solver", "magic", ("'magic'",)),
        ("--solver", "cplex", ("cplex", "not installed")),
    ],
)
def test_an_unknown_or_missing_solver_is_refused(
    taccl: Taccl, option: str, name: str, words: tuple[str, ...]
) -> None:
    fails(taccl("synthesize", "--topology", "ring:3", "--size", "3MB", option, name, "-q"), 2, *words)


def test_where_no_engine_finds_a_schedule_in_time_the_limit_is_told_and_the_exit_code_is_3(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "taccl.synthesis.search.solve", lambda *requested: iter([Update("bound", None, 12.5, "a cut")])
    )
    done = taccl("synthesize", "--topology", "ring:3", "--size", "3MB", "--time-limit", "1", "-o", "x.xml")
    fails(done, 3, "had 1 s", "12.50 us", "--time-limit")
    assert not Path("x.xml").exists()


@pytest.mark.parametrize("words", [("synthesise",), ("topology", "shw"), ("verify",), ("sketch", "show")])
def test_a_wrong_command_is_refused_in_one_style(taccl: Taccl, words: tuple[str, ...]) -> None:
    fails(taccl(*words), 2, "--help")


def test_a_bug_shows_no_traceback_but_how_to_report_it(taccl: Taccl, monkeypatch: pytest.MonkeyPatch) -> None:
    def solve(problem: Problem, options: SearchOptions, *rest: object) -> Iterator[Update]:
        raise IndexError("of our own making")
        yield

    monkeypatch.setattr("taccl.synthesis.search.solve", solve)
    done = taccl("synthesize", "--topology", "ring:3", "--size", "3MB")
    assert done.exit_code == 1
    assert "internal error (IndexError: of our own making)" in done.stderr
    assert "TACCL_DEBUG" in done.stderr
