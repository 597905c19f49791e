"""MSCCL++ plans (JSON, v0.8 and later) to `ExecutionPlan`: what a file says, not whether that is right.

`parse_plan` raises the first thing that cannot be understood; `parse_plan_document`, for `verify`, goes on
with the best guess and hands over all of them next to the plan and the text. Keys that the runtime does not
know are skipped, as it skips them, and kept as `ignored`; keys that it has a default for may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from taccl.backend.plan import (
    NO_LARGEST,
    Barrier,
    BlockChannels,
    BlockRemotes,
    Channel,
    ExecutionPlan,
    Operation,
    OpName,
    PlanBlock,
    Range,
    RankChannels,
    RankPlan,
    RemoteBuffer,
    Share,
    Turns,
)
from taccl.backend.program import Buffer
from taccl.errors import PlanError
from taccl.support.json_text import MAX_BYTES, lines_of, parse_json
from taccl.support.json_values import Fault, Ignored, Values
from taccl.support.reading import bytes_of

_UNEDITED = "give the JSON file that a synthesizer or mscclpp's own language wrote, unedited"
#: Pipelines inside pipelines are refused by `verify`; deeper than this they are not even read.
_MOST_NESTED = 4

_OPS = {op.value: op for op in OpName}
_BUFFERS = {buffer.value: buffer for buffer in Buffer}
_CHANNELS = {channel.value: channel for channel in Channel}
_REMOTE_CHANNELS = {kind.value: kind for kind in (Channel.MEMORY, Channel.PORT)}

_PLAN_KEYS = frozenset(
    {
        *("name", "collective", "protocol", "inplace", "gpus", "reuse_resources", "num_threads_per_block"),
        *("use_double_scratch_buffer", "buffer_alignment", "min_message_size", "max_message_size"),
    }
)
_RANK_KEYS = frozenset(
    {
        *("id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks", "channels"),
        *("remote_buffers", "semaphores"),
    }
)
_BLOCK_KEYS = frozenset({"id", "ops", "channels", "remote_buffer_refs"})
_OPERATION_KEYS = frozenset(
    {
        *("name", "channel_type", "channel_ids", "src_buff", "dst_buff", "tbg_info", "barrier_id"),
        *("num_threadblocks", "semaphore_ids", "iter_context", "ops", "reduce_op"),
    }
)
_RANGE_KEYS = frozenset({"type", "buffer_id", "switch_channel_id", "index", "size"})
_OTHER_KEYS = frozenset(
    {
        *("channel_type", "connected_to", "buffer_type", "rank_groups", "ranks", "rank", "channel_ids"),
        *("access_channel_types", "access_channel_type", "remote_buffer_ids", "init_value"),
        *("tb_id", "tbg_size", "unit_size", "num_chunks"),
    }
)
#: All keys that the runtime reads anywhere.
KNOWN_KEYS = tuple(
    sorted(_PLAN_KEYS | _RANK_KEYS | _BLOCK_KEYS | _OPERATION_KEYS | _RANGE_KEYS | _OTHER_KEYS)
)


@dataclass(frozen=True, eq=False)
class PlanDocument:
    """A plan and where it came from.

    Parameters
    ----------
    plan : what the runtime would execute.
    faults : what could not be understood.
    ignored : keys that the runtime skips.
    text : the file's text.
    path : None for a text that came from no file.
    """

    plan: ExecutionPlan
    faults: tuple[Fault, ...]
    ignored: tuple[Ignored, ...]
    text: str
    path: str | None = None

    def lines(self, places: Collection[str]) -> dict[str, int]:
        """The lines where these places begin, from 1."""
        return lines_of(self.text, places)


def read_plan(path: str | Path) -> ExecutionPlan:
    """The plan in a file.

    Raises
    ------
    FileError : no such file, a directory, no permission.
    PlanError : not JSON, or anything in it that cannot be understood.
    """
    return parse_plan(bytes_of(path, MAX_BYTES + 1), path)


def parse_plan(
    text: str | bytes, path: str | Path | None = None, look: Callable[[], None] = lambda: None
) -> ExecutionPlan:
    """The plan in a text; raises `PlanError`. `path` is for messages; `look` is called now and then."""
    document = parse_plan_document(text, path, look)
    for fault in document.faults:
        line = document.lines([fault.place]).get(fault.place)
        raise PlanError(f"{fault.place} {fault.message}", path=document.path, line=line, hint=fault.hint)
    return document.plan


def read_plan_document(path: str | Path) -> PlanDocument:
    """A file, with all that `verify` wants to know about it.

    Raises
    ------
    FileError : no such file, a directory, no permission.
    PlanError : not JSON, or no plan at all.
    """
    return parse_plan_document(bytes_of(path, MAX_BYTES + 1), path)


def parse_plan_document(
    text: str | bytes, path: str | Path | None = None, look: Callable[[], None] = lambda: None
) -> PlanDocument:
    """A text, with all that `verify` wants to know about it; raises `PlanError` if it is no plan at all.

    `look` is called now and then, and may raise.
    """
    where = None if path is None else str(path)
    content, decoded = parse_json(text, where, PlanError, _UNEDITED, look)
    hint = "a plan is one object with name, collective and gpus"
    if not isinstance(content, dict):
        raise PlanError("this is not a JSON object", path=where, line=1, hint=hint)
    if "gpus" not in content and "collective" not in content:
        raise PlanError("this JSON object is no MSCCL++ plan", path=where, line=1, hint=hint)
    reader = _Reader(look)
    plan = reader.plan(content)
    return PlanDocument(plan, tuple(reader.faults), tuple(reader.ignored), decoded, where)


class _Reader(Values):
    """Value by value to the plan; holds the faults found, each with its place."""

    twice_message = "is given twice; the runtime takes the last one"
    missing_hint = "add it: {what}; the runtime reads it without asking whether it is there"
    fraction_hint = "the runtime cuts off what follows the point"

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self._look = look

    def plan(self, top: dict[str, object]) -> ExecutionPlan:
        self.look(top, "", _PLAN_KEYS)
        return ExecutionPlan(
            name=self.text(top, "name", ""),
            collective=self.text(top, "collective", ""),
            protocol=self.text(top, "protocol", ""),
            in_place=self.boolean(top, "inplace", "", None),
            ranks=self.each(top, "gpus", "", self._rank),
            reuse_resources=self.boolean(top, "reuse_resources", "", False),
            threads=self.whole(top, "num_threads_per_block", "", 1024),
            double_scratch=self.boolean(top, "use_double_scratch_buffer", "", False),
            alignment=self.whole(top, "buffer_alignment", "", 16),
            min_bytes=self.whole(top, "min_message_size", "", 0),
            max_bytes=self.whole(top, "max_message_size", "", NO_LARGEST),
        )

    def _rank(self, gpu: dict[str, object], place: str) -> RankPlan:
        self.look(gpu, place, _RANK_KEYS)
        return RankPlan(
            rank=self.whole(gpu, "id", place),
            input_chunks=self.whole(gpu, "input_chunks", place),
            output_chunks=self.whole(gpu, "output_chunks", place),
            scratch_chunks=self.whole(gpu, "scratch_chunks", place),
            blocks=self.each(gpu, "threadblocks", place, self._block),
            channels=self.each(gpu, "channels", place, self._rank_channels),
            remote_buffers=self.each(gpu, "remote_buffers", place, self._remote_buffer),
            semaphores=self.each(gpu, "semaphores", place, self._semaphore, needed=False),
        )

    def _rank_channels(self, row: dict[str, object], place: str) -> RankChannels:
        kind = self.choice(row, "channel_type", place, _CHANNELS) or Channel.MEMORY
        if kind is not Channel.SWITCH:
            self.look(row, place, {"channel_type", "connected_to"})
            return RankChannels(kind, peers=self.numbers(row, "connected_to", place))
        self.look(row, place, {"channel_type", "buffer_type", "rank_groups"})
        return RankChannels(
            kind,
            buffer=self.choice(row, "buffer_type", place, _BUFFERS) or Buffer.INPUT,
            groups=self.each(row, "rank_groups", place, self._group),
        )

    def _group(self, group: dict[str, object], place: str) -> tuple[int, ...]:
        self.look(group, place, {"size", "ranks"})
        self.whole(group, "size", place)  # the runtime reads it and makes nothing of it
        return self.numbers(group, "ranks", place)

    def _remote_buffer(self, row: dict[str, object], place: str) -> RemoteBuffer:
        self.look(row, place, {"rank", "type", "access_channel_types"})
        words = self.sequence(row, "access_channel_types", place)
        access = [
            self.chosen(word, f"{place}.access_channel_types[{number}]", _REMOTE_CHANNELS)
            for number, word in enumerate(words)
        ]
        return RemoteBuffer(
            rank=self.whole(row, "rank", place),
            buffer=self.choice(row, "type", place, _BUFFERS) or Buffer.INPUT,
            access=tuple(kind for kind in access if kind is not None),
        )

    def _semaphore(self, row: dict[str, object], place: str) -> int:
        self.look(row, place, {"init_value"})
        return self.whole(row, "init_value", place)

    def _block(self, block: dict[str, object], place: str) -> PlanBlock:
        self._look()
        self.look(block, place, _BLOCK_KEYS)
        return PlanBlock(
            id=self.whole(block, "id", place),
            operations=self.each(block, "ops", place, self._operation),
            channels=self.each(block, "channels", place, self._block_channels),
            remotes=self.each(block, "remote_buffer_refs", place, self._block_remotes, needed=False),
        )

    def _block_channels(self, row: dict[str, object], place: str) -> BlockChannels:
        self.look(row, place, {"channel_type", "channel_ids"})
        kind = self.choice(row, "channel_type", place, _CHANNELS) or Channel.MEMORY
        return BlockChannels(kind, self.numbers(row, "channel_ids", place))

    def _block_remotes(self, row: dict[str, object], place: str) -> BlockRemotes:
        self.look(row, place, {"access_channel_type", "remote_buffer_ids"})
        kind = self.choice(row, "access_channel_type", place, _REMOTE_CHANNELS) or Channel.MEMORY
        return BlockRemotes(kind, self.numbers(row, "remote_buffer_ids", place))

    def _operation(self, row: dict[str, object], place: str) -> Operation:
        self.look(row, place, _OPERATION_KEYS)
        name = self.choice(row, "name", place, _OPS)
        channel = None
        if row.get("channel_type", "none") != "none":  # the runtime's word for no channel
            channel = self.choice(row, "channel_type", place, _CHANNELS)
        return Operation(
            name=name or OpName.NOP,
            channel=channel,
            channels=self.numbers(row, "channel_ids", place, needed=False),
            sources=self.each(row, "src_buff", place, self._range, needed=False),
            targets=self.each(row, "dst_buff", place, self._range, needed=False),
            share=self._share(row, place),
            barrier=self._barrier(row, place),
            semaphores=self.numbers(row, "semaphore_ids", place, needed=False),
            turns=self._turns(row, place),
            inner=self._inner(row, place),
            reduce_op=None if row.get("reduce_op") is None else self.text(row, "reduce_op", place),
            place=place,
        )

    def _inner(self, row: dict[str, object], place: str) -> tuple[Operation, ...]:
        if place.count(".ops[") < _MOST_NESTED:
            looks = row.get("name") == OpName.PIPELINE.value or "iter_context" in row
            return self.each(row, "ops", place, self._operation, needed=looks)
        if row.get("ops"):
            self.fault(f"{place}.ops", "operations are nested too deep", "a pipeline holds no pipelines")
        return ()

    def _share(self, row: dict[str, object], place: str) -> Share | None:
        part = self.inside(row, "tbg_info", place, {"tb_id", "tbg_size"})
        if part is None:
            return None
        inner = f"{place}.tbg_info"
        return Share(self.whole(part, "tb_id", inner), self.whole(part, "tbg_size", inner))

    def _barrier(self, row: dict[str, object], place: str) -> Barrier | None:
        if "barrier_id" not in row and "num_threadblocks" not in row:
            return None
        return Barrier(self.whole(row, "barrier_id", place), self.whole(row, "num_threadblocks", place))

    def _turns(self, row: dict[str, object], place: str) -> Turns | None:
        turns = self.inside(row, "iter_context", place, {"unit_size", "num_chunks"})
        if turns is None:
            return None
        inner = f"{place}.iter_context"
        return Turns(self.whole(turns, "unit_size", inner), self.whole(turns, "num_chunks", inner))

    def _range(self, row: dict[str, object], place: str) -> Range:
        """Chunks of a buffer. A switch channel counts before a remote buffer, and that before an own one."""
        self.look(row, place, _RANGE_KEYS)
        index, size = self.whole(row, "index", place), self.whole(row, "size", place)
        said = [key for key in ("switch_channel_id", "buffer_id", "type") if key in row]
        if not said:
            message = "says of no buffer what it is"
            hint = "add a type (own memory), a buffer_id (a peer's) or a switch_channel_id"
            self.fault(place, message, hint, missing=True)
            return Range(index, size, buffer=Buffer.INPUT)
        self.ignored += [Ignored(place, key) for key in said[1:]]
        if said[0] == "type":
            return Range(index, size, buffer=self.choice(row, "type", place, _BUFFERS) or Buffer.INPUT)
        number = self.whole(row, said[0], place)
        remote = said[0] == "buffer_id"
        return Range(index, size, remote=number) if remote else Range(index, size, switch=number)
