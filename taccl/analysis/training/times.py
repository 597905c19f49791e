"""What collectives take on a machine by size: of a plan, and at least.

A plan is a library's algorithm (`ring`, `tree`, ..., fastest of its variants), `nccl` (NCCL's own estimate
of what it picks) or `synthesize` (the best that was found, libraries' algorithms included).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from taccl.analysis.any_cutting import any_cutting_bounds
from taccl.analysis.baseline import baseline
from taccl.analysis.exploration.explore import explore
from taccl.analysis.exploration.library_table import ALL, library_times_us
from taccl.analysis.training.tuning import LEAST_BYTES, LIBRARY_EFFORT, SIZE_STEP, SYNTHESIS_EFFORT
from taccl.errors import TacclError
from taccl.model.collectives import make_collective
from taccl.support.arguments import shown
from taccl.support.budget import Budget
from taccl.topologies import PhysicalTopology

NCCL, SYNTHESIZE = "nccl", "synthesize"


@dataclass(frozen=True)
class TimeTable:
    """Microseconds by size; straight lines join the sizes, and below the first it is what that takes.

    Parameters
    ----------
    sizes : bytes, ascending.
    """

    sizes: tuple[int, ...]
    times_us: tuple[float, ...]

    def at(self, size_bytes: float) -> float:
        """At any size; beyond the last in proportion to the bytes."""
        if size_bytes > self.sizes[-1]:
            return self.times_us[-1] * size_bytes / self.sizes[-1]
        return float(np.interp(size_bytes, self.sizes, self.times_us))


@dataclass(frozen=True)
class BoundTable:
    """Lower bounds by size, for sizes between as well.

    A schedule for fewer bytes, with all its sends made larger, is one for more and takes at most as many
    times as long: so in proportion to the bytes, a bound of more bytes is one of fewer. And more bytes take
    no less time.
    """

    sizes: tuple[int, ...]
    bounds_us: tuple[float, ...]

    def at(self, size_bytes: float) -> float:
        """At any size."""
        known = zip(self.sizes, self.bounds_us, strict=True)
        return max((value * min(1.0, size_bytes / size) for size, value in known), default=0.0)


@dataclass(frozen=True, eq=False)
class Timer:
    """Times one plan on one machine; each collective once.

    Parameters
    ----------
    seconds, effort : for one collective; `effort` : units of work of a synthesis.
    """

    machine: PhysicalTopology
    plan: str
    seconds: float
    effort: int | None = None
    _known: dict[tuple[str, tuple[int, ...]], TimeTable] = field(default_factory=dict)

    def table(self, collective: str, sizes: Iterable[int]) -> TimeTable:
        """Times at these sizes, and at some between the least and the most.

        Raises
        ------
        TacclError : there is no such plan for the collective on this machine.
        """
        wanted = _sizes(self.machine, collective, sizes)
        key = collective, wanted
        if key not in self._known:
            self._known[key] = self._timed(collective, wanted)
        return self._known[key]

    def _timed(self, collective: str, sizes: tuple[int, ...]) -> TimeTable:
        if self.machine.num_members == 1:
            return TimeTable(sizes, (0.0,) * len(sizes))
        if self.plan == NCCL:
            found = baseline(collective, topology=self.machine, sizes=sizes, time_limit=1.0)
            times = {each.size_bytes: each.time_us for each in found.sizes if each.time_us is not None}
        elif self.plan == SYNTHESIZE:
            effort = SYNTHESIS_EFFORT if self.effort is None else self.effort
            table = explore(
                collective, topology=self.machine, sizes=sizes, effort=effort, time_limit=self.seconds
            )
            times = {row["size_bytes"]: row["time_us"] for row in table.best if row["time_us"] is not None}
        else:
            name = ALL if self.machine.num_members == 2 else self.plan  # of two ranks, all are one
            times = library_times_us(
                name,
                collective,
                topology=self.machine,
                sizes=sizes,
                time_limit=self.seconds,
                effort=LIBRARY_EFFORT,
            )
        if not times:
            raise TacclError(f"there is no {shown(self.plan)} of {collective} on {self.machine.name}")
        known = sorted(times)
        return TimeTable(tuple(known), tuple(float(times[size]) for size in known))


def bound_table(
    machine: PhysicalTopology, collective: str, sizes: Iterable[int], budget: Budget
) -> BoundTable:
    """What no schedule beats, however finely it cuts these sizes or any between."""
    wanted = _sizes(machine, collective, sizes)
    if machine.num_members == 1:
        return BoundTable((), ())
    ends = (wanted[0], wanted[len(wanted) // 2], wanted[-1])
    proved = any_cutting_bounds(machine, collective, sorted(set(ends)), budget)
    known = [
        (size, proof.value_us)
        for size, proof in zip(sorted(set(ends)), proved, strict=True)
        if proof is not None
    ]
    return BoundTable(tuple(size for size, _ in known), tuple(value for _, value in known))


def _sizes(machine: PhysicalTopology, collective: str, sizes: Iterable[int]) -> tuple[int, ...]:
    """The sizes and some between, rounded up to a whole number of bytes for each part."""
    parts = make_collective(collective, machine.num_members, 1, None).chunks_per_size
    requested = sorted(set(sizes)) or [LEAST_BYTES]
    every: Sequence[int] = [*requested]
    size = min(LEAST_BYTES, requested[0])
    while size < requested[-1]:
        every = [*every, size]
        size *= SIZE_STEP
    return tuple(sorted({-(-max(1, each) // parts) * parts for each in every}))
