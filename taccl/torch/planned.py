"""Calls of torch.distributed by plans: which takes a call, its buffers, and when it runs.

On the CPU, calls run one after the other on a thread of their own, so that a caller may go on; on a GPU on a
stream of their own, which waits for the caller's and which the caller's waits for. A rank never runs two at
once, so messages between two ranks have one order on both.
"""

from __future__ import annotations

import atexit
from collections import Counter
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any
from weakref import finalize, ref

import torch
import torch.distributed as dist

from taccl.deployment.jobs.plans import JobPlan, JobPlans
from taccl.deployment.jobs.steps import Exchange, run_steps, steps_of
from taccl.errors import TacclError

#: Collectives whose input, or output, is a part for each rank; the other is one part, or as many.
_PARTED_INPUT = ("reducescatter", "alltoall", "scatter")
_PARTED_OUTPUT = ("allgather", "alltoall", "gather")
#: How long the end of a process waits for calls that were begun.
_PATIENCE_S = 5.0
_SUMS = ("allreduce", "reducescatter", "reduce")


class Planned:
    """The plans of a group, and what became of its calls.

    Parameters
    ----------
    plans : of this many ranks, and equal on all of them.
    rank, size : in the group. exchange_for : what carries out messages of tensors on a device.
    """

    def __init__(
        self, plans: JobPlans, rank: int, size: int, exchange_for: Callable[[torch.device], Exchange]
    ) -> None:
        plans.check_ranks(size)
        self.plans, self.rank, self.size, self.exchange_for = plans, rank, size, exchange_for
        #: Calls by (collective, who ran them): the name of a plan, or `inner`.
        self.counts: Counter[tuple[str, str]] = Counter()
        self._worker = _Worker()
        finalize(self, self._worker.stop).atexit = False
        # No cycle of references may lead back here: it would keep the backend alive until the interpreter
        # ends, and gloo's threads, which may need the interpreter's lock, would then abort the process.
        self._steps = cache(lambda plan, in_place: steps_of(plan.rounds(in_place=in_place), rank))

    def start(
        self,
        collective: str,
        output: torch.Tensor,
        inputs: torch.Tensor,
        *,
        op: object = None,
        root: int | None = None,
    ) -> torch.futures.Future[Any] | None:
        """Begin a call; None: no plan takes it, and it is the inner backend's.

        What decides is the same on all ranks: collective, bytes, type, reduction, root.
        """
        plan = self._plan(collective, output, inputs, root)
        reduce = reduction_of(op, inputs.dtype) if collective in _SUMS else None
        if plan is None or (reduce is None and collective in _SUMS):
            self.counts[collective, "inner"] += 1
            return None
        self.counts[collective, plan.name] += 1
        is_mean = op == dist.ReduceOp.AVG
        future: torch.futures.Future[Any]
        if inputs.is_cuda:
            return self._on_a_stream(plan, output, inputs, reduce, is_mean)
        future = torch.futures.Future()

        def work() -> None:
            try:
                self._run(plan, output, inputs, reduce, is_mean)
                future.set_result([output])
            except Exception as error:  # whoever waits for the future gets it
                future.set_exception(error)

        self._worker.submit(work)
        return future

    def close(self) -> None:
        """Wait for what was begun, and begin nothing more."""
        self._worker.close()

    def _plan(
        self, collective: str, output: torch.Tensor, inputs: torch.Tensor, root: int | None
    ) -> JobPlan | None:
        if self.size == 1 or not inputs.numel() or inputs.is_sparse or inputs.dtype == torch.bool:
            return None
        if not self._fits(collective, output, inputs):
            return None  # the inner backend reports the error
        size_bytes = max(inputs.numel(), output.numel()) * inputs.element_size()
        return self.plans.plan_for(collective, size_bytes, root)

    def _parts(self, collective: str) -> tuple[int, int]:
        """Into how many parts the input and the output are cut, one for each rank or one in all."""
        return (
            self.size if collective in _PARTED_INPUT else 1,
            self.size if collective in _PARTED_OUTPUT else 1,
        )

    def _fits(self, collective: str, output: torch.Tensor, inputs: torch.Tensor) -> bool:
        """Whether input and output have parts of the same size, the same type and the same device."""
        inward, outward = self._parts(collective)
        is_even = inputs.numel() % inward == 0 and inputs.numel() // inward * outward == output.numel()
        return bool(is_even and inputs.dtype == output.dtype and inputs.device == output.device)

    def _on_a_stream(
        self, plan: JobPlan, output: torch.Tensor, inputs: torch.Tensor, reduce: Reduce | None, is_mean: bool
    ) -> torch.futures.Future[Any]:
        device = inputs.device
        stream = _stream_of(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        future: torch.futures.Future[Any] = torch.futures.Future(devices=[device])
        with torch.cuda.stream(stream):
            for tensor in (inputs, output):
                tensor.record_stream(stream)
            self._run(plan, output, inputs, reduce, is_mean)
            future.set_result([output])
        return future

    def _run(
        self, plan: JobPlan, output: torch.Tensor, inputs: torch.Tensor, reduce: Reduce | None, is_mean: bool
    ) -> None:
        """One call, from the caller's buffers or copies of them to the caller's output."""
        collective = plan.collective
        parts = self._parts(collective)
        steps = self._steps(plan, False)
        per_part = max(1, steps.inputs // parts[0], steps.outputs // parts[1])
        length = max(inputs.numel() // parts[0], output.numel() // parts[1])
        chunk = -(-length // per_part)
        is_whole = chunk * per_part == length and output.is_contiguous()
        in_place = is_whole and inputs.is_contiguous() and self._is_in_place(collective, output, inputs)
        if in_place:
            steps = self._steps(plan, True)
        source = _padded(inputs, parts[0], chunk * per_part, fits=is_whole and inputs.is_contiguous())
        if not in_place and source.data_ptr() == inputs.data_ptr() and _overlap(output, inputs):
            source = source.clone()
        target = output.view(-1) if is_whole else output.new_zeros(steps.outputs * chunk)
        scratch = inputs.new_empty(steps.scratch * chunk)
        exchange = self.exchange_for(inputs.device)
        buffers = source, target, scratch
        run_steps(steps, buffers, chunk, reduce, exchange, as_needed=plan.how.pipelined)
        if not is_whole:
            rows = target.view(parts[1], -1)[:, : output.numel() // parts[1]]
            output.copy_(rows.reshape(output.shape))
        if is_mean:
            output.div_(self.size)

    def _is_in_place(self, collective: str, output: torch.Tensor, inputs: torch.Tensor) -> bool:
        """Whether the caller's two buffers are one, as NCCL wants them for a call in place."""
        part = min(inputs.numel(), output.numel()) * inputs.element_size()
        shift = {"allgather": self.rank * part, "reducescatter": -self.rank * part}.get(collective, 0)
        return bool(inputs.data_ptr() == output.data_ptr() + shift)


class _Worker:
    """Does one thing after the other, on a thread that the end of the process waits for a moment only.

    A call whose peers are gone ends with the backend's timeout, which may be half an hour. One that is nearly
    done has to end before the interpreter does, which would end its thread inside of the backend.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="taccl", daemon=True)
        self._thread.start()
        atexit.register(_end, ref(self))

    def submit(self, work: Callable[[], None]) -> None:
        """Do it when all before it is done."""
        self._waiting.put(work)

    def close(self, patience_s: float | None = None) -> None:
        """Return when all is done, or after so long."""
        self.stop()
        self._thread.join(patience_s)

    def stop(self) -> None:
        """Let the thread end when all is done."""
        self._waiting.put(None)

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            work()
            del work  # otherwise its buffers and the backend stay alive until the next call


def _end(worker: ref[_Worker]) -> None:
    alive = worker()
    if alive is not None:
        alive.close(_PATIENCE_S)


def _padded(tensor: torch.Tensor, parts: int, length: int, *, fits: bool) -> torch.Tensor:
    """A tensor of some parts, flat, with each part filled up with zeros; itself where it is so already."""
    if fits:
        return tensor.view(-1)
    made = tensor.new_zeros(parts, length)
    made[:, : tensor.numel() // parts] = tensor.reshape(parts, -1)
    return made.view(-1)


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    first = max(a.data_ptr(), b.data_ptr())
    ends = (each.data_ptr() + each.numel() * each.element_size() for each in (a, b))
    return bool(first < min(ends))


@cache
def _stream_of(device: torch.device) -> Any:
    return torch.cuda.Stream(device)


def check_alike(digests: list[str]) -> None:
    """Refuse plans that are not the same on all ranks, which would decide unlike and hang.

    Raises
    ------
    TacclError : they are not.
    """
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise TacclError(
            f"rank {others[0]} has other plans than rank 0",
            hint="give all ranks the same files, in the same order",
        )


#: Of two tensors, with `out=`, which may be one of them.
Reduce = Callable[..., torch.Tensor]

_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_WHOLE = {torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64}
_COMPLEX = {torch.complex64, torch.complex128}

_REDUCTIONS = (
    (dist.ReduceOp.SUM, _FLOATS | _WHOLE | _COMPLEX, torch.add),
    (dist.ReduceOp.AVG, _FLOATS, torch.add),  # and divided in the end
    (dist.ReduceOp.PRODUCT, _FLOATS | _WHOLE, torch.mul),
    (dist.ReduceOp.MIN, _FLOATS | _WHOLE, torch.minimum),
    (dist.ReduceOp.MAX, _FLOATS | _WHOLE, torch.maximum),
    (dist.ReduceOp.BAND, _WHOLE, torch.bitwise_and),
    (dist.ReduceOp.BOR, _WHOLE, torch.bitwise_or),
    (dist.ReduceOp.BXOR, _WHOLE, torch.bitwise_xor),
)


def reduction_of(op: object, dtype: torch.dtype) -> Reduce | None:
    """The function for a reduction of a type; None: only the inner backend knows it (PREMUL_SUM)."""
    return next((reduce for known, types, reduce in _REDUCTIONS if op == known and dtype in types), None)
