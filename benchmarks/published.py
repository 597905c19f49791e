"""Every published sketch with every collective, at the size that the sketch is meant for.

    python -m benchmarks.published [--time-limit SECONDS] [--quick SECONDS] [--only SKETCH]

Each row is two calls of `synthesize`, sketch to verified XML: a quick one, and unless that ends with a
proof, a longer one. `total` is the wall time of the last.
"""

from __future__ import annotations

import argparse
import sys
import time

import taccl
from benchmarks import report
from taccl.errors import TacclError
from taccl.sketch import published_sketches

COLLECTIVES = ("allgather", "alltoall", "reducescatter", "allreduce")
HEADER = (
    "sketch",
    "collective",
    "size",
    "quick gap",
    "time us",
    "bound us",
    "gap",
    "proved",
    "search s",
    "total s",
    "XML",
    "bound is",
)


def main() -> None:
    """Run all rows and write docs/results/published.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=50.0)
    parser.add_argument("--quick", type=float, default=10.0)
    parser.add_argument("--only", default="", help="sketches with this in their names")
    parser.add_argument("--collective", default="", help="this one alone")
    arguments = parser.parse_args()
    rows = [
        _row(sketch.name, collective, arguments.quick, arguments.time_limit)
        for sketch in published_sketches()
        if arguments.only in sketch.name
        for collective in COLLECTIVES
        if arguments.collective in ("", collective)
    ]
    proved = sum(row[HEADER.index("proved")] == "optimal" for row in rows)
    intro = (
        f"Search limit {arguments.time_limit:g} s a row, and {arguments.quick:g} s for the quick gap. Costs "
        "are those of the catalogue; NICs are shared ports; the gap is (time - bound) / time. XML names the "
        f"runtimes that the file is verified for. {proved} of {len(rows)} rows are proved optimal."
    )
    report.write("published", "Published sketches", intro, report.table(HEADER, rows))


def _row(sketch: str, collective: str, quick_s: float, time_limit: float) -> list[str]:
    try:
        began = time.monotonic()
        quick = result = taccl.synthesize(collective, sketch=sketch, time_limit=quick_s, executor=False)
        if quick.status != "optimal":
            began = time.monotonic()
            result = taccl.synthesize(collective, sketch=sketch, time_limit=time_limit, executor=False)
    except TacclError as error:
        row = [sketch, collective, *["-"] * 9, str(error).splitlines()[0]]
    else:
        row = [
            sketch,
            collective,
            taccl.model.units.format_size(result.size_bytes),
            f"{100 * quick.gap:.2f}%",
            f"{result.time_us:.2f}",
            f"{result.lower_bound_us:.2f}",
            f"{100 * result.gap:.2f}%",
            result.status if result.status == "optimal" else "-",
            f"{result.solve_s:.1f}",
            f"{time.monotonic() - began:.1f}",
            ", ".join(reader for file in result.files for reader in file.readers),
            result.bound_source,
        ]
    print(*row, sep="  ", file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    main()
