import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]


@pytest.fixture
def made(taccl: Taccl, tmp_path: Path) -> tuple[Path, Path]:
    """An AllGather of 4 MB on a ring of 4, and its schedule."""
    xml, schedule = tmp_path / "ag.xml", tmp_path / "ag.json"
    words = ["synthesize", "--topology", "ring:4", "--size", "4MB", "--engine", "greedy", "--gap", 0.9, "-q"]
    done = taccl(*words, "-o", xml, "--schedule", schedule)
    assert done.exit_code == 0, done.stderr
    return xml, schedule


def test_the_table_has_nccl_tests_columns_and_the_bound(taccl: Taccl, made: tuple[Path, Path]) -> None:
    done = taccl("simulate", made[0], "--topology", "ring:4", "--size", "1MB,4MB")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("allgather, 4 ranks, Simple, on ring:4")
    assert lines[1].split()[:6] == ["size(B)", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "bound(us)", "gap"]
    assert [line.split()[0] for line in lines[2:4]] == ["1048576", "4194304"]
    assert "note: the file is for calls of 2097152 to 8388608 bytes" in done.stdout


def test_a_schedule_needs_nothing_else(taccl: Taccl, made: tuple[Path, Path]) -> None:
    done = taccl("simulate", made[1])
    assert done.exit_code == 0, done.stderr
    assert "schedule(us)" in done.stdout
    row = done.stdout.splitlines()[2].split()
    assert row[1] == row[6]


def test_json_has_all_figures_with_their_units(taccl: Taccl, made: tuple[Path, Path]) -> None:
    done = taccl("simulate", made[0], "--topology", "ring:4", "--size", "4MB", "--protocol", "ll", "--json")
    assert done.exit_code == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["ranks"], shown["protocol"], shown["protocol_overhead"]) == (4, "LL", True)
    (run,) = shown["results"]
    plain = taccl("simulate", made[0], "--topology", "ring:4", "--size", "4MB", "--json")
    assert run["time_us"] > 1.5 * json.loads(plain.stdout)["results"][0]["time_us"]
    assert run["lower_bound_us"] < run["time_us"]
    assert run["chunk_bytes"] == 2**20


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--size", "4MB"], 2, "no topology is given"),
        (["--topology", "ring:4"], 2, "no size is given"),
        (["--topology", "ring:4", "--size", "4MB,"], 2, "not a size"),
        (["--topology", "ring:8", "--size", "4MB"], 2, "4 ranks"),
        (["--topology", "ring-oneway:4", "--size", "4MB"], 2, "no link from"),
        (["--topology", "ring:4", "--size", "4MB", "--slots", "0"], 2, "slots"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    taccl: Taccl, made: tuple[Path, Path], words: list[str], code: int, said: str
) -> None:
    done = taccl("simulate", made[0], *words)
    assert done.exit_code == code
    assert said in done.stderr
    assert done.stdout == ""
