"""What the runtime takes and does otherwise than the plan says: its known mistakes, and what it never reads.

Each rule's name says what holds when it is silent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from taccl.arguments import shown
from taccl.backend.plan import Channel, Operation, OpName
from taccl.backend.program import Buffer
from taccl.backend.verify_plan.header import largest_chunk
from taccl.backend.verify_plan.operands import behind, is_raw, ranges
from taccl.backend.verify_plan.signatures import (
    LANES,
    PACKET_OPERANDS,
    PUTTING,
    SYNCHRONIZING,
    Operand,
    moves_packets,
    signature_of,
    uses_channels,
)
from taccl.backend.verify_plan.subject import At, Rule, Subject
from taccl.backend.verify_plan.versions import VERSIONS, without

_SEMAPHORES = (OpName.RELEASE, OpName.ACQUIRE)
_BEFORE_0_9 = tuple(version.name for version in VERSIONS[:1])
_BEFORE_0_10 = tuple(version.name for version in VERSIONS[:2])
#: With reuse_resources: what all scratch of a plan shares, in bytes; packets have as much again for flags.
RESERVE = 2**26


def _every_release_knows_the_operations(subject: Subject) -> None:
    for at in subject.operations():
        missing = without(at.operation.name)
        if missing:
            message = "is an operation that these releases do not know"
            hint = "use a newer release, or other operations"
            subject.operation(at, "unknown-operation", message, hint, refusal="load", runtimes=missing)


def _older_releases_do_the_same(subject: Subject) -> None:
    through_ports = [at for at in subject.operations() if at.operation.channel is Channel.PORT]
    puts = sum(at.operation.name in PUTTING for at in through_ports)
    flushes = sum(at.operation.name is OpName.PUT_SIGNAL_FLUSH for at in through_ports)
    if puts:
        message = f"{puts} puts through ports take wrong memory from the second plan of a process on"
        subject.file(
            "port-memory-ids", message, "use v0.9 or newer", severity="warning", runtimes=_BEFORE_0_9
        )
    if flushes:
        message = f"{flushes} pwsf do not wait until their source may be rewritten"
        hint = "use v0.10 or newer, or an acknowledgement"
        subject.file("no-flush", message, hint, severity="warning", runtimes=_BEFORE_0_10)
    for at in through_ports:
        sources, targets = len(at.operation.sources), len(at.operation.targets)
        if at.operation.name is OpName.READ_PUT_PACKETS and targets > sources:
            message = "has one source for several targets, where these releases want one for each"
            hint = "repeat the source for each target; newer releases take the first"
            subject.operation(at, "packet-sources", message, hint, runtimes=_BEFORE_0_9)


def _sums_are_sums(subject: Subject) -> None:
    for at in subject.operations():
        said = at.operation.reduce_op
        if said is not None and said.lower() != "sum":
            message = f"has reduce_op {shown(said)}, which the runtime never reads: it sums"
            subject.operation(at, "reduce-op", message, "only sums can be had")


def _fields_do_not_lie_on_each_other(subject: Subject) -> None:
    """The runtime keeps what different operations need in one place of its memory."""
    for at in subject.operations():
        operation = at.operation
        groups = {
            "channel_ids, src_buff or dst_buff": operation.channels or operation.sources or operation.targets,
            "tbg_info": operation.share is not None and not operation.sources and not operation.targets,
            "iter_context": operation.turns is not None,
            "barrier_id": operation.barrier is not None,
            "semaphore_ids": operation.semaphores,
        }
        given = [words for words, is_given in groups.items() if is_given]
        if len(given) > 1:
            message = f"has {' and '.join(given)}, which overwrite each other in the runtime's memory"
            subject.operation(at, "overlapping-fields", message, "keep the one that it needs", fatal=True)
        elif operation.inner and operation.name is not OpName.PIPELINE:
            message = "has ops, which only a pipeline runs"
            subject.operation(at, "ignored-field", message, "make it a pipeline", fatal=True)


def _nothing_is_ignored(subject: Subject) -> None:
    for at in subject.operations():
        operation, signature = at.operation, signature_of(at.operation)
        looks = [place for key, place, *_ in ranges(operation) if key == "src_buff"]
        is_flush = operation.name is OpName.FLUSH
        targets = (
            len(operation.targets) if is_flush else sum(key == "dst_buff" for key, *_ in ranges(operation))
        )
        lanes = len(operation.channels)
        if operation.channel is Channel.PORT and signature.targets.needed:
            lanes = min(lanes, len(operation.targets))
        ignored = {
            "src_buff": len(operation.sources) > len(looks),
            "dst_buff": len(operation.targets) > targets,
            "channel_ids": lanes < len(operation.channels)
            or (operation.channels and not is_flush and not uses_channels(operation.name, operation.channel)),
            "barrier_id": operation.barrier is not None and operation.name is not OpName.BARRIER,
            "semaphore_ids": operation.semaphores and operation.name not in _SEMAPHORES,
            "tbg_info": operation.share is not None and not operation.sources and not operation.targets,
            "iter_context": operation.turns is not None and operation.name is not OpName.PIPELINE,
        }
        for key, is_ignored in ignored.items():
            if is_ignored:
                message = f"has more {key} than the runtime looks at"
                subject.operation(
                    at, "ignored-field", message, "remove what it does not need", severity="warning"
                )


def _every_operation_does_something(subject: Subject) -> None:
    for at in subject.operations():
        operation = at.operation
        if operation.name is OpName.BARRIER and operation.barrier is None:
            message = "has no barrier_id and no num_threadblocks"
            subject.operation(at, "barrier-members", message, "add both", fatal=True)
        elif operation.name in SYNCHRONIZING and not operation.channels:
            subject.operation(at, "no-effect", "names no channel", "add channel_ids", severity="warning")
        elif operation.name in _SEMAPHORES and not operation.semaphores:
            subject.operation(at, "no-effect", "names no semaphore", "add semaphore_ids", severity="warning")
        elif operation.name is OpName.FLUSH:
            lanes, channels = len(operation.targets), len(operation.channels)
            if lanes < channels or not lanes:
                message = (
                    f"flushes {lanes} of {channels} channels: the runtime counts dst_buff, which the "
                    "language of mscclpp leaves out"
                )
                subject.operation(at, "flush", message, "use pwsf for the last put", severity="warning")
            elif lanes > channels:
                message = f"has {lanes} dst_buff and {channels} channel_ids; the others flush channel 0"
                subject.operation(at, "channel-count", message, "name a channel for each", fatal=True)


def _sources_of_a_put_are_in_one_buffer(subject: Subject) -> None:
    for at in subject.operations():
        operation = at.operation
        puts = operation.name in PUTTING or operation.name is OpName.PUT_PACKETS
        if not puts or operation.channel is not Channel.MEMORY or not operation.sources:
            continue
        first = operation.sources[0].buffer
        others = {each.buffer for each in operation.sources[: len(operation.targets)]} - {first, None}
        if first is not None and others:
            words = ", ".join(sorted(each.value for each in others if each))
            message = f"has sources in {words}, which the runtime looks for in {first.value}"
            subject.operation(at, "put-sources", message, "take all from one buffer, or split it", fatal=True)


def _each_target_of_a_port_has_its_channel(subject: Subject) -> None:
    for at in subject.operations():
        operation = at.operation
        if operation.channel is not Channel.PORT or operation.name not in LANES:
            continue
        lanes, channels = len(operation.targets), len(operation.channels)
        if channels < lanes:
            message = f"has {lanes} targets and {channels} channel_ids; the others go through channel 0"
            subject.operation(at, "channel-count", message, "name a channel for each target", fatal=True)
            continue
        rank = subject.plan.ranks[at.rank]
        ids, peers = rank.blocks[at.block].channels_of(Channel.PORT), rank.peers_of(Channel.PORT)
        for each, number in zip(operation.targets, operation.channels, strict=False):
            found = behind(subject.plan, at, each)
            if found is None or not 0 <= number < len(ids) or not 0 <= ids[number] < len(peers):
                continue
            owner = found.owners[0]
            if owner != peers[ids[number]]:
                message = f"puts into memory of rank {owner} through a channel to rank {peers[ids[number]]}"
                subject.operation(at, "port-target-owner", message, "use a channel to the owner", fatal=True)


def _packets_go_through_ports_as_they_should(subject: Subject) -> None:
    for at in subject.operations():
        operation = at.operation
        if not is_raw(operation):
            continue
        hint = "use cpkt into own scratch, then rppkt"
        if any(each.buffer is not Buffer.SCRATCH for each in operation.sources):
            message = "sends raw memory as packets through a port"
            subject.operation(at, "packets-through-port", message, hint, fatal=True)
        else:
            message = "takes wrong memory unless the plan is the first of its process"
            subject.operation(at, "packets-through-port", message, hint, severity="warning")


def _gets_have_equal_offsets(subject: Subject) -> None:
    for at in subject.operations():
        if at.operation.name is OpName.GET:
            for source, target in zip(at.operation.sources, at.operation.targets, strict=False):
                if source.index != target.index:
                    message = (
                        f"gets chunk {source.index} into {target.index}; the runtime swaps the two offsets"
                    )
                    hint = "let the owner put, read with rre, or keep both indices equal"
                    subject.operation(at, "get-offsets", message, hint, fatal=True)


def _the_halves_of_scratch_are_alike(subject: Subject) -> None:
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
    plan = subject.plan
    differing = {"allgather": Buffer.INPUT, "reducescatter": Buffer.OUTPUT}.get(plan.collective)
    if not plan.in_place or differing is None:
        return
    other = Buffer.OUTPUT if differing is Buffer.INPUT else Buffer.INPUT
    for at, key, place, found in _touched_elsewhere(subject):
        if found is differing:
            message = (
                f"touches the {differing.name.lower()} of others as {key}[{place}]; in place that begins "
                "elsewhere on each rank, and the runtime takes this rank's own offset"
            )
            hint = f"name the same chunks through {other.value}"
            subject.operation(at, "in-place-addressing", message, hint, fatal=True)


def _touched_elsewhere(subject: Subject) -> Iterator[tuple[At, str, int, Buffer]]:
    """Each range that is memory of others, or of all members of a switch channel, and its buffer."""
    for at in subject.operations():
        for key, place, each, _, _ in ranges(at.operation):
            found = None if each.buffer is not None else behind(subject.plan, at, each)
            if found is not None:
                yield at, key, place, found.buffer


def _buffers_begin_their_allocations(subject: Subject) -> None:
    """Port puts find their source from the beginning of the allocation that holds it."""
    plan = subject.plan
    inside = {"allgather": Buffer.INPUT, "reducescatter": Buffer.OUTPUT}.get(plan.collective)
    for at in subject.operations():
        operation = at.operation
        if plan.in_place and at.rank and inside is not None and _reads_user_memory(operation):
            whole = Buffer.OUTPUT if inside is Buffer.INPUT else Buffer.INPUT
            if any(each.buffer is inside for each in operation.sources):
                message = (
                    f"sends {inside.value} through a port; in place that begins inside an allocation, and "
                    "the runtime reads from where the allocation begins"
                )
                subject.operation(
                    at, "port-source-base", message, f"name the same chunks through {whole.value}"
                )
    count = sum(_reads_user_memory(at.operation) for at in subject.operations())
    if count:
        message = (
            f"{count} puts through ports take their sources from where the allocation of the buffer begins, "
            "not from where the buffer begins"
        )
        hint = "call it with buffers that begin an allocation, or copy into scratch first"
        subject.file("port-source-base", message, hint, severity="warning")


def _reads_user_memory(operation: Operation) -> bool:
    through_port = operation.channel is Channel.PORT and operation.name in PUTTING
    return through_port and any(each.buffer is not Buffer.SCRATCH for each in operation.sources)


def _switches_are_there(subject: Subject) -> None:
    names = {
        at.operation.name.value
        for at in subject.operations()
        if Channel.SWITCH in signature_of(at.operation).channels
    }
    if names:
        message = (
            f"{', '.join(sorted(names))} do nothing, silently, on GPUs before NVIDIA's Hopper and on AMD's"
        )
        subject.file("needs-hopper", message, "run it on sm90 or newer only", severity="warning")


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
    chunk, outside = largest_chunk(plan), _owners_of_scratch_outside_pipelines(subject)
    for number, rank in subject.ranks():
        if chunk is None or rank.scratch_chunks < 1:
            continue
        room = RESERVE // (2 if plan.double_scratch else 1) // rank.scratch_chunks
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


TRAP_RULES: tuple[Rule, ...] = (
    _every_release_knows_the_operations,
    _older_releases_do_the_same,
    _sums_are_sums,
    _fields_do_not_lie_on_each_other,
    _nothing_is_ignored,
    _every_operation_does_something,
    _sources_of_a_put_are_in_one_buffer,
    _each_target_of_a_port_has_its_channel,
    _packets_go_through_ports_as_they_should,
    _gets_have_equal_offsets,
    _the_halves_of_scratch_are_alike,
    _packets_and_plain_chunks_lie_apart,
    check_in_place_addressing,
    _buffers_begin_their_allocations,
    _switches_are_there,
    _resources_can_be_reused,
)
