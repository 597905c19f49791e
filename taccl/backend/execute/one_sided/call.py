"""A series of calls of a plan: how large its buffers are and where they lie.

Sizes are in bytes unless a name says elements. A chunk is a call's input divided by `input_chunks`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.backend.execute.call import Call, check_root, usual_bytes
from taccl.backend.execute.requested import RunRequested
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Buffer
from taccl.errors import CollectiveError, TacclError
from taccl.model.collective import Collective
from taccl.model.collectives import plain_name, rounding_notes
from taccl.support.arguments import shown, whole_number

#: Types that MSCCL++ sums and NumPy knows.
DTYPES = ("float32", "float16", "int32")
#: What a load of one thread moves; smaller cuts are addressed wrongly.
VECTOR = 16
_CHECKED = ("allreduce", "allgather", "reducescatter", "alltoall", "broadcast")
#: Calls in a row, if nobody says: enough for double scratch and for counters that do not return.
CALLS = 3
_MOST_CALLS = 10**6
#: With reuse_resources: the bytes that all scratch of a rank may hold, flags of packets not counted.
_RESERVE = 2**26


@dataclass(frozen=True, eq=False)
class PlanCall:
    """Calls of one size, one after another.

    Parameters
    ----------
    plan : what is called.
    requested : the first call, as NumPy's answer wants it described; sizes there are in elements.
    chunk : bytes of a chunk.
    calls : how many.
    """

    plan: ExecutionPlan
    requested: Call
    chunk: int
    calls: int

    def size(self, rank: int, buffer: Buffer) -> int:
        """Bytes of a buffer, as the plan declares it; of scratch, with the flags and halves that it has."""
        each = self.plan.ranks[rank]
        if buffer is Buffer.INPUT:
            return each.input_chunks * self.chunk
        if buffer is Buffer.OUTPUT:
            return each.output_chunks * self.chunk
        return self.half(rank) * (2 if self.plan.double_scratch else 1)

    def half(self, rank: int) -> int:
        """Bytes of scratch that one call uses."""
        flags = 2 if self.plan.moves_packets else 1
        return self.plan.ranks[rank].scratch_chunks * self.chunk * flags

    def start(self, rank: int, buffer: Buffer) -> int:
        """Where a buffer begins in the allocation that holds it, bytes."""
        if not self.requested.in_place or buffer is Buffer.SCRATCH:
            return 0
        shift = int(self.requested.in_place_shift[rank]) * self.requested.item_bytes
        return max(shift, 0) if buffer is Buffer.INPUT else max(-shift, 0)


def make_plan_call(plan: ExecutionPlan, requested: RunRequested) -> PlanCall:
    """The calls that are requested: in place or not as the plan says, if nobody else does.

    A size is rounded down to whole multiples of `buffer_alignment` for each chunk; without one it is near
    1 MB, or as near to it as the plan serves.

    Raises
    ------
    CollectiveError : the size or the collective does not fit the plan.
    TacclError : another parameter that makes no sense.
    """
    if requested.slots is not None or requested.piece_bytes is not None:
        raise TacclError("a plan has no connections, and so no slots and pieces", hint="leave them out")
    collective, root, seed, dtype = requested.collective, requested.root, requested.seed, requested.dtype
    size, calls = requested.size_bytes, CALLS if requested.calls is None else requested.calls
    whole_number(seed, "a seed", TacclError, least=0, most=2**63 - 1, hint="--seed 7")
    whole_number(calls, "a number of calls", TacclError, least=1, most=_MOST_CALLS, hint="--calls 3")
    _check_sum(dtype, requested.op)
    check_root(root, plan.num_ranks)
    name = plain_name(plan.collective if collective is None else collective.name)
    if collective is not None and name in _CHECKED:
        root, collective = collective.root if root is None else root, None
    if root is not None and name != "broadcast":
        raise CollectiveError(f"{name} has no root", hint="leave --root out")
    is_in_place = plan.in_place if requested.in_place is None else requested.in_place
    if is_in_place and name == "sendrecv":
        raise CollectiveError("sendrecv has no way to be called in place", hint="--out-of-place")
    _check_layout(plan, name, collective)
    message = plan.ranks[0].output_chunks if name == "allgather" else plan.ranks[0].input_chunks
    chunk = _chunk_bytes(plan, message, size)
    if plan.reuse_resources:
        _check_reserve(plan, chunk)
    item = np.dtype(dtype).itemsize
    inputs = np.array([rank.input_chunks for rank in plan.ranks], dtype=np.int64)
    outputs = np.array([rank.output_chunks for rank in plan.ranks], dtype=np.int64)
    ranks, elements = np.arange(plan.num_ranks), chunk // item
    if collective is None:
        shift = {"allgather": ranks * inputs, "reducescatter": -ranks * outputs}.get(name, 0 * ranks)
    else:
        shift = collective.in_place_shift * (message // collective.chunks_per_size)
    call = Call(
        num_ranks=plan.num_ranks,
        collective=name,
        custom=collective,
        dtype=dtype,
        op=requested.op,
        in_place=is_in_place,
        root=root,
        seed=seed,
        size_bytes=chunk * message,
        chunk=elements,
        piece=elements,
        chunks_per_piece=1,
        slots=1,
        input_size=inputs * elements,
        output_size=outputs * elements,
        in_place_shift=shift * elements,
        notes=() if size is None else tuple(rounding_notes(size, chunk, message)),
    )
    return PlanCall(plan, call, chunk, calls)


def _check_sum(dtype: str, op: str) -> None:
    if dtype not in DTYPES:
        raise TacclError(f"MSCCL++ does not sum {shown(dtype)}", hint="one of " + ", ".join(DTYPES))
    if op != "sum":
        raise TacclError(f"MSCCL++ sums, whatever a call asks for; {shown(op)} is not done", hint="--op sum")


def _check_layout(plan: ExecutionPlan, name: str, collective: Collective | None) -> None:
    """Refuse buffers that are not those of the collective.

    Raises
    ------
    CollectiveError : which rank has what, and what it would need.
    """
    count, first = plan.num_ranks, plan.ranks[0]
    if collective is not None:
        if collective.num_ranks != count:
            raise CollectiveError(f"the plan has {count} ranks, the collective {collective.num_ranks}")
        if first.input_chunks % collective.chunks_per_size:
            raise CollectiveError(
                f"the plan cuts an input into {first.input_chunks} chunks, which is no multiple of the "
                f"{collective.chunks_per_size} chunks of the collective"
            )
        inputs = outputs = [first.input_chunks] * count  # all buffers have the size of a call
    elif name in (*_CHECKED, "sendrecv"):
        of_input, of_output = first.input_chunks, first.output_chunks
        if name == "allgather":
            of_output = count * of_input
        elif name == "reducescatter":
            of_input = count * of_output
        else:
            of_output = of_input
        if name == "alltoall" and of_input % count:
            raise CollectiveError(f"{count} ranks cannot share {of_input} chunks equally in alltoall")
        inputs, outputs = [of_input] * count, [of_output] * count
    else:
        return
    for rank, (of_input, of_output) in zip(plan.ranks, zip(inputs, outputs, strict=True), strict=True):
        if (rank.input_chunks, rank.output_chunks) != (of_input, of_output):
            raise CollectiveError(
                f"rank {rank.rank} has {rank.input_chunks} chunks of input and {rank.output_chunks} of "
                f"output; {name} among {count} ranks takes {of_input} and {of_output}",
                hint="taccl verify tells more",
            )


def _chunk_bytes(plan: ExecutionPlan, message: int, size_bytes: int | None) -> int:
    """Bytes of a chunk when a message of this many chunks has a size, rounded down as the runtime wants
    it.
    """
    unit = message * plan.alignment
    least = max(unit, -(-max(plan.min_bytes, 0) // unit) * unit)
    if size_bytes is None:
        size_bytes = max(least, usual_bytes(plan.min_bytes, plan.max_bytes) // unit * unit)
    size = size_bytes // unit * unit
    if not size:
        raise CollectiveError(
            f"a size of {size_bytes} bytes has no {plan.alignment} bytes for each of the {message} chunks",
            hint=f"--size {least} or more",
        )
    if not plan.min_bytes <= size <= plan.max_bytes:
        raise CollectiveError(
            f"the plan serves calls of {plan.min_bytes} to {plan.max_bytes} bytes, not of {size}",
            hint="a --size in between, or another min_message_size and max_message_size in the plan",
        )
    return size // message


def _check_reserve(plan: ExecutionPlan, chunk: int) -> None:
    for rank in plan.ranks:
        used = rank.scratch_chunks * chunk * (2 if plan.double_scratch else 1)
        if used > _RESERVE:
            raise CollectiveError(
                f"rank {rank.rank} uses {used} bytes of scratch; with reuse_resources there are {_RESERVE}",
                hint="a smaller --size",
            )
