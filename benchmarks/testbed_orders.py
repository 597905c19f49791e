"""Orders found for measured matrices, run on shaped links; kept for docs/results/orders_of_hosts.md.

    python -m benchmarks.testbed_orders

Needs root and network namespaces. Hosts have a wire for each pair; those in a rack, in a hidden order, are
faster. The rate of each wire is measured (TCP's payload), `taccl order` gets the measured matrix, and a ring
AllReduce runs in the machine's own order and, with its ranks renamed, in the order found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.testbed import _run as run_on_testbed
from benchmarks.testbed_rank import Case
from taccl.analysis.ordering.ordered import Ordered, best_order
from taccl.analysis.ordering.renamed import files_of_plan, renamed
from taccl.backend.rounds.lowering import lower_to_rounds
from taccl.backend.rounds.rounds import Rounds
from taccl.backend.targets.registry import unfold_file
from taccl.model.schedule import Schedule

KEPT = report.RESULTS / "testbed_orders.jsonl"
_HOSTS = 6
#: Seeds and sizes of calls; the larger one shows what does not come of costs beside bytes.
_RUNS = ((0, 3 * 2**18), (1, 3 * 2**18), (0, 3 * 2**20))
#: What a message costs besides its bytes, from docs/testbed.md, microseconds.
_ALPHA_US = 300.0
_NODE = "{gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 0.02}]}"


def rates(seed: int) -> np.ndarray:
    """Mbit/s of each pair: 18 to 22 in a rack of three hosts, 5 to 8 between the two."""
    random = np.random.default_rng(seed)
    rack = random.permutation(_HOSTS) % 2
    inside = rack[:, None] == rack[None, :]
    shape = (_HOSTS, _HOSTS)
    made = np.where(inside, random.uniform(18, 22, shape), random.uniform(5, 8, shape))
    return np.asarray(np.triu(made, 1) + np.triu(made, 1).T)


def written(folder: Path, mbits: np.ndarray) -> Path:
    """A machine with these rates."""
    rows = [
        f"{a},{b},{_ALPHA_US},{mbits[a, b] / 8000:.9f}"
        for a in range(_HOSTS)
        for b in range(_HOSTS)
        if a != b
    ]
    (folder / "costs.csv").write_text("\n".join(["from,to,alpha_us,bandwidth_gbps", *rows]))
    path = folder / "hosts.yaml"
    path.write_text(f"name: hosts\nnodes: {_HOSTS}\nnode: {_NODE}\nfabric: costs.csv\n")
    return path


def measured_rates(path: Path) -> np.ndarray:
    """What each wire carries alone, Mbit/s, by `taccl testbed --check`."""
    words = [sys.executable, "-m", "taccl", "testbed", str(path), "--scale", "1", "--check", "--json"]
    said = subprocess.run([*words, "--tolerance", "0.5"], capture_output=True, text=True, check=False).stdout
    found = np.zeros((_HOSTS, _HOSTS))
    for row in json.loads(said)["links"]:
        ends = [row[end].split(".") for end in ("src", "dst")]
        if [each[-1] for each in ends] == ["out", "in"]:
            a, b = (int(each[0].removeprefix("node")) for each in ends)
            found[a, b] = 8000 * row["alone_gbps"]
    return found


def rounds_of(found: Ordered, schedule: Schedule, folder: Path) -> Rounds:
    """A renamed plan as its verified file has it."""
    (file, *_) = files_of_plan(schedule, found.request, "rccl")
    path = folder / "plan.xml"
    path.write_text(file.text)
    return lower_to_rounds(unfold_file(path, path.read_bytes(), "run").one_call(None, None))


def measure(seed: int, size: int) -> Iterator[dict[str, Any]]:
    """One machine: what was predicted for both orders, and what both took."""
    with tempfile.TemporaryDirectory() as folder:
        shaped = written(Path(folder), rates(seed))
        mbits = measured_rates(shaped)
        matrix = Path(folder) / "measured"
        matrix.mkdir()
        found = best_order("ring", size=size, topology=written(matrix, mbits), effort=20_000)
        orders = found.traffic.own_order, found.found.order
        plans = [rounds_of(found, renamed(found.traffic, order), Path(folder)) for order in orders]
        cases = [
            Case(who, "allreduce", size, plan, 3) for who, plan in zip(("own", "found"), plans, strict=True)
        ]
        took = {row["who"]: row for row in run_on_testbed(shaped, cases)}
        yield {
            "seed": seed,
            "size_bytes": size,
            "order": list(found.found.order),
            "predicted_us": [found.before_us, found.time_us],
            "measured_us": [took[who]["took_us"] for who in ("own", "found")],
            "wrong": sum(took[who]["wrong"] for who in took),
            "bound_us": found.bound_us,
        }


def main() -> None:
    """Measure, and keep."""
    KEPT.write_text("")
    for seed, size in _RUNS:
        for row in measure(seed, size):
            print(row, flush=True)
            with KEPT.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
