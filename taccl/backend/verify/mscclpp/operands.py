"""Whether each operation has what it takes: channels, and ranges of the right kinds inside their buffers.

The runtime checks none of it; what is wrong reads or overwrites other memory. Rules run once `structure`
found nothing that makes numbers meaningless. Each rule's name says what holds when it is silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from taccl.backend.machine.report import Refusal
from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer
from taccl.backend.verify.mscclpp.signatures import (
    PACKET_OPERANDS,
    REMOTE_OPERANDS,
    SWITCH_OPERANDS,
    SYNCHRONIZING,
    Operand,
    only_puts,
    signature_of,
    uses_channels,
)
from taccl.backend.verify.mscclpp.subject import At, Rule, Subject

_WORDS = {
    Operand.OWN: "own memory (type)",
    Operand.REMOTE: "a peer's memory (buffer_id)",
    Operand.SWITCH: "a switch channel (switch_channel_id)",
    Operand.PACKETS: "own scratch (type s)",
    Operand.REMOTE_PACKETS: "a peer's scratch (buffer_id)",
    Operand.SWITCH_PACKETS: "a switch channel (switch_channel_id)",
}


def ranges(operation: Operation) -> Iterator[tuple[str, int, Range, Operand, int]]:
    """Each range that the runtime looks at: its key, its place, itself, what it has to be, and its size.

    The size is the one that counts, in chunks, which need not be the range's own.
    """
    signature = signature_of(operation)
    sources, targets = operation.sources, operation.targets
    if not sources and not targets:
        return
    first = sources[0].size if sources else 0
    driving = targets if signature.sizes == "targets" else sources
    for key, own, shape in (
        ("src_buff", sources, signature.sources),
        ("dst_buff", targets, signature.targets),
    ):
        count = len(own) if signature.sizes == "first" else min(len(own), len(driving))
        for place, (each, kind) in enumerate(zip(own[:count], shape.kinds(count), strict=False)):
            yield key, place, each, kind, first if signature.sizes == "first" else driving[place].size


def _the_channel_is_of_a_kind_that_works(subject: Subject) -> None:
    for at in subject.operations():
        operation, signature = at.operation, signature_of(at.operation)
        kinds = {kind for _, _, _, kind, _ in ranges(operation)}
        # Without remote operands, sums look at no channel; switch operations never do.
        flushes = operation.name is OpName.FLUSH and operation.targets
        looks = operation.name in SYNCHRONIZING or kinds & REMOTE_OPERANDS or flushes
        if not looks or operation.channel in signature.channels:
            continue
        words = " or ".join(kind.value for kind in signature.channels)
        if only_puts(operation):
            message = "is on memory channels, on which it puts and never signals"
            subject.operation(
                at, "channel-type", message, f"use {words} channels, or put and signal", severity="warning"
            )
        elif operation.channel is None:
            does = "does nothing, silently" if operation.name in SYNCHRONIZING else "is refused"
            refusal: Refusal | None = None if operation.name in SYNCHRONIZING else "load"
            message = f"has no channel_type, and so {does}"
            subject.operation(
                at, "channel-type", message, f"add channel_type: {words}", refusal=refusal, fatal=True
            )  # fmt: skip
        else:
            message = f"has channel_type {operation.channel.value}{_on(operation)}"
            subject.operation(at, "channel-type", message, f"use {words} channels", fatal=True)


def _on(operation: Operation) -> str:
    """What comes of a channel of the wrong kind."""
    if operation.name in SYNCHRONIZING:
        return ", on which it does nothing, silently"
    return ", whose numbers the kernel takes for those of another kind"


def _operands_are_complete_and_of_their_kinds(subject: Subject) -> None:
    for at in subject.operations():
        operation, signature = at.operation, signature_of(at.operation)
        sources, targets = len(operation.sources), len(operation.targets)
        needed_sources, needed_targets = signature.sources.needed, signature.targets.needed
        if signature.sizes == "targets":
            needed_sources = max(needed_sources, targets)
        elif operation.name is OpName.GET:
            needed_targets = max(needed_targets, sources)
        elif signature.sizes == "sources":
            needed_sources = max(needed_sources, targets)
        if sources < needed_sources or targets < needed_targets:
            message = (
                f"has {sources} sources and {targets} targets; it needs {needed_sources} and "
                f"{needed_targets}, and the kernel reads the others as zeros"
            )
            subject.operation(at, "operand-count", message, "list src_buff and dst_buff in full", fatal=True)
        for key, place, each, kind, _ in ranges(operation):
            if not _is(each, kind):
                hint = f"give {_WORDS[kind]} there"
                subject.operation(
                    at, "operand-kind", f"has {_said(each)} as {key}[{place}]", hint, fatal=True
                )


def _is(each: Range, kind: Operand) -> bool:
    if kind in REMOTE_OPERANDS:
        return each.remote is not None
    return each.switch is not None if kind in SWITCH_OPERANDS else each.buffer is not None


def _said(each: Range) -> str:
    if each.buffer is not None:
        return f"own memory {each.buffer.value}"
    return "a peer's memory" if each.remote is not None else "a switch channel"


def _numbers_lead_somewhere(subject: Subject) -> None:
    for at in subject.operations():
        operation = at.operation
        block = subject.plan.ranks[at.rank].blocks[at.block]
        channels = signature_of(operation).channels
        if channels and operation.channel not in (None, *channels) and not only_puts(operation):
            continue  # reported as that
        if operation.channel is not None and uses_channels(operation.name, operation.channel):
            count = len(block.channels_of(operation.channel))
            for number in operation.channels:
                if not 0 <= number < count:
                    message = (
                        f"names {operation.channel.value} channel {number} of its block, which has {count}"
                    )
                    hint = "numbers are places in the block's channels of that kind"
                    subject.operation(at, "channel-number", message, hint, fatal=True)
        operands = (("src_buff", operation.sources), ("dst_buff", operation.targets))
        for where, each in (
            (f"{key}[{place}]", each) for key, row in operands for place, each in enumerate(row)
        ):
            found = number_of(each, operation.channel, block)
            if found is not None and not 0 <= found[0] < found[1]:
                number, count, what = found
                message = f"names {what} {number} of its block as {where}; the block has {count}"
                hint = "numbers are places in the block's own lists"
                subject.operation(at, "operand-number", message, hint, fatal=True)


def number_of(each: Range, channel: Channel | None, block: PlanBlock) -> tuple[int, int, str] | None:
    """The number by which a range names memory of others, how many the block has, and of what."""
    if each.remote is not None and channel in (Channel.MEMORY, Channel.PORT):
        count = len(block.remotes_of(channel))
        return each.remote, count, f"remote buffer (for {channel.value} channels)"
    if each.switch is not None:
        return each.switch, len(block.channels_of(Channel.SWITCH)), "switch channel"
    return None


def _ranges_are_inside_their_buffers(subject: Subject) -> None:
    for at in subject.operations():
        for key, place, each, kind, size in ranges(at.operation):
            where = f"{key}[{place}]"
            if each.size < 1 or size < 1:
                message = (
                    f"has a range of {min(each.size, size)} chunks as {where}; cutting it divides by zero"
                )
                subject.operation(
                    at, "empty-range", message, "give it a size of 1 or more", refusal="load", fatal=True
                )
                continue
            memory = behind(subject.plan, at, each)
            if memory is None:
                continue
            if kind is Operand.PACKETS and key == "src_buff" and not is_raw(at.operation):
                memory = replace(memory, buffer=Buffer.SCRATCH)
            owner = min(memory.owners, key=lambda rank: chunks_of(subject.plan.ranks[rank], memory.buffer))
            chunks = chunks_of(subject.plan.ranks[owner], memory.buffer)
            whose = f"the {memory.buffer.name.lower()} of rank {owner}"
            if each.index < 0 or each.index + size > chunks:
                counted = "" if size == each.size else f", {size} of them since that size counts"
                message = (
                    f"touches chunks {each.index} .. {each.index + size - 1} of {whose} as {where}{counted}; "
                    f"there are {chunks}, and other memory is read or overwritten"
                )
                subject.operation(at, "operand-bounds", message, "correct index or size", fatal=True)
            elif size != each.size:
                message = f"gives {where} {each.size} chunks and moves {size}, the size that counts"
                subject.operation(at, "operand-size", message, "give all ranges one size", severity="warning")


def _what_no_kernel_looks_at_can_be_loaded(subject: Subject) -> None:
    """The loader cuts every range that it finds, and looks up every remote buffer, before anything runs."""
    for at in subject.operations():
        operation = at.operation
        looked_at = {(key, place) for key, place, *_ in ranges(operation)}
        for key, row in (("src_buff", operation.sources), ("dst_buff", operation.targets)):
            for place, each in enumerate(row):
                if (key, place) in looked_at:
                    continue
                where, hint = f"{key}[{place}]", "remove what it does not need"
                if each.size < 1:
                    message = f"has a range of {each.size} chunks as {where}; cutting it divides by zero"
                    subject.operation(at, "empty-range", message, hint, refusal="load", fatal=True)
                elif each.remote is not None and operation.channel not in (Channel.MEMORY, Channel.PORT):
                    message = f"names a peer's memory as {where} without channel_type, and so is refused"
                    subject.operation(at, "channel-type", message, hint, refusal="load", fatal=True)


def _switch_channels_are_those_of_the_range_that_counts(subject: Subject) -> None:
    """The first range of a side says which chunks, and the last one through which switch channel."""
    for at in subject.operations():
        signature = signature_of(at.operation)
        for key, row, shape in (
            ("src_buff", at.operation.sources, signature.sources),
            ("dst_buff", at.operation.targets, signature.targets),
        ):
            named = [each.switch for each in row if each.switch is not None]
            if set(shape.first) & SWITCH_OPERANDS and named and named[-1] != row[0].switch:
                message = (
                    f"names switch channel {row[0].switch} first and {named[-1]} last in {key}: the runtime "
                    "takes the chunks of the first and the channel of the last"
                )
                subject.operation(at, "operand-number", message, "list one range there", fatal=True)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a range is of: a buffer of one rank, or of all members of a switch channel."""

    buffer: Buffer
    owners: tuple[int, ...]


