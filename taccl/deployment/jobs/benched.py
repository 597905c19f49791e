"""A plan measured next to the collective of the library that a job has.

Of each call the time is that of the rank that takes longest, from a barrier on; of calls the median counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from taccl.deployment.jobs.plans import JobPlan, JobPlans
from taccl.model.collective import busbw_factor

#: Collectives that are measured, by their plain names.
MEASURED = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast")


@dataclass(frozen=True)
class Benched:
    """One plan at one size.

    Parameters
    ----------
    plan : the name of its file. size_bytes : as nccl-tests counts them, of `elements`.
    inner_us, plan_us : medians, us.
    wrong : elements of the plan's result, over all ranks, that are not those of the library.
    """

    plan: str
    collective: str
    num_ranks: int
    size_bytes: int
    elements: int
    dtype: str
    inner_us: float
    plan_us: float
    wrong: int

    def bandwidths(self, time_us: float) -> tuple[float, float]:
        """Of the data and of the busiest link (algbw, busbw), 10**9 bytes per second."""
        algbw = self.size_bytes / time_us / 1e3
        return algbw, algbw * busbw_factor(self.collective, self.num_ranks)


@dataclass(frozen=True, eq=False)
class Stopwatch:
    """How calls are measured in a job.

    Parameters
    ----------
    ready : returns when all ranks are here. slowest : of times, us, the largest over all ranks, one by one.
    settle : waits for what was started on a GPU. warmup, iterations : calls before, and those that count.
    """

    ready: Callable[[], object]
    slowest: Callable[[list[float]], list[float]]
    settle: Callable[[], object]
    warmup: int
    iterations: int

    def median_us(
        self, call: Callable[[Any, Any], Any], fresh: Callable[[], tuple[Any, Any]]
    ) -> tuple[float, Any]:
        """The median time of a call, us, and the last result; `fresh` : an output and an input for each."""
        for _ in range(self.warmup):
            call(*fresh())
        times, result = [], None
        for _ in range(self.iterations):
            buffers = fresh()
            self.ready()
            self.settle()
            began = time.perf_counter()
            result = call(*buffers)
            self.settle()
            times.append((time.perf_counter() - began) * 1e6)
        return statistics.median(self.slowest(times)), result


def cases(
    plans: JobPlans, sizes: Sequence[int], item_bytes: int, parts: Callable[[JobPlan], int]
) -> Iterator[tuple[JobPlan, int]]:
    """Each plan and the elements of each size that takes it, a whole number of `parts` of the plan."""
    for plan in plans.plans:
        if plan.collective not in MEASURED:
            continue
        for size in sizes:
            whole = parts(plan)
            elements = size // item_bytes // whole * whole
            if elements and plan.takes(plan.collective, elements * item_bytes, plan.root):
                yield plan, elements


def buffer_elements(collective: str, elements: int, num_ranks: int) -> tuple[int, int]:
    """Of the input and the output of a rank."""
    part = elements // num_ranks
    return (
        part if collective == "allgather" else elements,
        part if collective == "reducescatter" else elements,
    )
