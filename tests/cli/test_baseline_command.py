"""`taccl baseline`: the table, its notes, JSON, and errors in a sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from taccl import read_schedule
from taccl.model.schedule import schedule_from_json

Taccl = Callable[..., Result]


def test_each_size_has_pick_time_runner_up_bound_and_what_was_measured(taccl: Taccl) -> None:
    done = taccl("baseline", "nccl", "--topology", "dgx-h200", "--nodes", "1", "--size", "64KB,16GB")
    assert done.exit_code == 0, done.stderr
    title, header, small, large = done.stdout.splitlines()[:4]
    assert title.startswith("NCCL 2.30, allreduce, 8 ranks on 1 node of dgx-h200 (Ring 12 x 30 GB/s")
    assert header.split()[:3] == ["size", "pick", "time(us)"]
    assert small.split()[:5] == ["64KB", "Ring", "LL", "15.81", "4.14"]
    assert "19.90" in small.split()
    assert large.split()[:4] == ["16GB", "NVLS", "Simple", "63186.28"]
    assert "62634.94" in large.split()
    assert "note: NCCL's own estimate" in done.stdout


def test_json_has_the_figures(taccl: Taccl) -> None:
    done = taccl("baseline", "nccl", "--topology", "dgx-h100", "--nodes", "2", "--size", "1GB", "--json")
    found = json.loads(done.stdout)
    assert found["schema"] == "taccl.baseline/1"
    assert found["sizes"][0]["pick"] == "NVLSTree Simple"
    assert found["sizes"][0]["least_measured_us"] == 4514
    assert found["sizes"][0]["least_ratio"] < 1 < found["sizes"][0]["most_ratio"]


def test_point_to_point_and_rccl_have_no_time(taccl: Taccl) -> None:
    for words in (
        ("nccl", "--topology", "dgx-a100", "--nodes", "1", "--collective", "all_to_all", "--size", "1MB"),
        ("rccl", "--topology", "mi300x", "--nodes", "1", "--size", "1MB"),
    ):
        done = taccl("baseline", *words)
        assert done.exit_code == 0, done.stderr
        assert "no time is shown" in done.stdout


def test_a_size_of_less_than_a_byte_for_each_rank_has_no_bound(taccl: Taccl) -> None:
    done = taccl("baseline", "nccl", "--topology", "dgx-h100", "--nodes", "2", "--size", "8B", "--json")
    assert json.loads(done.stdout)["sizes"][0]["lower_bound_us"] is None


def test_a_file_says_its_gpus_or_the_user_does(taccl: Taccl, tmp_path: Path) -> None:
    file = tmp_path / "pair.yaml"
    file.write_text("name: pair\ngpus: 2\nlinks: [{pairs: [0-1], alpha_us: 0.7, bandwidth_gbps: 240}]\n")
    refused = taccl("baseline", "nccl", "--topology", str(file))
    assert refused.exit_code == 2
    assert "does not say which GPUs it has" in refused.stderr
    assert "--gpu H100" in refused.stderr
    done = taccl("baseline", "nccl", "--topology", str(file), "--gpu", "A100", "--size", "1GB")
    assert "Ring 12 x 20 GB/s, Tree 12 x 40" in done.stdout
    file.write_text(file.read_text() + "gpu: A100\n")
    assert taccl("baseline", "nccl", "--topology", str(file), "--size", "1GB").stdout == done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nccl", "--topology", "mi300x"), "NCCL runs on NVIDIA's GPUs"),
        (("rccl", "--topology", "dgx-h100"), "RCCL runs on AMD's GPUs"),
        (("nccl", "--topology", "tpu-v4:4x4x4"), "does not say which GPUs"),
        (("nccl", "--topology", "torus:4x4", "--gpu", "Voodoo2"), "'Voodoo2' is no GPU of NVIDIA"),
        (("nccl", "--topology", "dgx-h100", "--release", "2.4"), "constants of NCCL '2.4'"),
        (("nccl", "--topology", "dgx-h100", "--collective", "scan"), "unknown collective 'scan'"),
        (("rccl", "--topology", "mi300x", "--cpu", "amd"), "does not depend on CPUs"),
        (("rccl", "--topology", "mi300x", "--collective", "broadcast"), "RCCL's choice for 'broadcast'"),
        (("nccl", "--topology", "dgx-h100", "--size", "64KB,"), "is not a size"),
        (("nccl", "--topology", "dgx2-teccl", "--gpu", "V100"), "no NICs"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(taccl: Taccl, words: tuple[str, ...], message: str) -> None:
    done = taccl("baseline", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_algorithms_of_libraries_stand_beside_each_other_as_schedules(taccl: Taccl) -> None:
    done = taccl("baseline", "all", "--topology", "ring:4", "--collective", "allgather", "--size", "1KB,64MB")
    assert done.exit_code == 0, done.stderr
    title, header, *rows = done.stdout.splitlines()
    assert title == "allgather on ring:4: links alone, no launch, no per-step cost"
    assert header.split()[:2] == ["size", "algorithm"]
    assert {row.split()[0] for row in rows} == {"1KB", "64MB"}
    assert any(" ring both directions " in row for row in rows)


@pytest.mark.parametrize(
    ("collective", "is_known"), [("allgather", True), ("reducescatter", True), ("allreduce", False)]
)
def test_pat_is_found_by_its_name_where_nccl_has_it(taccl: Taccl, collective: str, is_known: bool) -> None:
    done = taccl("baseline", "pat", "--topology", "full:4", "--collective", collective, "--size", "1KB")
    assert (done.exit_code == 0) == is_known, done.stderr
    assert (" PAT " in done.stdout) == is_known


def test_sizes_that_are_rounded_or_left_out_are_told(taccl: Taccl) -> None:
    done = taccl("baseline", "all", "--topology", "ring:4", "--collective", "allgather", "--size", "3B,1001")
    assert done.exit_code == 0, done.stderr
    assert "note: too small for allgather on ring:4: 3B" in done.stdout
    assert "rounded down to multiples of 4 bytes" in done.stdout


def test_the_schedule_of_a_size_that_is_rounded_is_that_of_the_rounded_one(taccl: Taccl) -> None:
    done = taccl(
        *("baseline", "ring", "--topology", "ring:4", "--collective", "allgather"),
        *("--size", "1001", "--schedule", "-"),
    )
    assert done.exit_code == 0, done.stderr
    assert schedule_from_json(done.stdout).schedule.problem.size_bytes == 1000


def test_the_schedule_of_an_algorithm_can_be_written_and_simulated(taccl: Taccl, tmp_path: Path) -> None:
    words = ("--topology", "ring:4", "--collective", "allgather", "--size", "1MB")
    done = taccl("baseline", "ring", *words, "--schedule", "ring.json", "--json")
    assert done.exit_code == 0, done.stderr
    fastest = json.loads(done.stdout)["algorithms"][0]
    saved = read_schedule(tmp_path / "ring.json")
    assert saved.schedule.makespan_us == pytest.approx(fastest["time_us"])
    assert taccl("simulate", "ring.json", "--size", "1MB").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("no such thing",), "there is no algorithm 'no such thing'"),
        (("all", "--gpu", "H100"), "--gpu is for nccl and rccl"),
        (("nccl", "--schedule", "x.json"), "nccl chooses one"),
        (("all", "--size", "1KB,2KB", "--schedule", "x.json"), "of one size"),
    ],
)
def test_a_wrong_request_for_an_algorithm_is_one_error(
    taccl: Taccl, words: tuple[str, ...], message: str
) -> None:
    done = taccl("baseline", *words, "--topology", "ring:4")
    assert done.exit_code == 2
    assert message in done.stderr
