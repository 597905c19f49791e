"""What the runtime has room for.

It checks only the operations of a block; past the others it overwrites memory. Each rule's name says what
holds when it is silent.
"""

from __future__ import annotations

from taccl.backend.machine.report import Refusal
from taccl.backend.plan import Channel, OpName
from taccl.backend.verify.mscclpp.header import VECTOR, largest_chunk, smallest_chunk
from taccl.backend.verify.mscclpp.operands import ranges
from taccl.backend.verify.mscclpp.signatures import moves_packets
from taccl.backend.verify.mscclpp.subject import At, Rule, Subject
from taccl.backend.verify.mscclpp.versions import NEWEST, OPERANDS

#: Of a thread block, those inside pipelines counted too.
MAX_OPERATIONS = 64
#: Of a thread block, of each kind; and remote buffers of each kind.
MAX_CHANNELS = 16
MAX_CHANNELS_PER_OPERATION = 8
MAX_SEMAPHORES_PER_OPERATION = 16
MAX_BARRIERS = 16
MAX_TURNS = 65535
#: Memory ids of port channels have 9 bits, and every rank's own buffers take three; semaphore ids have 10.
MAX_PORT_MEMORIES = 2**9
OWN_MEMORIES = 3
MAX_PORT_CHANNELS = 2**10
#: Thread blocks that run at once, one to a multiprocessor: of an A100, and of the largest GPU (MI300X).
RESIDENT_A100 = 108
RESIDENT_MOST = 304


def _operations_fit(subject: Subject) -> None:
    for rank, number, block in subject.blocks():
        count = sum(1 + len(operation.inner) for operation in block.operations)
        if count > MAX_OPERATIONS:
            message = (
                f"has {count} operations, those inside pipelines counted; there is room for {MAX_OPERATIONS}"
            )
            hint = "merge contiguous chunks, or spread them over more thread blocks"
            subject.block(rank, number, "operation-limit", message, hint, refusal="launch")


def _channels_and_remote_buffers_fit(subject: Subject) -> None:
    for rank, number, block in subject.blocks():
        for kind in Channel:
            for what, count in (
                ("channels", len(block.channels_of(kind))),
                ("remote buffers", len(block.remotes_of(kind))),
            ):
                if count > MAX_CHANNELS:
                    message = (
                        f"has {count} {kind.value} {what}; there is room for {MAX_CHANNELS}, and the others "
                        "overwrite memory"
                    )
                    rule = "channel-limit" if what == "channels" else "remote-buffer-limit"
                    subject.block(rank, number, rule, message, "spread them over more thread blocks")


def _operands_fit(subject: Subject) -> None:
    for at in subject.operations():
        operation = at.operation
        channels = len(operation.channels)
        if channels > MAX_CHANNELS_PER_OPERATION:
            message = (
                f"names {channels} channels; there is room for {MAX_CHANNELS_PER_OPERATION}, and the others "
                "overwrite memory"
            )
            subject.operation(at, "channel-ids-limit", message, "split the operation", fatal=True)
        most = max(len(operation.sources), len(operation.targets))
        for room, releases in OPERANDS.items():
            if most > room:
                message = (
                    f"has {most} operands on one side; there is room for {room}, and more overwrite memory"
                )
                subject.operation(
                    at,
                    "operand-limit",
                    message,
                    "split the operation",
                    fatal=room == NEWEST.operands,
                    runtimes=releases,
                )
        if len(operation.semaphores) > MAX_SEMAPHORES_PER_OPERATION:
            count, room = len(operation.semaphores), MAX_SEMAPHORES_PER_OPERATION
            message = f"names {count} semaphores; there is room for {room}, and more overwrite memory"
            subject.operation(at, "semaphore-limit", message, "split the operation", fatal=True)


def _semaphores_are_there(subject: Subject) -> None:
    for at in subject.operations():
        count = len(subject.plan.ranks[at.rank].semaphores)
        if at.operation.name not in (OpName.RELEASE, OpName.ACQUIRE):
            continue
        for each in at.operation.semaphores:
            if not 0 <= each < count:
                message = f"names semaphore {each}; its rank has {count}"
                hint = "ids are positions in the gpu's semaphores"
                subject.operation(at, "semaphore-id", message, hint, fatal=True)


def _barriers_are_there(subject: Subject) -> None:
    for at in subject.operations():
        barrier = at.operation.barrier
        if at.operation.name is OpName.BARRIER and barrier is not None and not 0 <= barrier.id < MAX_BARRIERS:
            message = f"has barrier_id {barrier.id}; there are {MAX_BARRIERS}, and others overwrite memory"
            subject.operation(at, "barrier-id", message, f"use 0 .. {MAX_BARRIERS - 1}", fatal=True)


def _blocks_can_all_run_at_once(subject: Subject) -> None:
    for number, rank in subject.ranks():
        count = len(rank.blocks)
        if count > RESIDENT_A100:
            most = count > RESIDENT_MOST
            message = f"has {count} thread blocks, which must all run at once; " + (
                f"no GPU has room for more than {RESIDENT_MOST}"
                if most
                else f"an A100 has room for {RESIDENT_A100}"
            )
            subject.rank(
                number,
                "resident-blocks",
                message,
                "use fewer thread blocks or instances",
                severity="error" if most else "warning",
            )


