"""What others published of servers that aggregate and of optimizers inside an AllReduce, next to our model.

    python -m benchmarks.neighbour_tables [--effort UNITS]

writes that part of docs/results/neighbours.md; `benchmarks.neighbours` writes the others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import report
from taccl import load_topology, synthesize
from taccl.analysis.server_curve import ServerCurve, searched_with_servers
from taccl.api import make_problem
from taccl.encoding.core.sequence import in_sequence
from taccl.model import units
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.windows import Windows
from taccl.synthesis.request import Request
from taccl.synthesis.result import Result
from taccl.topologies import PhysicalTopology

#: One GPU a host and one NIC of this many GB/s each way: what optcast's ring of four hosts moves at.
_RACK = (
    "name: rack\noccupancy: pipelined\nnodes: {hosts}\nfabric: {{alpha_us: 5, bandwidth_gbps: {gbps}}}\n"
    "node: {{gpus: 1, nics: 1, links: [{{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: {gbps}}}]}}\n"
)

#: What begins this part of the page.
HEADING = "## Published by others"

_INTRO = """\
{heading}

Each published figure next to what the model says by commands of this package. Training steps are in
[stalls.md](stalls.md), orders of ranks in [orders_of_hosts.md](orders_of_hosts.md), switches that sum above
and in [helpers.md](helpers.md)."""

_OF_SERVERS = """\
### Servers that aggregate

optcast (its README): hosts with 100 Gb/s and as many servers, 1 GB, algbw. A link moves here what optcast's
ring of four hosts moved, {ring:.2f} GB/s x 6/4 = {gbps:.2f} GB/s, so the first row is a fit and the others
are tests.

{rows}

**Agrees, and is not reached**: no algorithm passes the bound, and what optcast lacks of it is its software;
its ring of eight hosts lacks 5% as well. Parameter Hub's 2.7x over MXNet's parameter server cannot be
checked: its baseline lacked its wires, and those are all that is modelled here.

Eight hosts, 64 MB, 16 chunks a rank: what each server buys (`taccl bound --helpers 0..8`, `taccl synthesize
--helpers 0..8`). *Formula* is 2n(n-1)/(n^2 + kn - 2k) S/B, BytePS's optimal time: the bound is the same, so
no algorithm beats it. Chunks come in waves, so the last one is alone: 32 chunks a rank take 3% more than the
formula for 8 servers ([helpers.md](helpers.md)).

{curve}"""

_OF_OPTIMIZERS = """\
### Optimizers inside an AllReduce

CoCoNet (results in its repository, 128 V100 in eight DGX-2), ms a step: the AllReduce alone, with Adam after
it, and its fused kernel, which works on each slice where it is summed. Ours: NCCL's eight rings, one for each
pair of GPUs and their NIC, as a checked schedule on `dgx2` with TACCL's published costs; Adam's rate is the
published difference over the bytes; *sliced* is the same schedule with [`at_root`](../windows.md) at that
rate.

{rows}

**Agrees** from 256 MB on: within 5% for a third party's AllReduce, with Adam after it, and for the fused
kernel, whose work on a slice is hidden behind other slices. **Refuted by their baseline** at 64 MB: of the
published {published:.2f}x only {ours:.2f}x are hidden work. The fused kernel is as fast as the wires, and
NCCL's AllReduce takes {least:.2f} times as long as they do. Work on several slices of a rank is taken to run
side by side; one after another it adds 0.3%."""


@dataclass(frozen=True)
class Optimizer:
    """A row of CoCoNet's figures, milliseconds a step."""

    size: str
    alone_ms: float
    after_ms: float
    fused_ms: float


_OPTIMIZERS = (
    Optimizer("64MB", 3.12, 3.77, 2.44),
    Optimizer("256MB", 7.48, 9.87, 7.27),
    Optimizer("512MB", 13.34, 18.08, 14.05),
    Optimizer("1GB", 26.44, 35.95, 26.40),
    Optimizer("4GB", 103.1, 143.7, 104.7),
)
#: optcast: hosts and as many servers, GB/s of a ring and with servers.
_OPTCAST = ((4, 7.12, 9.72), (8, 5.78, 8.95))
_GBPS = 7.12 * 6 / 4


def _rack(hosts: int, gbps: float) -> PhysicalTopology:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rack.yaml"
        path.write_text(_RACK.format(hosts=hosts, gbps=gbps))
        return load_topology(path)


def _curve(hosts: int, counts: range, size: str, chunks: int, effort: int) -> ServerCurve:
    request = Request("allreduce", topology=_rack(hosts, _GBPS), size=size, chunks=chunks)

    def search(each: Request) -> Result:
        print(f"{hosts} hosts, {each.helpers} servers", file=sys.stderr, flush=True)
        return synthesize(each, effort=effort, file=False)

    return searched_with_servers(counts, request, search)


def _optcast_rows(effort: int) -> Iterator[tuple[str, ...]]:
    for hosts, ring, served in _OPTCAST:
        curve = _curve(hosts, range(0, hosts + 1, hosts), "1GB", 16, effort)
        (without, of_ring), (with_servers, best) = (
            (units.bandwidth_gbps(each.size_bytes, proof.value_us), each.algbw_gbps)
            for each, proof in zip(curve.results, curve.proofs, strict=True)
        )
        yield (str(hosts), "0", f"{ring:.2f}", f"{without:.2f}", f"{of_ring:.2f}", _percent(ring, of_ring))
        yield (
            *(str(hosts), str(hosts), f"{served:.2f} ({served / ring:.2f}x)"),
            *(f"{with_servers:.2f} ({with_servers / without:.2f}x)", f"{best:.2f}", _percent(served, best)),
        )


