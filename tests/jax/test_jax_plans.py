"""Plans inside shard_map equal jax.lax, on four devices that JAX makes of one CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from taccl import synthesize
from taccl.deployment.jobs.plans import read_plans
from taccl.deployment.jobs.waves import Wave, waves_of

DEVICES = 4
NAMES = ("allgather", "reducescatter", "allreduce", "alltoall")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    for name in NAMES:
        found = synthesize(
            **{"collective": name, "topology": f"ring:{DEVICES}", "size": "4KB", "target": "rccl"},
            **{"engine": "greedy", "effort": 30, "executor": False, "min_bytes": 4, "max_bytes": 2**20},
        )
        found.write(folder / f"{name}.xml")
    return [folder / f"{name}.xml" for name in NAMES]


def test_in_a_wave_each_rank_sends_and_receives_at_most_once(files):
    for plan in read_plans(files).plans:
        waves = [step for step in waves_of(plan.out_of_place).steps if isinstance(step, Wave)]
        assert waves
        for wave in waves:
            sources, targets = zip(*wave.pairs, strict=True)
            assert len(set(sources)) == len(sources)
            assert len(set(targets)) == len(targets)


def test_every_call_equals_that_of_lax(files):
    pytest.importorskip("jax", reason="JAX is not installed: pip install 'taccl[jax]'")
    script = str(Path(__file__).with_name("calls.py"))
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES} --xla_backend_optimization_level=0",
        **{"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[2])},
    }
    command = [sys.executable, script, *map(str, files)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    said = json.loads(ran.stdout)
    assert said["unequal"] == []
    assert said["calls"] == 12
    assert said["gradient"]
    assert said["permutes"] >= DEVICES - 1
    assert "is for 4 devices" in said["refused"]
