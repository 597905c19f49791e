"""How far published measurements of NCCL are from what its model expects, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from taccl.analysis.baselines.measured import MeasuredRow, MeasuredTable, measured_tables
from taccl.analysis.baselines.nccl.communicator import Generation
from taccl.analysis.baselines.nccl.graphs import communicator_of
from taccl.analysis.baselines.nccl.model import COLLECTIVES, Estimate, estimates
from taccl.analysis.baselines.nccl.releases import Release
from taccl.topologies.catalogue import build_topology

#: Rows of sizes up to this many times smaller or larger tell how far an estimate may be off.
_NEAR = 4


@dataclass(frozen=True)
class Deviation:
    """A measured row, and what the model expects: of the algorithm of its source, else of the pick.

    `pick` : what NCCL would choose. `generation` : of the GPUs.
    """

    table: MeasuredTable
    row: MeasuredRow
    estimate: Estimate
    pick: Estimate
    generation: Generation

    @property
    def is_pick(self) -> bool:
        """Whether the algorithm is the one that the model picks."""
        return self.estimate.algorithm == self.pick.algorithm

    @property
    def ratio(self) -> float:
        """Measured over expected: above 1 where NCCL is slower than its model."""
        return self.row.time_us / self.estimate.time_us


@cache
def deviations(release: Release) -> tuple[Deviation, ...]:
    """Every measured row of NCCL that the model can tell the time of."""
    return tuple(
        deviation
        for table in measured_tables()
        if table.library == "NCCL" and table.collective in COLLECTIVES
        for deviation in _of_table(release, table)
    )


def near(release: Release, collective: str, size_bytes: int, generation: Generation) -> tuple[Deviation, ...]:
    """Those of a collective within a factor of 4 in size: of this generation, or of any if it has none."""
    found = tuple(
        each
        for each in deviations(release)
        if each.table.collective == collective
        and size_bytes <= _NEAR * each.row.size_bytes <= _NEAR * _NEAR * size_bytes
    )
    return tuple(each for each in found if each.generation == generation) or found


def _of_table(release: Release, table: MeasuredTable) -> Iterator[Deviation]:
    machine = build_topology(table.machine, nodes=table.nodes)
    comm = communicator_of(machine, ranks=table.ranks)
    for row in table.rows:
        found = estimates(release, comm, table.collective, row.size_bytes)
        for estimate in found:
            if table.algorithm in ("", estimate.algorithm):
                yield Deviation(table, row, estimate, found[0], comm.generation)
                break
