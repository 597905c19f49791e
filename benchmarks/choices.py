"""What `synthesize` chooses on a machine whose executor is fitted, next to the best program measured there.

    python -m benchmarks.choices [--machine FILE] [--runs FOLDER] [--time-limit SECONDS]

For each collective and size: protocol, instances and thread blocks as they are chosen by predicted time, what
a call of the file is predicted to take with the bound under it, and the fastest measured time of any program
that computes the same. Predictions of files made here are measured nowhere.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import report
from benchmarks.checkout import DATA
from benchmarks.fidelity import RUNS
from taccl import synthesize
from taccl.calibration.runs import MeasuredRuns, load_runs, residuals_of
from taccl.model import units
from taccl.topologies import PhysicalTopology, load_topology

MACHINE = DATA / "machines" / "mi300x-8.yaml"
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")
SIZES = ("16KB", "1MB", "16MB", "256MB")


def main() -> None:
    """Choose for each collective and size, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", type=Path, default=MACHINE)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--time-limit", type=float, default=20.0)
    arguments = parser.parse_args()
    machine, measured = load_topology(arguments.machine), load_runs([arguments.runs])
    rows = [
        _row(machine, measured, collective, size, arguments.time_limit)
        for collective in COLLECTIVES
        for size in SIZES
    ]
    header = (
        *("collective", "size", "chosen", "chunks", "blocks", "predicted us", "bound us", "gap"),
        *("best measured us", "predicted for that"),
    )
    report.write(
        "choices", "What is chosen on a fitted machine", _intro(arguments), report.table(header, rows)
    )


def _intro(arguments: argparse.Namespace) -> str:
    return (
        f"`taccl synthesize --topology {arguments.machine.name} --time-limit {arguments.time_limit:g}` with "
        "protocol, instances, thread blocks and chunks open, on the fitted node of 8 MI300X. `blocks`: the "
        "most thread blocks on a GPU. The last two columns are the fastest program measured there, and what "
        "is predicted for it: those serve calls in place only, ours both, so ours copy a rank's own part. "
        "No file made here has been measured."
    )


def _row(
    machine: PhysicalTopology, measured: MeasuredRuns, collective: str, size: str, limit_s: float
) -> list[str]:
    result = synthesize(collective, topology=machine, size=size, time_limit=limit_s)
    (chosen,) = [tried for tried in result.files_tried if tried.remark == "chosen"]
    print(collective, size, chosen.name, chosen.line, flush=True)
    return [
        *(collective, size, chosen.name, str(chosen.chunks), str(chosen.blocks_per_gpu)),
        *(f"{chosen.predicted_us:.1f}", f"{chosen.lower_bound_us:.1f}", f"{100 * (chosen.gap or 0):.0f}%"),
        *_best_measured(machine, measured, collective, units.parse_size(size)),
    ]


def _best_measured(
    machine: PhysicalTopology, measured: MeasuredRuns, collective: str, size_bytes: int
) -> tuple[str, str]:
    """The fastest program of the collective at a size: its time, and what is predicted for it."""
    of_this = [file for file in measured.files if file.subject.collective.name == collective]
    known = [each for each in residuals_of(machine, of_this) if each.size_bytes == size_bytes]
    if not known:
        return "none", ""
    best = min(known, key=lambda each: each.measured_us)
    return f"{best.measured_us:.1f} ({best.file.removesuffix('.xml')})", f"{best.predicted_us:.1f}"


if __name__ == "__main__":
    main()
