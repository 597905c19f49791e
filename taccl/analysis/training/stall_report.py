"""What `stall` found: a step by each plan, next to what no schedule beats."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.analysis.training.recurrence import TrainingStep
from taccl.analysis.training.workload import Workload
from taccl.model import units
from taccl.support.report import Report, Reported, Table
from taccl.topologies import PhysicalTopology

_HEADER = (
    "plan",
    "bucket",
    "buckets",
    "compute(us)",
    "exposed(us)",
    "step(us)",
    "stall",
    "at least",
    "bound(us)",
    "of bound",
)
_COLUMNS = ("plan", "bucket_bytes", "step_us", "exposed_us", "stall", "network_stall", "cost_of_epoch")


@dataclass(frozen=True, eq=False)
class Planned:
    """A step by one plan, in one size of buckets.

    Parameters
    ----------
    curve : the step for other sizes of buckets: bytes, microseconds.
    one_node_us : the step on as many GPUs of one node; None: no such machine is known.
    cost_of_epoch : dollars; None: no price or no number of samples is known.
    """

    plan: str
    bucket_bytes: int
    step: TrainingStep
    curve: tuple[tuple[int, float], ...] = ()
    one_node_us: float | None = None
    cost_of_epoch: float | None = None

    @property
    def network_stall(self) -> float | None:
        """The part of a step that it is longer than in one node: Stash's network stall."""
        if self.one_node_us is None:
            return None
        return max(0.0, self.step.step_us - self.one_node_us) / self.step.step_us

    def figures(self, workload: Workload) -> dict[str, object]:
        """Plain values."""
        step = self.step
        return {
            "plan": self.plan,
            "bucket_bytes": self.bucket_bytes,
            "compute_us": step.compute_us,
            "calls_us": step.calls_us,
            "exposed_us": step.exposed_us,
            "step_us": step.step_us,
            "stall": step.stall,
            "network_stall": self.network_stall,
            "cost_of_epoch": self.cost_of_epoch,
            "buckets": [
                {
                    "layers": [workload.layers[layer].name for layer in each.bucket.layers],
                    "bytes": each.bucket.num_bytes,
                    "ready_us": each.ready_us,
                    "start_us": each.start_us,
                    "end_us": each.end_us,
                    "exposed_us": each.exposed_us,
                }
                for each in step.buckets
            ],
            "curve": [{"bucket_bytes": size, "step_us": step_us} for size, step_us in self.curve],
        }


@dataclass(frozen=True, eq=False)
class Stalled(Reported):
    """A workload on a machine by several plans, in the order requested.

    Parameters
    ----------
    exposed_bound_us : what any schedule exposes at least.
    """

    workload: Workload
    machine: PhysicalTopology
    plans: tuple[Planned, ...]
    exposed_bound_us: float
    notes: tuple[str, ...]

    @property
    def best(self) -> Planned:
        """The plan with the shortest step."""
        return min(self.plans, key=lambda each: each.step.step_us)

    @property
    def bound_us(self) -> float:
        """No schedule makes the step shorter."""
        return self.workload.compute_us + self.exposed_bound_us

    @property
    def stall_bound(self) -> float:
        """No schedule makes a smaller part of its step a stall."""
        return self.exposed_bound_us / self.bound_us if self.bound_us > 0 else 0.0

    def report(self) -> Report:
        """The best plan's figures, all plans, and a table."""
        plans = [each.figures(self.workload) for each in self.plans]
        best = self.best.figures(self.workload)
        figures = {
            "workload": self.workload.name,
            "topology": self.machine.name,
            "gpus": self.machine.num_members,
            "batch": self.workload.batch,
            "gradient_bytes": self.workload.gradient_bytes,
            **{key: value for key, value in best.items() if key != "curve"},
            "bound_us": self.bound_us,
            "exposed_bound_us": self.exposed_bound_us,
            "stall_bound": self.stall_bound,
            "plans": plans,
            "notes": list(self.notes),
        }
        cells = [self._cells(each) for each in self.plans]
        size = f"{self.workload.gradient_bytes / units.MB:.2f} MB"
        gpus = self.machine.num_members
        title = f"{self.workload.name}, {size} of gradients, {gpus} GPUs of {self.machine.name}"
        return Report("taccl.stall/1", figures, _COLUMNS, plans, Table(title, cells, _HEADER))

    def _cells(self, each: Planned) -> tuple[str, ...]:
        step = each.step
        of_bound = f"{step.step_us / self.bound_us:.3f}x" if self.bound_us > 0 else "-"
        return (
            *(each.plan, units.format_size(each.bucket_bytes), str(len(step.buckets))),
            *(f"{step.compute_us:.0f}", f"{step.exposed_us:.0f}", f"{step.step_us:.0f}"),
            *(f"{100 * step.stall:.1f}%", f"{100 * self.stall_bound:.1f}%", f"{self.bound_us:.0f}", of_bound),
        )

    def bucket_cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the rows of the best plan's buckets."""
        header = ("bucket", "layers", "MB", "ready(us)", "start(us)", "end(us)", "exposed(us)")
        rows = []
        for place, each in enumerate(self.best.step.buckets):
            first, last = (self.workload.layers[each.bucket.layers[end]].name for end in (0, -1))
            name = first if first == last else f"{first} .. {last}"
            times = (each.ready_us, each.start_us, each.end_us, each.exposed_us)
            size = f"{each.bucket.num_bytes / units.MB:.2f}"
            rows.append((str(place), name, size, *(f"{value:.0f}" for value in times)))
        return header, rows
