"""Plans of a job measured next to the inner backend's own collectives, call by call.

Of each call the time is that of the rank that takes longest, from a barrier on; of calls the median counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from taccl.jobs.plans import JobPlan, JobPlans
from taccl.model.collective import busbw_factor
from taccl.torch.collectives import Collectives

#: Collectives that are measured, by their plain names.
MEASURED = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast")


@dataclass(frozen=True)
class Benched:
    """One plan at one size.

    Parameters
    ----------
    plan : the name of its file. size_bytes : as nccl-tests counts them.
    inner_us, plan_us : medians, us.
    wrong : elements of the plan's result, over all ranks, that are not those of the inner backend.
    """

    plan: str
    collective: str
    num_ranks: int
    size_bytes: int
    dtype: str
    inner_us: float
    plan_us: float
    wrong: int

    @property
    def elements(self) -> int:
        """nccl-tests' count."""
        itemsize: int = getattr(torch, self.dtype).itemsize
        return self.size_bytes // itemsize

    def bandwidths(self, time_us: float) -> tuple[float, float]:
        """Of the data and of the busiest link (algbw, busbw), 10**9 bytes per second."""
        algbw = self.size_bytes / time_us / 1e3
        return algbw, algbw * busbw_factor(self.collective, self.num_ranks)


def bench(
    plans: JobPlans,
    sizes: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    warmup: int = 5,
    iterations: int = 20,
) -> Iterator[Benched]:
    """Measure every plan at every size that takes it; all ranks of the default group call this.

    Parameters
    ----------
    sizes : bytes, as nccl-tests counts them; rounded down to whole elements of whole parts.

    Raises
    ------
    TacclError : as `Collectives`.
    """
    for plan in plans.plans:
        if plan.collective not in MEASURED:
            continue
        alone = Collectives(JobPlans((plan,), plans.digest))
        for size in sizes:
            elements = size // dtype.itemsize // plan.num_ranks * plan.num_ranks
            if elements and plan.takes(plan.collective, elements * dtype.itemsize, plan.root):
                yield _measured(plan, alone, elements, dtype, device, warmup, iterations)


def _measured(
    plan: JobPlan,
    alone: Collectives,
    elements: int,
    dtype: torch.dtype,
    device: str,
    warmup: int,
    iterations: int,
) -> Benched:
    rank, size = dist.get_rank(), dist.get_world_size()
    part = elements // size
    inputs = part if plan.collective == "allgather" else elements
    outputs = part if plan.collective == "reducescatter" else elements
    draw = torch.Generator().manual_seed(rank)
    given = torch.randint(-8, 9, (inputs,), generator=draw).to(dtype).to(device)
    results, times = [], []
    for call in _calls(plan, alone):
        for _ in range(warmup):
            call(torch.empty(outputs, dtype=dtype, device=device), given.clone())
        took, output = [], given
        for _ in range(iterations):
            output, copy = torch.zeros(outputs, dtype=dtype, device=device), given.clone()
            dist.barrier()
            _settle(device)
            began = time.perf_counter()
            output = call(output, copy)
            _settle(device)
            took.append((time.perf_counter() - began) * 1e6)
        slowest = torch.tensor(took, dtype=torch.float64, device=device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        times.append(statistics.median(slowest.tolist()))
        results.append(output)
    wrong = (results[0] != results[1]).sum().to(torch.int64)
    dist.all_reduce(wrong)
    name = str(dtype).removeprefix("torch.")
    return Benched(
        plan.name, plan.collective, size, elements * dtype.itemsize, name, times[0], times[1], int(wrong)
    )


_Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _calls(plan: JobPlan, alone: Collectives) -> tuple[_Call, _Call]:
    """The inner backend's call and the plan's: of an output and an input, with the result."""
    return _call(plan, _Inner()), _call(plan, alone)


class _Inner:
    """torch.distributed's own functions, by the names of `Collectives`."""

    all_reduce = staticmethod(dist.all_reduce)
    all_gather_into_tensor = staticmethod(dist.all_gather_into_tensor)
    reduce_scatter_tensor = staticmethod(dist.reduce_scatter_tensor)
    all_to_all_single = staticmethod(dist.all_to_all_single)

    @staticmethod
    def broadcast(tensor: torch.Tensor, group_src: int) -> None:
        dist.broadcast(tensor, group_src=group_src)


def _call(plan: JobPlan, by: Any) -> _Call:
    root = plan.root or 0

    def in_place(call: Callable[[torch.Tensor], Any]) -> _Call:
        def called(output: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
            call(given)
            return given

        return called

    def out_of_place(call: Callable[[torch.Tensor, torch.Tensor], Any]) -> _Call:
        def called(output: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
            call(output, given)
            return output

        return called

    calls: dict[str, _Call] = {
        "allreduce": in_place(by.all_reduce),
        "broadcast": in_place(lambda tensor: by.broadcast(tensor, group_src=root)),
        "allgather": out_of_place(by.all_gather_into_tensor),
        "reducescatter": out_of_place(by.reduce_scatter_tensor),
        "alltoall": out_of_place(by.all_to_all_single),
    }
    return calls[plan.collective]


def _settle(device: str) -> None:
    """Wait for what was started on a GPU."""
    if device != "cpu":
        torch.cuda.synchronize()
