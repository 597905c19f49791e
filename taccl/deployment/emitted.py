"""What every module that `taccl deploy` writes does; it is copied as it stands, with the rows of its plans.

It imports MSCCL++ (v0.9 or newer) and the standard library, and nothing of `taccl`.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Plan(NamedTuple):
    """A plan, and the calls that it is right for.

    Sizes are in bytes, as MSCCL++ counts them: of an AllGather the output, else the input.

    Parameters
    ----------
    name : as its file says, and so as MSCCL++ knows it.
    file, sha256 : relative to this module; what was verified.
    in_place : the calls that it serves: True for those in place, False for those out of place.
    min_bytes, max_bytes, unit_bytes : from, to (both included), in whole multiples.
    root : of a rooted collective.
    whole_buffers : whether buffers must begin their allocation: ports read what they send from there.
    packets : whether it moves packets, which carry the number of plans that a process has run.
    """

    name: str
    file: str
    sha256: str
    collective: str
    ranks: int
    ranks_per_node: int
    in_place: tuple[bool, ...]
    min_bytes: int
    max_bytes: int
    unit_bytes: int
    root: int | None
    whole_buffers: bool
    packets: bool


class Job(NamedTuple):
    """What decides which plans are taken: the same on all ranks, but for `rank`.

    Parameters
    ----------
    rank : of this process in the job.
    plans : those that calls may take, by name.
    groups : the ranks of communicators over several nodes, each in its order.
    """

    rank: int
    plans: dict[str, Plan]
    groups: tuple[tuple[int, ...], ...]


PLANS: tuple[Plan, ...] = ()

#: By collective and ranks: up to this many bytes, these plans, the best first.
ORDER: dict[tuple[str, int], tuple[tuple[int, tuple[str, ...]], ...]] = {}

#: What MSCCL++ sums and copies; for other types it launches nothing, or says that it cannot.
DTYPES = ("float16", "float32", "bfloat16", "int32", "uint32")

#: No node has this many ranks, so MSCCL++'s own selection never takes one of these plans: it would ask
#: neither for whole chunks nor, rightly, whether a call is in place.
NO_NODE = -1

#: What the threads of a GPU load and store at once.
VECTOR_BYTES = 16


def register(
    rank: int | None = None,
    world_size: int | None = None,
    *,
    groups: Iterable[Iterable[int]] = (),
    whole_buffers: bool = False,
    packets: bool | None = None,
) -> dict[str, Any]:
    """Have calls take the plans that fit them, in communicators of any size.

    Call it once in each process, before the communicators are made; only `rank` differs between ranks:
    ranks that choose differently wait for each other forever.

    Parameters
    ----------
    rank, world_size : of this process in the job. Default: what torchrun says.
    groups : the ranks of those communicators over several nodes that are not the whole job, each in its
        order. No rank sees from a call who else is in it; those on one node are known by their number.
    whole_buffers : whether the buffers of all calls begin an allocation, on all ranks. Plans that need it
        are taken only then, and a call that breaks the promise raises an error.
    packets : whether plans with packets are taken. The members of a call must then have run as many plans as
        each other, those of their other communicators counted. Default: where all plans that may be taken
        are for as many ranks.

    Returns
    -------
    The plans of the whole job by name, for calls of `execute`.
    """
    import mscclpp
    from mscclpp import ext

    rank = int(os.environ["RANK"]) if rank is None else rank
    world_size = int(os.environ["WORLD_SIZE"]) if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size}")
    known = (tuple(range(world_size)), *(tuple(group) for group in groups))
    for group in known:
        if len(set(group)) != len(group) or not all(0 <= each < world_size for each in group):
            raise ValueError(f"group {group}: each of its ranks once, from 0 to {world_size - 1}")
    job = Job(rank, usable(known, whole_buffers, packets), known)
    paths = {name: _checked(plan) for name, plan in job.plans.items()}
    loaded: dict[tuple[str, int], Any] = {}

    def load(plan: Plan, place: int) -> Any:
        """A plan for one of its ranks, read once."""
        key = plan.name, place
        if key not in loaded:
            loaded[key] = mscclpp.Algorithm(
                plan.name,
                execution_plan=mscclpp.ExecutionPlan(paths[plan.name], place),
                constraint=mscclpp.Algorithm.Constraint(plan.ranks, NO_NODE),
            )
        return loaded[key]

    def selector(algorithms: Any, request: Any) -> Any:
        plan = fitting(request, job)
        if plan is None:
            return None  # MSCCL++ does what it does without plans
        if plan.whole_buffers:
            check_buffers(request)
        return load(plan, request.rank)._algorithm

    builder = ext.AlgorithmCollectionBuilder()
    whole = {name: load(plan, rank) for name, plan in job.plans.items() if plan.ranks == world_size}
    for algorithm in whole.values():
        builder.add_algorithm_builder(algorithm)
    builder.set_algorithm_selector(selector)
    return whole


def usable(groups: Sequence[tuple[int, ...]], whole_buffers: bool, packets: bool | None) -> dict[str, Plan]:
    """The plans that calls of a job may take, by name; of the others a warning says why not.

    Parameters
    ----------
    groups : the communicators that are known: the whole job comes first.
    """
    sizes, world_size = {len(group) for group in groups}, len(groups[0])
    mine = [
        plan
        for plan in PLANS
        if plan.ranks in sizes or (plan.ranks == plan.ranks_per_node and plan.ranks < world_size)
    ]
    if not mine:
        known = ", ".join(sorted({str(plan.ranks) for plan in PLANS}))
        _warn(f"these plans are for {known} ranks, and none of {world_size} can be this many: none is used")
    if not whole_buffers and any(plan.whole_buffers for plan in mine):
        names = ", ".join(plan.name for plan in mine if plan.whole_buffers)
        _warn(
            f"not taken: {names}; ports read buffers from where their allocation begins, so if all buffers "
            "begin one, on all ranks, say register(whole_buffers=True)"
        )
        mine = [plan for plan in mine if not plan.whole_buffers]
    if packets is None:
        packets = len({plan.ranks for plan in mine}) < 2
        if not packets and any(plan.packets for plan in mine):
            names = ", ".join(plan.name for plan in mine if plan.packets)
            _warn(
                f"not taken: {names}; packets carry the number of plans that a process has run: if the "
                "members of each call have run as many as each other, say register(packets=True)"
            )
    return {plan.name: plan for plan in mine if packets or not plan.packets}


def fitting(request: Any, job: Job) -> Plan | None:
    """The best of the plans that fit a call, or None."""
    size = request.message_size
    if request.collective == "allgather":  # which tells the input
        size *= request.world_size
    for most, names in ORDER.get((request.collective, request.world_size), ()):
        if size <= most:
            plans = (job.plans[name] for name in names if name in job.plans)
            return next((plan for plan in plans if fits(plan, request, size, job)), None)
    return None


def fits(plan: Plan, request: Any, size: int, job: Job) -> bool:
    """Whether a plan is right for a call of this many bytes, reported equivalent on all its ranks.

    Of the buffers that is their place in 16 bytes, which is that in the tensor: allocations begin at more.
    """
    return (
        plan.collective == request.collective
        and plan.ranks == request.world_size
        and plan.ranks_per_node == request.n_ranks_per_node
        and (plan.ranks == plan.ranks_per_node or is_known(request, job))
        and plan.min_bytes <= size <= plan.max_bytes
        and size % plan.unit_bytes == 0
        and is_in_place(request) in plan.in_place
        and plan.root == root_of(request)
        and str(request.dtype).rpartition(".")[2] in DTYPES
        and all(pointer % VECTOR_BYTES == 0 for pointer in (request.input_buffer, request.output_buffer))
    )


def is_known(request: Any, job: Job) -> bool:
    """Whether a call is of the whole job or of one of the groups that were named, in its order."""
    return any(len(group) == request.world_size and group[request.rank] == job.rank for group in job.groups)


def is_in_place(request: Any) -> bool:
    """Whether a call is in place, reported equivalent on all ranks.

    MSCCL++ itself says of a ReduceScatter in place that it is so on rank 0 only.
    """
    shift = 0
    if request.collective == "allgather":
        shift = request.rank * request.message_size
    elif request.collective == "reducescatter":
        shift = -request.rank * (request.message_size // request.world_size)
    return bool(request.input_buffer - request.output_buffer == shift)


def root_of(request: Any) -> int | None:
    """The root of a Broadcast, which a plan has once and for all; None for all other calls."""
    if request.collective != "broadcast":
        return None
    return next(iter((request.hints or {}).get("root", ())), -1)


def check_buffers(request: Any) -> None:
    """Raise a RuntimeError if a buffer of a call does not begin an allocation, as it was promised."""
    for name, pointer in (("input", request.input_buffer), ("output", request.output_buffer)):
        first = allocation_of(pointer)
        if first not in (None, pointer):
            raise RuntimeError(
                f"the {name} of {request.collective} begins {pointer - first} bytes into its allocation; "
                "with register(whole_buffers=True) all buffers begin one"
            )


def allocation_of(pointer: int) -> int | None:
    """Where the allocation on the GPU begins that has an address, as the driver says; None: it does not."""
    ask = driver()
    base, size = ctypes.c_void_p(), ctypes.c_size_t()
    if ask is None or ask(ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(pointer)):
        return None
    return base.value


@cache
def driver() -> Any:
    """The driver's function that knows allocations, looked up once; None: there is no driver."""
    for library, name in (
        ("libcuda.so.1", "cuMemGetAddressRange_v2"),
        ("libamdhip64.so", "hipMemGetAddressRange"),
    ):
        try:
            return getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
    return None


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def _checked(plan: Plan) -> str:
    """The file of a plan, if it is the one that was verified: MSCCL++ itself would load any."""
    path = Path(__file__).resolve().parent / plan.file
    if hashlib.sha256(path.read_bytes()).hexdigest() != plan.sha256:
        raise RuntimeError(f"{path} is not the file that was verified: run taccl deploy again")
    return str(path)
