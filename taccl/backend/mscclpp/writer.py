"""A plan as a file for MSCCL++: an operation to a line, always the same text for the same plan.

It writes every key that the runtime reads without asking and those with defaults, and of operations what they
have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from taccl.backend.plan import ExecutionPlan, Operation, OpName, PlanBlock, Range, RankChannels, RankPlan
from taccl.errors import PlanError
from taccl.support.arguments import shown


def to_json(plan: ExecutionPlan) -> str:
    """The text of the file, ASCII, ending with a line break.

    Raises
    ------
    PlanError : a name that cannot be spelled.
    """
    for text in (plan.name, plan.collective, plan.protocol):
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise PlanError(f"{shown(text)} has half of a surrogate pair, which is no text")
    return "\n".join(_plan_lines(plan)) + "\n"


def _plan_lines(plan: ExecutionPlan) -> Iterator[str]:
    head = {
        "name": plan.name,
        "collective": plan.collective,
        "protocol": plan.protocol,
        "inplace": plan.in_place,
        "reuse_resources": plan.reuse_resources,
        "num_threads_per_block": plan.threads,
        "use_double_scratch_buffer": plan.double_scratch,
        "buffer_alignment": plan.alignment,
        "min_message_size": plan.min_bytes,
        "max_message_size": plan.max_bytes,
    }
    yield _opened(head) + ","
    yield from _list("gpus", [_rank_lines(rank) for rank in plan.ranks], " ")
    yield "}"


def _rank_lines(rank: RankPlan) -> Iterator[str]:
    head = {
        "id": rank.rank,
        "input_chunks": rank.input_chunks,
        "output_chunks": rank.output_chunks,
        "scratch_chunks": rank.scratch_chunks,
    }
    yield _opened(head) + ","
    channels = [iter([_flat(_rank_channels(row))]) for row in rank.channels]
    yield from _followed(_list("channels", channels, " "))
    remotes = [
        {
            "rank": remote_buffer.rank,
            "type": remote_buffer.buffer.value,
            "access_channel_types": [c.value for c in remote_buffer.access],
        }
        for remote_buffer in rank.remote_buffers
    ]
    yield from _followed(_list("remote_buffers", [iter([_flat(row)]) for row in remotes], " "))
    semaphores = [{"init_value": value} for value in rank.semaphores]
    yield f' "semaphores": {_flat(semaphores)},'
    yield from _list("threadblocks", [_block_lines(block) for block in rank.blocks], " ")
    yield "}"


def _rank_channels(row: RankChannels) -> dict[str, object]:
    if row.buffer is None:
        return {"channel_type": row.kind.value, "connected_to": row.peers}
    groups = [{"size": len(group), "ranks": group} for group in row.groups]
    return {"channel_type": row.kind.value, "buffer_type": row.buffer.value, "rank_groups": groups}


def _block_lines(block: PlanBlock) -> Iterator[str]:
    yield _opened({"id": block.id}) + ","
    channels = [{"channel_type": row.kind.value, "channel_ids": row.ids} for row in block.channels]
    yield f' "channels": {_flat(channels)},'
    remotes = [{"access_channel_type": row.kind.value, "remote_buffer_ids": row.ids} for row in block.remotes]
    yield f' "remote_buffer_refs": {_flat(remotes)},'
    yield from _list("ops", [_operation_lines(operation) for operation in block.operations], " ")
    yield "}"


def _operation_lines(operation: Operation) -> Iterator[str]:
    said = _said(operation)
    if not operation.inner and operation.turns is None and operation.name is not OpName.PIPELINE:
        yield _flat(said)
        return
    yield _opened(said) + ","
    yield from _list("ops", [_operation_lines(each) for each in operation.inner], " ")
    yield "}"


def _said(operation: Operation) -> dict[str, object]:
    """What an operation has, but for the operations inside it."""
    said: dict[str, object] = {"name": operation.name.value}
    if operation.channel is not None:
        said["channel_type"] = operation.channel.value
    if operation.channels:
        said["channel_ids"] = operation.channels
    if operation.sources:
        said["src_buff"] = [_range(source) for source in operation.sources]
    if operation.targets:
        said["dst_buff"] = [_range(target) for target in operation.targets]
    if operation.share is not None:
        said["tbg_info"] = {"tb_id": operation.share.number, "tbg_size": operation.share.parts}
    if operation.barrier is not None:
        said["barrier_id"] = operation.barrier.id
        said["num_threadblocks"] = operation.barrier.num_blocks
    if operation.semaphores:
        said["semaphore_ids"] = operation.semaphores
    if operation.turns is not None:
        turns = operation.turns
        said["iter_context"] = {"unit_size": turns.unit_bytes, "num_chunks": turns.num_chunks}
    if operation.reduce_op is not None:
        said["reduce_op"] = operation.reduce_op
    return said


def _range(each: Range) -> dict[str, object]:
    if each.buffer is not None:
        return {"type": each.buffer.value, "index": each.index, "size": each.size}
    key, number = (
        ("buffer_id", each.remote) if each.remote is not None else ("switch_channel_id", each.switch)
    )
    return {key: number, "index": each.index, "size": each.size}


def _flat(value: object) -> str:
    return json.dumps(value)


def _opened(head: Mapping[str, object]) -> str:
    """An object on one line, whose last bracket is yet to come."""
    return _flat(head)[:-1]


def _list(key: str, rows: Sequence[Iterator[str]], indent: str) -> Iterator[str]:
    """A key and a list, with the lines of each row below it."""
    if not rows:
        yield f'{indent}"{key}": []'
        return
    yield f'{indent}"{key}": ['
    for number, row in enumerate(rows):
        lines = [f"{indent} {line}" for line in row]
        yield from lines[:-1]
        yield lines[-1] + ("," if number + 1 < len(rows) else "]")


def _followed(lines: Iterator[str]) -> Iterator[str]:
    """Lines with a comma after the last of them."""
    kept = list(lines)
    yield from kept[:-1]
    yield kept[-1] + ","
