"""Schedules of 64 ranks on machines that lost a link or a NIC: when valid again, and how good after 10 s.

python -m benchmarks.repair        writes docs/results/repair.md
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import report
from taccl import synthesize
from taccl.analysis.repair import repair

#: A machine of 64 GPUs, and what it lost.
LOST = (
    ("dgx-h100", 8, "node0.gpu0-node0.nic0", ("nvswitch",)),
    ("ndv2", 8, "node0.gpu0-node0.gpu4", ()),
    ("torus:8x8", None, "gpu0-gpu1", ()),
    ("mi300x", 8, "node0.gpu0-node0.gpu1", ()),
)
COLLECTIVES = ("allgather", "allreduce", "alltoall")
SIZE = "64MB"
LIMIT_S = 10.0

_INTRO = """\
A schedule for the whole machine (`synthesize --time-limit 10`), then one link is gone and the schedule is
repaired with `--time-limit 10`. *First*: when it was valid again, in seconds from the call, and its time.
*Fresh*: what `synthesize --time-limit 10` finds for the same machine and number of chunks without the old
schedule. 64 ranks, 64 MB, links alone; switches that sum are left out.
"""


def main() -> None:
    """Write docs/results/repair.md."""
    rows = [_row(*lost, collective) for lost in LOST for collective in COLLECTIVES]
    header = (
        *("machine", "lost", "collective", "before us", "first s", "first us", "repaired us", "fresh us"),
        *("to fresh", "bound us", "kept"),
    )
    report.write("repair", "Schedules repaired", _INTRO, report.table(header, rows))


def _row(machine: str, nodes: int | None, lost: str, left_out: tuple[str, ...], collective: str) -> list[str]:
    words = {"topology": machine, "nodes": nodes, "executor": False}
    of_search = {"size": SIZE, "chunks": 1, "file": False, "time_limit": LIMIT_S}
    old = synthesize(collective, without=left_out or None, **words, **of_search)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.json"
        old.write_schedule(path)
        done = repair(path, without=(*left_out, lost), file=False, time_limit=LIMIT_S, **words)
    fresh = synthesize(collective, without=(*left_out, lost), **words, **of_search)
    now = done.result
    first = ("-", "-") if done.first_s is None else (f"{done.first_s:.2f}", f"{done.first_us:.1f}")
    return [
        machine if nodes is None else f"{machine} x{nodes}",
        *(lost, collective, f"{done.before_us:.1f}", *first),
        *(f"{now.time_us:.1f}", f"{fresh.time_us:.1f}", f"{100 * (now.time_us / fresh.time_us - 1):+.1f}%"),
        *(f"{now.lower_bound_us:.1f}", f"{100 * done.kept:.0f}%"),
    ]


if __name__ == "__main__":
    main()