def _percent(published: float, ours: float) -> str:
    return f"{100 * (published / ours - 1):+.1f}%"


def _formula_us(hosts: int, servers: int, size_mb: float) -> float:
    times = 2 * hosts * (hosts - 1) / (hosts**2 + servers * hosts - 2 * servers)
    return times * size_mb * units.MB / (_GBPS * 1e3)


def _curve_rows(effort: int) -> Iterator[tuple[str, ...]]:
    curve = _curve(8, range(9), "64MB", 16, effort)
    for count, found in zip(curve.counts, curve.results, strict=True):
        formula_us, bound_us = _formula_us(8, count, 64), found.any_chunks.value_us
        yield (
            *(str(count), f"{formula_us:.1f}", f"{bound_us:.1f}", f"{found.time_us:.1f}"),
            *(
                f"{100 * (found.time_us / formula_us - 1):.1f}%",
                f"{curve.results[0].time_us / found.time_us:.3f}x",
            ),
        )


def rings(problem: Problem, nodes: int, gpus: int, channels: int) -> Schedule:
    """An AllReduce round several rings at once, each node left and entered by another pair of GPUs.

    Chunk `channels` * p + k goes round ring k from the rank at place p + 1, and is whole at place p.
    """
    index = problem.topology.link_index
    pair = gpus // channels
    orders = [
        [node * gpus + (pair * k + 1 + at) % gpus for node in range(nodes) for at in range(gpus)]
        for k in range(channels)
    ]
    ranks = nodes * gpus
    chunk, link, adds = [], [], []
    for step in range(2 * (ranks - 1)):
        for place in range(ranks):
            for k, order in enumerate(orders):
                chunk.append(((place - 1 - step) % ranks) * channels + k)
                link.append(index[order[place], order[(place + 1) % ranks]])
                adds.append(step < ranks - 1)
    columns = (np.array(chunk), np.array(link), np.array(adds), np.arange(len(chunk)))
    return in_sequence(problem, *columns)


def _optimizer_rows() -> Iterator[tuple[Optimizer, float, float]]:
    """Each row with the times of the rings and of the rings with work in between, milliseconds."""
    for row in _OPTIMIZERS:
        size_mb = units.parse_size(row.size) / units.MB
        rate = 1e3 * (row.after_ms - row.alone_ms) / size_mb
        times = []
        for windows in (None, Windows(at_root_us_per_mb=rate)):
            stated = make_problem(
                "allreduce",
                topology="dgx2",
                nodes=8,
                size=row.size,
                chunks=8,
                executor=False,
                windows=windows,
            )
            schedule = rings(replace(stated.problem, symmetry=()), 8, 16, 8)
            schedule.check()
            times.append(schedule.makespan_us / 1e3)
        print(f"{row.size}: {times}", file=sys.stderr, flush=True)
        yield row, times[0], times[1]


def _optimizer_table() -> str:
    found = list(_optimizer_rows())
    header = (
        *("bytes", "AllReduce: published (ms)", "ours", "", "Adam after it: published", "ours", ""),
        *("fused: published", "ours, sliced", ""),
    )
    cells = []
    for row, alone_ms, sliced_ms in found:
        after_ms = alone_ms + row.after_ms - row.alone_ms
        pairs = ((row.alone_ms, alone_ms), (row.after_ms, after_ms), (row.fused_ms, sliced_ms))
        of_pairs = [(f"{said:.2f}", f"{ours:.2f}", _percent(said, ours)) for said, ours in pairs]
        cells.append((row.size, *(cell for each in of_pairs for cell in each)))
    small, wires_ms, sliced_ms = found[0]
    return _OF_OPTIMIZERS.format(
        rows=report.table(header, cells),
        least=small.alone_ms / wires_ms,
        published=small.after_ms / small.fused_ms,
        ours=(wires_ms + small.after_ms - small.alone_ms) / sliced_ms,
    )


def kept() -> str:
    """The part as the page has it."""
    _, heading, text = _page().partition(HEADING)
    return (heading + text).rstrip()


def _page() -> str:
    return (report.RESULTS / "neighbours.md").read_text(encoding="utf-8")


def main() -> None:
    """Compute all rows, and write the part anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--effort", type=int, default=20_000, help="units of work of each search")
    effort = parser.parse_args().effort
    of_optimizers = _optimizer_table()
    header = ("hosts", "servers", "published (GB/s)", "bound", "our schedule", "published / ours")
    of_curve = ("servers", "formula (us)", "bound (us)", "time (us)", "above the formula", "of none")
    of_servers = _OF_SERVERS.format(
        ring=_OPTCAST[0][1],
        gbps=_GBPS,
        rows=report.table(header, _optcast_rows(effort)),
        curve=report.table(of_curve, _curve_rows(effort)),
    )
    parts = (_INTRO.format(heading=HEADING), of_servers, of_optimizers, report.measured_now())
    before = _page().partition(HEADING)[0].rstrip()
    body = report.wrapped("\n\n".join(part.strip() for part in parts))
    text = f"{before}\n\n{body}\n"
    (report.RESULTS / "neighbours.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
