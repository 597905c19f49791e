"""Where in memory the runtime looks otherwise than a plan says: scratch, allocations, buffers of others.

Each rule's name says what holds when it is silent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from taccl.backend.plan import Channel, Operation
from taccl.backend.program import Buffer
from taccl.backend.verify.mscclpp.header import largest_chunk
from taccl.backend.verify.mscclpp.operands import behind, ranges
from taccl.backend.verify.mscclpp.signatures import PACKET_OPERANDS, PUTTING, Operand, moves_packets
from taccl.backend.verify.mscclpp.subject import At, Rule, Subject

#: With reuse_resources: what all scratch of a plan shares, in bytes; packets have as much again for flags.
_RESERVE = 2**26


def _the_halves_of_scratch_are_equivalent(subject: Subject) -> None:
    plan = subject.plan
    if not plan.double_scratch:
        return
    sizes = [rank.scratch_chunks for rank in plan.ranks]
    for number, size in enumerate(sizes):
        if size != sizes[0]:
            message = (
                f"has scratch_chunks={size} where rank 0 has {sizes[0]}: its upper half begins elsewhere"
            )
            hint = "with use_double_scratch_buffer, give all ranks the same"
            subject.rank(number, "double-scratch", message, hint, fatal=True)
    for at in subject.operations():
        if moves_packets(at.operation.name):
            continue
        for key, place, each, kind, _ in ranges(at.operation):
            found = behind(subject.plan, at, each)
            through_port = at.operation.name in PUTTING and at.operation.channel is Channel.PORT
            if (
                found is not None
                and found.buffer is Buffer.SCRATCH
                and (kind is not Operand.OWN or through_port)
            ):
                message = (
                    f"touches scratch without packets ({key}[{place}]): the kernel shifts own scratch by the "
                    "half, and this not"
                )
                subject.operation(at, "double-scratch", message, "use packets, or single scratch", fatal=True)


def _packets_and_plain_chunks_lie_apart(subject: Subject) -> None:
    """Packets of chunk k of scratch take the bytes of chunks 2k and 2k + 1."""
    packets: dict[int, list[tuple[int, int]]] = {}
    plain: dict[int, list[tuple[int, int, At]]] = {}
    for at in subject.operations():
        for _, _, each, kind, size in ranges(at.operation):
            found = behind(subject.plan, at, each)
            if (
                found is None
                or size < 1
                or (found.buffer is not Buffer.SCRATCH and kind is not Operand.PACKETS)
            ):
                continue
            for owner in found.owners:
                if kind in PACKET_OPERANDS:
                    packets.setdefault(owner, []).append((2 * each.index, 2 * (each.index + size)))
                else:
                    plain.setdefault(owner, []).append((each.index, each.index + size, at))
    for owner, rows in plain.items():
        taken = _merged(packets.get(owner, []))
        starts = [start for start, _ in taken]
        for start, end, at in rows:
            last = bisect_left(starts, end) - 1
            if last >= 0 and taken[last][1] > start:
                message = (
                    f"touches chunks {start} .. {end - 1} of the scratch of rank {owner} as they are, where "
                    "others keep packets (of chunk k in the bytes of chunks 2k and 2k + 1)"
                )
                subject.operation(at, "mixed-scratch", message, "keep packets and chunks apart", fatal=True)


def _merged(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals that do not touch each other, in order, which cover the same."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(rows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def check_in_place_addressing(subject: Subject) -> None:
    """A peer's buffer is found by this rank's own offset into it, which in place differs by rank for one."""
    differing, whole = _part_and_whole(subject)
    if differing is None:
        return
    for at, key, place, found in _touched_elsewhere(subject):
        if found is differing:
            message = (
                f"touches the {differing.name.lower()} of others as {key}[{place}]; in place that begins "
                "elsewhere on each rank, and the runtime takes this rank's own offset"
            )
            hint = f"name the same chunks through {whole.value}"
            subject.operation(at, "in-place-addressing", message, hint, fatal=True)


def _part_and_whole(subject: Subject) -> tuple[Buffer | None, Buffer]:
    """In place: the buffer that is a rank's part of an allocation, None for none, and the one that is all."""
    parts = {"allgather": Buffer.INPUT, "reducescatter": Buffer.OUTPUT} if subject.plan.in_place else {}
    part = parts.get(subject.plan.collective)
    return part, Buffer.INPUT if part is Buffer.OUTPUT else Buffer.OUTPUT


