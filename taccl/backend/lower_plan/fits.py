"""Whether a plan keeps to what the runtime has room for, and which sizes of calls it can serve. A plan over a
limit overwrites memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from taccl.backend.lower.sizes import sizes_of
from taccl.backend.lower.unequal import EqualChunks, elements_of
from taccl.backend.lower_plan.tuning import (
    MAX_BLOCKS,
    MAX_BUFFER_BYTES,
    MAX_CHANNELS,
    MAX_MIN_BYTES,
    MAX_OPERATIONS,
    MAX_PORT_CHANNELS,
    MAX_PORT_MEMORIES,
    MAX_REMOTES,
    UNIT_BYTES,
)
from taccl.backend.plan import NO_LARGEST, Channel, ExecutionPlan, RankPlan
from taccl.backend.target import FEWER_CHUNKS
from taccl.errors import CollectiveError, ProgramLimitError, UnitError
from taccl.model.problem import Problem

_FINDINGS = 5
_NO_FILE = "a schedule of fewer transfers, or --no-file for the schedule alone"


def unit_of(plan: ExecutionPlan) -> int:
    """A plan serves calls of multiples of this many bytes."""
    return lcm(UNIT_BYTES, plan.alignment) * plan.message_chunks


def has_room(plan: ExecutionPlan) -> bool:
    """Whether the runtime has room for a plan."""
    return not any(True for rank in plan.ranks for _ in _findings(rank))


def check_plan_fits(
    plan: ExecutionPlan,
    most_operations: int | None = None,
    most_blocks: int | None = None,
    alone: ExecutionPlan | None = None,
    chunks: int = 1,
    parts: int = 1,
) -> None:
    """Raise unless there is room for a plan.

    Parameters
    ----------
    plan : as it is, or to be shared out among this many `parts`.
    most_operations : of all ranks together; None: however many.
    most_blocks : of a rank on this machine; None: as many as any GPU runs.
    alone : the same plan with one instance, for what would fit; None: it has one.
    chunks : of each part of the schedule, likewise.

    Raises
    ------
    ProgramLimitError : the limits exceeded, with the rank and by how much, and what would fit.
    """
    most_blocks = min(MAX_BLOCKS, MAX_BLOCKS if most_blocks is None else most_blocks)
    findings = [finding for rank in plan.ranks for finding in _findings(rank, most_blocks, parts)]
    operations = plan.num_operations * parts
    if most_operations is not None and operations > most_operations:
        findings.insert(
            0, f"all ranks: {operations} operations; the limit is {most_operations}, to be verified"
        )
    if findings:
        fit = _instances_that_fit(plan if alone is None else alone, most_operations, most_blocks)
        many = f"{fit} instance{'' if fit == 1 else 's'}"
        raise ProgramLimitError(
            f"the plan is too large for MSCCL++{f'; with {many} it would fit' if fit else ''}",
            findings=findings[:_FINDINGS],
            hint=f"--instances {fit}" if fit else FEWER_CHUNKS if chunks > 1 else _NO_FILE,
        )


def _instances_that_fit(alone: ExecutionPlan, most_operations: int | None, most_blocks: int) -> int:
    """Each takes as many blocks, operations and port channels as one does alone; 0: not even one fits."""
    if any(True for rank in alone.ranks for _ in _findings(rank, most_blocks)):
        return 0
    limits = [(most_blocks, max(len(rank.blocks) for rank in alone.ranks))]
    limits.append((MAX_PORT_CHANNELS, max(len(rank.peers_of(Channel.PORT)) for rank in alone.ranks)))
    if most_operations is not None:
        limits.append((most_operations, alone.num_operations))
    return min(limit // count for limit, count in limits if count)


def _findings(rank: RankPlan, most_blocks: int = MAX_BLOCKS, parts: int = 1) -> Iterator[str]:
    who, blocks = f"rank {rank.rank}", len(rank.blocks) * parts
    if blocks > most_blocks:
        yield f"{who}: {blocks} thread blocks; the limit is {most_blocks}, which all run at once"
    for block in rank.blocks:
        for count, limit, what in (
            (len(block.operations), MAX_OPERATIONS, "operations"),
            *((len(block.channels_of(kind)), MAX_CHANNELS, f"{kind.value} channels") for kind in Channel),
            *((len(block.remotes_of(kind)), MAX_REMOTES, f"{kind.value} buffers") for kind in Channel),
        ):
            if count > limit:
                yield f"{who}, thread block {block.id}: {count} {what}; the limit is {limit}"
    ports = len(rank.peers_of(Channel.PORT)) * parts
    if ports > MAX_PORT_CHANNELS:
        yield f"{who}: {ports} port channels; the limit is {MAX_PORT_CHANNELS}"
    memories = sum(Channel.PORT in remote_buffer.access for remote_buffer in rank.remote_buffers)
    if memories > MAX_PORT_MEMORIES:
        yield f"{who}: {memories} memories of others behind ports; the limit is {MAX_PORT_MEMORIES}"


def checked_window(plan: ExecutionPlan, size_bytes: int | None = None) -> ExecutionPlan:
    """The plan for those sizes of its window whose buffers have offsets of 32 bits.

    Parameters
    ----------
    size_bytes : of the call that it is meant for; None: any in the window.

    Raises
    ------
    UnitError : it cannot serve a call of that size, or none in the window.
    """
    chunks = plan.message_chunks
    unit = chunks * UNIT_BYTES
    largest = max(
        max(rank.input_chunks, rank.output_chunks, rank.scratch_chunks * (2 if plan.moves_packets else 1))
        * (2 if plan.double_scratch else 1)
        for rank in plan.ranks
    )
    most = (MAX_BUFFER_BYTES - 1) // (largest * UNIT_BYTES) * unit
    low = min(max(_parts(plan), -(-plan.min_bytes // unit)) * unit, MAX_MIN_BYTES)
    high = min(plan.max_bytes if plan.max_bytes < NO_LARGEST else most, most) // unit * unit
    if size_bytes is not None and size_bytes % unit:
        raise UnitError(
            f"MSCCL++ serves calls of this plan in multiples of {unit} bytes: {UNIT_BYTES} for each of "
            f"{chunks} chunks",
            hint=f"--size {-(-size_bytes // unit) * unit}, or fewer chunks",
        )
    if size_bytes is not None and size_bytes < low:
        raise UnitError(
            f"{_parts(plan)} thread blocks share each of {chunks} chunks in units of {UNIT_BYTES} bytes, so "
            f"MSCCL++ serves calls of this plan from {low} bytes",
            hint=f"--instances {size_bytes // unit}, or a larger --size",
        )
    if high < low or (size_bytes is not None and size_bytes > most):
        raise UnitError(
            f"buffers of this plan have {largest} chunks and at most {MAX_BUFFER_BYTES - 1} bytes, so it "
            f"serves calls of {unit} to {most} bytes",
            hint=f"--size {_round_size(most, unit)}, or a schedule that takes less scratch",
        )
    return replace(plan, min_bytes=low, max_bytes=high)


def _parts(plan: ExecutionPlan) -> int:
    """Among how many thread blocks ranges are cut, at most."""
    return max(
        (
            operation.share.parts
            for rank in plan.ranks
            for block in rank.blocks
            for operation in block.operations
            if operation.share is not None
        ),
        default=1,
    )


def check_problem_fits(
    problem: Problem,
    instances: int,
    min_bytes: int | None = None,
    max_bytes: int | None = None,
    most_accesses: int | None = None,
) -> None:
    """Refuse a problem that no plan can carry out, whatever the schedule is.

    Parameters
    ----------
    most_accesses : to chunks of one size, of unequal ones and of all ranks together; None: however many.

    Raises
    ------
    CollectiveError : unequal chunks that no chunk of whole bytes divides, or only one that is too small.
    UnitError : the runtime does not serve calls of that size, or none of the sizes requested.
    """
    if problem.sizes is not None:
        _check_elements(problem, most_accesses)
    equal = EqualChunks.of(problem)
    sizes = sizes_of(equal.collective, equal.size_bytes, min_bytes, max_bytes)
    chunks = sizes.chunks_per_loop
    unit = chunks * UNIT_BYTES
    if equal.size_bytes % unit:
        raise UnitError(
            f"MSCCL++ cuts calls into {chunks} chunks of whole {UNIT_BYTES} bytes here, and "
            f"{equal.size_bytes} bytes are no multiple of {unit}",
            hint=f"--size {-(-equal.size_bytes // unit) * unit}, fewer chunks, or --no-file",
        )
    if equal.size_bytes < unit * instances:
        raise UnitError(
            f"{instances} thread blocks cannot share chunks of {equal.size_bytes // chunks} bytes in units "
            f"of {UNIT_BYTES} bytes",
            hint=f"--instances {max(1, equal.size_bytes // unit)}, or fewer chunks",
        )
    if not sizes.min_bytes <= equal.size_bytes <= sizes.max_bytes:
        raise UnitError(
            f"a plan made for calls of {equal.size_bytes} bytes has to serve them, and those requested are "
            f"of {sizes.min_bytes} to {sizes.max_bytes}",
            hint=f"--min-size {min(sizes.min_bytes, equal.size_bytes)} "
            f"--max-size {max(sizes.max_bytes, equal.size_bytes)}",
        )
    low, most_low = max(1, -(-sizes.min_bytes // unit)) * unit, MAX_MIN_BYTES // unit * unit
    if equal.size_bytes >= MAX_BUFFER_BYTES:
        fits = _round_size(MAX_BUFFER_BYTES - 1, unit)
        # by default, the smallest is half of it
        least = "" if min_bytes is None or low <= most_low else f" --min-size {most_low}"
        raise UnitError(
            f"MSCCL++ has offsets of 32 bits: buffers have at most {MAX_BUFFER_BYTES - 1} bytes, which "
            f"{equal.size_bytes} bytes exceed by {equal.size_bytes - MAX_BUFFER_BYTES + 1}",
            hint=f"--size {fits}{least}",
        )
    if low > most_low:
        raise UnitError(
            f"MSCCL++ reads the smallest size as a number of 31 bits: {low} bytes exceed {most_low}, "
            f"the most that multiples of {unit} bytes can be, by {low - most_low}",
            hint=f"--min-size {most_low}",
        )


def _check_elements(problem: Problem, most_accesses: int | None) -> None:
    """Refuse unequal chunks of which the largest common part is none that plans can count in."""
    elements, element_bytes = elements_of(problem)
    if element_bytes % UNIT_BYTES:
        raise CollectiveError(
            f"MSCCL++ counts all buffers in chunks of one size, of whole {UNIT_BYTES} bytes "
            f"(buffer_alignment); the largest that divides all sizes here has {element_bytes} bytes",
            hint=f"sizes in multiples of {UNIT_BYTES} bytes, --target json, or --no-file",
        )
    placements = (problem.collective.inputs, problem.collective.outputs)
    accesses = sum(int(elements[rows.chunk].sum()) for rows in placements)
    if most_accesses is not None and accesses > most_accesses:
        raise CollectiveError(
            f"{accesses} chunks of {element_bytes} bytes, the largest that divide all sizes, are more than "
            f"the {most_accesses} of which a plan can be verified",
            hint=f"sizes in multiples of {element_bytes * -(-accesses // most_accesses)} bytes or more, "
            "--target json, or --no-file",
        )


def _round_size(most: int, unit: int) -> int:
    """The largest power of two up to `most`, of which many cuts are whole; rounded down to whole units."""
    return max(unit, (1 << most.bit_length() - 1) // unit * unit)
