"""What every module that `taccl deploy` writes does; it is copied as it stands, with the rows of its plans.

It imports MSCCL++ (v0.9 or newer) and the standard library, and nothing of `taccl`.
"""

from __future__ import annotations

import hashlib
import os
import warnings
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


def register(rank: int | None = None, world_size: int | None = None) -> dict[str, Any]:
    """Load the plans for this many ranks, and have `select` choose among them.

    Call it once in each process, before the communicator is made.

    Parameters
    ----------
    rank, world_size : of this process. Default: what torchrun says.

    Returns
    -------
    The algorithms by name, for calls of `execute`.
    """
    import mscclpp
    from mscclpp import ext

    rank = int(os.environ["RANK"]) if rank is None else rank
    world_size = int(os.environ["WORLD_SIZE"]) if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size}")
    mine = [plan for plan in PLANS if plan.ranks == world_size]
    if not mine:
        known = ", ".join(sorted({str(plan.ranks) for plan in PLANS}))
        warnings.warn(f"these plans are for {known} ranks, not {world_size}: none is used", stacklevel=2)
    builder = ext.AlgorithmCollectionBuilder()
    registered = {}
    for plan in mine:
        registered[plan.name] = mscclpp.Algorithm(
            plan.name,
            execution_plan=mscclpp.ExecutionPlan(_checked(plan), rank),
            constraint=mscclpp.Algorithm.Constraint(plan.ranks, NO_NODE),
        )
        builder.add_algorithm_builder(registered[plan.name])

    def selector(algorithms: Any, request: Any) -> Any:
        # A plan was loaded for this rank; in a communicator of another order it would be another's part.
        return select(algorithms, request) if request.rank == rank else None

    builder.set_algorithm_selector(selector)
    return registered


def select(algorithms: Any, request: Any) -> Any:
    """The algorithm for a call: the best plan that fits it. None: MSCCL++ does what it does without plans."""
    plan = fitting(request)
    return None if plan is None else algorithms.get(request.collective, {}).get(plan.name)


def fitting(request: Any) -> Plan | None:
    """The best of the plans that fit a call, or None."""
    size = request.message_size
    if request.collective == "allgather":  # which tells the input
        size *= request.world_size
    for most, names in ORDER.get((request.collective, request.world_size), ()):
        if size <= most:
            plans = (plan for name in names for plan in PLANS if plan.name == name)
            return next((plan for plan in plans if fits(plan, request, size)), None)
    return None


def fits(plan: Plan, request: Any, size: int) -> bool:
    """Whether a plan is right for a call of this many bytes."""
    return (
        plan.collective == request.collective
        and plan.ranks == request.world_size
        and plan.ranks_per_node == request.n_ranks_per_node
        and plan.min_bytes <= size <= plan.max_bytes
        and size % plan.unit_bytes == 0
        and is_in_place(request) in plan.in_place
        and plan.root == root_of(request)
        and str(request.dtype).rpartition(".")[2] in DTYPES
        and all(
            pointer % VECTOR_BYTES == 0 and (not plan.whole_buffers or begins_allocation(pointer))
            for pointer in (request.input_buffer, request.output_buffer)
        )
    )


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


def begins_allocation(pointer: int) -> bool:
    """Whether an allocation on the GPU begins at an address, as the driver says."""
    import ctypes

    for library, name in (
        ("libcuda.so.1", "cuMemGetAddressRange_v2"),
        ("libamdhip64.so", "hipMemGetAddressRange"),
    ):
        try:
            ask = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        failed = ask(ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(pointer))
        return not failed and base.value == pointer
    return False


def _checked(plan: Plan) -> str:
    """The file of a plan, if it is the one that was verified: MSCCL++ itself would load any."""
    path = Path(__file__).resolve().parent / plan.file
    if hashlib.sha256(path.read_bytes()).hexdigest() != plan.sha256:
        raise RuntimeError(f"{path} is not the file that was verified: run taccl deploy again")
    return str(path)
