"""Whether ranks, blocks, channels and remote buffers fit together: ids, counts, who is at the other end.

Each rule's name says what holds when it is silent. The rules run in order, and those about operations only
once these found nothing that makes numbers meaningless.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from taccl.backend.plan import Channel, OpName, RankPlan
from taccl.backend.program import Buffer
from taccl.backend.verify.mscclpp.signatures import WAITING
from taccl.backend.verify.mscclpp.subject import At, Rule, Subject

#: Counts of chunks are 32-bit numbers.
MAX_CHUNKS = 2**31 - 1
_TWO_ENDED = (Channel.MEMORY, Channel.PORT)


def _there_are_ranks(subject: Subject) -> None:
    if not subject.plan.ranks:
        subject.file(
            "no-ranks", "the plan has no gpus", "add an entry for each rank", refusal="load", fatal=True
        )


def _ids_are_positions(subject: Subject) -> None:
    for number, rank in subject.ranks():
        if rank.rank != number:
            message = f"has the id {rank.rank}; the runtime looks for rank {number} at this place"
            subject.rank(number, "rank-id", message, "list gpus by id", refusal="load", fatal=True)
    for number, position, block in subject.blocks():
        if block.id != position:
            message = (
                f"has the id {block.id}; operations go by position and channels by id, so blocks are mixed up"
            )
            subject.block(
                number, position, "block-id", message, "list threadblocks by id, from 0", fatal=True
            )


def _every_rank_has_a_block(subject: Subject) -> None:
    for number, rank in subject.ranks():
        if not rank.blocks:
            message = "has no thread block, and a kernel without any cannot be launched"
            subject.rank(
                number, "no-thread-block", message, "give it one with a nop", refusal="launch", fatal=True
            )


def _buffers_have_chunks(subject: Subject) -> None:
    for number, rank in subject.ranks():
        for word, chunks, least in (
            ("input_chunks", rank.input_chunks, 1),
            ("output_chunks", rank.output_chunks, 1),
            ("scratch_chunks", rank.scratch_chunks, 0),
        ):
            if not least <= chunks <= MAX_CHUNKS:
                crash = ", and the runtime divides by it" if chunks == 0 else ""
                hint = f"set it to {least} or more" if chunks < least else "use fewer chunks"
                subject.rank(
                    number, "chunk-count", f"has {word}={chunks}{crash}", hint, refusal="load", fatal=True
                )


def _chunks_have_one_size(subject: Subject) -> None:
    """Input and output of a call have sizes that the collective ties together, and so must their chunks."""
    plan = subject.plan
    of_output = {
        "allgather": (1, plan.num_ranks),
        "reducescatter": (plan.num_ranks, 1),
        **dict.fromkeys(("allreduce", "alltoall", "sendrecv", "broadcast"), (1, 1)),
    }
    if plan.collective == "custom":
        _buffers_of_a_custom_call(subject)
    if plan.collective not in of_output or not plan.ranks:
        return
    inputs, outputs = of_output[plan.collective]
    usual = Counter(rank.input_chunks for rank in plan.ranks).most_common(1)[0][0]
    for number, rank in subject.ranks():
        if rank.input_chunks * outputs != rank.output_chunks * inputs:
            message = (
                f"has {rank.input_chunks} input chunks and {rank.output_chunks} output chunks; "
                f"{plan.collective} of {plan.num_ranks} ranks has them {inputs} to {outputs}, so chunks have "
                "two sizes"
            )
            hint = "cut both buffers into chunks of one size"
            subject.rank(number, "chunk-size", message, hint, refusal="launch", fatal=True)
        elif rank.input_chunks != usual:
            message = (
                f"has {rank.input_chunks} input chunks where others have {usual}, so chunks have two sizes"
            )
            subject.rank(
                number, "chunk-size", message, "cut the buffers of all ranks into equal chunks", fatal=True
            )


def _buffers_of_a_custom_call(subject: Subject) -> None:
    """A call of one size on all ranks gives all chunks one size only where all buffers have as many."""
    counts = [(rank.input_chunks, rank.output_chunks) for rank in subject.plan.ranks]
    usual = Counter(count for of_rank in counts for count in of_rank).most_common(1)[0][0] if counts else 0
    for number, (inputs, outputs) in enumerate(counts):
        if {inputs, outputs} != {usual}:
            message = (
                f"has {inputs} input chunks and {outputs} output chunks where other buffers have {usual}: "
                "its call must have buffers in that proportion, or chunks have two sizes"
            )
            hint = "cut the buffers of all ranks into as many chunks"
            subject.rank(number, "chunk-size", message, hint, severity="warning")


def _peers_are_other_ranks(subject: Subject) -> None:
    for number, rank in subject.ranks():
        for row in rank.channels:
            for peer in row.peers:
                if peer == number or not 0 <= peer < subject.plan.num_ranks:
                    which = "itself" if peer == number else f"rank {peer}, which is not there"
                    message = f"has a {row.kind.value} channel to {which}"
                    hint = f"connect other ranks of 0 .. {subject.plan.num_ranks - 1}"
                    subject.rank(number, "channel-peer", message, hint, fatal=True)


def _channels_have_two_ends(subject: Subject) -> None:
    for number, peer, kind, count, theirs in _one_sided(subject):
        message = (
            f"has {count} {kind.value} channels to rank {peer}, which lists {theirs} back: nobody there can "
            "signal or wait on the others"
        )
        hint = f"let rank {peer} list rank {number} as often"
        subject.rank(number, "nameless-channel", message, hint, severity="warning")


def _one_sided(subject: Subject) -> Iterator[tuple[int, int, Channel, int, int]]:
    """Ranks that list a peer more often than it lists them: rank, peer, kind of channel, how often each."""
    ranks = subject.plan.ranks
    for kind in _TWO_ENDED:
        counts = [Counter(rank.peers_of(kind)) for rank in ranks]
        for number, mine in enumerate(counts):
            for peer, count in mine.items():
                if count > counts[peer][number]:
                    yield number, peer, kind, count, counts[peer][number]


def _waits_can_be_answered(subject: Subject) -> None:
    """A channel whose other end has no name is never signalled."""
    one_sided = {(number, peer, kind): theirs for number, peer, kind, _, theirs in _one_sided(subject)}
    if not one_sided:
        return
    for at in subject.operations():
        kind = at.operation.channel
        if at.operation.name not in WAITING or kind not in _TWO_ENDED:
            continue
        rank = subject.plan.ranks[at.rank]
        ids = rank.blocks[at.block].channels_of(kind)
        for number in at.operation.channels:
            if not 0 <= number < len(ids):
                continue
            peer, place = _end(rank, kind, ids[number])
            if place >= one_sided.get((at.rank, peer, kind), place + 1):
                message = (
                    f"waits on {kind.value} channel {ids[number]}, whose end at rank {peer} has no name, so "
                    "no signal ever comes"
                )
                hint = f"let rank {peer} list rank {at.rank} as often"
                subject.operation(at, "wait-without-end", message, hint)


def _end(rank: RankPlan, kind: Channel, channel: int) -> tuple[int, int]:
    """The peer of a channel, and how many channels to that peer come before it."""
    peers = rank.peers_of(kind)
    return peers[channel], peers[:channel].count(peers[channel])


def _switch_groups_agree(subject: Subject) -> None:
    ranks = subject.plan.ranks
    for number, rank in subject.ranks():
        for _, group in rank.switches:
            are_ranks = all(0 <= member < len(ranks) for member in group)
            if not are_ranks or len(set(group)) < len(group) or number not in group:
                message = f"has a switch channel of the ranks {_listed(group)}"
                hint = "list different ranks of the plan, this one among them"
                subject.rank(number, "switch-group", message, hint, refusal="launch", fatal=True)
                return
    waiting = [deque(rank.switches) for rank in ranks]
    ready = True
    while ready:
        ready = False
        for row in waiting:
            while row and all(waiting[member] and waiting[member][0] == row[0] for member in row[0][1]):
                ready = True
                for member in row[0][1]:
                    waiting[member].popleft()
    for number, row in enumerate(waiting):
        if row:
            buffer, group = row[0]
            message = (
                f"makes the switch channel of the ranks {_listed(group)} on {buffer.value} when not all of "
                "them make the same: they all wait for ever, or each has other memory there"
            )
            hint = (
                "list the same ranks in the same order and the same buffer on all members, and channels in "
                "one order everywhere"
            )
            subject.rank(number, "switch-group", message, hint, refusal="launch", fatal=True)


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")


def _remote_buffers_are_memory_of_peers(subject: Subject) -> None:
    ranks = subject.plan.ranks
    for number, rank in subject.ranks():
        for place, remote in enumerate(rank.remote_buffers):
            what = f"has remote buffer {place}"
            if remote.rank == number or not 0 <= remote.rank < len(ranks):
                whose = (
                    "of its own" if remote.rank == number else f"of rank {remote.rank}, which is not there"
                )
                hint = "list memory of other ranks only"
                subject.rank(number, "remote-buffer", f"{what} {whose}", hint, refusal="launch", fatal=True)
            elif remote.buffer is Buffer.SCRATCH and ranks[remote.rank].scratch_chunks < 1:
                message = f"{what}, the scratch of rank {remote.rank}, which has none to register"
                hint = f"give rank {remote.rank} scratch_chunks, or remove the entry"
                subject.rank(number, "remote-buffer", message, hint, refusal="launch", fatal=True)
            elif not remote.access:
                message = f"{what}, which no kind of channel may touch"
                subject.rank(
                    number, "remote-buffer", message, "name its access_channel_types", severity="warning"
                )


def _blocks_name_what_is_there(subject: Subject) -> None:
    for number, position, block in subject.blocks():
        rank = subject.plan.ranks[number]
        groups = len(rank.switches)
        for row in block.channels:
            count = groups if row.kind is Channel.SWITCH else len(rank.peers_of(row.kind))
            for each in row.ids:
                if not 0 <= each < count:
                    message = f"uses {row.kind.value} channel {each}; its rank has {count}"
                    hint = "number the channels of a kind from 0, as channels of the gpu list them"
                    subject.block(number, position, "block-channel", message, hint, fatal=True)
        for refs in block.remotes:
            for each in refs.ids:
                if not 0 <= each < len(rank.remote_buffers):
                    message = f"refers to remote buffer {each}; its rank has {len(rank.remote_buffers)}"
                    hint = "ids are positions in remote_buffers"
                    subject.block(number, position, "block-remote-buffer", message, hint, fatal=True)
                elif refs.kind not in rank.remote_buffers[each].access:
                    message = (
                        f"refers to remote buffer {each} for {refs.kind.value} channels, for which it is not "
                        "declared: the runtime silently takes another one"
                    )
                    hint = f"add {refs.kind.value} to its access_channel_types"
                    subject.block(number, position, "block-remote-buffer", message, hint, fatal=True)


def barriers(subject: Subject) -> Iterator[tuple[int, int, list[At]]]:
    """Of each rank each barrier id with the operations that call it."""
    calls: dict[tuple[int, int], list[At]] = {}
    for at in subject.operations():
        if at.operation.name is OpName.BARRIER and at.operation.barrier is not None:
            calls.setdefault((at.rank, at.operation.barrier.id), []).append(at)
    return ((rank, barrier, each) for (rank, barrier), each in calls.items())


def _barriers_have_their_members(subject: Subject) -> None:
    """A call for one block is a nop, and whoever waits there for others does not hear of it."""
    for _, barrier, calls in barriers(subject):
        members = len({at.block for at in calls if _members_requested(at) > 1})
        for at in calls:
            requested = _members_requested(at)
            if requested < 1 or (requested > 1 and requested != members):
                message = (
                    f"waits for {requested} thread blocks at barrier {barrier}, which {members} of its rank "
                    "call"
                )
                subject.operation(
                    at, "barrier-members", message, f"set num_threadblocks to {members}", fatal=requested < 1
                )


def _members_requested(at: At) -> int:
    return 1 if at.operation.barrier is None else at.operation.barrier.num_blocks


STRUCTURE_RULES: tuple[Rule, ...] = (
    _there_are_ranks,
    _ids_are_positions,
    _every_rank_has_a_block,
    _buffers_have_chunks,
    _chunks_have_one_size,
    _peers_are_other_ranks,
    _channels_have_two_ends,
    _switch_groups_agree,
    _remote_buffers_are_memory_of_peers,
    _blocks_name_what_is_there,
    _barriers_have_their_members,
    _waits_can_be_answered,
)
