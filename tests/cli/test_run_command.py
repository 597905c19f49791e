import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from test_verify_command import SWAP

from taccl.backend.execute.deadline import Deadline

Taccl = Callable[..., Result]


@pytest.fixture
def right(tmp_path: Path) -> Path:
    path = tmp_path / "right.xml"
    path.write_text(SWAP)
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.xml"
    head, tail = SWAP.rsplit('dstoff="0"', 1)
    path.write_text(f'{head}dstoff="1"{tail}')
    return path


def test_a_right_file_says_what_was_run_and_checked(taccl: Taccl, right: Path) -> None:
    done = taccl("run", right, "--size", "8KB")
    assert done.exit_code == 0, done.stderr
    assert f"{right}: ok" in done.stdout
    assert "allgather, 2 ranks as threads, in place" in done.stdout
    assert "right, 0 of 4096 elements off" in done.stdout
    assert "says nothing about a GPU" in done.stdout


def test_a_size_that_does_not_divide_is_rounded_down_with_a_note(taccl: Taccl, right: Path) -> None:
    done = taccl("run", right, "--size", "8001")
    assert done.exit_code == 0, done.stderr
    assert "note         the size of 8001 bytes is rounded down to 8000" in done.stdout


def test_a_wrong_file_exits_4_with_the_chunk(taccl: Taccl, wrong: Path) -> None:
    done = taccl("run", wrong, "--size", "8KB")
    assert done.exit_code == 4
    assert "NOT ok" in done.stdout
    assert "error: rank 1: chunk 0 of buffer o is wrong" in done.stdout


def test_without_the_check_a_wrong_file_ends_well(taccl: Taccl, wrong: Path) -> None:
    done = taccl("run", wrong, "--no-check")
    assert done.exit_code == 0
    assert "the result was not checked" in done.stdout


def test_a_hang_exits_4_and_names_who_waits(taccl: Taccl, right: Path) -> None:
    lines = SWAP.splitlines()
    first, second = (k for k, line in enumerate(lines) if 'type="s"' in line)
    for k in (first, second):  # now both receive first
        lines[k], lines[k + 1] = lines[k + 1], lines[k]
    right.write_text("\n".join(lines))
    done = taccl("run", right, "--size", "8KB")
    assert done.exit_code == 4
    assert "hangs: these thread blocks wait for ever" in done.stdout
    for here, there in ((0, 1), (1, 0)):
        wait = f"rank {here}, thread block 0, step 0 (r) waits for data on channel 0 from rank {there}"
        assert wait in done.stdout


def test_json_is_one_object(taccl: Taccl, right: Path) -> None:
    done = taccl("run", right, "--json", "--dtype", "int32", "--op", "max", "--seed", "3")
    result = json.loads(done.stdout)
    assert result["ok"] is True
    assert result["path"] == str(right)
    (outcome,) = result["runs"]
    assert (outcome["verdict"], outcome["mode"], outcome["dtype"]) == ("right", "in place", "int32")


def test_a_file_that_claims_both_modes_is_run_in_both(taccl: Taccl, right: Path) -> None:
    both = right.with_name("both.xml")
    both.write_text(SWAP.replace('outofplace="0"', 'outofplace="1"'))
    done = taccl("run", both, "--json")
    outcomes = {each["mode"]: each["verdict"] for each in json.loads(done.stdout)["runs"]}
    assert outcomes == {"out of place": "wrong", "in place": "right"}
    assert taccl("run", both, "--in-place").exit_code == 0


def test_a_process_for_every_rank(taccl: Taccl, right: Path) -> None:
    done = taccl("run", right, "--ranks-as", "processes")
    assert done.exit_code == 0, done.stderr
    assert "2 ranks as processes" in done.stdout


