"""Plans whose messages wait for what they need alone, on machines of direct links that are there.

    python -m benchmarks.testbed_pipelined [NAME ...]     writes docs/results/testbed_pipelined.md

Machines, rings by hand and libraries are those of `benchmarks.testbed`, whose kept times stand beside.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report
from benchmarks.kept import kept_lines
from benchmarks.testbed_cases import MACHINES, Machine
from taccl import synthesize

COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")
NAMES = ("torus", "cube")
#: What a message and its round cost on the torus as `benchmarks.testbed` fitted it, us.
ALPHA_US = 2900.0
_INTRO = """\
`taccl bench --pipelined` under [`taccl testbed`](../testbed.md): messages are posted in the order of the
file, and each waits for what it needs and not for its [round](../pytorch.md#rounds). *Schedule*: the time of
`synthesize --chunks auto --effort 800` with 2.9 ms a message, which is what is predicted here; *as rounds*,
*ring by hand* and libraries as [measured before](testbed.md). Eight ranks, gloo's sends and receives, medians
of 5 calls.
"""


def main(words: list[str]) -> None:
    """As the module says."""
    rows = [
        row
        for machine in MACHINES
        if machine.name in (words or NAMES)
        for name in COLLECTIVES
        for size in machine.sizes
        for row in _row(machine, name, size)
    ]
    header = ("machine", "collective", "MB", "schedule ms", "measured ms", "ratio", "as rounds")
    header += ("ring by hand", "best library", "speed-up over the best", "wrong")
    ratios = [abs(float(row[5]) - 1) for row in rows]
    table = report.table(header, rows)
    summary = (
        f"abs(measured / schedule - 1): median {100 * median(ratios):.1f}%, largest {100 * max(ratios):.1f}%."
    )
    report.write("testbed_pipelined", "Plans that run ahead", _INTRO, f"{table}\n\n{summary}")


def _row(machine: Machine, collective: str, size: int) -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        path, plan = Path(folder) / "machine.yaml", Path(folder) / "plan.xml"
        path.write_text(machine.text(ALPHA_US, ALPHA_US))
        of_file = {"target": "rccl", "min_bytes": 1024, "max_bytes": 2**26, "executor": False}
        found = synthesize(collective, topology=path, size=size, effort=800, **of_file)
        found.write(plan)
        bench = ["taccl", "bench", str(plan), "--sizes", str(size), "--pipelined", "--json"]
        command = [
            "taccl",
            "testbed",
            str(path),
            "--scale",
            "1",
            "--",
            *bench,
            "--iterations",
            "5",
            "--warmup",
            "1",
        ]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        shown: dict[str, Any] = json.loads(said[said.index("{") :])["rows"][0]
    before = {
        row["who"]: row["took_us"] / 1e3
        for row in kept_lines("testbed")
        if (row["machine"], row["collective"], row["size_bytes"], row["kind"])
        == (machine.name, collective, size, "call")
    }
    measured, scheduled = shown["plan_us"] / 1e3, found.time_us / 1e3
    ring, rounds = before.get("ring by hand"), before.get("plan")
    library = min(shown["inner_us"] / 1e3, *(before.get(who, float("inf")) for who in ("gloo", "Open MPI")))
    best = min(library, ring or float("inf"))
    shown_ms = (f"{scheduled:.0f}", f"{measured:.0f}", f"{measured / scheduled:.2f}")
    others = (
        "" if rounds is None else f"{rounds:.0f}",
        "" if ring is None else f"{ring:.0f}",
        f"{library:.0f}",
    )
    yield [
        *(machine.name, collective, f"{size / 2**20:g}", *shown_ms, *others),
        *(f"{best / measured:.2f}", str(shown["wrong"])),
    ]
    print(machine.name, collective, size, *shown_ms, *others, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
