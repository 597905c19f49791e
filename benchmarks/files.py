"""What making, reading, verifying and simulating a file takes as its transfers grow in number.

    python -m benchmarks.files [--most TRANSFERS] [--note TEXT]

Each row is a process of its own, so its memory is its own, too. Writes docs/results/files.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import taccl
from benchmarks import report
from taccl.backend.lower import lower
from taccl.backend.msccl_xml.reader import parse_document
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.simulate import simulate_program
from taccl.backend.verify.msccl_xml.verifier import verify_document

#: Machine, collective, chunks, target, transfers.
ROWS = (
    ("torus:12x15", "allgather", 1, "rccl", 32_220),
    ("torus:8x8", "allreduce", 4, "all", 32_256),
    ("torus:16x32", "allgather", 1, "msccl", 261_632),
    ("torus:16x16", "allreduce", 2, "msccl", 261_120),
    ("torus:32x32", "allgather", 1, "rccl", 1_047_552),
)
#: Not in the table: between them they run every loop that the others run, so that it is compiled by then.
COMPILING = tuple((*row[:3], target, row[4]) for row in ROWS[:2] for target in ("rccl", "msccl"))
HEADER = (
    *("machine", "collective", "target", "transfers", "steps", "MiB"),
    *("lower s", "write s", "read s", "verify s", "simulate s", "GiB"),
)
INTRO = """\
CPU seconds of each stage between a schedule and its predicted time. Loading compiled loops counts, and
compiling them does not. `steps`: of all ranks. `MiB`: the file. `GiB`: the most memory that was resident."""

_Result = TypeVar("_Result")


def main() -> None:
    """Measure all rows and write docs/results/files.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=2**31, help="leave out rows of more transfers")
    parser.add_argument("--note", default="", help="a sentence under the table that the rows do not tell")
    options = parser.parse_args()
    most = options.most
    rows = []
    context = multiprocessing.get_context("spawn")
    measure = [row for row in ROWS if row[-1] <= most]
    for place, row in enumerate((*COMPILING, *measure)):
        with context.Pool(1) as pool:
            cells = pool.apply(measured, row[:-1])
        if place < len(COMPILING):
            continue
        rows.append(cells)
        print(*cells, sep="  ", file=sys.stderr, flush=True)
    report.write(
        "files",
        "Files of many transfers",
        INTRO,
        "\n\n".join(filter(None, (report.table(HEADER, rows), options.note))),
    )


def measured(machine: str, collective: str, chunks: int, target: str) -> list[str]:
    """The cells of one row."""
    schedule = taccl.synthesize(
        collective,
        topology=machine,
        size="256MB",
        chunks=chunks,
        engine="routes",
        gap=0.06,
        file=False,
        executor=False,
    ).schedule
    seconds: list[str] = []

    def timed(stage: Callable[[], _Result]) -> _Result:
        start = time.process_time()
        result = stage()
        seconds.append(f"{time.process_time() - start:.1f}")
        return result

    program = timed(lambda: lower(schedule, runtimes=target)[0].program)
    text = timed(lambda: to_xml(program))
    document = timed(lambda: parse_document(text))
    found = timed(lambda: verify_document(document, targets=None))
    if not found.ok:
        raise SystemExit(f"{machine} {collective}: {found.findings[0]}")
    del found
    timed(lambda: simulate_program(program, schedule.problem.topology, schedule.problem.chunk_mb))
    steps = sum(len(block.steps) for rank in program.ranks for block in rank.thread_blocks)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    counts = [f"{len(schedule)}", f"{steps}", f"{len(text) / 2**20:.0f}"]
    return [machine, collective, target, *counts, *seconds, f"{gib:.2f}"]


if __name__ == "__main__":
    main()
