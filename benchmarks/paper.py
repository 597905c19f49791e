"""The evaluation of the TACCL paper in our model: speed-up over NCCL by size, training, sketches left out.

    python -m benchmarks.paper [--only MACHINE ...] [--effort N] [--ablations] [--page]

Rows are kept in docs/results/paper.jsonl; `--page` only writes the page from them.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks import report
from benchmarks.kept import keep_line, kept_lines
from benchmarks.training import training
from taccl import explore, synthesize
from taccl.analysis.exploration.library_table import library
from taccl.errors import TacclError
from taccl.model.units import MB, format_size

NAME = "paper"
SKETCHES = Path(__file__).resolve().parent.parent / "sketches"
MACHINES = (("dgx2", 2), ("ndv2", 2), ("ndv2", 4))
#: By collective, the names of the algorithms that NCCL 2.8 has: one-way rings in any number of channels,
#: double binary trees, everyone to everyone.
_RING, _CUT = r"(\d+ routes: )?ring", r"(, \d+ batches)?"
OF_NCCL = {
    "allgather": re.compile(_RING + _CUT),
    "alltoall": re.compile("all-pairs" + _CUT),
    "allreduce": re.compile(f"({_RING}|double binary tree){_CUT}"),
}
SIZES = tuple(2**exponent for exponent in range(10, 31, 2))
#: What the paper says of the best sketch of each size, over NCCL 2.8.4, by (machine, collective).
PUBLISHED = {
    ("dgx2", "allgather"): "up to 6.7x (small), 1.25x (large)",
    ("ndv2", "allgather"): "1.12x to 1.35x to 1 MB, 1.61x to 3.4x above",
    ("dgx2", "alltoall"): "up to 1.66x",
    ("ndv2", "alltoall"): "up to 1.12x",
    ("dgx2", "allreduce"): "up to 6.4x",
    ("ndv2", "allreduce"): "1.34x to 1.9x",
}
#: Sketches, collectives and lines that are left out one by one, as paths of keys.
ABLATIONS = (
    ("ndv2-sk-1", "allgather", (("internode",), ("symmetry",))),
    ("ndv2-sk-1", "alltoall", (("internode",), ("symmetry",))),
    (
        "dgx2-sk-1",
        "allgather",
        (
            ("internode",),
            ("internode", "sender_for"),
            ("internode", "own_first"),
            ("symmetry",),
        ),
    ),
)
INTRO = """\
For each machine, collective and size: the fastest algorithm that `taccl explore` finds without a sketch,
and the fastest of those that NCCL 2.8 has (one-way rings in any number of channels, double binary trees,
AlltoAll from everyone to everyone), as schedules in the same model of links alone. The paper measured
whole calls on hardware, with the best of its sketches for each size. *The bound allows*: NCCL's time over
the bound, which no algorithm exceeds.
"""
WHY = """\
**What is not NCCL's but known.** The last column of the tables below is the fastest algorithm that any
library has, such as MPI's by leaders, Bruck or doubling. Next to these, AllGathers and AllReduces found
here are 1.00 to 1.63 times as fast; an AlltoAll on DGX-2 1.04 to 1.55 times, and on NDv2, where libraries
have rings alone, 1.00 to 8.6 times. Most of what stands over NCCL below 1 MB comes of algorithms that
NCCL does not have, and not of the search.

**As the paper**: AllGather and AllReduce on two NDv2 above 1 MB, 1.64 to 1.78 times (the paper: 1.61 to
3.4, and 1.34 to 1.9; the model allows 1.98 at most), and AlltoAll on DGX-2 above 1 MB, 1.10 to 1.62 (up
to 1.66).

**More than the paper**: AllGather on DGX-2, large, 1.65 and more for 1.25. A ring sends 31 of 32 parts
through the NICs of a node where 16 have to cross; NCCL was nearer to its hardware than that in the paper.
To 1 MB, AlltoAll on DGX-2 (up to 27.1 for 1.66) and both collectives on NDv2 (up to 9.6 and 18.4): in the
model every step of a ring, and every send of an AlltoAll, pays an alpha after the one before; and the
launch of a call, which makes all ratios smaller, is left out.

