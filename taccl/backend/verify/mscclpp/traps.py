"""What the runtime takes and does otherwise than the plan says: its known mistakes, and what it never reads.

Where in memory it looks stands in `memory`. Each rule's name says what holds when it is silent.
"""

from __future__ import annotations

from taccl.backend.plan import Channel, OpName
from taccl.backend.program import Buffer
from taccl.backend.verify.mscclpp.operands import behind, is_raw, ranges
from taccl.backend.verify.mscclpp.signatures import (
    LANES,
    PUTTING,
    SYNCHRONIZING,
    signature_of,
    uses_channels,
)
from taccl.backend.verify.mscclpp.subject import Rule, Subject
from taccl.backend.verify.mscclpp.versions import VERSIONS, without
from taccl.support.arguments import shown

_SEMAPHORES = (OpName.RELEASE, OpName.ACQUIRE)
_BEFORE_0_9 = tuple(version.name for version in VERSIONS[:1])
_BEFORE_0_10 = tuple(version.name for version in VERSIONS[:2])


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
        others = {source.buffer for source in operation.sources[: len(operation.targets)]} - {first, None}
        if first is not None and others:
            words = ", ".join(sorted(other.value for other in others if other))
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
        if any(source.buffer is not Buffer.SCRATCH for source in operation.sources):
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
    _switches_are_there,
)
