"""Functions as in `jax.lax`, for use inside `shard_map`, each by a plan where there is one for the call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, reduce
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from taccl.deployment.jobs.plans import JobPlan, JobPlans, read_plans
from taccl.deployment.jobs.waves import Wave, Waves, waves_of
from taccl.errors import TacclError

_REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": jnp.add,
    "prod": jnp.multiply,
    "max": jnp.maximum,
    "min": jnp.minimum,
}


def load(plans: str | Path | Iterable[str | Path]) -> Collectives:
    """Plans, read and verified.

    Parameters
    ----------
    plans : the folder that `taccl bundle` wrote, a file, or several files.

    Raises
    ------
    TacclError : a file cannot be run.
    """
    return Collectives(read_plans(plans))


class Collectives:
    """Collectives of whatever axis they are called with, if the plans are for as many devices."""

    def __init__(self, plans: JobPlans) -> None:
        self._plans = plans
        self._waves = cache(lambda plan: waves_of(plan.out_of_place))

    def all_reduce(self, x: jax.Array, axis_name: str, op: str = "sum") -> jax.Array:
        """The sum (prod, max, min) over the axis, as `lax.psum`."""
        if op not in _REDUCE:
            raise TacclError(f"unknown reduction {op!r}", hint=f"one of {', '.join(_REDUCE)}")
        plan = self._plan("allreduce", x, axis_name, x.size)
        if plan is None:
            if op == "prod":
                return jnp.prod(lax.all_gather(x, axis_name), axis=0)
            return {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}[op](x, axis_name)
        return self._run(plan, x, axis_name, (1, 1), x.shape, op)

    def all_gather(self, x: jax.Array, axis_name: str) -> jax.Array:
        """All parts behind each other along the first dimension, as `lax.all_gather(.., tiled=True)`."""
        size = lax.axis_size(axis_name)
        plan = self._plan("allgather", x, axis_name, size * x.size)
        if plan is None:
            return lax.all_gather(x, axis_name, tiled=True)
        return self._run(plan, x, axis_name, (1, size), (size * x.shape[0], *x.shape[1:]))

    def reduce_scatter(self, x: jax.Array, axis_name: str) -> jax.Array:
        """A part of the sum each, of the first dimension, as `lax.psum_scatter(.., tiled=True)`."""
        size = lax.axis_size(axis_name)
        plan = None if x.shape[0] % size else self._plan("reducescatter", x, axis_name, x.size)
        if plan is None:
            return lax.psum_scatter(x, axis_name, tiled=True)
        return self._run(plan, x, axis_name, (size, 1), (x.shape[0] // size, *x.shape[1:]))

    def all_to_all(self, x: jax.Array, axis_name: str) -> jax.Array:
        """Parts of the first dimension change places, as `lax.all_to_all(x, axis, 0, 0, tiled=True)`."""
        size = lax.axis_size(axis_name)
        plan = None if x.shape[0] % size else self._plan("alltoall", x, axis_name, x.size)
        if plan is None:
            return lax.all_to_all(x, axis_name, 0, 0, tiled=True)
        return self._run(plan, x, axis_name, (size, size), x.shape)

    def _plan(self, collective: str, x: jax.Array, axis_name: str, elements: int) -> JobPlan | None:
        if not x.size or lax.axis_size(axis_name) == 1:
            return None
        plan = self._plans.plan_for(collective, elements * x.dtype.itemsize)
        if plan is not None and plan.num_ranks != lax.axis_size(axis_name):
            raise TacclError(
                f"{plan.name} is for {plan.num_ranks} devices, and axis {axis_name!r} has "
                f"{lax.axis_size(axis_name)}"
            )
        return plan

    def _run(
        self,
        plan: JobPlan,
        x: jax.Array,
        axis_name: str,
        parts: tuple[int, int],
        shape: tuple[int, ...],
        op: str = "sum",
    ) -> jax.Array:
        """One call: parts of the input filled up to whole chunks, the waves, parts of the output cut back."""
        waves: Waves = self._waves(plan)
        per_part = max(1, waves.inputs // parts[0], waves.outputs // parts[1])
        length = x.size // parts[0]
        chunk = -(-length // per_part)
        rows = jnp.pad(x.reshape(parts[0], length), ((0, 0), (0, chunk * per_part - length)))
        rest = jnp.zeros((waves.total - waves.inputs) * chunk, x.dtype)
        memory = jnp.concatenate([rows.reshape(-1), rest])
        memory = _carried_out(waves, memory, chunk, axis_name, _REDUCE[op])
        output = memory[waves.inputs * chunk : (waves.inputs + waves.outputs) * chunk]
        return output.reshape(parts[1], -1)[:, :length].reshape(shape)


def _carried_out(
    waves: Waves, memory: jax.Array, chunk: int, axis_name: str, add: Callable[[Any, Any], Any]
) -> jax.Array:
    """The memory of this device after all waves."""
    rank = lax.axis_index(axis_name)

    def read(places: tuple[int, ...], count: int) -> jax.Array:
        return lax.dynamic_slice(memory, (jnp.array(places)[rank] * chunk,), (count * chunk,))

    for step in waves.steps:
        if isinstance(step, Wave):
            new = lax.ppermute(read(step.reads, step.count), axis_name, step.pairs)
            takes_part = step.receives
        else:
            new = reduce(add, [read(places, step.count) for places in step.terms])
            takes_part = step.takes_part
        kept = jnp.where(jnp.array(takes_part)[rank], new, read(step.writes, step.count))
        memory = lax.dynamic_update_slice(memory, kept, (jnp.array(step.writes)[rank] * chunk,))
    return memory