def _touched_elsewhere(subject: Subject) -> Iterator[tuple[At, str, int, Buffer]]:
    """Each range that is memory of others, or of all members of a switch channel, and its buffer."""
    for at in subject.operations():
        for key, place, each, _, _ in ranges(at.operation):
            found = None if each.buffer is not None else behind(subject.plan, at, each)
            if found is not None:
                yield at, key, place, found.buffer


def _buffers_begin_their_allocations(subject: Subject) -> None:
    """Port puts find their source from the beginning of the allocation that holds it."""
    part, whole = _part_and_whole(subject)
    readers = [at for at in subject.operations() if _reads_user_memory(at.operation)]
    for at in readers:
        # rank 0's part begins where the allocation begins
        if at.rank and part is not None and any(source.buffer is part for source in at.operation.sources):
            message = (
                f"sends {part.value} through a port; in place that begins inside an allocation, and the "
                "runtime reads from where the allocation begins"
            )
            hint = f"name the same chunks through {whole.value}"
            subject.operation(at, "port-source-base", message, hint)
    if readers:
        message = (
            f"{len(readers)} puts through ports take their sources from where the allocation of the buffer "
            "begins, not from where the buffer begins"
        )
        hint = "call it with buffers that begin an allocation, or copy into scratch first"
        subject.file("port-source-base", message, hint, severity="warning")


def _reads_user_memory(operation: Operation) -> bool:
    through_port = operation.channel is Channel.PORT and operation.name in PUTTING
    return through_port and any(source.buffer is not Buffer.SCRATCH for source in operation.sources)


def _resources_can_be_reused(subject: Subject) -> None:
    plan = subject.plan
    if not plan.reuse_resources:
        return
    for at, key, place, buffer in _touched_elsewhere(subject):
        if buffer is not Buffer.SCRATCH:
            message = (
                f"touches the {buffer.name.lower()} of others as {key}[{place}]; with reuse_resources that "
                "stays the buffer of the first call"
            )
            subject.operation(at, "reused-buffer", message, "only scratch may be remote")
    for at in subject.operations():
        if _reads_user_memory(at.operation):
            message = (
                "sends a user's buffer through a port, which reads it where the first call had it: with "
                "reuse_resources that stays registered"
            )
            subject.operation(at, "reused-buffer", message, "copy into scratch first, and send that")
    chunk, outside = largest_chunk(plan), _owners_of_scratch_outside_pipelines(subject)
    for number, rank in subject.ranks():
        if chunk is None or rank.scratch_chunks < 1:
            continue
        room = _RESERVE // (2 if plan.double_scratch else 1) // rank.scratch_chunks
        if chunk > room and number in outside:
            message = (
                f"has scratch of {rank.scratch_chunks} chunks with room for {room} bytes each "
                f"(reuse_resources), and it is used outside pipelines; at max_message_size they take {chunk}"
            )
            hint = "put the operations into a pipeline, or lower max_message_size"
            subject.rank(number, "reused-scratch", message, hint)


def _owners_of_scratch_outside_pipelines(subject: Subject) -> set[int]:
    return {
        owner
        for at in subject.operations()
        if at.inner is None
        for _, _, each, _, _ in ranges(at.operation)
        if (memory := behind(subject.plan, at, each)) is not None and memory.buffer is Buffer.SCRATCH
        for owner in memory.owners
    }


MEMORY_RULES: tuple[Rule, ...] = (
    _the_halves_of_scratch_are_equivalent,
    _packets_and_plain_chunks_lie_apart,
    check_in_place_addressing,
    _buffers_begin_their_allocations,
    _resources_can_be_reused,
)
