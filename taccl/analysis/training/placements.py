"""`rank_placements`: what each allocation costs a job, and whether waiting for another is worth it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taccl.analysis.training.allocations import (
    Allocation,
    AllocationReader,
    compact,
    load_allocations,
    shape_of,
)
from taccl.analysis.training.isomorphism import Isomorphisms
from taccl.analysis.training.policy import Policy, load_waits, policy_of
from taccl.analysis.training.recurrence import Until
from taccl.analysis.training.stalled import NOTES, stall
from taccl.analysis.training.workload import DDP_BUCKET, Workload
from taccl.analysis.training.workload_file import load_workload
from taccl.errors import TacclError, UnitError
from taccl.support.arguments import number, shown, whole_number
from taccl.support.report import Report, Reported, Table
from taccl.synthesis.inputs import choose_topology
from taccl.topologies import PhysicalTopology
from taccl.topologies.select import select
from taccl.topologies.without import without_helpers

_S_PER_US, _S_PER_HOUR = 1e-6, 3600.0
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_WAIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)")
_MOST_ITERATIONS = 10**12
_HEADER = ("allocation", "shape", "step(us)", "stall", "bound(us)", "of best", "hours lost", "score")
_COLUMNS = ("allocation", "shape", "step_us", "stall", "bound_us", "of_best", "hours_lost", "score")


def seconds_of(wait: str | float) -> float:
    """A time such as `40min`, `90s` or `1.5h`, or seconds.

    Raises
    ------
    UnitError : it is none.
    """
    if not isinstance(wait, str):
        return number(wait, "the time to wait", UnitError, least=0.0, most=1e9, unit="s")
    match = _WAIT.fullmatch(wait.strip())
    if match is None:
        raise UnitError(f"{shown(wait)} is no time", hint="40min, 90s or 1.5h")
    return float(match[1]) * _UNITS[match[2]]


@dataclass(frozen=True)
class Placed:
    """A step of the job on one allocation.

    Parameters
    ----------
    shape : GPUs of each node: `5+3`.
    stall : exposed time over the step.
    bound_us : no schedule makes the step on this allocation shorter.
    """

    allocation: Allocation
    shape: str
    step_us: float
    stall: float
    bound_us: float


@dataclass(frozen=True, eq=False)
class Ranked(Reported):
    """Allocations, the fastest first.

    Parameters
    ----------
    ideal : the job on as many GPUs of the empty machine, on as few nodes as can be.
    iterations : steps of the job.
    wait_s : until the ideal allocation is there; None: that is not known.
    num_classes : of equivalent allocations.
    policy : for how many leases a scheduler should hold out; None: no waits of other jobs are known.
    """

    workload: Workload
    machine: PhysicalTopology
    rows: tuple[Placed, ...]
    ideal: Placed
    iterations: int
    wait_s: float | None
    num_classes: int
    notes: tuple[str, ...]
    policy: Policy | None = None

    @property
    def worth_waiting_s(self) -> float:
        """How long waiting for the ideal allocation costs less than taking the best that is offered now."""
        return max(0.0, self.rows[0].step_us - self.ideal.step_us) * self.iterations * _S_PER_US

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        minutes = self.worth_waiting_s / 60
        worth = f"waiting for {self.ideal.shape} is worth up to {minutes:.1f} minutes"
        if self.wait_s is None:
            return worth
        verb = "wait" if self.wait_s < self.worth_waiting_s else f"take {self.rows[0].allocation.text}"
        return f"{worth}, and it takes {self.wait_s / 60:.1f}: {verb}"

    def report(self) -> Report:
        """One row for each allocation, and a table."""
        best_us = self.rows[0].step_us
        rows = [
            {
                "allocation": each.allocation.text,
                "shape": each.shape,
                "step_us": each.step_us,
                "stall": each.stall,
                "bound_us": each.bound_us,
                "of_best": each.step_us / best_us,
                "hours_lost": (each.step_us - best_us) * self.iterations * _S_PER_US / _S_PER_HOUR,
                "score": round(100 * best_us / each.step_us),
            }
            for each in self.rows
        ]
        figures = {
            "workload": self.workload.name,
            "topology": self.machine.name,
            "iterations": self.iterations,
            "rows": rows,
            "different": self.num_classes,
            "ideal_shape": self.ideal.shape,
            "ideal_step_us": self.ideal.step_us,
            "worth_waiting_s": self.worth_waiting_s,
            "wait_s": self.wait_s,
            "advice": self.advice,
            "policy": None if self.policy is None else self.policy.to_dict(),
            "notes": list(self.notes),
        }
        cells = [
            (
                *(each.allocation.text, each.shape, f"{each.step_us:.0f}", f"{100 * each.stall:.1f}%"),
                *(f"{each.bound_us:.0f}", f"{row['of_best']:.3f}x", f"{row['hours_lost']:.2f}"),
                str(row["score"]),
            )
            for each, row in zip(self.rows, rows, strict=True)
        ]
        title = (
            f"{self.workload.name} on {self.machine.name}: {len(rows)} allocations, {self.num_classes} differ"
        )
        return Report("taccl.rank-placements/1", figures, _COLUMNS, rows, Table(title, cells, _HEADER))


def rank_placements(
    job: str | Path | Workload,
    candidates: str | Path | Sequence[str],
    *,
    topology: str | Path | PhysicalTopology,
    nodes: int | None = None,
    iterations: int = 1000,
    wait: str | float | None = None,
    policy: str | Path | Sequence[float] | None = None,
    leases: int = 100,
    plan: str = "ring",
    bucket: str | int = DDP_BUCKET,
    gradients: str | None = None,
    batch: float | None = None,
    until: Until = "step",
    time_limit: float = 4.0,
    effort: int | None = None,
) -> Ranked:
    """What each allocation costs a job.

    Equivalent allocations, as an isomorphism of the machine that is left of them proves, are computed
    once.

    Parameters
    ----------
    job, plan, bucket, gradients, batch, until, effort : as in `taccl.analysis.training.stalled.stall`.
    candidates : a file with one allocation a line, or the allocations: `n0.gpu[0-4],n1.gpu[0-2]`.
    topology, nodes : the cluster.
    iterations : steps of the job. wait : until as many GPUs are free on as few nodes as can be: `40min`.
    policy : waits of other jobs with as many GPUs, in leases, or their file; then Dally's tuner says how long
        a scheduler should hold out. leases : the last this many, in which they waited.
    time_limit : seconds for each allocation that differs.

    Raises
    ------
    TacclError : the job, the machine or an allocation is wrong, or allocations have different sizes.
    """
    machine = without_helpers(choose_topology(topology, nodes=nodes, executor=False))
    workload = load_workload(job, gradients)
    whole_number(iterations, "iterations", TacclError, least=1, most=_MOST_ITERATIONS)
    wait_s = None if wait is None else seconds_of(wait)
    waits = load_waits(policy) if isinstance(policy, str | Path) else policy
    tuned = None if waits is None else policy_of(waits, leases)
    if isinstance(candidates, str | Path):
        offered = load_allocations(candidates, machine)
    else:
        reader = AllocationReader(machine)
        offered = tuple(reader.read(text) for text in candidates)
    _check_sizes(offered)
    isomorphisms = Isomorphisms(machine)
    known: dict[tuple[int, ...], tuple[float, float, float]] = {}

    def placed(allocation: Allocation) -> Placed:
        first = isomorphisms.representative(allocation.ranks)
        if first not in known:
            chosen = select(machine, first)
            found = stall(
                workload,
                topology=chosen,
                plan=plan,
                bucket=bucket,
                gradients=gradients,
                batch=batch,
                until=until,
                time_limit=time_limit,
                effort=effort,
            )
            known[first] = (found.best.step.step_us, found.best.step.stall, found.bound_us)
        return Placed(allocation, shape_of(machine, allocation.ranks), *known[first])

    rows = tuple(sorted(map(placed, offered), key=lambda each: each.step_us))
    different = len(known)
    ideal = placed(compact(machine, len(offered[0].ranks)))
    notes = (*workload.notes, *NOTES, "other jobs on the same switches are not counted")
    return Ranked(workload, machine, rows, ideal, iterations, wait_s, different, notes, tuned)


def _check_sizes(offered: Sequence[Allocation]) -> None:
    if not offered:
        raise TacclError("there is no allocation", hint="n[0-1].gpu[0-3]")
    size = len(offered[0].ranks)
    for each in offered:
        if len(each.ranks) != size:
            raise TacclError(
                f"{each.text[:60]} has {len(each.ranks)} GPUs, and {offered[0].text[:60]} has {size}",
                hint="compare allocations of one size",
            )
