"""A process group that DDP and FSDP use as any other, and that takes plans where it has them.

Everything that no plan is for, and every collective that is not overridden here, is the inner backend's: gloo
on the CPU, NCCL (or RCCL) on GPUs. Functional collectives reach gloo with Python's lock held, unless they are
overridden, and gloo (2.13) may need that lock to throw away what it has done: so those are, too.
"""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from taccl.deployment.jobs.plans import JobPlans, read_plans
from taccl.errors import TacclError
from taccl.torch.messages import messages_of
from taccl.torch.planned import Planned, check_alike

c10d: Any = torch._C._distributed_c10d
#: What a job's environment names the plans by, for `init_process_group("taccl")`.
VARIABLE = "TACCL_PLANS"
_NAME = "taccl"
_TYPE = dist.ProcessGroup.BackendType


class PlannedGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group with plans; `counts`: calls by (collective, name of the plan, or `inner`)."""

    def __init__(
        self, store: Any, rank: int, size: int, timeout: datetime.timedelta, plans: JobPlans
    ) -> None:
        super().__init__(rank, size)
        self._inner: dict[str, Any] = {}
        self._add_inner("cpu", _TYPE.GLOO, c10d.ProcessGroupGloo(_within(store, "cpu"), rank, size, timeout))
        if torch.cuda.is_available() and dist.is_nccl_available():
            options = c10d.ProcessGroupNCCL.Options()
            options._timeout = timeout
            made = c10d.ProcessGroupNCCL(_within(store, "cuda"), rank, size, options)
            self._add_inner("cuda", _TYPE.NCCL, made)
        self._set_default_backend(_TYPE.GLOO)
        store.set(f"plans/{rank}", plans.digest)
        check_alike([store.get(f"plans/{each}").decode() for each in range(size)])
        inner = self._inner  # the function below must not refer to self: see `Planned`
        self._planned = Planned(plans, rank, size, lambda device: messages_of(inner[device.type]))

    def _add_inner(self, device: str, kind: Any, backend: Any) -> None:
        backend._set_sequence_number_for_group()
        self._register_backend(torch.device(device), kind, backend)
        self._inner[device] = backend

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """What ran where."""
        return self._planned.counts

    def getBackendName(self) -> str:  # noqa: N802 - the name that torch asks for
        """What torch prints."""
        return _NAME

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """By a plan, if one takes the call."""
        tensors, op = _list(tensors), _op(opts)
        work = self._work("allreduce", tensors, tensors, op=op)
        return super().allreduce(tensors, _options(opts, c10d.AllreduceOptions)) if work is None else work

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """By a plan, if one takes the call."""
        tensors, opts = _list(tensors), _options(opts, c10d.BroadcastOptions)
        work = self._work("broadcast", tensors, tensors, root=opts.rootRank)
        return super().broadcast(tensors, opts) if work is None else work

    def all_gather_single(self, output: Any, inputs: Any, opts: Any = None, **more: Any) -> Any:
        """By a plan, if one takes the call."""
        work = self._work("allgather", [output], [inputs])
        return (
            self._of(inputs)._allgather_base(output, inputs, _options(opts, c10d.AllgatherOptions))
            if work is None
            else work
        )

    def reduce_scatter_single(self, output: Any, inputs: Any, opts: Any = None, **more: Any) -> Any:
        """By a plan, if one takes the call."""
        opts = _options(opts, c10d.ReduceScatterOptions)
        work = self._work("reducescatter", [output], [inputs], op=opts.reduceOp)
        return self._of(inputs)._reduce_scatter_base(output, inputs, opts) if work is None else work

    def all_to_all_single(
        self, output: Any, inputs: Any, outputs_split: Any = None, inputs_split: Any = None, opts: Any = None
    ) -> Any:
        """By a plan, if one takes the call and all parts are equal."""
        work = None
        if not outputs_split and not inputs_split:
            work = self._work("alltoall", [output], [inputs])
        if work is not None:
            return work
        opts = _options(opts, c10d.AllToAllOptions)
        return self._of(inputs).alltoall_base(output, inputs, outputs_split or [], inputs_split or [], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """One after the other; functional collectives call this for a single tensor, too."""
        return _last(self.all_gather_single(*pair) for pair in zip(outputs, inputs, strict=True))

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """One after the other, as above."""
        return _last(self.reduce_scatter_single(*pair, opts) for pair in zip(outputs, inputs, strict=True))

    #: What older releases of torch call.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def shutdown(self) -> None:
        """End what was begun."""
        self._planned.close()
        for backend in self._inner.values():
            backend.shutdown()

    def _of(self, tensor: torch.Tensor) -> Any:
        return self._inner[tensor.device.type]

    def _work(self, collective: str, outputs: list[Any], inputs: list[Any], **how: Any) -> Any | None:
        if len(inputs) != 1:
            return None
        future = self._planned.start(collective, outputs[0], inputs[0], **how)
        return None if future is None else c10d._create_work_from_future(future)


def use(plans: str | Path | Iterable[str | Path]) -> None:
    """The plans of groups that are made with the backend `taccl` from now on, the default group too.

    They are named in this process's environment (`TACCL_PLANS`), as a launcher may do.

    Raises
    ------
    TacclError : as `load`.
    """
    paths = [plans] if isinstance(plans, (str, Path)) else list(plans)
    read_plans(plans if isinstance(plans, (str, Path)) else paths)
    os.environ[VARIABLE] = os.pathsep.join(str(Path(path).absolute()) for path in paths)


def new_group(
    plans: str | Path | Iterable[str | Path],
    ranks: list[int] | None = None,
    timeout: datetime.timedelta | None = None,
    *,
    pipelined: bool = False,
) -> dist.ProcessGroup:
    """A process group with plans, as `torch.distributed.new_group`: every rank of the job calls it.

    Parameters
    ----------
    plans : the folder that `taccl bundle` wrote, a file, or several files. ranks : None: all.
    pipelined : more rounds, in which links of unlike speeds are busy at once; else the fewest.

    Raises
    ------
    TacclError : a file cannot be run, is for another number of ranks, or differs from rank to rank.
    """
    read = read_plans(plans, pipelined=pipelined)
    read.check_ranks(dist.get_world_size() if ranks is None else len(ranks))
    return dist.new_group(ranks, timeout=timeout, backend=_NAME, pg_options=read)


def _make(setting: Any, plans: JobPlans | None) -> PlannedGroup:
    """As torch calls it, with what `new_group` passes on; without that, by the environment."""
    if plans is None:
        where = os.environ.get(VARIABLE)
        if not where:
            raise TacclError(
                "the backend taccl has no plans", hint=f"taccl.torch.use(BUNDLE), or {VARIABLE}=BUNDLE"
            )
        plans = read_plans(where.split(os.pathsep) if os.pathsep in where else where)
    return PlannedGroup(setting.store, setting.group_rank, setting.group_size, setting.timeout, plans)


def _within(store: Any, name: str) -> Any:
    return dist.PrefixStore(f"taccl-{name}", store)


def _last(works: Iterator[Any]) -> Any:
    """The last of some works, when all before it have ended."""
    last = next(works)
    for work in works:
        last.wait()
        last = work
    return last


def _list(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _options(opts: Any, kind: Any) -> Any:
    return kind() if opts is None else opts


def _op(opts: Any) -> Any:
    """The reduction of some options, or a reduction itself."""
    return getattr(opts, "reduceOp", opts if opts is not None else dist.ReduceOp.SUM)


dist.Backend.register_backend(_NAME, _make, extended_api=True, devices=["cpu", "cuda"])
