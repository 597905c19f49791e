"""What an operation moves and adds, in bytes: to whom, from whom, at home."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

from taccl.backend.plan import ExecutionPlan, Operation, OpName
from taccl.backend.verify.mscclpp.operands import behind
from taccl.backend.verify.mscclpp.signatures import PACKET_OPERANDS, Ranges, moves_packets, signature_of
from taccl.backend.verify.mscclpp.subject import At
from taccl.model.executor import Executor

_COPIES = frozenset({OpName.COPY, OpName.COPY_TO_PACKETS, OpName.COPY_FROM_PACKETS})
#: A billionth of a chunk is lost in rounding, and no more.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Bytes:
    """Some bytes; of packets, `first` and `size` are those that they carry, in scratch."""

    first: float
    size: float
    packets: bool

    @property
    def wire(self) -> float:
        """Bytes on the wire: packets have a flag with each word."""
        return self.size * (2 if self.packets else 1)


@dataclass(frozen=True, slots=True)
class Moved(Bytes):
    """Bytes to or from a rank."""

    rank: int


@dataclass(frozen=True, slots=True)
class Multicast(Bytes):
    """Bytes that each of some ranks gives to a switch or gets from it."""

    ranks: tuple[int, ...]

    def one_by_one(self, but: int) -> Iterator[Moved]:
        """The same as bytes of each rank but one."""
        return (Moved(self.first, self.size, self.packets, rank) for rank in self.ranks if rank != but)


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation does, bytes.

    Parameters
    ----------
    sends, reads : to and from other ranks, or through a switch channel: the same to all of its members, and a
        sum of what all have.
    awaits : packets of its own scratch that must be there, as first byte and bytes; keeps : those that it
        writes.
    copied : bytes that it copies at home. summed : bytes of all sources of a sum; None: it sums nothing.
    """

    sends: tuple[Moved | Multicast, ...] = ()
    reads: tuple[Moved | Multicast, ...] = ()
    awaits: tuple[tuple[float, float], ...] = ()
    keeps: tuple[tuple[float, float], ...] = ()
    copied: float = 0.0
    summed: float | None = None

    def home_us(self, executor: Executor | None, copy_us_per_byte: float = 0.0) -> float:
        """What copies and sums take where the machine says so; else copies so much."""
        if executor is None:
            return self.copied * copy_us_per_byte
        if self.summed is not None:
            return executor.reduce_us + 1e-3 * self.summed / executor.reduce_gbps
        if not self.copied:
            return 0.0
        copy_us = executor.reduce_us if executor.copy_us is None else executor.copy_us
        copy_gbps = executor.reduce_gbps if executor.copy_gbps is None else executor.copy_gbps
        return copy_us + 1e-3 * self.copied / copy_gbps


def work_of(plan: ExecutionPlan, at: At, chunk: float, turn: int, unit: int | None) -> Work:
    """What an operation does with chunks of this many bytes, in a turn of a pipeline (None: it is in
    none).
    """
    operation, signature = at.operation, signature_of(at.operation)
    sources, targets = operation.sources, operation.targets
    paired = signature.sizes != "first"
    counted = targets if signature.sizes == "targets" else sources
    first = sources[0].size if sources else 0
    sends: list[Moved | Multicast] = []
    reads: list[Moved | Multicast] = []
    awaits, keeps = [], []
    home, size = 0, 0.0
    for is_source, row, shape in ((True, sources, signature.sources), (False, targets, signature.targets)):
        for place, (each, kind) in enumerate(zip(row, _kinds(shape, len(row)), strict=False)):
            if paired and place >= len(counted):
                break
            chunks = counted[place].size if paired else first
            begin, size = _cut(operation, each.index * chunk, chunks * chunk, turn, unit)
            memory = behind(plan, at, each)
            if memory is None or size <= 0:
                continue
            packets = kind in PACKET_OPERANDS
            through = Multicast(begin, size, packets, memory.owners)
            moved = (through,) if each.switch is not None else through.one_by_one(at.rank)
            if is_source:
                reads += moved
                home += each.buffer is not None
                if packets and each.buffer is not None:
                    awaits.append((begin, size))
            else:
                sends += moved
                if packets and at.rank in memory.owners:
                    keeps.append((begin, size))
    return Work(
        tuple(sends),
        tuple(reads),
        tuple(awaits),
        tuple(keeps),
        copied=size if operation.name in _COPIES else 0.0,
        summed=size * (home + len(reads)) if home + len(reads) > 1 and not paired else None,
    )


def moves_only_packets(plan: ExecutionPlan) -> bool:
    """Whether all that goes from rank to rank goes as packets."""
    return all(
        moves_packets(each.name)
        for rank in plan.ranks
        for block in rank.blocks
        for operation in block.operations
        for each in (operation, *operation.inner)
        if any(one.buffer is None for one in (*each.sources, *each.targets))
    )


def _kinds(shape: Ranges, count: int) -> tuple[object, ...]:
    return shape.kinds(count)


def _cut(operation: Operation, begin: float, size: float, turn: int, unit: int | None) -> tuple[float, float]:
    """A block's part of a range, in a turn; packets are not cut by turns."""
    share = operation.share
    if share is not None and share.parts > 1:
        size /= share.parts
        begin += share.number * size
    if unit is None or moves_packets(operation.name):
        return begin, size
    return begin + turn * unit, max(0.0, min(float(unit), size - turn * unit))


class Packets:
    """Which bytes of a rank's scratch hold packets of this call, as intervals that do not touch."""

    def __init__(self) -> None:
        self._there: list[tuple[float, float]] = []

    def add(self, first: float, end: float) -> None:
        """These are there from now on."""
        merged = []
        for each in self._there:
            if each[1] < first - _ROUNDING * end or each[0] > end + _ROUNDING * end:
                merged.append(each)
            else:
                first, end = min(first, each[0]), max(end, each[1])
        insort(merged, (first, end))
        self._there = merged

    def cover(self, first: float, end: float) -> bool:
        """Whether all of these are there."""
        slack = _ROUNDING * end
        return any(each[0] <= first + slack and end <= each[1] + slack for each in self._there)
