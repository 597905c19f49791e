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
    assert "note: the file is for calls of 2MB to 8MB, so no runtime would use it at 1MB" in done.stdout


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


PLANS = Path(__file__).parents[1] / "data" / "mscclpp"


def test_a_plan_has_a_time_beside_its_bound(taccl: Taccl) -> None:
    done = taccl(
        "simulate", PLANS / "napkin-allgather_2.json", "--topology", "switch:2", "--size", "1MB", "--json"
    )
    assert done.exit_code == 0, done.stderr
    value = json.loads(done.stdout)
    (row,) = value["results"]
    assert (value["protocol"], value["executor"], row["launch_us"]) == ("Simple", False, None)
    assert 0 < row["lower_bound_us"] < row["time_us"] < 1.2 * row["lower_bound_us"]


def test_the_root_of_a_plan_is_found_and_its_proxy_costs(taccl: Taccl) -> None:
    times = []
    for cost in ("0", "3"):
        done = taccl(
            *("simulate", PLANS / "napkin-relay_3.json", "--topology", "switch:3", "--size", "1MB"),
            *("--proxy-cost", cost, "--json"),
        )
        value = json.loads(done.stdout)
        assert (value["collective"], value["root"]) == ("broadcast", 0)
        times.append(value["results"][0]["time_us"])
    assert times[1] == pytest.approx(times[0] + 9)


def test_a_plan_has_no_slots_and_other_files_no_proxy(taccl: Taccl) -> None:
    plan = ("simulate", PLANS / "napkin-allgather_2.json", "--topology", "switch:2", "--size", "1MB")
    done = taccl(*plan, "--slots", "2")
    assert done.exit_code == 2
    assert "a plan is simulated as it is, so a number of slots means nothing" in done.stderr
    assert taccl(*plan, "--topology", "switch:3").exit_code == 2
