"""Every published sketch with every collective, at the size that the sketch is meant for.

    python -m benchmarks.published [--time-limit SECONDS] [--only SKETCH]

Each row is one call of `synthesize`: sketch to verified XML. `total` is the wall time of that call.
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
    "time us",
    "bound us",
    "gap",
    "search s",
    "total s",
    "XML",
    "bound is",
)


def main() -> None:
    """Run all rows and write docs/results/published.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=50.0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    rows = [
        _row(sketch.name, collective, arguments.time_limit)
        for sketch in published_sketches()
        if arguments.only in sketch.name
        for collective in COLLECTIVES
    ]
    intro = (
        f"Search limit {arguments.time_limit:g} s a row. Costs are those of the catalogue; NICs are shared "
        "ports; the gap is (time - bound) / time. XML names the runtimes that the file is verified for."
    )
    report.write("published", "Published sketches", intro, report.table(HEADER, rows))


def _row(sketch: str, collective: str, time_limit: float) -> list[str]:
    began = time.monotonic()
    try:
        result = taccl.synthesize(collective, sketch=sketch, time_limit=time_limit)
    except TacclError as error:
        row = [sketch, collective, *["-"] * 7, str(error).splitlines()[0]]
    else:
        row = [
            sketch,
            collective,
            taccl.units.format_size(result.size_bytes),
            f"{result.time_us:.2f}",
            f"{result.lower_bound_us:.2f}",
            f"{100 * result.gap:.2f}%",
            f"{result.solve_seconds:.1f}",
            f"{time.monotonic() - began:.1f}",
            ", ".join(reader for file in result.files for reader in file.readers),
            result.bound_source,
        ]
    print(*row, sep="  ", file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    main()
