"""Plans of a PyTorch job measured next to the collectives of its inner backend, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from taccl.deployment.jobs.benched import Benched, Stopwatch, buffer_elements, cases
from taccl.deployment.jobs.plans import JobPlan, JobPlans
from taccl.torch.collectives import Collectives


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

    def slowest(times: list[float]) -> list[float]:
        found = torch.tensor(times, dtype=torch.float64, device=device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return list(found.tolist())

    watch = Stopwatch(dist.barrier, slowest, lambda: _settle(device), warmup, iterations)
    for plan, elements in cases(plans, sizes, dtype.itemsize, lambda plan: plan.num_ranks):
        alone = Collectives(JobPlans((plan,), plans.digest))
        try:
            yield _measured(plan, alone, elements, dtype, device, watch)
        finally:
            alone.close()


def _measured(
    plan: JobPlan, alone: Collectives, elements: int, dtype: torch.dtype, device: str, watch: Stopwatch
) -> Benched:
    size = dist.get_world_size()
    inputs, outputs = buffer_elements(plan.collective, elements, size)
    draw = torch.Generator().manual_seed(dist.get_rank())
    given = torch.randint(-8, 9, (inputs,), generator=draw).to(dtype).to(device)

    def fresh() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(outputs, dtype=dtype, device=device), given.clone()

    (inner_us, wanted), (plan_us, found) = (watch.median_us(call, fresh) for call in _calls(plan, alone))
    wrong = (wanted != found).sum().to(torch.int64)
    dist.all_reduce(wrong)
    name, size_bytes = str(dtype).removeprefix("torch."), elements * dtype.itemsize
    return Benched(
        plan.name, plan.collective, size, size_bytes, elements, name, inner_us, plan_us, int(wrong)
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
