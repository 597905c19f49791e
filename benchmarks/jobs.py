"""Jobs of 2 to 16 processes on gloo: random calls by plans next to gloo's own, and models that train.

    python -m benchmarks.jobs [--calls N]

The plans are those of a greedy search on a ring of as many GPUs; a job is tests/torch/job.py.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import report
from taccl import synthesize

ROOT = Path(__file__).parents[1]
RANKS = (2, 3, 4, 8, 16)
NAMES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast")

_INTRO = """\
Processes of one computer, each a rank, on gloo. Calls are random: collective, length (1 to 999 elements of a
rank's part), type (int8, int32, int64, float32), reduction, in or out of place, strided or not, waited for
at once or later, root. Each is made by plans (`taccl.torch.load`) and by gloo, compared to the bit. Then a
model of two layers trains for 20 steps by DDP and FSDP, over a group with plans and over gloo's: the
largest difference of a weight.
"""


def main() -> None:
    """Write docs/results/jobs.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100)
    calls = parser.parse_args().calls
    rows = [_row(ranks, calls) for ranks in RANKS]
    header = ("processes", "calls", "by plans", "unlike gloo's", "DDP", "FSDP", "s")
    report.write("jobs", "Plans in PyTorch jobs", _INTRO, report.table(header, rows))


def _row(ranks: int, calls: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            found = synthesize(
                name,
                topology=f"ring:{ranks}",
                size=f"{ranks}KB",
                target="rccl",
                engine="greedy",
                time_limit=10,
                executor=False,
                min_bytes=4,
                max_bytes=2**20,
            )
            found.write(Path(folder) / f"{name}.xml")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        script = str(ROOT / "tests" / "torch" / "job.py")
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        began = time.monotonic()
        subprocess.run(
            [sys.executable, script, folder, str(ranks), str(port), str(calls)], env=environment, check=True
        )
        seconds = time.monotonic() - began
        found_of = json.loads((Path(folder) / "results.json").read_text())
    made = sum(number for name, number in found_of[0]["numbers"].items() if not name.endswith(" inner"))
    return [
        str(ranks),
        str(calls),
        str(made),
        str(sum(len(each["unequal"]) for each in found_of)),
        f"{max(each['ddp'] for each in found_of):.1e}",
        f"{max(each['fsdp'] for each in found_of):.1e}",
        f"{seconds:.0f}",
    ]


if __name__ == "__main__":
    main()
