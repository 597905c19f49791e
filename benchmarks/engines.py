"""What each engine alone wins: searches with all engines, and without each that improved the schedule.

    python -m benchmarks.engines [--published EFFORT] [--others EFFORT] [--part I/N]
    python -m benchmarks.engines --page

The published sketches with four collectives, and 102 other problems. Work is counted and not seconds, so that
parts can run side by side on a busy machine; their rows are kept in docs/results/engines.jsonl, from which
`--page` writes the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks import report
from taccl import synthesize
from taccl.encoding.engines import registry
from taccl.encoding.engines.engine import no
from taccl.encoding.engines.registry import ENGINES
from taccl.sketch import published_sketches

COLLECTIVES = ("allgather", "alltoall", "reducescatter", "allreduce")
#: Those that sketches seldom are for.
ROOTED = ("broadcast", "scatter")
#: A machine, a size and a number of nodes where the machine has them.
MACHINES: tuple[tuple[str, str, int | None], ...] = (
    ("ring:6", "1MB", None),
    ("torus:3x4", "4MB", None),
    ("mesh:3x3", "64KB", None),
    ("switch:8", "16KB", None),
    ("full:8", "1MB", None),
    ("hub:6", "1MB", None),
    ("fat-tree:4", "1MB", None),
    ("dgx-h100", "64MB", 1),
    ("dgx-a100", "16KB", 2),
    ("dgx-a100", "32MB", 2),
    ("dgx2", "1MB", 2),
    ("mi300x", "1MB", 1),
    ("ndv4", "256KB", 2),
    ("p4d", "4MB", 2),
    ("mi250x", "8MB", 1),
    ("ring:8", "16KB", None),
    ("pcie:2x4", "16KB", None),
)
ROWS = report.RESULTS / "engines.jsonl"
#: A smaller difference comes of who has the time that the engine leaves.
LEAST = 0.001


@dataclass(frozen=True)
class Row:
    """A search.

    Parameters
    ----------
    machine, collective, size : of what.
    without : the engines that had no turn.
    effort : units of work of the search, nominally milliseconds.
    time_us, bound_us : what it found and proved.
    improved : engines that found a faster schedule of the whole or of a phase, in the order of first turns.
    """

    machine: str
    collective: str
    size: str
    without: tuple[str, ...]
    effort: int
    time_us: float
    bound_us: float
    improved: tuple[str, ...]


@contextmanager
def left_out(names: tuple[str, ...]) -> Iterator[None]:
    """Engines of these names decline every problem meanwhile."""
    registry.ENGINES = tuple(
        replace(each, serves=lambda _: no("it is left out")) if each.name in names else each
        for each in ENGINES
    )
    try:
        yield
    finally:
        registry.ENGINES = ENGINES


def problems(published: int, others: int) -> list[tuple[str, str, str, Mapping[str, Any]]]:
    """(machine, collective, size, what is requested) of each."""
    sketches = [
        (sketch.name, collective, "", {"sketch": sketch.name, "effort": published, "executor": False})
        for sketch in published_sketches()
        for collective in COLLECTIVES
    ]
    others = [
        (
            machine if nodes is None else f"{machine} x{nodes}",
            collective,
            size,
            {"topology": machine, "size": size, "effort": others}
            | report.as_published(machine)
            | ({} if nodes is None else {"nodes": nodes}),
        )
        for machine, size, nodes in MACHINES
        for collective in (*COLLECTIVES, *ROOTED)
    ]
    return sketches + others


def searched(
    machine: str, collective: str, size: str, requested: Mapping[str, Any], without: tuple[str, ...]
) -> Row:
    """One search, without these engines."""
    with left_out(without):
        result = synthesize(collective, file=False, **requested)
    improved = tuple(dict.fromkeys(run.name for run in result.found.engines if run.time_us is not None))
    row = Row(
        machine,
        collective,
        size,
        without,
        requested["effort"],
        result.time_us,
        result.lower_bound_us,
        tuple(name for name in improved if name != "phases"),
    )
    with ROWS.open("a") as file:
        file.write(json.dumps(asdict(row)) + "\n")
    print(machine, collective, size, *without, f"{row.time_us:.3f}", file=sys.stderr, flush=True)
    return row


def rows_so_far() -> list[Row]:
    """What was searched before, by any part."""
    lines = ROWS.read_text().splitlines() if ROWS.exists() else []
    found = [json.loads(line) for line in lines]
    return [
        Row(**{**each, "without": tuple(each["without"]), "improved": tuple(each["improved"])})
        for each in found
    ]


def page(rows: list[Row]) -> str:
    """A row for each engine: how often it improved a schedule, and what searches lose without it."""
    whole = {(row.machine, row.collective, row.size): row for row in rows if not row.without}
    lines = []
    today = [engine.name for engine in ENGINES]
    for name in dict.fromkeys((*today, *(name for row in rows for name in row.without))):
        of = [row for row in rows if row.without == (name,)]
        losses = [
            row.time_us / whole[key].time_us - 1
            for row in of
            if (key := (row.machine, row.collective, row.size)) in whole
        ]
        improved = sum(name in row.improved for row in whole.values())
        slower = [loss for loss in losses if loss > LEAST]
        faster = [loss for loss in losses if loss < -LEAST]
        lines.append(
            [
                name if name in today else f"{name} (removed)",
                str(improved),
                str(len(losses)),
                str(len(slower)),
                f"{100 * max(0.0, *losses):.1f}%" if losses else "-",
                str(len(faster)),
                f"{100 * max(0.0, *(-loss for loss in losses)):.1f}%" if losses else "-",
            ]
        )
    header = ["engine", "improved", "left out", "slower without", "at most", "faster without", "at most"]
    return report.table(header, lines)


def main() -> None:
    """Search what is not searched yet, and write docs/results/engines.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--published", type=int, default=60_000)
    parser.add_argument("--others", type=int, default=15_000)
    parser.add_argument("--part", default="0/1", help="this part of the problems: 0/2, 1/2")
    parser.add_argument("--page", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    done = {(row.machine, row.collective, row.size) for row in rows_so_far() if not row.without}
    for number, problem in enumerate(problems(arguments.published, arguments.others)):
        if arguments.page or number % parts != part or problem[:3] in done:
            continue
        row = searched(*problem, ())
        for name in row.improved:
            searched(*problem, (name,))
    if parts == 1 or arguments.page:
        rows = rows_so_far()
        whole = [row for row in rows if not row.without]
        efforts = sorted({row.effort for row in whole}, reverse=True)
        intro = (
            f"{len(whole)} of {len(problems(0, 0))} problems: the published sketches and others, with an "
            f"effort of {efforts[0]:,} and {efforts[-1]:,} (nominal milliseconds): `--published "
            f"{efforts[0]} --others {efforts[-1]}`. Each was searched with all engines, "
            "and again without each engine that had improved its schedule. `improved`: problems in which the "
            "engine found a faster schedule, of the whole or of a phase. `slower without`: searches without "
            f"it that end above those with all engines by more than {LEAST:.1%}: what it alone wins. An "
            "engine that found nothing in any problem was left out of none. `in-switch` needs a switch that "
            "sums, which is left out here; `milp` is the reference for TACCL; `joint` and "
            "`all-programs` search for proofs, which the table does not count."
        )
        report.write("engines", "What each engine alone wins", intro, page(rows))


if __name__ == "__main__":
    main()
