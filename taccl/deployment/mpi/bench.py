"""Plans under mpirun measured next to the MPI library's own collectives, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.deployment.jobs.benched import Benched, Stopwatch, buffer_elements, cases
from taccl.deployment.jobs.plans import JobPlan, JobPlans
from taccl.deployment.jobs.steps import run_steps, steps_of
from taccl.deployment.mpi.messages import messages_of
from taccl.deployment.mpi.world import World

_Array = NDArray[Any]
_Call = Callable[[_Array, _Array], _Array]
#: Called in one buffer, as in `taccl.torch.bench`.
_IN_PLACE = ("allreduce", "broadcast")


def bench(
    plans: JobPlans, sizes: Sequence[int], world: World, *, dtype: str, warmup: int, iterations: int
) -> Iterator[Benched]:
    """Measure every plan at every size that takes it; all processes call this.

    Parameters
    ----------
    sizes : bytes, as nccl-tests counts them; rounded down to whole elements of whole chunks.
    """

    def slowest(times: list[float]) -> list[float]:
        found = np.array(times)
        world.comm.Allreduce(world.mpi.IN_PLACE, found, world.mpi.MAX)
        return list(found.tolist())

    watch = Stopwatch(world.comm.Barrier, slowest, lambda: None, warmup, iterations)
    item = np.dtype(dtype).itemsize
    for plan, elements in cases(plans, sizes, item, lambda plan: plan.rounds(in_place=False).chunks):
        inputs, outputs = buffer_elements(plan.collective, elements, world.size)
        given = np.random.default_rng(world.rank).integers(-8, 9, inputs).astype(dtype)
        fresh = partial(_fresh, given, outputs)
        (inner_us, wanted), (plan_us, found) = (
            watch.median_us(call, fresh) for call in (_inner(plan, world), _planned(plan, elements, world))
        )
        wrong = world.comm.allreduce(int((wanted != found).sum()))
        times = inner_us, plan_us, wrong
        yield Benched(plan.name, plan.collective, world.size, elements * item, elements, dtype, *times)


def _fresh(given: _Array, outputs: int) -> tuple[_Array, _Array]:
    return np.zeros(outputs, given.dtype), given.copy()


def _planned(plan: JobPlan, elements: int, world: World) -> _Call:
    """The rounds of this process's rank, with scratch of its own."""
    in_place = plan.collective in _IN_PLACE
    rounds = plan.rounds(in_place=in_place)
    steps, chunk = steps_of(rounds, world.rank), elements // rounds.chunks
    exchange = messages_of(world)

    def call(output: _Array, given: _Array) -> _Array:
        target = given if in_place else output
        scratch = np.empty(steps.scratch * chunk, given.dtype)
        buffers = given, target, scratch
        run_steps(steps, buffers, chunk, np.add, exchange, as_needed=plan.how.pipelined)
        return target

    return call


def _inner(plan: JobPlan, world: World) -> _Call:
    """MPI's own collective."""
    comm, here, root = world.comm, world.mpi.IN_PLACE, plan.root or 0

    def of_two(collective: Callable[[_Array, _Array], Any]) -> _Call:
        def call(output: _Array, given: _Array) -> _Array:
            collective(given, output)
            return output

        return call

    def of_one(collective: Callable[[_Array], Any]) -> _Call:
        def call(output: _Array, given: _Array) -> _Array:
            collective(given)
            return given

        return call

    calls = {
        "allreduce": of_one(lambda buffer: comm.Allreduce(here, buffer)),
        "broadcast": of_one(lambda buffer: comm.Bcast(buffer, root)),
        "allgather": of_two(comm.Allgather),
        "reducescatter": of_two(comm.Reduce_scatter_block),
        "alltoall": of_two(comm.Alltoall),
    }
    return calls[plan.collective]
