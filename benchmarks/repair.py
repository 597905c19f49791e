"""Schedules of 64 ranks on machines that lost a link or a NIC: when valid again, and how good after 10 s.

python -m benchmarks.repair           writes docs/results/repair.md, but for its sections
python -m benchmarks.repair --soon    writes its section of how soon

`benchmarks.repair_testbed` writes the other section.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks import report
from taccl import make_problem, synthesize
from taccl.analysis.repair import first_of, repair
from taccl.model.schedule.saved import read_schedule

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
_PAGE = report.RESULTS / "repair.md"

_INTRO = """\
A schedule for the whole machine (`synthesize --time-limit 10`), then one link is gone and the schedule is
repaired with `--time-limit 10`. *First*: when it was valid again, in seconds from the call, and its time.
*Fresh*: what `synthesize --time-limit 10` finds for the same machine and number of chunks without the old
schedule. 64 ranks, 64 MB, links alone; switches that sum are left out.
"""


_SOON = "How soon"
_INTRO_OF_SOON = """\
Seconds of one core from the call to a schedule that is valid again: the old one is read, the machine stated,
the schedule mended and checked; the least of three. The old schedules are of `--effort 300`, and loops were
compiled (`taccl compile`). On a core that has nothing else to do it is about the time that passes.
"""


def main() -> None:
    """Write docs/results/repair.md, or one of its sections."""
    if sys.argv[1:] == ["--soon"]:
        cells = [_soon(*lost, collective) for lost in LOST for collective in COLLECTIVES]
        header = ("machine", "collective", "transfers", "s", "first us")
        write_section(_SOON, _INTRO_OF_SOON, report.table(header, cells))
        return
    rows = [_row(*lost, collective) for lost in LOST for collective in COLLECTIVES]
    header = (
        *("machine", "lost", "collective", "before us", "first s", "first us", "repaired us", "fresh us"),
        *("to fresh", "bound us", "kept"),
    )
    sections = _PAGE.read_text().partition("\n## ")[1:] if _PAGE.exists() else ()
    report.write("repair", "Schedules repaired", _INTRO, report.table(header, rows))
    _PAGE.write_text(_PAGE.read_text() + "".join(sections))


def write_section(heading: str, intro: str, table: str) -> None:
    """Write a section of the page anew; the others stay."""
    whole, *sections = _PAGE.read_text().split("\n## ")
    text = heading + "\n\n" + report.wrapped("\n\n".join([intro, table, report.measured_now()])) + "\n"
    kept = [each for each in sections if not each.startswith(heading + "\n")]
    _PAGE.write_text("\n## ".join([whole, *sorted([*kept, text], reverse=True)]))


def _soon(
    machine: str, nodes: int | None, lost: str, left_out: tuple[str, ...], collective: str
) -> list[str]:
    words = {"topology": machine, "nodes": nodes, "executor": False, "size": SIZE, "chunks": 1}
    whole = synthesize(collective, without=left_out or None, file=False, effort=300, **words)
    took = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.json"
        whole.write_schedule(path)
        for _ in range(3):
            began_s = time.process_time()
            old = read_schedule(path).schedule
            first, _ = first_of(old, make_problem(collective, without=(*left_out, lost), **words).problem)
            took.append(time.process_time() - began_s)
    assert first is not None
    name = machine if nodes is None else f"{machine} x{nodes}"
    return [name, collective, str(len(old)), f"{min(took):.2f}", f"{first.makespan_us:.1f}"]


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
