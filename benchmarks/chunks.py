"""Large messages with `--chunks auto`: what finer chunks gain, and how near they come to their bound.

    python -m benchmarks.chunks [--time-limit SECONDS] [--size SIZE]

Each row is one call of `synthesize`; below it, every number of chunks that it tried.
"""

from __future__ import annotations

import argparse
import sys

import taccl
from benchmarks import report
from taccl.errors import TacclError

CASES = (
    ("ndv2-sk-1", 2, "allgather"),
    ("ndv2-sk-1", 4, "allgather"),
    ("dgx2-sk-1", 2, "allgather"),
    ("ndv2-sk-1", 2, "alltoall"),
    ("dgx2-sk-1", 2, "alltoall"),
    ("ndv2-sk-1", 2, "allreduce"),
    ("dgx2-sk-1", 2, "allreduce"),
)
HEADER = (
    "sketch",
    "nodes",
    "collective",
    "chunks",
    "time us",
    "bound us",
    "gap",
    "any chunks us",
    "above it",
    "algbw GB/s",
    "search s",
)
TRIED = (
    "sketch",
    "nodes",
    "collective",
    "chunks",
    "chunk size",
    "time us",
    "bound us",
    "gap",
    "search s",
    "",
)


def main() -> None:
    """Run all rows and write docs/results/chunks.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=30.0)
    parser.add_argument("--size", default="1GB")
    arguments = parser.parse_args()
    rows, tried = [], []
    for sketch, nodes, collective in CASES:
        case = [sketch, str(nodes), collective]
        try:
            result = taccl.synthesize(
                collective,
                sketch=sketch,
                nodes=nodes,
                size=arguments.size,
                chunks="auto",
                time_limit=arguments.time_limit,
                executor=False,
            )
        except TacclError as error:
            rows.append([*case, *["-"] * 7, str(error).splitlines()[0]])
        else:
            rows.append([*case, *_figures(sketch, nodes, collective, result)])
            tried += [[*case, *each] for each in _tried(result)]
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    intro = (
        f"{arguments.size} with `--chunks auto`, search limit {arguments.time_limit:g} s a row, each with "
        "verified XML. The bound is for the number of chunks chosen. *Any chunks* is the throughput or flow "
        "bound, which no schedule beats with any number of equal chunks; *above it* is (time - that) / that."
    )
    body = report.table(HEADER, rows) + "\n\nEvery number tried:\n\n" + report.table(TRIED, tried)
    report.write("chunks", "Number of chunks for large messages", intro, body)


def _figures(sketch: str, nodes: int, collective: str, result: taccl.Result) -> list[str]:
    chunks = result.collective.chunks_per_rank
    proven = taccl.bounds(collective, sketch=sketch, nodes=nodes, size=result.size_bytes, chunks=chunks)
    any_us = next(each for each in proven if each.holds_for_any_chunks).value_us
    return [
        str(chunks),
        f"{result.time_us:.1f}",
        f"{result.lower_bound_us:.1f}",
        f"{100 * result.gap:.2f}%",
        f"{any_us:.1f}",
        f"{100 * (result.time_us / any_us - 1):.2f}%",
        f"{result.algbw_gbps:.2f}",
        f"{result.solve_s:.1f}",
    ]


def _tried(result: taccl.Result) -> list[list[str]]:
    return [
        [
            str(each.chunks),
            taccl.model.units.format_size(each.chunk_bytes),
            f"{each.time_us:.1f}",
            f"{each.lower_bound_us:.1f}",
            f"{100 * each.gap:.2f}%",
            f"{each.seconds:.1f}",
            each.remark,
        ]
        for each in result.chunks_tried
    ]


if __name__ == "__main__":
    main()
