"""Large machines and large AllReduces: how near to the bound, in what time and memory.

    python -m benchmarks.scale [--part targets|growth] [--only TEXT ...] [--most-ranks N] [--memory GIB]

`targets` are the rows that the project sets itself, each with the share of the bound that is asked and the
time limit for it; `growth` are machines of one kind from 64 ranks on, with one chunk for each rank, for the
plot of time and quality against ranks. Each row is a fresh process, without a file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import report
from benchmarks.calls import Case, Outcome, outcome

#: (machine, nodes, ranks, the share of the bound that is asked for): AllReduce of 1 GB, 60 s.
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
#: Machines of one kind, smallest first, with their ranks.
KINDS = {
    "mesh": (("mesh:8x8", None, 64), ("mesh:16x16", None, 256), ("mesh:32x32", None, 1024)),
    "torus": (("torus:4x4x4", None, 64), ("torus:8x8x4", None, 256), ("torus:16x8x8", None, 1024)),
    "dgx-h100": (("dgx-h100", 8, 64), ("dgx-h100", 32, 256), ("dgx-h100", 128, 1024)),
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
    "best s",
    "transfers",
    "time us",
    "bound us",
    "of bound",
    "asked",
    "GiB",
)


@dataclass(frozen=True)
class Row:
    """A call, on how many ranks, and the share of the bound that is asked for; 0: none is."""

    case: Case
    ranks: int
    asked: float


def main() -> None:
    """Run the rows asked for and write docs/results/scale.md, with its plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="as dgx-h100x128/allreduce")
    parser.add_argument("--part", choices=("targets", "growth"), help="this one alone")
    parser.add_argument("--most-ranks", type=int, default=1024, metavar="N")
    parser.add_argument("--memory", type=float, default=6.0, metavar="GIB", help="more than this ends a row")
    arguments = parser.parse_args()
    parts: dict[str, list[tuple[Row, Outcome]]] = {"targets": [], "growth": []}
    for part, rows in (("targets", _targets()), ("growth", _growth())):
        for row in rows if arguments.part in (None, part) else ():
            name = f"{row.case.place}/{row.case.collective}"
            if row.ranks <= arguments.most_ranks and (
                not arguments.only or any(text in name for text in arguments.only)
            ):
                parts[part].append((row, outcome(row.case, arguments.memory)))
                print(part, *_cells(*parts[part][-1]), sep="  ", file=sys.stderr, flush=True)
    body = "\n\n".join(
        f"## {part.capitalize()}\n\n{report.table(HEADER, [_cells(*each) for each in done])}"
        for part, done in parts.items()
        if done
    )
    if any(done[1].answer for done in parts["growth"]):
        _plot(parts["growth"])
        body += "\n\n![time and quality against ranks](scale.png)"
    report.write("scale", "Large machines and large AllReduces", _intro(parts["targets"]), body)


def _targets() -> list[Row]:
    rows = [
        Row(Case(machine, nodes, "allreduce", "1GB", "auto", 60.0), ranks, asked)
        for machine, nodes, ranks, asked in ALLREDUCE
    ]
    rows += [
        Row(Case(machine, nodes, collective, "1GB", "auto", float(seconds)), 1024, asked)
        for machine, nodes in THOUSAND
        for collective, seconds, asked in LARGE
    ]
    rows += [
        Row(Case(machine, nodes, "alltoall", "1GB", 1, float(seconds)), ranks, 0.95)
        for machine, nodes, ranks, seconds in ALLTOALL
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
    return bool(came.answer) and 1 - came.answer["gap"] >= row.asked and came.wall_s <= row.case.allowed_s


def _cells(row: Row, came: Outcome) -> list[str]:
    answer, case = came.answer, row.case
    figures = ["-"] * 5 + [came.failure]
    if answer:
        figures = [
            f"{answer['first_s']:.1f}",
            f"{answer['best_s']:.1f}",
            f"{answer['transfers']}",
            f"{answer['time_us']:.1f}",
            f"{answer['bound_us']:.1f}",
            f"{100 * (1 - answer['gap']):.2f}%",
        ]
    asked = f"{100 * row.asked:.0f}%" if row.asked else ""
    return [
        case.place,
        str(row.ranks),
        case.collective,
        f"auto: {answer['chunks']}" if answer and case.chunks == "auto" else str(case.chunks),
        f"{case.limit_s:g}",
        f"{came.wall_s:.1f}",
        *figures,
        asked if not row.asked or _is_met(row, came) else f"**{asked}**",
        f"{came.peak_gib:.2f}",
    ]


def _intro(done: Sequence[tuple[Row, Outcome]]) -> str:
    met = sum(_is_met(*each) for each in done)
    return (
        "1 GB, without a file. Every row is a fresh process; `wall s` is all of its life, with its imports. "
        "`first s` and `best s`: when the first and the last schedule were found. `of bound`: bound / time. "
        f"{met} of {len(done)} targets are met, within the limit x 1.1 + 3 s; those that are not are bold."
    )


def _plot(done: Sequence[tuple[Row, Outcome]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for kind, machines in KINDS.items():
        for collective in GROWING:
            places = {Case(machine, nodes, "", "", 1, 0.0).place for machine, nodes, _ in machines}
            rows = [
                (row.ranks, came.answer)
                for row, came in done
                if row.case.place in places and row.case.collective == collective and came.answer
            ]
            if not rows:
                continue
            ranks = [each for each, _ in rows]
            line = "-o" if collective == "allreduce" else "--s"
            label = f"{kind}, {collective}"
            left.plot(
                [answer["transfers"] for _, answer in rows],
                [answer["first_s"] for _, answer in rows],
                line,
                label=label,
            )
            right.plot(ranks, [100 * (1 - answer["gap"]) for _, answer in rows], line, label=label)
    left.set(xscale="log", yscale="log", xlabel="transfers", ylabel="s until the first schedule")
    right.set(xscale="log", xlabel="ranks", ylabel="% of the bound", ylim=(50, 101))
    right.legend(fontsize=7)
    figure.savefig(report.RESULTS / "scale.png", dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