def _ports_have_ids(subject: Subject) -> None:
    for number, rank in subject.ranks():
        memories = OWN_MEMORIES + sum(Channel.PORT in remote.access for remote in rank.remote_buffers)
        channels = len(rank.peers_of(Channel.PORT))
        if memories > MAX_PORT_MEMORIES:
            message = (
                f"registers {memories} memories for ports, its own {OWN_MEMORIES} counted; ids have 9 bits"
            )
            hint = f"list at most {MAX_PORT_MEMORIES - OWN_MEMORIES} remote buffers for port channels"
            subject.rank(number, "port-memory-limit", message, hint)
        if channels > MAX_PORT_CHANNELS:
            message = f"has {channels} port channels; their ids have 10 bits"
            subject.rank(number, "port-channel-limit", message, f"use at most {MAX_PORT_CHANNELS}")


def _shares_are_parts(subject: Subject) -> None:
    smallest = smallest_chunk(subject.plan)
    for at in subject.operations():
        share = at.operation.share
        if share is None:
            continue
        if share.parts < 1 or not 0 <= share.number < share.parts:
            message = f"does part {share.number} of {share.parts}"
            hint = "tb_id counts from 0 and is below tbg_size"
            refusal: Refusal | None = "load" if share.parts == 0 else None
            subject.operation(at, "share", message, hint, refusal=refusal, fatal=True)
            continue
        sizes = [each.size for _, _, each, _, _ in ranges(at.operation)]
        if smallest is None or not sizes or min(sizes) < 1:
            continue
        units = min(sizes) * smallest // subject.plan.alignment
        if units < share.parts:
            message = (
                f"does part {share.number} of {share.parts} of {min(sizes)} chunks, which in calls of "
                f"min_message_size={subject.plan.min_bytes} have {units} units of {subject.plan.alignment} "
                "bytes: the runtime cuts fewer units than parts wrongly"
            )
            factor = -(-share.parts // min(sizes))
            hint = (
                f"set min_message_size so that a chunk has at least {factor * subject.plan.alignment} bytes"
            )
            subject.operation(at, "share-too-fine", message, hint, severity="warning")


def _pipelines_can_be_run(subject: Subject) -> None:
    largest = largest_chunk(subject.plan)
    for at in subject.operations():
        if at.operation.name is not OpName.PIPELINE:
            continue
        turns = at.operation.turns
        if at.inner is not None:
            message = "is inside another pipeline, which the kernel dies of"
            subject.operation(
                at, "nested-pipeline", message, "put its operations next to each other", fatal=True
            )
        elif turns is None:
            message = "has no iter_context, so that its operations run once, as if there were no pipeline"
            subject.operation(at, "pipeline-turns", message, "add unit_size and num_chunks", fatal=True)
        elif turns.unit_bytes < VECTOR or turns.unit_bytes % VECTOR or turns.unit_bytes >= 2**32:
            message = f"has turns of {turns.unit_bytes} bytes"
            hint = f"set unit_size to a multiple of {VECTOR}"
            subject.operation(at, "pipeline-unit", message, hint, fatal=True)
        elif turns.num_chunks < 1:
            message = f"moves {turns.num_chunks} chunks"
            subject.operation(at, "pipeline-turns", message, "set num_chunks to 1 or more", fatal=True)
        elif largest is not None and largest * turns.num_chunks > MAX_TURNS * turns.unit_bytes:
            count = -(-largest * turns.num_chunks // turns.unit_bytes)
            message = f"takes {count} turns at max_message_size; they are counted to {MAX_TURNS}"
            subject.operation(
                at, "pipeline-turns", message, "use a larger unit_size, or a smaller max_message_size"
            )
        if at.inner is None and not at.operation.inner:
            subject.operation(at, "pipeline-turns", "has no operations", "remove it", severity="warning")


def _pipelines_hold_what_can_be_cut(subject: Subject) -> None:
    largest = largest_chunk(subject.plan)
    for at in subject.operations():
        if at.inner is None or at.operation.name is OpName.PIPELINE:
            continue
        turns = subject.plan.ranks[at.rank].blocks[at.block].operations[at.step].turns
        if moves_packets(at.operation.name):
            message = "moves packets inside a pipeline, all of them in every turn"
            subject.operation(at, "packets-in-pipeline", message, "put it before or after the pipeline")
        elif turns is not None:
            _check_lengths(
                subject, at, turns.num_chunks, _is_one_turn(largest, turns.num_chunks, turns.unit_bytes)
            )


def _is_one_turn(largest: int | None, chunks: int, unit_bytes: int) -> bool:
    return largest is not None and largest * chunks <= unit_bytes


def _check_lengths(subject: Subject, at: At, chunks: int, is_one_turn: bool) -> None:
    for key, place, _, _, size in ranges(at.operation):
        if size != chunks:
            loss = "those beyond are not moved" if size > chunks else "later turns touch what follows them"
            message = f"moves {size} chunks ({key}[{place}]) in a pipeline of {chunks}: {loss}"
            subject.operation(at, "pipeline-operand", message, f"give each range {chunks} chunks", fatal=True)
            return
    share = at.operation.share
    if share is not None and share.parts > 1 and not is_one_turn:
        message = (
            f"does part {share.number} of {share.parts} inside a pipeline, whose turns go on to the end of "
            "the whole range: later turns touch what follows the part"
        )
        subject.operation(at, "pipeline-operand", message, "give each block ranges of its own")


LIMIT_RULES: tuple[Rule, ...] = (
    _operations_fit,
    _channels_and_remote_buffers_fit,
    _operands_fit,
    _semaphores_are_there,
    _barriers_are_there,
    _blocks_can_all_run_at_once,
    _ports_have_ids,
    _shares_are_parts,
    _pipelines_can_be_run,
    _pipelines_hold_what_can_be_cut,
)
