"""Plans whose ranks are processes under mpirun; skipped where there is no MPI."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from taccl import synthesize
from taccl.support.schemas import json_schema

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


def mpirun(ranks, *words):
    """`mpirun -n RANKS taccl WORDS --backend mpi --json`."""
    more_than_cores_and_as_root = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    taccl = [sys.executable, "-m", "taccl", *map(str, words), "--backend", "mpi", "--json"]
    return subprocess.run(
        [str(MPIRUN), "-n", str(ranks), *taccl],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **more_than_cores_and_as_root},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpi")
    for name, ranks in (("allreduce", 4), ("reducescatter", 2)):
        found = synthesize(
            **{"collective": name, "topology": f"ring:{ranks}", "size": "4KB", "target": "rccl"},
            **{"engine": "greedy", "effort": 200, "executor": False, "min_bytes": 4, "max_bytes": 2**20},
        )
        found.write(folder / f"{name}.xml")
    return folder


def test_rounds_compute_their_collective_in_place_and_out_of_place(folder):
    done = mpirun(4, "run", folder / "allreduce.xml", "--size", "64KB", "--op", "max", "--dtype", "int32")
    assert done.returncode == 0, done.stderr
    assert [
        (each["mode"], each["ranks_as"], each["verdict"], each["checked"])
        for each in json.loads(done.stdout)["runs"]
    ] == [(mode, "mpi", "right", 4 * 2**14) for mode in ("out of place", "in place")]


def test_a_plan_that_writes_into_others_memory_runs_by_messages(folder):
    """MPI processes share no memory, and rounds need none."""
    plan = Path(__file__).parents[2] / "data" / "mscclpp" / "napkin-allgather_2.json"
    done = mpirun(2, "run", plan, "--size", "8KB")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]


def test_a_custom_collective_is_compared_chunk_by_chunk(folder):
    (folder / "shift.yaml").write_text(
        "collective: shift\nranks: 2\nchunks:\n  - {from: 0, to: 1}\n  - {from: 1, to: 0}\n"
    )
    synthesize(
        **{"collective": str(folder / "shift.yaml"), "topology": "ring:2", "size": "4KB", "target": "msccl"},
        **{"engine": "greedy", "effort": 100, "executor": False, "chunks": 2},
    ).write(folder / "shift.xml")
    done = mpirun(2, "run", folder / "shift.xml", "--collective", folder / "shift.yaml")
    assert done.returncode == 0, done.stderr
    assert {run["verdict"] for run in json.loads(done.stdout)["runs"]} == {"right"}


def test_a_wrong_program_is_refused_once(folder):
    text = (folder / "reducescatter.xml").read_text()
    (folder / "wrong.xml").write_text(text.replace('dstbuf="o"', 'dstbuf="s"'))
    done = mpirun(2, "run", folder / "wrong.xml", "--size", "1KB")
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("the program fails verification") == 1


def test_another_number_of_ranks_is_refused_once(folder):
    done = mpirun(2, "run", folder / "allreduce.xml")
    assert done.returncode == 2
    assert done.stderr.count("error: the file is for 4 ranks, and MPI has started 2") == 1
    assert "mpirun -n 4" in done.stderr


def test_plans_are_measured_next_to_the_library(folder):
    """Of the times only their form is looked at."""
    how = ("--sizes", "4KB", "--iterations", "2", "--warmup", "1", "--csv", folder / "times.csv")
    done = mpirun(2, "bench", folder / "reducescatter.xml", *how)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    Draft202012Validator(json_schema("taccl.bench/1")).validate(shown)
    assert [(row["plan"], row["size_bytes"], row["wrong"]) for row in shown["rows"]] == [
        ("reducescatter.xml", 4096, 0)
    ]
    assert (folder / "times.csv").read_text().splitlines()[1].startswith("reducescatter.xml,4096,")
