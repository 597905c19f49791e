"""What a search without a time limit gives away: its time and seconds next to those of a whole minute.

python -m benchmarks.patience        a table for docs/results/patience.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taccl import synthesize

#: A collective, and what else is requested.
_CASES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("allgather", {"topology": "ring:4", "size": "4MB"}),
    ("allgather", {"sketch": "ndv2-sk-1", "size": "16MB"}),
    ("alltoall", {"sketch": "ndv2-sk-1", "size": "16MB"}),
    ("allreduce", {"topology": "dgx2", "nodes": 2, "size": "1MB"}),
    ("allreduce", {"topology": "dgx-h100", "nodes": 1, "size": "64MB", "without": "nvswitch"}),
    ("alltoall", {"topology": "torus:4x4", "size": "16MB"}),
)
_LIMIT_S = 60.0


def main() -> None:
    """Print the table."""
    print("| machine | collective | size | us | s | ended by | us after 60 s | longer by |")
    print("|---|---|---|---|---|---|---|---|")
    for collective, requested in _CASES:
        patient = synthesize(collective, file=False, **requested, executor=False)
        whole = synthesize(collective, file=False, time_limit=_LIMIT_S, **requested, executor=False)
        machine = requested.get("sketch") or f"{requested['topology']} x{requested.get('nodes', 1)}"
        longer = 100 * (patient.time_us / whole.time_us - 1)
        print(
            f"| {machine} | {collective} | {requested['size']} | {patient.time_us:.2f} "
            f"| {patient.solve_s:.1f} "
            f"| {patient.status} | {whole.time_us:.2f} | {longer:.1f}% |",
            flush=True,
        )


if __name__ == "__main__":
    main()
