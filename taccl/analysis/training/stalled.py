"""`stall`: how long a step of training waits for its collectives on a machine, by plan and bucket."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taccl.analysis.training.recurrence import TrainingStep, Until, exposed_bound_us, run_step
from taccl.analysis.training.stall_report import Planned, Stalled
from taccl.analysis.training.times import BoundTable, Timer, TimeTable, bound_table
from taccl.analysis.training.tuning import BUCKET_STEP, FOR_BOUNDS, LEAST_BUCKET
from taccl.analysis.training.workload import DDP_BUCKET, NUMBER_BYTES, Bucket, BucketCall, Workload
from taccl.analysis.training.workload_file import load_workload
from taccl.errors import TacclError
from taccl.model import units
from taccl.support.arguments import number, word
from taccl.support.budget import Budget, check_effort, check_time_limit
from taccl.synthesis.inputs import choose_topology
from taccl.topologies import PhysicalTopology
from taccl.topologies.select import select
from taccl.topologies.without import without_helpers

AUTO = "auto"
_US_PER_HOUR = 3600e6
NOTES = (
    "optimistic: what collectives take from computing (SMs, memory, launches) is not counted",
    "links alone: protocols and launches take time of their own, but in NCCL's own estimates",
)


def stall(
    job: str | Path | Workload,
    *,
    topology: str | Path | PhysicalTopology,
    nodes: int | None = None,
    plan: str | Sequence[str] = "ring",
    bucket: str | int = DDP_BUCKET,
    first_bucket: str | int | None = None,
    gradients: str | None = None,
    batch: float | None = None,
    until: Until = "step",
    one_node: str | Path | PhysicalTopology | None = None,
    price: float | None = None,
    samples: int | None = None,
    time_limit: float = 60.0,
    effort: int | None = None,
) -> Stalled:
    """How long a step of training waits for its collectives.

    Parameters
    ----------
    job : a workload, its file (YAML, ASTRA-sim's text, a Kineto trace), or a transformer's shape.
    topology, nodes : as in `taccl.Request`.
    plan : `ring`, `tree` or another algorithm of libraries, `nccl`, `synthesize`; several with commas.
    bucket, first_bucket : bytes at which a bucket is closed; `auto`: what makes the shortest step.
    gradients : fp32, fp16 or bf16, of gradients that the job has in another form; None: as they are. Of a
        trace that does not say which it has, these.
    batch : samples of a GPU; times are in proportion. until : see `Until`.
    one_node : a machine of one node with as many GPUs, to compare with; default: `topology` if it is one.
    price, samples : dollars for an hour of one node, and samples of an epoch.
    time_limit : seconds for each collective of a plan, and for the bounds.
    effort : units of work of `synthesize`.

    Raises
    ------
    TacclError : the job, the machine, a plan or an option is wrong.
    """
    check_time_limit(time_limit, example="60")
    if effort is not None:
        check_effort(effort)
    if price is not None:
        number(price, "the price", TacclError, least=0.0, most=1e9)
    if samples is not None:
        number(samples, "samples", TacclError, least=1, most=1e15)
    word(until, "until", ("step", "next-forward"), TacclError)
    workload = _workload(job, gradients, batch)
    machine = without_helpers(choose_topology(topology, nodes=nodes, executor=False))
    alone = None if one_node is None else without_helpers(choose_topology(one_node, executor=False))
    if alone is not None and (alone.num_nodes > 1 or alone.num_members != machine.num_members):
        raise TacclError(
            f"{alone.name} is not one node with {machine.num_members} GPUs", hint="leave one_node out"
        )
    if machine.num_members % workload.group:
        raise TacclError(f"{machine.num_members} GPUs are no whole number of groups of {workload.group}")
    words = [each.strip() for each in plan.split(",")] if isinstance(plan, str) else plan
    names = list(dict.fromkeys(words))
    sizes = _bucket_sizes(workload, bucket)
    first = None if first_bucket is None else units.parse_size(first_bucket)
    planned = []
    for name in names:
        fastest = _planned(workload, machine, name, (sizes, first), until, (time_limit, effort))
        alone_us = None
        if alone is not None:
            same = ((fastest.bucket_bytes,), first)
            alone_us = _planned(workload, alone, name, same, until, (time_limit, effort)).step.step_us
        elif machine.num_nodes == 1:
            alone_us = fastest.step.step_us
        cost = _cost_of_epoch(fastest.step.step_us, workload, machine, price, samples)
        planned.append(Planned(name, fastest.bucket_bytes, fastest.step, fastest.curve, alone_us, cost))
    bound_us = _exposed_bound_us(workload, machine, until, Budget(FOR_BOUNDS * time_limit))
    return Stalled(workload, machine, tuple(planned), bound_us, _notes(workload))


def _workload(job: str | Path | Workload, gradients: str | None, batch: float | None) -> Workload:
    workload = load_workload(job, gradients)
    if batch is not None:
        workload = workload.with_batch(batch)
    if gradients is not None:
        workload = workload.with_gradients(
            NUMBER_BYTES[word(gradients, "gradients", tuple(NUMBER_BYTES), TacclError)]
        )
    return workload


def _notes(workload: Workload) -> tuple[str, ...]:
    own = (*workload.notes, *NOTES)
    if workload.group == 1:
        return own
    return (*own, "groups of GPUs that sum at the same time do not slow each other here")


def _bucket_sizes(workload: Workload, bucket: str | int) -> tuple[int, ...]:
    if bucket != AUTO:
        return (max(1, units.parse_size(bucket)),)
    sizes, size = [], LEAST_BUCKET
    while size < workload.gradient_bytes:
        sizes.append(size)
        size *= BUCKET_STEP
    return (*sizes, max(1, workload.gradient_bytes))


def _groups(workload: Workload, machine: PhysicalTopology) -> tuple[PhysicalTopology, PhysicalTopology]:
    """The GPUs that sum gradients, and those that share a copy of the model: the first of each."""
    if workload.group == 1:
        return machine, machine
    ranks = range(machine.num_members)
    return select(machine, ranks[:: workload.group]), select(machine, ranks[: workload.group])


def _planned(
    workload: Workload,
    machine: PhysicalTopology,
    plan: str,
    buckets: tuple[Sequence[int], int | None],
    until: Until,
    limits: tuple[float, int | None],
) -> Planned:
    """The step by one plan in the best of some sizes of buckets."""
    summing, sharing = _groups(workload, machine)
    sizes, first = buckets
    cut = {size: workload.buckets(size, first) for size in sizes}
    summed = {each.num_bytes for every in cut.values() for each in every}
    gradients = Timer(summing, plan, *limits).table("allreduce", summed) if summed else None
    calls = _call_times(workload, Timer(sharing, plan, *limits))
    steps = {size: _step(workload, cut[size], gradients, calls, until) for size in sizes}
    best = min(sizes, key=lambda size: steps[size].step_us)
    if steps[best].step_us <= 0:
        raise TacclError(f"a step of {workload.name} takes no time, so no part of it is a stall")
    curve = tuple((size, steps[size].step_us) for size in sizes) if len(sizes) > 1 else ()
    return Planned(plan, best, steps[best], curve)


def _call_times(workload: Workload, timer: Timer) -> dict[str, TimeTable]:
    return {name: timer.table(name, sizes) for name, sizes in workload.sizes_called.items()}


def _step(
    workload: Workload,
    buckets: Sequence[Bucket],
    gradients: TimeTable | BoundTable | None,
    calls: dict[str, TimeTable],
    until: Until,
) -> TrainingStep:
    def call_us(call: BucketCall) -> float:
        return calls[call.collective].at(call.num_bytes)

    def bucket_us(num_bytes: int) -> float:
        return 0.0 if gradients is None else gradients.at(num_bytes)

    return run_step(workload, buckets, bucket_us, call_us, until)


def _exposed_bound_us(workload: Workload, machine: PhysicalTopology, until: Until, budget: Budget) -> float:
    summing, sharing = _groups(workload, machine)
    of_calls = {
        name: bound_table(sharing, name, sizes, budget.share(0.5))
        for name, sizes in workload.sizes_called.items()
    }
    last = next((layer.gradient_bytes for layer in workload.layers if layer.gradient_bytes), 0)
    sums = bound_table(summing, "allreduce", {last, workload.gradient_bytes}, budget) if last else None
    return exposed_bound_us(
        workload,
        lambda size: 0.0 if sums is None else sums.at(size),
        lambda call: of_calls[call.collective].at(call.num_bytes),
        until,
    )


def _cost_of_epoch(
    step_us: float, workload: Workload, machine: PhysicalTopology, price: float | None, samples: int | None
) -> float | None:
    """Dollars of as many steps as an epoch has."""
    if price is None or samples is None:
        return None
    copies = machine.num_members / workload.group
    steps = samples / (workload.batch * copies)
    return steps * step_us / _US_PER_HOUR * price * machine.num_nodes
