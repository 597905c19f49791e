"""Plans in a real job of four processes: every call equals gloo's, and models train the same."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from taccl import synthesize

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'taccl[torch]'")
RANKS = 4
NAMES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    for name in NAMES:
        found = synthesize(
            **{"collective": name, "topology": f"ring:{RANKS}", "size": "4KB", "target": "rccl"},
            **{"engine": "greedy", "time_limit": 5, "executor": False, "min_bytes": 4, "max_bytes": 2**20},
        )
        found.write(folder / f"{name}.xml")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("job.py")), str(folder), str(RANKS), str(port)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
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


def test_plans_that_fit_no_group_are_refused_when_they_are_given(results):
    assert "ranks" in results[0]["refused"]
