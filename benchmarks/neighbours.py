"""Bounds of machines whose switches sum, next to what was measured on them; docs/results/neighbours.md.

    python -m benchmarks.neighbours

Rows of the published measurements that the package has (`taccl/analysis/baselines/measured.json`), from 1 KB
to 16 GB, stand next to the largest lower bound of its machine, with one chunk a rank, and next to what
holds for any number of chunks. Links alone: no launch and no cost of steps. A bound above a measurement
is an error of the machine or of the bound. Where fewer GPUs took part than a node has, the machine is the
node with that many.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache

from benchmarks import neighbour_tables, report
from taccl import load_topology
from taccl.analysis.baselines.measured import MeasuredRow, MeasuredTable, measured_tables
from taccl.api import make_problem
from taccl.encoding.bounds import all_bounds
from taccl.model.units import format_size
from taccl.support.budget import Budget
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.without import without_helpers

_LEAST_BYTES, _MOST_BYTES = 2**10, 2**34
#: Rows of a table that are shown are those of the switch's machines; of longer ones the closest is enough.
_MOST_ROWS = 8
#: Of longer tables every so many rows, from the largest on.
_EVERY = 4
#: Units of work for the bounds of a row, of one node and of several: they do not depend on what else runs.
_UNITS, _UNITS_OF_NODES = 600, 2_000
#: A range of measurements this narrow, as a part of them, is one figure.
_SAME = 1e-3

_INTRO = """\
Switches that sum and copy (NVLink SHARP) are helpers of their machines: a sum face, from which a sum goes to
one GPU, and a copy face, which stores at all. [Proofs of the bounds](../bounds/proofs.md#cuts) know both."""

_INTRO_OF_TABLE = """\
## Bounds next to public measurements

{rows} measured rows from 1 KB to 16 GB, of `taccl/analysis/baselines/measured.json`, which has their
sources; {above} of them are faster than the bound of their machine for any number of chunks, which is what
`bound` and `synthesize` print first, and {coarse} more than the one for one chunk a rank, as a library may
cut finer. Bounds are by links alone. *Without* is the bound for one chunk a rank of the same machine if its
switch passes on and does not sum: where a measurement is below it, the switch has summed. Of tables with
more than eight rows every fourth is looked at, and the closest stands here. The rates of multimem in the
catalogue come from some of these measurements, so a row at large sizes shows that the model fits; a test
of it are the four numbers of GPUs at one rate."""


@dataclass(frozen=True)
class Compared:
    """A measured row, with the largest bound for one chunk a rank, and for any number; microseconds."""

    table: MeasuredTable
    row: MeasuredRow
    bound_us: float
    any_chunks_us: float
    without_us: float

    @property
    def times(self) -> float:
        """What was measured, at the least, as a multiple of the bound for any number of chunks."""
        return self.row.least_us / self.any_chunks_us


@cache
def machine(name: str, ranks: int, nodes: int, *, sums: bool) -> PhysicalTopology:
    """A machine of the catalogue with this many GPUs, with or without what its switch can sum and copy."""
    found = load_topology(name, nodes=nodes)
    while found.num_members < ranks:
        nodes += 1
        found = load_topology(name, nodes=nodes)
    if nodes == 1:
        found = _first_gpus(found, ranks)
    return found if sums else without_helpers(found)


def _first_gpus(node: PhysicalTopology, count: int) -> PhysicalTopology:
    """A node as a call of so many GPUs finds it, without the ways out of it."""
    gone = {gpu.name for gpu in node.gpus[count : node.num_members]}
    gone |= {device.name for device in node.devices if gone and device.kind in ("nic", "pcie")}
    links = tuple(link for link in node.links if not {link.src, link.dst} & gone)
    return replace(node, devices=tuple(each for each in node.devices if each.name not in gone), links=links)


def compare(table: MeasuredTable, row: MeasuredRow) -> Compared:
    """The bounds of one row's machine, by links alone."""
    proofs = []
    for sums in (True, False):
        topology = machine(table.machine, table.ranks, table.nodes, sums=sums)
        problem = make_problem(table.collective, topology=topology, size=row.size_bytes).problem
        proofs.append(all_bounds(problem, Budget.of_work(_UNITS if table.nodes == 1 else _UNITS_OF_NODES)))
        if not topology.num_helpers:
            break
    fluid_us = max((proof.value_us for proof in proofs[0] if proof.holds_for_any_chunks), default=0.0)
    return Compared(table, row, proofs[0][0].value_us, fluid_us, proofs[-1][0].value_us)


def _table(found: list[Compared]) -> str:
    """Rows of machines whose switch sums; of other tables the row that is closest to its bound."""
    shown: list[Compared] = []
    for table in dict.fromkeys(each.table for each in found):
        rows = [each for each in found if each.table == table]
        shown += rows if len(rows) <= _MOST_ROWS else [min(rows, key=lambda each: each.times)]
    header = (
        *("machine", "GPUs", "collective", "size", "library", "measured (us)"),
        *("bound for any chunk count (us)", "for one chunk a rank (us)"),
        *("without sums in the switch (us)", "measured / bound for any count"),
    )
    cells = [
        (
            *(each.table.machine, str(each.table.ranks), each.table.collective),
            *(format_size(each.row.size_bytes), f"{each.table.library} {each.table.algorithm}".strip()),
            *(_range(each.row), f"{each.any_chunks_us:.1f}", f"{each.bound_us:.1f}"),
            *(f"{each.without_us:.1f}", f"{each.times:.2f}"),
        )
        for each in shown
    ]
    return report.table(header, cells)


def _range(row: MeasuredRow) -> str:
    if row.most_us - row.least_us < _SAME * row.most_us:
        return f"{row.most_us:.1f}"
    return f"{row.least_us:.1f} to {row.most_us:.1f}"


def main() -> None:
    """Compare every row, and write the page."""
    found: list[Compared] = []
    for table in measured_tables():
        rows = [row for row in table.rows if _LEAST_BYTES <= row.size_bytes <= _MOST_BYTES]
        rows = rows if len(rows) <= _MOST_ROWS else rows[::-_EVERY]
        found += [compare(table, row) for row in rows]
        print(
            f"{table.machine} {table.collective} {table.ranks}: {len(rows)} rows", file=sys.stderr, flush=True
        )
    above = [each for each in found if each.row.least_us < each.any_chunks_us]
    coarse = sum(each.row.least_us < each.bound_us for each in found) - len(above)
    for each in above:
        print(f"ABOVE: {each}", file=sys.stderr)
    body = _INTRO_OF_TABLE.format(rows=len(found), above=len(above), coarse=coarse) + "\n\n" + _table(found)
    measured = f"{report.measured_now()}\n\n{neighbour_tables.kept()}"
    report.write("neighbours", "Machines whose switches sum", _INTRO, body, measured)
    if above:
        sys.exit("some bound is above a measurement")


if __name__ == "__main__":
    main()
