"""Functions as in torch.distributed, each by a plan where there is one for the call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from taccl.backend.rounds.lowering import MOST_OPERATIONS
from taccl.deployment.jobs.plans import JobPlans, read_plans
from taccl.deployment.jobs.steps import Exchange
from taccl.errors import TacclError
from taccl.torch.messages import messages_of
from taccl.torch.planned import Planned, check_alike
from taccl.torch.puts import puts_of

_SUM = dist.ReduceOp.SUM


def load(
    plans: str | Path | Iterable[str | Path],
    group: dist.ProcessGroup | None = None,
    *,
    most_operations: int = MOST_OPERATIONS,
    pipelined: bool = False,
    one_sided: bool = False,
) -> Collectives:
    """Plans for a group, read, verified and compared on all of its ranks, each of which has to call this.

    Parameters
    ----------
    plans : the folder that `taccl bundle` wrote, a file, or several files.
    group : None: the default one. Its backend moves the messages, and runs what no plan is for.
    most_operations : sends and receives of a rank that are posted at once.
    pipelined : more rounds, in which links of unlike speeds are busy at once; else the fewest.
    one_sided : messages between GPUs are writes into symmetric memory (`taccl.torch.puts`) and not the
        backend's, for ranks that reach each other's memory: one node, or one NVLink domain.

    Raises
    ------
    TacclError : a file cannot be run, is for another number of ranks, or differs from rank to rank; there is
        no symmetric memory.
    """
    read = read_plans(plans, most_operations=most_operations, pipelined=pipelined)
    return Collectives(read, group, one_sided=one_sided)


class Collectives:
    """Collectives of one group. All ranks make the same calls, in the same order.

    `counts` : calls by (collective, name of the plan, or `inner`).
    """

    def __init__(
        self, plans: JobPlans, group: dist.ProcessGroup | None = None, *, one_sided: bool = False
    ) -> None:
        if not dist.is_initialized():
            raise TacclError("torch.distributed is not initialized", hint="init_process_group comes first")
        used: dist.ProcessGroup = dist.group.WORLD if group is None else group
        self.group = used
        if dist.get_rank(self.group) < 0:
            raise TacclError("this rank is not in the group")
        size = dist.get_world_size(self.group)
        digests: list[Any] = [None] * size
        dist.all_gather_object(digests, plans.digest, group=self.group)
        check_alike(digests)
        puts = puts_of(self.group) if one_sided else None

        def exchange_for(device: torch.device) -> Exchange:  # must not refer to self: see `Planned`
            if puts is not None and device.type == "cuda":
                return puts
            return messages_of(used._get_backend(device))

        self._planned = Planned(plans, dist.get_rank(self.group), size, exchange_for)

    def close(self) -> None:
        """Wait for calls that were begun, and begin no more by plans."""
        self._planned.close()

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """What ran where."""
        return self._planned.counts

    def all_reduce(
        self, tensor: torch.Tensor, op: Any = _SUM, async_op: bool = False
    ) -> torch.futures.Future[Any] | Any | None:
        """As `torch.distributed.all_reduce`: in place."""
        future = self._planned.start("allreduce", tensor, tensor, op=op)
        if future is not None:
            return _ended(future, async_op)
        if tensor.is_contiguous():
            return dist.all_reduce(tensor, op, group=self.group, async_op=async_op)
        return _copied(tensor, lambda copy: dist.all_reduce(copy, op, group=self.group), async_op)

    def all_gather_into_tensor(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, async_op: bool = False
    ) -> Any | None:
        """As `torch.distributed.all_gather_into_tensor`."""
        self._check_parts(output_tensor, input_tensor, "output")
        input_tensor = input_tensor.contiguous()
        future = self._planned.start("allgather", output_tensor, input_tensor)
        if future is None:
            return dist.all_gather_into_tensor(
                output_tensor, input_tensor, group=self.group, async_op=async_op
            )
        return _ended(future, async_op)

    def reduce_scatter_tensor(
        self, output: torch.Tensor, input: torch.Tensor, op: Any = _SUM, async_op: bool = False
    ) -> Any | None:
        """As `torch.distributed.reduce_scatter_tensor`."""
        self._check_parts(input, output, "input")
        input = input.contiguous()
        future = self._planned.start("reducescatter", output, input, op=op)
        if future is None:
            return dist.reduce_scatter_tensor(output, input, op, group=self.group, async_op=async_op)
        return _ended(future, async_op)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: list[int] | None = None,
        input_split_sizes: list[int] | None = None,
        async_op: bool = False,
    ) -> Any | None:
        """As `torch.distributed.all_to_all_single`; unequal parts are the inner backend's."""
        future = None
        if not output_split_sizes and not input_split_sizes:
            future = self._planned.start("alltoall", output, input)
        if future is None:
            return dist.all_to_all_single(
                output, input, output_split_sizes, input_split_sizes, group=self.group, async_op=async_op
            )
        return _ended(future, async_op)

    def broadcast(self, tensor: torch.Tensor, group_src: int = 0, async_op: bool = False) -> Any | None:
        """As `torch.distributed.broadcast`, with the root's rank in the group."""
        future = self._planned.start("broadcast", tensor, tensor, root=group_src)
        if future is not None:
            return _ended(future, async_op)
        if tensor.is_contiguous():
            return dist.broadcast(tensor, group=self.group, async_op=async_op, group_src=group_src)
        return _copied(
            tensor, lambda copy: dist.broadcast(copy, group=self.group, group_src=group_src), async_op
        )

    def _check_parts(self, whole: torch.Tensor, part: torch.Tensor, which: str) -> None:
        size = self._planned.size
        if whole.numel() != size * part.numel() or whole.dtype != part.dtype:
            raise TacclError(
                f"the {which} has {whole.numel()} elements of {whole.dtype}, and must have {size} times "
                f"{part.numel()} of {part.dtype}"
            )


def _copied(
    tensor: torch.Tensor, call: Callable[[torch.Tensor], Any], async_op: bool
) -> torch.futures.Future[Any] | None:
    """A call of the inner backend on a copy: gloo (2.13) takes strided tensors as if they were not."""
    copy = tensor.contiguous()
    call(copy)
    tensor.copy_(copy)
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result([tensor])
    return future if async_op else None


def _ended(future: torch.futures.Future[Any], async_op: bool) -> torch.futures.Future[Any] | None:
    """Wait, unless the caller wants to; a future has `wait()`, as a Work has."""
    if async_op:
        return future
    future.wait()
    return None
