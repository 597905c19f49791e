"""AllReduce next to the algorithms of the books, at every size: no search should end above the best of them.

    python -m benchmarks.allreduce [--time-limit S] [--only TEXT ...] [--size SIZE ...] [--again]

A row is a machine and a size. Each textbook column is the fastest of its kind that the machine has the links
for, with the best of several numbers of chunks per rank; `ours` is one search with `--chunks auto`. What was
measured is kept in benchmarks/allreduce.json, row by row, so that an interrupted run goes on where it was;
`--again` measures the chosen rows anew. The page is written from all rows that are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import taccl
from benchmarks import report
from taccl.api import make_problem
from taccl.encoding.engines.textbook.engine import built
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget

KEPT = Path(__file__).with_suffix(".json")
#: Name, what `topology` is, nodes.
MACHINES: tuple[tuple[str, str, int | None], ...] = (
    ("NDv2", "ndv2", 1),
    ("DGX-2", "dgx2", 1),
    ("A100 x4", "a100", 4),
    ("torus 8x8", "torus:8x8", None),
    ("H100 x8", "dgx-h100", 8),
    ("A100 x16", "a100", 16),
    ("H100 x32", "dgx-h100", 32),
    ("mesh 16x16", "mesh:16x16", None),
)
SIZES = ("1KB", "16KB", "256KB", "4MB", "64MB", "1GB")
#: Columns of textbook algorithms, in the order in which their names are recognized.
KINDS = ("hierarchical", "double binary tree", "ring", "halving-doubling", "doubling", "all-pairs")
#: Numbers of chunks per rank that textbooks are built with; more than one pays where messages are not small.
CHUNKS, CHUNKS_OF_SMALL, SMALL_MB = (1, 4, 16), (1,), 1
#: How long one kind is built with one number of chunks, and the most transfers of a textbook schedule.
TEXTBOOK_S, MOST_TRANSFERS = 10.0, 600_000
#: What counts as slower: a thousandth, the difference of two routes of adding up the same numbers.
SLOWER = 1.001


@dataclass(frozen=True)
class Row:
    """What was measured of a machine at a size; times in us, None: the machine has no links for it.

    `cpu_s` : processor time of the search. `limit_s` : its limit.
    """

    machine: str
    ranks: int
    size: str
    ours_us: float
    bound_us: float
    status: str
    chunks: int
    cpu_s: float
    limit_s: float
    textbook_us: dict[str, float | None]

    @property
    def best_us(self) -> float | None:
        """The best textbook's time."""
        return min((each for each in self.textbook_us.values() if each is not None), default=None)

    @property
    def is_slower(self) -> bool:
        """Whether a textbook is faster than what the search found."""
        return self.best_us is not None and self.ours_us > SLOWER * self.best_us


def kind_of(name: str) -> str:
    """The column of an algorithm of the engine."""
    if "along axis" in name or name.startswith("leaders"):
        return "hierarchical"
    if name.startswith("double binary tree"):
        return "double binary tree"
    if "ring" in name:
        return "ring"
    if "all-pairs" in name:
        return "all-pairs"
    return "doubling" if "whole buffers" in name else "halving-doubling"


def measured(name: str, topology: str, nodes: int | None, size: str, limit_s: float) -> Row:
    """A row of the table."""
    began = time.process_time()
    found = taccl.synthesize(
        "allreduce",
        topology=topology,
        nodes=nodes,
        size=size,
        chunks="auto",
        time_limit=limit_s,
        file=False,
        **report.as_published(topology),
    )
    return Row(
        name,
        found.schedule.problem.num_ranks,
        size,
        found.time_us,
        found.lower_bound_us,
        found.status,
        found.collective.chunks_per_rank,
        time.process_time() - began,
        limit_s,
        {kind: _textbook_us(kind, topology, nodes, size) for kind in KINDS},
    )


def _textbook_us(kind: str, topology: str, nodes: int | None, size: str) -> float | None:
    """The fastest of a kind; every schedule passes `check`."""
    best = None
    small = taccl.model.units.parse_size(size) <= SMALL_MB * 2**20
    for chunks in CHUNKS_OF_SMALL if small else CHUNKS:
        requested = {"topology": topology, "nodes": nodes, **report.as_published(topology)}
        problem = make_problem("allreduce", size=size, chunks=chunks, **requested).problem
        if 2 * problem.num_chunks * (problem.num_ranks - 1) > MOST_TRANSFERS:
            continue
        every = built(Instance(problem), Budget(TEXTBOOK_S), lambda each: kind_of(each.name) == kind)
        fastest = min((schedule for _, schedule in every), key=lambda each: each.makespan_us, default=None)
        if fastest is not None:
            fastest.check()
            best = fastest.makespan_us if best is None else min(best, fastest.makespan_us)
    return best


def main() -> None:
    """Measure what is missing, and write docs/results/allreduce.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--only", nargs="+", default=[], help="machines with one of these in their names")
    parser.add_argument("--size", nargs="+", default=list(SIZES))
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    kept = {(row.machine, row.size): row for row in _kept()}
    for name, topology, nodes in MACHINES:
        for size in arguments.size:
            if arguments.only and not any(text in name for text in arguments.only):
                continue
            if (name, size) not in kept or arguments.again:
                row = measured(name, topology, nodes, size, arguments.time_limit)
                kept[name, size] = row
                print(*_shown(row), sep="  ", file=sys.stderr, flush=True)
                KEPT.write_text(json.dumps([asdict(each) for each in kept.values()], indent=1) + "\n")
    _write([row for key in _keys() if (row := kept.get(key)) is not None])


def _kept() -> list[Row]:
    return [Row(**row) for row in json.loads(KEPT.read_text())] if KEPT.exists() else []


def _keys() -> list[tuple[str, str]]:
    return [(name, size) for name, *_ in MACHINES for size in SIZES]


def _shown(row: Row) -> list[str]:
    textbook = [row.textbook_us[kind] for kind in KINDS]
    best = row.best_us
    return [
        row.machine,
        str(row.ranks),
        row.size,
        f"{row.ours_us:.2f}",
        f"{row.bound_us:.2f}",
        f"{100 * (1 - row.bound_us / row.ours_us):.2f}%",
        row.status,
        str(row.chunks),
        *("-" if each is None else f"{each:.2f}" for each in textbook),
        "-" if best is None else f"{best / row.ours_us:.2f}" + (" slower" if row.is_slower else ""),
        f"{row.cpu_s:.0f}",
    ]


def _write(rows: list[Row]) -> None:
    header = ("machine", "ranks", "size", "ours us", "bound us", "gap", "status", "chunks", *KINDS)
    limits = ", ".join(f"{limit:g} s" for limit in sorted({row.limit_s for row in rows}))
    slower = sum(row.is_slower for row in rows)
    intro = (
        f"AllReduce with `--chunks auto`, search limit {limits} a row, next to what the books have: each "
        "column is the fastest of its kind (us), built where the machine has the links, with 1, 4 or 16 "
        "chunks per rank. *Hierarchical* is an algorithm along each level of the machine or each side of a "
        "torus; *doubling* is that of whole buffers, *all-pairs* one-shot and two-shot. "
        f"`best / ours` below 1 would be a textbook faster than the search: {slower} of {len(rows)} rows. "
        "H100 is dgx-h100 `--without nvswitch`: bounds and times are without in-switch sums."
    )
    table = report.table((*header, "best / ours", "CPU s"), [_shown(row) for row in rows])
    report.write("allreduce", "AllReduce at every size", intro, table)


if __name__ == "__main__":
    main()