**Less than the paper**: AllGather and AllReduce on DGX-2 to 1 MB, at most 4.1 and 3.4 for 6.7 and 6.4.
NCCL's small calls also pay thread blocks, flags and copies at every step, which links alone do not have.

GPUs of NDv2 without a common NVLink reach each other only through a third GPU in the model. NCCL's
AlltoAll goes through the host there, so it has no time here.
"""

OF_SKETCHES = """\
A search without a sketch is within 0.6% of one with it, at the same effort. Most lines change nothing.
Without its symmetry, the search on DGX-2 ends with a schedule that takes 35% longer.
"""


def main() -> None:
    """Measure what is requested, and write docs/results/paper.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="MACHINE")
    parser.add_argument("--effort", type=int, default=30_000, metavar="N", help="of each exploration")
    parser.add_argument("--ablations", action="store_true", help="leave lines of sketches out, nothing else")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept")
    arguments = parser.parse_args()
    if arguments.ablations:
        for name, collective, lines in ABLATIONS:
            keep_line(NAME, _ablated(name, collective, lines, arguments.effort // 5) | _when())
    elif not arguments.page:
        for machine, nodes in MACHINES:
            for collective in OF_NCCL if not arguments.only or machine in arguments.only else ():
                keep_line(NAME, _explored(machine, nodes, collective, arguments.effort) | _when())
    _write(list(kept_lines(NAME)))


def _when() -> dict[str, str]:
    return {"day": str(datetime.date.today()), "machine": report.machine()}


def _explored(machine: str, nodes: int, collective: str, effort: int) -> dict[str, Any]:
    """Our times, NCCL's and the bounds at each size."""
    began = time.monotonic()
    words: dict[str, Any] = {"topology": machine, "nodes": nodes, "sizes": SIZES}
    table = explore(collective, **words, executor=False, effort=effort, cache=False)
    seconds = time.monotonic() - began
    curves = [
        curve
        for curve in library("all", collective, **words, time_limit=60).curves
        if OF_NCCL[collective].fullmatch(curve.name)
    ]
    nccl_us = [min((curve.times_us[place] for curve in curves), default=None) for place in range(len(SIZES))]
    print(machine, nodes, collective, f"{seconds:.0f} s", file=sys.stderr, flush=True)
    return {
        **{"topology": machine, "nodes": nodes, "collective": collective, "seconds": seconds},
        **{"effort": effort, "searches": len(table.cells), "nccl_us": nccl_us},
        "best": [[row["size_bytes"], row["time_us"], row["lower_bound_us"]] for row in table.best],
        "library_us": [row["baseline_us"] for row in table.best],
    }


def _ablated(name: str, collective: str, lines: tuple[tuple[str, ...], ...], effort: int) -> dict[str, Any]:
    """Times and gaps with a sketch, without each of its lines, and without it."""
    whole = yaml.safe_load((SKETCHES / f"{name}.yaml").read_text())
    variants = [("as it is", whole)]
    variants += [(f"without `{'.'.join(keys)}`", _without(whole, keys)) for keys in lines]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for label, variant in variants:
            path = Path(folder) / f"{name}.yaml"
            path.write_text(yaml.safe_dump(variant))
            rows.append([label, *_searched(collective, effort, sketch=path)])
    given: dict[str, Any] = {name: whole[name] for name in ("topology", "nodes", "size")}
    rows.append(["no sketch", *_searched(collective, effort, **given)])
    return {"sketch": name, "collective": collective, "effort": effort, "rows": rows, "size": whole["size"]}


def _without(sketch: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    left = copy.deepcopy(sketch)
    inner = left
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return left


def _searched(collective: str, effort: int, **words: Any) -> tuple[float | None, float | None, float, str]:
    """Time, bound for any number of chunks, seconds; what came in between."""
    began = time.monotonic()
    try:
        found = synthesize(collective, **words, executor=False, effort=effort, file=False)
    except TacclError as fault:
        return None, None, time.monotonic() - began, str(fault).splitlines()[0]
    bound_us = found.any_chunks.value_us
    return found.time_us, bound_us, time.monotonic() - began, found.status


def _write(rows: list[dict[str, Any]]) -> None:
    """The page, of the last row of each kind."""
    last = {
        (row.get("topology"), row.get("nodes"), row.get("sketch"), row["collective"]): row for row in rows
    }
    explored = [row for row in last.values() if "best" in row]
    ablated = [row for row in last.values() if "rows" in row]
    header = (
        "machine",
        "collective",
        "over NCCL to 1MB",
        "above 1MB",
        "the bound allows above 1MB",
        "paper",
        "s",
    )
    parts = [report.table(header, [_summary(row) for row in explored]), WHY.strip()]
    for row in explored:
        parts.append(f"## {row['collective']}, {row['nodes']} nodes of {row['topology']}")
        parts.append(
            report.table(
                ("size", "time us", "bound us", "NCCL's us", "speed-up", "any library's us"),
                list(_by_size(row)),
            )
        )
    parts += ["## Training", *training(explored), "## What each line of a sketch is worth"]
    parts.append(OF_SKETCHES.strip())
    for row in ablated:
        parts.append(f"{row['collective']} by `{row['sketch']}`, {row['size']}, effort {row['effort']}:")
        table = [
            (label, *(("-", "-") if us is None else (f"{us:.2f}", f"{bound:.2f}")), f"{seconds:.0f}", said)
            for label, us, bound, seconds, said in row["rows"]
        ]
        parts.append(report.table(("sketch", "time us", "bound us", "s", "ended"), table))
    days = sorted({row["day"] for row in last.values()})
    efforts = sorted({row["effort"] for row in explored})
    when = (
        f"Measured {', '.join(days)} on {report.machine()} with `python -m benchmarks.paper` and then "
        f"`--ablations`, effort {', '.join(map(str, efforts))} for each exploration; other programs ran "
        "beside it, so seconds are upper ends."
    )
    report.write(NAME, "The paper's evaluation, in our model", INTRO.strip(), "\n\n".join(parts), when)


def _pairs(row: dict[str, Any]) -> Iterator[tuple[int, float, float, float]]:
    """Size, our time, the bound and NCCL's time, where NCCL has an algorithm."""
    for (size, time_us, bound_us), nccl_us in zip(row["best"], row["nccl_us"], strict=False):
        if nccl_us is not None and time_us:
            yield size, time_us, bound_us, nccl_us


def _summary(row: dict[str, Any]) -> tuple[str, ...]:
    small = [nccl_us / time_us for size, time_us, _, nccl_us in _pairs(row) if size <= MB]
    large = [nccl_us / time_us for size, time_us, _, nccl_us in _pairs(row) if size > MB]
    most = [nccl_us / bound_us for size, _, bound_us, nccl_us in _pairs(row) if size > MB]
    return (
        *(f"{row['topology']} x{row['nodes']}", row["collective"]),
        *(f"{min(each):.2f}x to {max(each):.2f}x" if each else "-" for each in (small, large, most)),
        PUBLISHED.get((row["topology"], row["collective"]), "-") if row["nodes"] == 2 else "-",
        f"{row['seconds']:.0f}",
    )


def _by_size(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    columns = zip(row["best"], row["nccl_us"], row["library_us"], strict=True)
    for (size, time_us, bound_us), nccl_us, library_us in columns:
        speedup = ("-", "-") if nccl_us is None else (f"{nccl_us:.2f}", f"{nccl_us / time_us:.2f}x")
        known = "-" if library_us is None else f"{library_us:.2f}"
        yield format_size(size), f"{time_us:.2f}", f"{bound_us:.2f}", *speedup, known


if __name__ == "__main__":
    main()