def test_a_timeout_is_for_the_whole_call_with_every_way_of_calling_it(
    taccl: Taccl, right: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock on which each look is a second, and a limit that one of the two routes stays below."""
    both = right.with_name("both.xml")
    both.write_text(SWAP.replace('outofplace="0"', 'outofplace="1"'))
    looks: list[int] = []

    def ticking() -> float:
        looks.append(1)
        return float(len(looks))

    monkeypatch.setattr("taccl.cli.run.Deadline", lambda limit_s: Deadline(limit_s, ticking))
    assert taccl("run", both, "--in-place", "--timeout", "100000").exit_code == 0
    limit = 1.5 * len(looks)
    looks.clear()
    done = taccl("run", both, "--timeout", limit)
    assert (done.exit_code, done.stdout) == (4, "")
    assert f"over the limit of {limit:g} s, while " in done.stderr
    assert "pieces were sent" in done.stderr
    assert "try: a smaller --size or a longer --timeout" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--size", "7B"), "no element of 4 bytes"),
        (("--size", "much"), "is not a size"),
        (("--dtype", "bf16"), "is not one of"),
        (("--slots", "0"), "at least one piece"),
        (("--timeout", "0"), "0"),
    ],
)
def test_a_bad_option_exits_2(taccl: Taccl, right: Path, options: tuple[str, ...], said: str) -> None:
    done = taccl("run", right, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert said in done.stderr


def test_a_missing_file_exits_2(taccl: Taccl) -> None:
    done = taccl("run", "missing.xml")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: missing.xml")


def test_without_mpi4py_the_mpi_backend_says_what_to_install(
    taccl: Taccl, right: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    done = taccl("run", right, "--backend", "mpi")
    assert done.exit_code == 2
    assert "pip install 'taccl[mpi]'" in done.stderr


PLAN = Path(__file__).parents[1] / "data" / "mscclpp" / "napkin-allreduce_2.json"


def test_a_plan_is_known_by_its_content_and_called_several_times(taccl: Taccl, tmp_path: Path) -> None:
    other_name = tmp_path / "plan.txt"
    other_name.write_bytes(PLAN.read_bytes())
    done = taccl("run", other_name, "--size", "8KB", "--ranks-as", "turns")
    assert done.exit_code == 0, done.stderr
    assert "allreduce, 2 ranks as turns, out of place" in done.stdout
    assert "3 calls in a row" in done.stdout
    assert "right, 0 of 12288 elements off" in done.stdout


def test_a_plan_that_hangs_exits_4_and_says_where_each_block_stands(taccl: Taccl, tmp_path: Path) -> None:
    plan = json.loads(PLAN.read_text())
    ops = plan["gpus"][0]["threadblocks"][0]["ops"]
    assert ops[-2]["name"] == "signal"
    del ops[-2]
    path = tmp_path / "hangs.json"
    path.write_text(json.dumps(plan))
    done = taccl("run", path, "--size", "8KB", "--calls", "1", "--json")
    assert done.exit_code == 4
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["verdict"], run["slots"], run["calls"]) == ("hangs", None, 1)
    assert "rank 1, thread block 0, operation 11 (wait): waits for signal 3" in run["findings"][0]


def test_plans_have_no_slots_and_programs_one_call(taccl: Taccl, right: Path) -> None:
    done = taccl("run", PLAN, "--slots", "2")
    assert done.exit_code == 2
    assert "a plan has no connections" in done.stderr
    done = taccl("run", right, "--calls", "2")
    assert done.exit_code == 2
    assert "several calls in a row are for one-sided plans" in done.stderr


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_are_moved_and_compared(taccl: Taccl, right: Path, wrong: Path, dtype: str) -> None:
    assert taccl("run", right, "--size", "8KB", "--dtype", dtype).exit_code == 0
    assert taccl("run", wrong, "--size", "8KB", "--dtype", dtype).exit_code == 4


def test_actions_are_not_run_as_processes(taccl: Taccl, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    made = ("--topology", "ring:2", "--size", "1KB", "--effort", "20", "--target", "json", "-q")
    assert taccl("synthesize", *made, "-o", path).exit_code == 0
    assert taccl("run", path).exit_code == 0
    assert "leave --ranks-as out" in taccl("run", path, "--ranks-as", "processes").stderr
