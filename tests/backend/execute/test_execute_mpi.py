"""Programs whose ranks are processes under mpirun; skipped where there is no MPI."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ring_allreduce, scratch_allreduce, send_first, step, with_steps

from taccl.backend.msccl_xml import to_xml

MPIRUN = shutil.which("mpirun")


def why_not():
    """Why no test here can run; None if they can."""
    if MPIRUN is None:
        return "mpirun is not installed (Debian: openmpi-bin)"
    words = [sys.executable, "-c", "from mpi4py import MPI"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    return None if done.returncode == 0 else f"mpi4py does not work: {done.stderr.strip().splitlines()[-1]}"


REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def mpirun(ranks, path, *options):
    """`mpirun -n RANKS taccl run PATH --backend mpi --json`."""
    more_than_cores_and_as_root = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    taccl = [sys.executable, "-m", "taccl", "run", str(path), "--backend", "mpi", "--json", *options]
    return subprocess.run(
        [str(MPIRUN), "-n", str(ranks), *taccl],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **more_than_cores_and_as_root},
    )


def written(folder, program):
    path = Path(folder) / "program.xml"
    path.write_text(to_xml(program))
    return path


def test_a_program_computes_its_collective_over_mpi(tmp_path):
    done = mpirun(
        4, written(tmp_path, scratch_allreduce(4)), "--size", "64KB", "--piece", "1KB", "--slots", "1"
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["ok"]
    assert [(each["ranks_as"], each["verdict"], each["checked"]) for each in outcome["runs"]] == [
        ("mpi", "right", 4 * 2**14)
    ]


def test_a_wrong_program_is_found_wrong_over_mpi(tmp_path):
    made = with_steps(ring_allreduce(2), 1, 0, lambda steps: (steps[0], step("rcs", "i0"), steps[2]))
    done = mpirun(2, written(tmp_path, made), "--size", "1KB")
    assert done.returncode == 4, done.stderr
    assert "is wrong in 128 of 128 elements" in json.loads(done.stdout)["runs"][0]["findings"][0]


def test_ranks_that_wait_for_one_another_are_named_over_mpi(tmp_path):
    done = mpirun(2, written(tmp_path, send_first(2, count=3)), "--size", "96B", "--piece", "16B")
    assert done.returncode == 4, done.stderr
    (outcome,) = json.loads(done.stdout)["runs"]
    waits = "rank {0}, thread block 0, step 0 (s) waits for room on channel 0 from rank {0} to rank {1}, {2}"
    assert outcome["findings"] == [waits.format(r, 1 - r, "which holds 2") for r in (0, 1)]


def test_another_number_of_ranks_is_refused_once(tmp_path):
    done = mpirun(2, written(tmp_path, ring_allreduce(4)))
    assert done.returncode == 2
    assert done.stderr.count("error: the file is for 4 ranks, and MPI has started 2") == 1
    assert "mpirun -n 4" in done.stderr
