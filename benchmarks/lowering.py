"""What thread blocks of their own for local steps gain where executing costs time, and one-way thread blocks.

    python -m benchmarks.lowering [--topology MACHINE.yaml] [--runs FOLDER]

Each row is the least predicted time over protocols, chunks and instances. Predictions are those of
`taccl simulate`; the last columns are the fastest file of the same collective and size that was measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import taccl
from benchmarks import report
from benchmarks.checkout import DATA, SHARED
from taccl.backend.lower import lower
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.program import Program, Protocol
from taccl.backend.simulate.executor import Prepared
from taccl.backend.verify.msccl_xml import verify_text
from taccl.calibration.runs import MeasuredRuns, load_runs
from taccl.errors import ProgramLimitError
from taccl.model import units
from taccl.model.executor import Executor
from taccl.model.schedule import Schedule
from taccl.topologies import PhysicalTopology, load_topology

MACHINE = DATA / "machines" / "mi300x-8.yaml"
RUNS = SHARED / "measured" / "mi300x-8"
COLLECTIVES = ("allgather", "allreduce", "reducescatter", "alltoall")
SIZES = tuple(units.parse_size(size) for size in ("16KB", "1MB", "16MB", "256MB"))
CHUNKS, INSTANCES = (1, 2, 4, 8), (1, 2, 4)
HEADER = ("collective", "size", "next to, two-way us", "", "apart, two-way us", "", "apart, one-way us", "")
INTRO = """\
Full mesh of 8 MI300X, as its executor runs the files, for rccl: the least predicted time over Simple and
LL (LL up to 1 MB), 1, 2, 4 or 8 chunks in each part and 1, 2 or 4 instances. *Next to*: local copies and sums
run in the thread blocks that send and receive, as for machines without `executor:`. *Apart*: they have thread
blocks of their own. Behind each time: protocol, chunks x instances, thread blocks of a rank. All files in
this table pass verification, in place (but AlltoAll) and out of place. The measured files work in place only
and copy nothing; a copy of a rank's own data is predicted to take about 5 us here, which is a guess: no copy
was measured."""


@dataclass(frozen=True, order=True)
class Best:
    """The file of least predicted time among those tried."""

    time_us: float
    how: str
    program: Program = field(compare=False)


def main() -> None:
    """Predict all files and write docs/results/lowering.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--topology", type=Path, default=MACHINE)
    parser.add_argument("--runs", type=Path, default=RUNS)
    arguments = parser.parse_args()
    machine = load_topology(arguments.topology)
    measured = load_runs([arguments.runs])
    rows = []
    for collective in COLLECTIVES:
        for size in SIZES:
            rows.append([collective, units.format_size(size), *_row(machine, collective, size)])
            rows[-1] += _fastest_measured(measured, collective, size)
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    body = report.table((*HEADER, "fastest measured us", ""), rows)
    report.write("lowering", "Local steps apart, and one-way thread blocks", INTRO, body)


def _row(machine: PhysicalTopology, collective: str, size: int) -> list[str]:
    best: list[Best | None] = [None, None, None]
    for chunks in CHUNKS:
        found = taccl.synthesize(
            collective, topology=machine, size=size, chunks=chunks, engine="greedy", gap=0.99, file=False
        )
        routes: tuple[tuple[Literal["two-way", "one-way"], Executor | None], ...] = (
            ("two-way", None),
            ("two-way", machine.executor),
            ("one-way", machine.executor),
        )
        for column, (way, executor) in enumerate(routes):
            for each in _tried(machine, found.schedule, size, chunks, way, executor):
                before = best[column]
                best[column] = each if before is None else min(before, each)
    chosen = [each for each in best if each is not None]
    for each in chosen:
        if not verify_text(to_xml(each.program), targets="rccl").ok:
            raise SystemExit(f"{collective}, {each.how}: fails verification")
    return [word for each in chosen for word in (f"{each.time_us:.1f}", each.how)]


def _tried(
    machine: PhysicalTopology,
    schedule: Schedule,
    size: int,
    chunks: int,
    way: Literal["two-way", "one-way"],
    executor: Executor | None,
) -> Iterator[Best]:
    assert machine.executor is not None
    network = taccl.make_problem("allgather", topology=machine, size="1MB").problem.topology
    for protocol in (Protocol.SIMPLE, Protocol.LL) if size <= units.MB else (Protocol.SIMPLE,):
        for instances in INSTANCES:
            try:
                program = _program(schedule, protocol, instances, way, executor)
            except ProgramLimitError:
                continue
            blocks = max(len(rank.thread_blocks) for rank in program.ranks)
            time_us = Prepared.of(program, network).predict_us(
                machine.executor, protocol.value, size, network
            )
            yield Best(time_us, f"{protocol.value}, {chunks} x {instances}, {blocks}", program)


def _program(
    schedule: Schedule,
    protocol: Protocol,
    instances: int,
    way: Literal["two-way", "one-way"],
    executor: Executor | None,
) -> Program:
    (lowered,) = lower(
        schedule,
        protocol=protocol,
        runtimes="rccl",
        instances=instances,
        thread_blocks=way,
        executor=executor,
    )
    return lowered.program


def _fastest_measured(measured: MeasuredRuns, collective: str, size: int) -> list[str]:
    times = [
        (time_us, file.name)
        for file in measured.files
        if file.program.collective == collective
        for at, time_us in zip(file.size_bytes.tolist(), file.time_us.tolist(), strict=True)
        if at == size
    ]
    return [f"{min(times)[0]:.1f}", min(times)[1].removesuffix(".xml")] if times else ["-", ""]


if __name__ == "__main__":
    main()
