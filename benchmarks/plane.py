"""Every size and every collective: schedules next to their bounds over a plane of machines and sizes.

    python -m benchmarks.plane [--limit SECONDS] [--only TEXT ...] [--sizes SIZE ...] [--collectives NAME ...]
                               [--again] [--open SECONDS] [--page]

Each cell is a fresh process that searches for `--limit` seconds, by links alone and without in-switch sums;
then what libraries run is timed at the same sizes. Cells are kept in docs/results/plane.jsonl, so that
several goes fill one page: a cell that is there is searched again with `--again` only. `--open 5` searches
only cells that are kept with a limit of 5 s and are above 10% there. `--page` only writes the page.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

from benchmarks import report
from benchmarks.calls import Case, outcome
from benchmarks.kept import Measured, keep, keep_line, kept, kept_lines, measured_now
from benchmarks.plane_map import draw
from benchmarks.plane_order import SLOWER, could_be_faster
from taccl.analysis.exploration.library_table import library
from taccl.errors import TacclError
from taccl.model.collectives import COLLECTIVES
from taccl.model.units import parse_size

NAME, LIBRARIES = "plane", "plane_libraries"
#: (machine, nodes): one node and several, switches, direct links, shared NICs, CPUs, a torus, a fabric.
MACHINES = (
    ("dgx-h100", 2),
    ("dgx-h100", 8),
    ("ndv2", 2),
    ("dgx2", 2),
    ("a100", 4),
    ("mi300x", 1),
    ("torus:4x4", None),
    ("dgx-h100", 4),
    ("gb200-nvl72", 1),
    ("pcie:2x4", None),
    ("torus:8x8", None),
    ("fat-tree:8x8:2", None),
)
SIZES = ("1KB", "4KB", "16KB", "64KB", "256KB", "1MB", "4MB", "16MB", "64MB", "256MB", "1GB")
#: Above this part of its time a cell is open, and below the others it is good.
NEAR, GOOD, OPEN = 0.03, 0.1, 0.3
_GAPS = "To the bound for the number of chunks that was chosen; times are in [plane.jsonl](plane.jsonl)."
_MOST_GIB = 8.0
_EXACT = 1e-6
INTRO = """\
Schedules of `synthesize` next to their bounds: machines x collectives x sizes, links alone, no sums in
switches, no sketch, {limit:g} s a cell. *Gap*: (time - bound) / time, to the bound for the number of chunks
that was chosen; *any chunks*: to the bound for any number. [Verdicts](plane_verdicts.md) say what stands
between schedules and bounds.
"""


LATER = """\
Cells above 10% were searched again (`--limit {limit:g} --open {first:g}`); others are counted as they
are. *Soon there*: those that are within 10% of their later time already, of these and of those within 10% of
their bound.
"""


@dataclass(frozen=True)
class Cell:
    """A searched cell with the fastest time that libraries have there, us; None: none that is known."""

    measured: Measured
    library_us: float | None

    @property
    def case(self) -> Case:
        return self.measured.case

    @property
    def time_us(self) -> float:
        return float(self.measured.outcome.answer["time_us"])

    @property
    def gap(self) -> float:
        return float(self.measured.outcome.answer["gap"])

    @property
    def any_gap(self) -> float:
        """To what no schedule beats, however finely it cuts the message."""
        answer = self.measured.outcome.answer
        return 1.0 - float(answer["any_bound_us"]) / self.time_us

    @property
    def is_slower(self) -> bool:
        """Slower than what a library runs."""
        return self.library_us is not None and self.time_us > self.library_us * (1 + _EXACT)


def main() -> None:
    """Search the cells requested, and write docs/results/plane.md of all that are kept."""
    arguments = _arguments()
    if not arguments.page:
        known = kept(NAME)
        for case in _cases(arguments):
            if arguments.open and not _is_open(known.get(replace(case, limit_s=arguments.open))):
                continue
            if arguments.again or case not in known:
                came = measured_now(case, outcome(case, _MOST_GIB))
                keep(NAME, came)
                print(*_words(came), sep="  ", file=sys.stderr, flush=True)
            _time_libraries(case)
    _write(arguments.limit)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="for each cell")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="machines, as dgx-h100x2")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), metavar="SIZE")
    parser.add_argument("--collectives", nargs="+", default=list(COLLECTIVES), metavar="NAME")
    parser.add_argument("--again", action="store_true", help="search cells that are kept, too")
    parser.add_argument("--open", type=float, metavar="SECONDS", help="only what is above 10%% in that time")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept")
    return parser.parse_args()


def _is_open(came: Measured | None) -> bool:
    return came is not None and bool(came.outcome.answer) and came.outcome.answer["gap"] > GOOD


def _cases(arguments: argparse.Namespace) -> Iterator[Case]:
    for size in arguments.sizes:
        for machine, nodes in MACHINES:
            for collective in arguments.collectives:
                case = Case(machine, nodes, collective, size, "auto", arguments.limit)
                if not arguments.only or case.place in arguments.only:
                    yield case


def _words(came: Measured) -> Sequence[str]:
    case, answer = came.case, came.outcome.answer
    if not answer:
        return case.place, case.collective, case.size, came.outcome.failure
    times = f"{answer['time_us']:.2f} us", f"bound {answer['bound_us']:.2f}", f"{100 * answer['gap']:.1f}%"
    return case.place, case.collective, case.size, *times, f"{answer['chunks']} chunks"


def _time_libraries(case: Case) -> None:
    """Keep what libraries take at all sizes, once for each machine and collective."""
    if (case.place, case.collective) in _libraries():
        return
    times: dict[str, float] = {}
    with suppress(TacclError):
        table = library(
            "all",
            case.collective,
            topology=case.machine,
            nodes=case.nodes,
            without=_switches(case),
            sizes=SIZES,
            time_limit=case.limit_s,
        )
        for row in table.report().rows:
            size, time_us = str(row["size_bytes"]), float(str(row["time_us"]))
            times[size] = min(time_us, times.get(size, time_us))
    keep_line(LIBRARIES, {"place": case.place, "collective": case.collective, "times_us": times})


def _switches(case: Case) -> Sequence[str] | None:
    return report.as_published(case.machine)["without"] or None


def _libraries() -> Mapping[tuple[str, str], Mapping[str, float]]:
    return {(each["place"], each["collective"]): each["times_us"] for each in kept_lines(LIBRARIES)}


def _write(limit_s: float) -> None:
    libraries = _libraries()
    cells, failed = [], []
    for case, came in kept(NAME).items():
        times = libraries.get((case.place, case.collective), {})
        if case.limit_s != limit_s:
            continue
        if not came.outcome.answer:
            failed.append(f"{case.place} {case.collective} {case.size}: {came.outcome.failure}")
        else:
            cells.append(Cell(came, times.get(str(parse_size(case.size)))))
    if not cells:
        return
    cells.sort(key=_place)
    order = [each for each, _ in groupby(cell.case.collective for cell in cells)]
    parts = [_summary(cells, order), *_later(cells, order), *failed, "![gaps](plane.svg)", "## Gaps", _GAPS]
    parts += [
        f"### {each}\n\n{_gaps([cell for cell in cells if cell.case.collective == each])}" for each in order
    ]
    shown = [cell for cell in cells if cell.gap > OPEN or cell.is_slower]
    parts.append(f"## Above {100 * OPEN:g}%, or slower than libraries\n\n{_table(shown)}")
    parts.append(f"## Slower than what contains them\n\n{_order(cells)}")
    draw(
        [(cell.case.collective, cell.case.place, cell.case.size, cell.gap) for cell in cells],
        [size for size in SIZES if any(cell.case.size == size for cell in cells)],
        report.RESULTS / "plane.svg",
    )
    days = sorted({cell.measured.day for cell in cells})
    machines = sorted({cell.measured.machine for cell in cells})
    measured = (
        f"Measured {' to '.join(sorted({days[0], days[-1]}))} on {'; '.join(machines)}, "
        f"with `python -m benchmarks.plane --limit {limit_s:g}`."
    )
    report.write(
        NAME, "Every size and every collective", INTRO.format(limit=limit_s), "\n\n".join(parts), measured
    )


def _place(cell: Cell) -> tuple[int, int, int]:
    case = cell.case
    machine = MACHINES.index((case.machine, case.nodes))
    return list(COLLECTIVES).index(case.collective), machine, parse_size(case.size)


def _summary(cells: Sequence[Cell], collectives: Sequence[str]) -> str:
    header = (
        *("cells", "number", "median gap", f"within {100 * GOOD:g}%", f"above {100 * OPEN:g}%"),
        *("median gap, any chunks", "slower"),
    )
    rows = [_summed("all", cells)]
    rows += [_summed(name, [cell for cell in cells if cell.case.collective == name]) for name in collectives]
    text = "*Slower*: than the fastest algorithm that libraries have, by links alone."
    return f"{report.table(header, rows)}\n\n{text}"


def _summed(name: str, cells: Sequence[Cell]) -> Sequence[str]:
    gaps = [cell.gap for cell in cells]
    return (
        name,
        str(len(gaps)),
        f"{100 * statistics.median(gaps):.1f}%",
        f"{100 * sum(gap <= GOOD for gap in gaps) / len(gaps):.0f}%",
        str(sum(gap > OPEN for gap in gaps)),
        f"{100 * statistics.median(cell.any_gap for cell in cells):.1f}%",
        str(sum(cell.is_slower for cell in cells)),
    )


def _later(cells: Sequence[Cell], collectives: Sequence[str]) -> Iterator[str]:
    """What became of open cells that were searched again with larger limits; one section for each limit."""
    by_limit: dict[float, dict[Case, Measured]] = {}
    for case, came in kept(NAME).items():
        if came.outcome.answer and case.limit_s > cells[0].case.limit_s:
            by_limit.setdefault(case.limit_s, {})[replace(case, limit_s=cells[0].case.limit_s)] = came
    for limit_s, later in sorted(by_limit.items()):
        header = (
            "cells",
            "searched again",
            "median gap of these",
            "within 10% of all",
            "above 30%",
            "soon there",
        )
        of_each = ((name, [each for each in cells if each.case.collective == name]) for name in collectives)
        rows = [_summed_later(name, those, later) for name, those in [("all", cells), *of_each]]
        text = LATER.format(limit=limit_s, first=cells[0].case.limit_s).strip()
        yield f"## In {limit_s:g} s\n\n{text}\n\n{report.table(header, rows)}"


def _summed_later(name: str, cells: Sequence[Cell], later: Mapping[Case, Measured]) -> Sequence[str]:
    pairs = [(cell, Cell(later[cell.case], cell.library_us)) for cell in cells if cell.case in later]
    gaps = [Cell(later.get(cell.case, cell.measured), cell.library_us).gap for cell in cells]
    medians = [statistics.median(pair[side].gap for pair in pairs) for side in (0, 1) if pairs]
    good = sum(cell.gap <= GOOD for cell in cells)
    soon = good + sum(cell.time_us <= now.time_us * (1 + GOOD) for cell, now in pairs)
    return (
        name,
        str(len(pairs)),
        " -> ".join(f"{100 * each:.1f}%" for each in medians) or "-",
        f"{100 * sum(gap <= GOOD for gap in gaps) / len(gaps):.0f}%",
        f"{sum(cell.gap > OPEN for cell in cells)} -> {sum(gap > OPEN for gap in gaps)}",
        f"{100 * soon / max(1, good + len(pairs)):.0f}%",
    )


def _gaps(cells: Sequence[Cell]) -> str:
    """The gap of each machine at each size."""
    sizes = [size for size in SIZES if any(cell.case.size == size for cell in cells)]
    rows = []
    for place, those in groupby(cells, key=lambda cell: cell.case.place):
        gaps = {cell.case.size: f"{100 * cell.gap:.1f}%" for cell in those}
        rows.append((place, *(gaps.get(size, "-") for size in sizes)))
    return report.table(("machine", *sizes), rows)


def _order(cells: Sequence[Cell]) -> str:
    """Cells that could be faster, the farthest off first."""
    times_us: dict[tuple[str, str], dict[str, float]] = {}
    for cell in cells:
        at = times_us.setdefault((cell.case.place, cell.case.size), {})
        at[cell.case.collective] = cell.time_us
    rows = []
    for (place, size), of_place in times_us.items():
        for found in could_be_faster(of_place):
            slower = found.time_us / found.others_us - 1
            others = ", then ".join(found.others)
            times = f"{found.time_us:.2f}", f"{found.others_us:.2f}", f"{100 * slower:.1f}%"
            rows.append((slower, (place, size, found.collective, others, *times)))
    rows.sort(key=lambda row: -row[0])
    header = "machine", "size", "collective", "contained in", "time us", "time of that us", "slower"
    text = f"What brings more cannot take less time, so these could be faster, by {100 * SLOWER:g}% or more."
    return f"{text}\n\n{report.table(header, [row for _, row in rows])}"


def _table(cells: Sequence[Cell]) -> str:
    header = (
        *("machine", "collective", "size", "chunks", "time us", "bound us", "gap", "gap, any chunks"),
        "library us",
    )
    rows = []
    for cell in cells:
        answer = cell.measured.outcome.answer
        rows.append(
            (
                cell.case.place,
                cell.case.collective,
                cell.case.size,
                str(answer["chunks"]),
                *(f"{answer[key]:.2f}" for key in ("time_us", "bound_us")),
                f"{100 * cell.gap:.1f}%",
                f"{100 * cell.any_gap:.1f}%",
                "-" if cell.library_us is None else f"{cell.library_us:.2f}",
            )
        )
    return report.table(header, rows)


if __name__ == "__main__":
    main()
