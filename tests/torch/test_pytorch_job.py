"""Plans in a real job of four processes: every call equals gloo's, and models train the same."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from taccl import synthesize
from taccl.cli.main import main
from taccl.support.schemas import json_schema

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'taccl[torch]'")
RANKS = 4
NAMES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A plan of each collective, for calls of any size."""
    folder = tmp_path_factory.mktemp("job")
    for name in NAMES:
        found = synthesize(
            **{"collective": name, "topology": f"ring:{RANKS}", "size": "4KB", "target": "rccl"},
            **{"engine": "greedy", "effort": 30, "executor": False, "min_bytes": 4, "max_bytes": 2**20},
        )
        found.write(folder / f"{name}.xml")
    return folder


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def results(folder):
    port = free_port()
    command = [sys.executable, str(Path(__file__).with_name("job.py")), str(folder), str(RANKS), str(port)]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads((folder / "results.json").read_text())


def test_every_call_equals_that_of_gloo_to_the_bit(results):
    assert [each["unequal"] for each in results] == [[]] * RANKS


def test_calls_ran_by_plans_and_the_others_by_gloo(results):
    assert all(each["counts"] == results[0]["counts"] for each in results)
    assert {f"{name} {name}.xml" for name in NAMES} <= set(results[0]["counts"])
    assert "broadcast inner" in results[0]["counts"]  # of another root


def test_data_parallel_training_ends_with_the_same_weights(results):
    assert all(each["ddp"] < 1e-6 for each in results)
    assert "allreduce allreduce.xml" in results[0]["group_counts"]


def test_fully_sharded_training_ends_with_the_same_weights(results):
    assert all(each["fsdp"] < 1e-6 for each in results)
    assert "allgather allgather.xml" in results[0]["group_counts"]
    assert "reducescatter reducescatter.xml" in results[0]["group_counts"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_one_sided_calls_on_a_gpu_equal_those_of_gloo_and_keep_to_streams(folder):
    command = [sys.executable, str(Path(__file__).with_name("job.py")), str(folder), str(RANKS)]
    ran = subprocess.run(
        [*command, str(free_port()), "40", "cuda"], env=environment(), timeout=300, check=False
    )
    assert ran.returncode == 0
    ranks = json.loads((folder / "results.json").read_text())
    assert [(each["unequal"], each["streamed"]) for each in ranks] == [([], 0)] * RANKS


def test_plans_that_fit_no_group_are_refused_when_they_are_given(results):
    assert "ranks" in results[0]["refused"]


def test_calls_whose_sizes_or_types_do_not_fit_are_refused_by_the_backend(results):
    assert all(len(each["misfits"]) == 4 and all(each["misfits"]) for each in results)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """An AllReduce and an AllGather of two ranks."""
    folder = tmp_path_factory.mktemp("pair")
    for name in ("allreduce", "allgather"):
        found = synthesize(
            **{"collective": name, "topology": "switch:2", "size": "1KB", "target": "rccl"},
            **{"engine": "greedy", "effort": 30, "executor": False, "min_bytes": 4, "max_bytes": 2**20},
        )
        found.write(folder / f"{name}.xml")
    return folder


def test_plans_are_measured_next_to_the_backend(pair, tmp_path):
    """Two processes by torchrun; of the times only their form is looked at."""
    start = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "taccl",
        "bench",
    ]
    how = [
        "--sizes",
        "4KB",
        "--iterations",
        "2",
        "--warmup",
        "1",
        "--csv",
        str(tmp_path / "times.csv"),
        "--json",
    ]
    files = [str(pair / "allreduce.xml"), str(pair / "allgather.xml")]
    command = [sys.executable, *start, *files, *how]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    shown = json.loads(ran.stdout)
    Draft202012Validator(json_schema("taccl.bench/1")).validate(shown)
    assert [(row["plan"], row["size_bytes"], row["wrong"]) for row in shown["rows"]] == [
        ("allreduce.xml", 4096, 0),
        ("allgather.xml", 4096, 0),
    ]
    assert [row.split(",")[:2] for row in (tmp_path / "times.csv").read_text().splitlines()[1:]] == [
        ["allreduce.xml", "4096"],
        ["allgather.xml", "4096"],
    ]


def test_without_a_job_the_command_says_how_one_is_started(folder, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    done = CliRunner().invoke(main, ["bench", str(folder / "allreduce.xml")])
    assert done.exit_code == 2
    assert "torchrun --nproc-per-node" in done.stderr


@pytest.mark.parametrize(("name", "value"), [("WORLD_SIZE", "two"), ("MASTER_PORT", "abc")])
def test_a_job_that_cannot_be_is_no_fault_of_ours(pair, monkeypatch, name, value):
    setting = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"} | {name: value}
    for each, wanted in setting.items():
        monkeypatch.setenv(each, wanted)
    done = CliRunner().invoke(main, ["bench", str(pair / "allreduce.xml")])
    assert done.exit_code == 2, done.output
    assert "bug in taccl" not in done.stderr


def test_who_waits_for_others_ends_when_it_is_told_to(pair):
    setting = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "taccl", "bench", str(pair / "allreduce.xml")]
    waiting = subprocess.Popen(command, env=environment() | setting, stderr=subprocess.PIPE)
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", int(setting["MASTER_PORT"]))):  # until it listens
            assert waiting.poll() is None, waiting.stderr.read()
            time.sleep(0.02)  # which leaves the core to it
    waiting.terminate()
    assert waiting.wait(timeout=60) != 0


@pytest.fixture(scope="module")
def pairs(pair, tmp_path_factory):
    """Jobs of two ranks: what each rank said, and how it ended."""
    folder, scripts, plan = (
        tmp_path_factory.mktemp("pairs"),
        Path(__file__).parent,
        str(pair / "allreduce.xml"),
    )
    jobs = {
        name: [str(scripts / "default_group.py"), plan, "{rank}", "2", str(free_port()), name]
        for name in ("taccl", "gloo")
    }
    jobs["killed"] = [str(scripts / "killed.py"), plan, "{rank}", str(free_port())]
    command = [sys.executable, str(scripts / "pairs.py"), str(folder), json.dumps(jobs)]
    ran = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, timeout=200, check=True)
    codes = json.loads(ran.stdout)
    ranks = {name: [f"{name}-{rank}" for rank in range(2)] for name in jobs}
    return {name: [((folder / each).read_text(), codes[each]) for each in ranks[name]] for name in jobs}


@pytest.mark.parametrize("backend", ["taccl", "gloo"])
def test_a_group_takes_the_plans_that_are_named_and_ends_with_the_call_that_ends_it(pairs, backend):
    """A backend that lives until the interpreter ends may abort the process: its threads want a lock then."""
    assert pairs[backend] == [("3.0 {('allreduce', 'allreduce.xml'): 1} None\n", 0)] * 2


def test_when_a_rank_dies_the_others_get_the_error_of_the_backend(pairs):
    said, died = pairs["killed"]
    assert died[1] == 9
    assert said[0] == "the backend's error: RuntimeError\n"
