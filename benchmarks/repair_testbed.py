"""A link slows in the middle of a call on shaped wires: it goes on as planned, or is repaired; same numbers.

    python -m benchmarks.repair_testbed         a section of docs/results/repair.md

Every rank is a process in a network namespace of `taccl testbed` (`benchmarks/repair_rank.py`). At the
moment of the change the ranks at the link shape it anew. A repaired call ends what had begun by then
according to the plan, and goes on with what `taccl repair --at` made of the rest.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import report
from benchmarks.repair import write_section
from benchmarks.repair_rank import Case, Cell, Leg, Row
from benchmarks.testbed_cases import MACHINES
from taccl import synthesize
from taccl.analysis.repair import Repaired, repair
from taccl.deployment.testbed.design import Wire, design_of, rank_address
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import contributors
from taccl.model.schedule.saved import read_schedule
from taccl.topologies import load_topology

COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")
SIZE, PART, SLOWER, EFFORT = 2**22, 0.4, 8, 40
HEADING = "A link slows in the middle"
(MACHINE,) = (machine for machine in MACHINES if machine.name == "torus")

_INTRO = """\
On shaped wires (`taccl testbed`): a torus of 2 x 4 at 20 Mbit/s a link (8 between ranks 1 and 2), 4 MB, eight
processes, plain TCP. After 40% of the predicted time the link between ranks 0 and 1 becomes 8 times as slow.
*As planned*: the call goes on. *Repaired*: it ends what had begun and goes on with what `taccl repair --at`
made of the rest. *Wrong*: numbers of both runs, on all ranks, that are not what they should be.
"""


def main() -> None:
    """Run all and write the section."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [_row(name, Path(folder)) for name in COLLECTIVES]
    columns = ("as planned ms", "repaired, predicted ms", "measured ms", "ratio", "gain", "wrong")
    table = report.table(("collective", "changed at ms", *columns), rows)
    write_section(HEADING, _INTRO, table)


def _row(name: str, folder: Path) -> list[str]:
    before, now = folder / "before.yaml", folder / "now.yaml"
    before.write_text(MACHINE.text())
    slow = f"  - {{pairs: [0-1], alpha_us: 1, bandwidth_gbps: {0.0025 / SLOWER}}}\n"
    now.write_text(MACHINE.text().replace("pairs: [0-1, ", "pairs: [") + slow)
    kept = folder / "old.json"
    words = {"executor": False, "effort": EFFORT}
    synthesize(name, topology=before, size=SIZE, chunks=1, file=False, **words).write_schedule(kept)
    old = read_schedule(kept).schedule
    at_us = PART * old.makespan_us
    done = repair(kept, at_us=at_us, topology=now, **words)
    assert done.from_us is not None
    predicted_us = done.from_us + done.result.time_us
    found = [_run(before, case) for case in (_whole(old, at_us, now), _repaired(old, done, at_us, now))]
    took = [max(each["took_us"] for each in ranks) for ranks in found]
    wrong = sum(each["wrong"] for ranks in found for each in ranks)
    row = [
        *(name, f"{at_us / 1e3:.0f}", f"{took[0] / 1e3:.0f}", f"{predicted_us / 1e3:.0f}"),
        *(
            f"{took[1] / 1e3:.0f}",
            f"{took[1] / predicted_us:.2f}",
            f"{took[0] / took[1]:.2f}",
            str(int(wrong)),
        ),
    ]
    print(row, file=sys.stderr, flush=True)
    return row


def _whole(old: Schedule, at_us: float, now: Path) -> Case:
    return _case(old, (_leg(old, np.arange(len(old)), {}),), old, at_us, now)


def _repaired(old: Schedule, done: Repaired, at_us: float, now: Path) -> Case:
    rest = done.result.schedule
    begun = np.flatnonzero(old.start_us < at_us)
    legs = _leg(old, begun, {}), _leg(rest, np.arange(len(rest)), done.contributions)
    return _case(old, legs, rest, at_us, now)


def _leg(schedule: Schedule, rows: np.ndarray, sums: dict[Cell, int]) -> Leg:
    collective = schedule.problem.collective
    inputs = {
        (chunk, rank): (1 << rank if collective.reduces[chunk] else 0, sums.get((chunk, rank), 0))
        for chunk, rank in zip(collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True)
    }
    sets = sets_of_rows(schedule, contributors(collective))
    sends = []
    for row in rows[np.lexsort((schedule.end_us[rows], schedule.start_us[rows]))].tolist():
        src, dst, chunk = (int(column[row]) for column in (schedule.src, schedule.dst, schedule.chunk))
        into = (schedule.chunk == chunk) & (schedule.dst == src)
        after = int((into & (schedule.end_us <= schedule.start_us[row] + 1e-6)).sum())
        sends.append(Row(src, dst, chunk, sets[row] if collective.reduces[chunk] else 0, after))
    return Leg(tuple(sends), inputs)


def _case(old: Schedule, legs: tuple[Leg, ...], last: Schedule, at_us: float, now: Path) -> Case:
    collective, then = old.problem.collective, last.problem.collective
    wholes = contributors(then)
    outputs = {}
    for chunk, rank in zip(*(each.tolist() for each in np.nonzero(collective.post)), strict=True):
        sources = np.flatnonzero(collective.pre[chunk]).tolist()
        called = wholes[chunk] if then.reduces[chunk] else 0
        outputs[chunk, rank] = called, tuple(sources if collective.reduces[chunk] else sources[:1])
    slow, there = (_wire(each) for each in (now, now.with_name("before.yaml")))
    ranks = collective.num_ranks
    return Case(
        *(ranks, tuple(map(rank_address, range(ranks))), 4 * round(old.problem.chunk_mb * 2**20 / 4)),
        *(legs, outputs, at_us, slow.ends[0].rate_bits, there.name),
    )


def _wire(machine: Path) -> Wire:
    """The one between ranks 0 and 1."""
    wires = design_of(load_topology(str(machine)), 1.0).wires
    return next(wire for wire in wires if {end.device for end in wire.ends} == {"gpu0", "gpu1"})


def _run(machine: Path, case: Case) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "case").write_bytes(pickle.dumps(case))
        worker = [sys.executable, "-m", "benchmarks.repair_rank", folder]
        words = ["testbed", str(machine), "--scale", "1", "--", *worker]
        subprocess.run([sys.executable, "-m", "taccl", *words], check=True, timeout=240)
        return [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.took"))]


if __name__ == "__main__":
    main()
