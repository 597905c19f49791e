import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

CUT_OFF = """\
topology: dgx2
nodes: 2
size: 32MB
intranode:
  strategy: switch
  switches:
    - gpus: [0, 1, 2, 3, 4, 5, 6, 7]
    - gpus: [8, 9, 10, 11, 12, 13, 14, 15]
internode:
  strategy: relay
  relay:
    0: [1]
"""
RING = ("explain", "--topology", "ring:4", "--size", "4MB")


@pytest.fixture
def cut_off(taccl: Taccl) -> Callable[..., Result]:
    """A command about a sketch that cuts ranks off."""
    Path("s.yaml").write_text(CUT_OFF)
    return lambda command, *words: taccl(command, "--sketch", "s.yaml", *words)


def test_the_lines_in_the_way_are_shown_with_file_and_line_and_what_is_enough_to_change(
    cut_off: Callable[..., Result],
) -> None:
    done = cut_off("explain")
    assert done.exit_code == 3
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "allgather, 32 ranks, on dgx2 (s), 32MB: no schedule exists: 640 of 992 demands cannot be met"
    )
    assert [line.split()[0] for line in lines[3:6]] == ["s.yaml:5", "s.yaml:10", "s.yaml:12"]
    assert lines[6] == "minimal: without any one of them, there is a way (proved by z3)"
    assert lines[-1].endswith("it is enough to change s.yaml:5; or s.yaml:10")


def test_json_has_the_same(cut_off: Callable[..., Result]) -> None:
    done = cut_off("explain", "--json")
    assert done.exit_code == 3
    shown = json.loads(done.stdout)
    assert (shown["verdict"], shown["unmet_demands"], shown["demands"]) == ("impossible", 640, 992)
    (conflict,) = shown["conflicts"]
    assert [(line["path"], line["line"]) for line in conflict["lines"]] == [
        ("s.yaml", n) for n in (5, 10, 12)
    ]
    assert conflict["minimal"] is True
    assert [[said["line"] for said in lines] for lines in shown["helps"]] == [[5], [10]]


@pytest.mark.parametrize("command", ["synthesize", "bound"])
def test_where_no_schedule_exists_the_error_says_how_to_ask(
    cut_off: Callable[..., Result], command: str
) -> None:
    done = cut_off(command, "--collective", "broadcast", "--root", 3, "--size", "1MB")
    assert done.exit_code == 3
    hint = "`taccl explain --collective broadcast --sketch s.yaml --size 1MB --root 3` names every line"
    assert hint in done.stderr


@pytest.mark.parametrize("command", ["synthesize", "bound"])
def test_the_hint_asks_about_the_same_target(cut_off: Callable[..., Result], command: str) -> None:
    done = cut_off(command, "--collective", "broadcast", "--root", 3, "--size", "1MB", "--target", "rccl")
    assert done.exit_code == 3
    assert "--size 1MB --root 3 --target rccl` names every line" in done.stderr


def test_the_hint_writes_flags_as_flags(cut_off: Callable[..., Result]) -> None:
    done = cut_off("synthesize", "--collective", "broadcast", "--root", 3, "--size", "1MB", "--no-executor")
    assert done.exit_code == 3
    assert "--root 3 --no-executor` names every line" in done.stderr


def test_a_target_is_a_time_with_or_without_its_unit(taccl: Taccl) -> None:
    done = taccl(*RING, "--within", "1us")
    assert done.exit_code == 3
    assert "no schedule exists within 1 us" in done.stdout
    assert "no line is to blame: the machine itself" in done.stdout
    assert taccl(*RING, "--target-time", "1").stdout == done.stdout


def test_what_is_possible_exits_0_with_a_time_and_its_bound(taccl: Taccl) -> None:
    done = taccl(*RING, "--target-time", "1s", "--json")
    assert done.exit_code == 0
    shown = json.loads(done.stdout)
    assert (shown["verdict"], shown["target_us"], shown["conflicts"]) == ("possible", 1e6, [])
    assert 0 < shown["lower_bound_us"] <= shown["time_us"]
    assert shown["longest_way"] in ([0, 1, 2], [0, 3, 2])  # both ways round take as long


def test_a_symmetry_that_is_none_exits_as_synthesize_does(taccl: Taccl) -> None:
    Path("s.yaml").write_text(
        "topology: ring:4\nsize: 4MB\nintranode: {strategy: none}\nsymmetry: [[2, 4]]\n"
    )
    assert taccl("explain", "--sketch", "s.yaml").exit_code == 0
    Path("s.yaml").write_text("topology: hub:4\nsize: 4MB\nintranode: {strategy: none}\nsymmetry: [[1, 4]]\n")
    for command in ("explain", "synthesize"):
        assert taccl(command, "--sketch", "s.yaml").exit_code == 2


def test_the_whole_path_of_a_published_sketch_is_in_json_only(taccl: Taccl) -> None:
    words = ("explain", "--sketch", "ndv2-sk-1", "--size", "16MB", "--target-time", "900us")
    assert "\n  ndv2-sk-1.yaml:9 " in taccl(*words).stdout
    (conflict,) = json.loads(taccl(*words, "--json").stdout)["conflicts"]
    assert all(Path(line["path"]).is_file() for line in conflict["lines"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--target-time", "soon"), "is not a time"),
        (("--target-time", "0"), "must be positive"),
        (("--time-limit", "0"), "a time limit must be positive"),
        (("--max-hops", "0"), "--max-hops"),
        (("--chunks", "auto"), "--chunks"),
    ],
)
def test_bad_requests_end_with_one_line(taccl: Taccl, words: tuple[str, ...], complaint: str) -> None:
    done = taccl(*RING, *words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ") and complaint in done.stderr
    assert done.stdout == ""
