"""Switches that sum and copy, and servers that aggregate: schedules next to bounds and to what was published.

    python -m benchmarks.helpers [--effort UNITS] [--only WORDS]

Every machine is a file of a few lines: links have the rate that a ring was measured with, and helpers the one
of `multimem`, so a row compares the shape of a curve and not its height. Without helpers the same machine is
searched with the same effort.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report
from taccl import load_topology, synthesize
from taccl.model import units
from taccl.topologies import PhysicalTopology

INTRO = """\
AllReduces on machines whose switches or servers sum and copy ([where sums are
made](../engines/routes.md)). Times are of links alone. `bound` holds for the machine with its helpers;
`without` is the time on the machine without them, by a search of the same effort. Machines are the
files that `benchmarks/helpers.py` writes: GPUs below a switch, with the rate of a ring and that of
`multimem` as published, or hosts with 100 Gb/s. Alphas are 0.35 us for the link of a GPU and 0.5 us for
the fabric. 72 GB200 are the catalogue's gb200-nvl72, whose ports are busy for alpha, too.

Published are, of NVLS: on 8 H100 from 2 to 4 GB NVIDIA/nccl#1455 (one rate, 309 GB/s, for every n); on
8 H800 NVIDIA/nccl#1374; on 72 GB200, 8 GB, coreweave/nccl-tests#43 (423 to 429). Of SwitchML: 10^6
elements of 4 bytes a second, by the chart of its repository
(+-15). `ideal` is the busiest port alone. Plans for MSCCL++ through the switches of several nodes and of
NVL72: [switch_plans.md](switch_plans.md)."""


@dataclass(frozen=True)
class Case:
    """A machine and an AllReduce: what was published or is ideal, and how it is compared.

    `machine` : the text of its file, or its name in the catalogue.
    `effort` : how many times as much work its search may do.
    """

    name: str
    machine: str
    size: str
    chunks: int
    published: str
    shown: Callable[[float, float], str]
    effort: int = 1

    @property
    def helper(self) -> str:
        """What `--without` calls its helpers."""
        words = (name for name in ("server", "fabric") if f": {name}" in self.machine)
        return next(words, "nvswitch")

    def load(self) -> PhysicalTopology:
        """The machine."""
        if "\n" not in self.machine:
            return load_topology(self.machine)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "machine.yaml"
            path.write_text(self.machine)
            return load_topology(path)


def _algbw(time_us: float, size_mb: float) -> str:
    return f"{units.bandwidth_gbps(round(size_mb * units.MB), time_us):.1f} GB/s"


def _time(time_us: float, size_mb: float) -> str:
    return f"{time_us:.1f} us"


def _elements(time_us: float, size_mb: float) -> str:
    return f"{size_mb * units.MB / 4 / time_us:.0f} M/s"


def _nvls(gpus: int, direct: float, multimem: float) -> str:
    return f"""\
name: nvls-{gpus}
occupancy: pipelined
node:
  gpus: {gpus}
  switches: [nvswitch]
  links: [{{from: gpus, to: nvswitch, alpha_us: 0.35, bandwidth_gbps: {direct}}}]
  helpers: [{{at: nvswitch, can: [reduce-to-one, copy], bandwidth_gbps: {multimem}}}]
"""


def _rack(hosts: int, helpers: str, gbps: float = 12.5) -> str:
    return f"""\
name: rack-{hosts}
occupancy: pipelined
nodes: {hosts}
node: {{gpus: 1, nics: 1, links: [{{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 100}}]}}
fabric: {{alpha_us: 0.5, bandwidth_gbps: {gbps}}}
helpers: [{helpers}]
"""


def _servers(count: int) -> str:
    return f"{{name: server, count: {count}, can: [reduce, copy], bandwidth_gbps: 12.5}}"


_NVL72 = "gb200-nvl72"
_TOFINO = "{at: fabric, can: [reduce, copy]}"
CASES = (
    *(
        Case(f"NVLS, {n} H100", _nvls(n, 370.8, 309.0), "4GB", 96, f"{algbw} GB/s", _algbw)
        for n, algbw in ((5, 258), (6, 265), (7, 270), (8, 273))
    ),
    Case("NVLS, 8 H100, 1 GB", _nvls(8, 370.8, 309.0), "1GB", 64, "within 5% of the bound", _algbw),
    *(
        Case(f"{n} H100", _nvls(n, 370.8, 309.0), "4GB", 32, f"a ring: {algbw} GB/s", _algbw)
        for n, algbw in ((2, 370), (3, 276), (4, 245))
    ),
    *(
        Case(f"NVLS, 72 GB200, {size}", _NVL72, size, 2, "425 GB/s", _algbw, effort=4)
        for size in ("1GB", "8GB")
    ),
    Case("NVLS, 8 H800", _nvls(8, 165.0, 137.4), "4GB", 96, "122.9 GB/s (busbw 215)", _algbw),
    Case("8 GPUs, 8 servers", _rack(8, _servers(8)), "64MB", 32, "ideal: 5369 us", _time),
    Case("8 GPUs, 4 servers", _rack(8, _servers(4)), "88MB", 32, "ideal: 9395 us", _time),
    *(
        Case(
            f"SwitchML, {n} workers",
            _rack(n, _TOFINO, 11.556),
            "64MB",
            -(-256 // n),
            f"{published} M/s",
            _elements,
            effort=n // 4,
        )
        for n, published in ((4, 2834), (8, 2823), (16, 2812))
    ),
)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--effort", type=int, default=1_500)
    parser.add_argument("--only", default="", help="cases with all of these words")
    arguments = parser.parse_args()
    rows = []
    for case in CASES:
        if all(word in case.name for word in arguments.only.split()):
            rows.append(_row(case, arguments.effort))
            print(*rows[-1], sep=" | ", flush=True)
    header = [
        "machine",
        "size",
        "chunks",
        "time",
        "bound",
        "gap",
        "without",
        "schedule",
        "published or ideal",
    ]
    report.write("helpers", "Switches that sum, and servers", INTRO, report.table(header, rows))


def _row(case: Case, effort: int) -> list[str]:
    machine = case.load()
    found, without = (
        synthesize(
            "allreduce",
            topology=machine,
            without=left_out,
            size=case.size,
            chunks=case.chunks,
            file=False,
            effort=effort * case.effort,
            executor=False,
        )
        for left_out in (None, case.helper)
    )
    time_us, bound_us = found.schedule.makespan_us, found.lower_bound_us
    size_mb = found.schedule.problem.size_bytes / units.MB
    return [
        case.name,
        case.size,
        str(case.chunks),
        f"{time_us:.1f} us",
        f"{bound_us:.1f} us",
        f"{(time_us - bound_us) / time_us:.1%}",
        f"{without.schedule.makespan_us:.1f} us",
        case.shown(time_us, size_mb),
        case.published,
    ]


if __name__ == "__main__":
    main()