def behind(plan: ExecutionPlan, at: At, each: Range) -> Memory | None:
    """The memory that a range is of; None if its number leads nowhere."""
    rank = plan.ranks[at.rank]
    if each.buffer is not None:
        return Memory(each.buffer, (at.rank,))
    block = rank.blocks[at.block]
    found = number_of(each, at.operation.channel, block)
    if found is None or not 0 <= found[0] < found[1]:
        return None
    if each.switch is not None:
        buffer, members = rank.switches[block.channels_of(Channel.SWITCH)[each.switch]]
        return Memory(buffer, members)
    ids = () if at.operation.channel is None else block.remotes_of(at.operation.channel)
    remote = rank.remote_buffers[ids[found[0]]]
    return Memory(remote.buffer, (remote.rank,))


def chunks_of(rank: RankPlan, buffer: Buffer) -> int:
    """How many chunks a buffer of a rank has."""
    sizes = {
        Buffer.INPUT: rank.input_chunks,
        Buffer.OUTPUT: rank.output_chunks,
        Buffer.SCRATCH: rank.scratch_chunks,
    }
    return sizes[buffer]


def is_raw(operation: Operation) -> bool:
    """Whether an operation sends packets as they lie in the buffer that it names, without reading them."""
    return operation.name is OpName.PUT_PACKETS and operation.channel is Channel.PORT


def _packets_lie_in_scratch(subject: Subject) -> None:
    for at in subject.operations():
        for key, place, each, kind, _ in ranges(at.operation):
            memory = behind(subject.plan, at, each) if kind in PACKET_OPERANDS else None
            if memory is None or memory.buffer is Buffer.SCRATCH:
                continue
            buffer = memory.buffer
            if key == "dst_buff":
                message = f"writes packets into {buffer.name.lower()} as {key}[{place}], at twice the offset"
                subject.operation(
                    at, "packets-outside-scratch", message, "packets go into scratch", fatal=True
                )
            elif not is_raw(at.operation):
                message = (
                    f"has type {buffer.value} as {key}[{place}], and reads packets in scratch all the same"
                )
                subject.operation(at, "ignored-type", message, "write type s", severity="warning")


OPERAND_RULES: tuple[Rule, ...] = (
    _the_channel_is_of_a_kind_that_works,
    _operands_are_complete_and_of_their_kinds,
    _numbers_lead_somewhere,
    _ranges_are_inside_their_buffers,
    _what_no_kernel_looks_at_can_be_loaded,
    _switch_channels_are_those_of_the_range_that_counts,
    _packets_lie_in_scratch,
)
