"""Large machines and large AllReduces: how near to the bound, in what time and memory.

    python -m benchmarks.scale [--part targets|growth|none] [--only TEXT ...] [--missing] [--most-ranks N]
                               [--memory GIB]

`targets` are the rows that the project sets itself, each with the share of the bound that is requested and
the time limit for it; `growth` are machines of one kind from 64 ranks on, with one chunk for each rank, for
the plot of time and quality against ranks. Each row is a fresh process, without a file. Rows are kept next to
the page as they are measured, so that several goes, also at once, fill it: `--missing` goes on where another
stopped, and `--part none` only writes the page anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import kept, report, scale_plot
from benchmarks.calls import Case, Outcome, outcome
from benchmarks.kept import Measured

#: The page, the rows next to it, and the plot.
NAME = "scale"

#: (machine, nodes, ranks, the share of the bound that is requested): AllReduce of 1 GB, 60 s.
ALLREDUCE = (
    ("ndv2", 1, 8, 0.99),
    ("ndv2", 2, 16, 0.99),
    ("dgx2", 1, 16, 0.99),
    ("dgx2", 2, 32, 0.99),
    ("torus:4x4", None, 16, 0.99),
    ("torus:8x8", None, 64, 0.99),
    ("ndv2", 4, 32, 0.98),
    ("a100", 2, 16, 0.98),
    ("a100", 4, 32, 0.98),
    ("dgx-h100", 4, 32, 0.98),
    ("mesh:6x6", None, 36, 0.95),
    ("mesh:16x16", None, 256, 0.95),
    ("a100", 16, 128, 0.95),
)
#: (collective, seconds, share) on 1,024 ranks.
LARGE = (("allgather", 60, 0.97), ("reducescatter", 60, 0.97), ("allreduce", 120, 0.93))
THOUSAND = (("dgx-h100", 128), ("mesh:32x32", None), ("torus:16x8x8", None))
#: (machine, nodes, ranks, seconds): AlltoAll at 95% of its bound.
ALLTOALL = (
    ("dgx-h100", 64, 512, 120),
    ("torus:8x8x8", None, 512, 120),
    ("dgx-h100", 128, 1024, 300),
    ("torus:16x8x8", None, 1024, 300),
)
#: Machines of which one node is planned, with their ranks, and (collective, seconds) with one chunk for each:
#: any valid schedule within five minutes.
LARGEST = (("a100", 512, 4096), ("dgx-h100", 2048, 16384))
COMPOSED = (("allgather", 200), ("allreduce", 240))
#: Machines of one kind, smallest first, with their ranks.
KINDS = {
    "mesh": (("mesh:8x8", None, 64), ("mesh:16x16", None, 256), ("mesh:32x32", None, 1024)),
    "torus": (("torus:4x4x4", None, 64), ("torus:8x8x4", None, 256), ("torus:16x8x8", None, 1024)),
    "dgx-h100": (("dgx-h100", 8, 64), ("dgx-h100", 32, 256), ("dgx-h100", 128, 1024)),
    "fat-tree, 2:1": (
        ("fat-tree:8x8:2", None, 64),
        ("fat-tree:16x16:2", None, 256),
        ("fat-tree:32x32:2", None, 1024),
    ),
    "dragonfly": (
        ("dragonfly:8x4x2", None, 64),
        ("dragonfly:16x4x4", None, 256),
        ("dragonfly:32x8x4", None, 1024),
    ),
}
GROWING = ("allgather", "allreduce")

HEADER = (
    "machine",
    "ranks",
    "collective",
    "chunks",
    "limit s",
    "wall s",
    "first s",
    "near s",
    "best s",
    "transfers",
    "time us",
    "bound us",
    "of bound",
    "requested",
    "GiB",
    "day",
)


@dataclass(frozen=True)
class Row:
    """A call, on how many ranks, and the share of the bound that is requested; 0: none is."""

    case: Case
    ranks: int
    requested: float


def main() -> None:
    """Measure the rows requested, and write docs/results/scale.md of all that were ever measured."""
    arguments = _arguments()
    parts = {"targets": _targets(), "growth": _growth()}
    before = kept.kept(NAME)
    for part, rows in parts.items():
        for row in rows:
            if _is_wanted(part, row, arguments) and not (arguments.missing and row.case in before):
                came = kept.measured_now(row.case, outcome(row.case, arguments.memory))
                kept.keep(NAME, came)
                print(part, *_cells(row, came), sep="  ", file=sys.stderr, flush=True)
    measured = kept.kept(NAME)
    body = []
    for part, rows in parts.items():
        done = [(row, measured[row.case]) for row in rows if row.case in measured]
        if done:
            body.append(f"## {part.capitalize()}\n\n{report.table(HEADER, [_cells(*each) for each in done])}")
        if part == "growth" and any(came.outcome.answer for _, came in done):
            scale_plot.draw(KINDS, GROWING, done, report.RESULTS / "scale.png")
            body.append("![time and quality against ranks](scale.png)")
    report.write(
        NAME,
        "Large machines and large AllReduces",
        _intro(parts, measured),
        "\n\n".join(body),
        "Each row was measured on its day with `python -m benchmarks.scale --only MACHINE/COLLECTIVE`, on "
        f"{' and '.join(sorted({came.machine for came in measured.values()}))}.",
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="as dgx-h100x128/allreduce")
    parser.add_argument("--part", choices=("targets", "growth", "none"), help="this one alone")
    parser.add_argument("--missing", action="store_true", help="only rows that were never measured")
    parser.add_argument("--most-ranks", type=int, default=1024, metavar="N")
    parser.add_argument("--memory", type=float, default=6.0, metavar="GIB", help="more than this ends a row")
    return parser.parse_args()


def _is_wanted(part: str, row: Row, arguments: argparse.Namespace) -> bool:
    name = f"{row.case.place}/{row.case.collective}"
    return (
        arguments.part in (None, part)
        and row.ranks <= arguments.most_ranks
        and (not arguments.only or any(text in name for text in arguments.only))
    )


def _targets() -> list[Row]:
    rows = [
        Row(Case(machine, nodes, "allreduce", "1GB", "auto", 60.0), ranks, requested)
        for machine, nodes, ranks, requested in ALLREDUCE
    ]
    rows += [
        Row(Case(machine, nodes, collective, "1GB", "auto", float(seconds)), 1024, requested)
        for machine, nodes in THOUSAND
        for collective, seconds, requested in LARGE
    ]
    rows += [
        Row(Case(machine, nodes, "alltoall", "1GB", 1, float(seconds)), ranks, 0.95)
        for machine, nodes, ranks, seconds in ALLTOALL
    ]
    rows += [
        Row(Case(machine, nodes, collective, "1GB", 1, float(seconds)), ranks, 0.0)
        for machine, nodes, ranks in LARGEST
        for collective, seconds in COMPOSED
    ]
    return rows


def _growth() -> list[Row]:
    return [
        Row(Case(machine, nodes, collective, "1GB", 1, 60.0), ranks, 0.0)
        for machines in KINDS.values()
        for collective in GROWING
        for machine, nodes, ranks in machines
    ]


def _is_met(row: Row, came: Outcome) -> bool:
    return bool(came.answer) and 1 - came.answer["gap"] >= row.requested and came.wall_s <= row.case.allowed_s


def _cells(row: Row, measured: Measured) -> list[str]:
    came, answer, case = measured.outcome, measured.outcome.answer, row.case
    figures = ["-"] * 6 + [came.failure]
    if answer:
        figures = [
            f"{answer['first_s']:.1f}",
            f"{answer['near_s']:.1f}" if "near_s" in answer else "-",
            f"{answer['best_s']:.1f}",
            f"{answer['transfers']}",
            f"{answer['time_us']:.1f}",
            f"{answer['bound_us']:.1f}",
            f"{100 * (1 - answer['gap']):.2f}%",
        ]
    requested = f"{100 * row.requested:.0f}%" if row.requested else ""
    return [
        case.place,
        str(row.ranks),
        case.collective,
        f"auto: {answer['chunks']}" if answer and case.chunks == "auto" else str(case.chunks),
        f"{case.limit_s:g}",
        f"{came.wall_s:.1f}",
        *figures,
        requested if not row.requested or _is_met(row, came) else f"**{requested}**",
        f"{came.peak_gib:.2f}",
        measured.day,
    ]


def _intro(parts: Mapping[str, Sequence[Row]], measured: Mapping[Case, Measured]) -> str:
    targets = [(row, measured[row.case].outcome) for row in parts["targets"] if row.case in measured]
    missing = sum(row.case not in measured for rows in parts.values() for row in rows)
    met = f"{sum(_is_met(*each) for each in targets)} of {len(targets)}"
    not_yet = f" {missing} rows of the benchmark were not measured yet." if missing else ""
    return (
        "1 GB, without a file. Every row is a fresh process; `wall s` is all of its life, with its imports. "
        "`first s`, `near s` and `best s`: when the first schedule was found, one within 1% of the last, and "
        f"the last. `of bound`: bound / time. {met} targets that were measured are met, within the limit x "
        "1.1 + 3 s; those that are not are bold. dgx-h100 is `--without nvswitch`, without in-switch sums."
        f"{not_yet}"
    )


if __name__ == "__main__":
    main()
