"""The operations of one thread block, with a meeting of its threads wherever one is needed and nowhere else.
Lane 0 may tell and push what it heard itself; what others heard, or what the threads of the block wrote,
takes a meeting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

from taccl.backend.lower_plan.places import Place
from taccl.backend.lower_plan.tuning import MAX_OPERATION_CHANNELS, MAX_OPERATION_SEMAPHORES
from taccl.backend.plan import Channel, Operation, OpName, Range

#: A channel of a thread block.
End: TypeAlias = tuple[Channel, int]
_WAITS = (OpName.WAIT, OpName.RELAXED_WAIT)
_SIGNALS = (OpName.SIGNAL, OpName.RELAXED_SIGNAL)


class Emitter:
    """A thread block in the making: `operations` so far."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._read: list[Place] = []  # since the threads met
        self._written: list[Place] = []
        self._moved = False  # whether data was moved since then, here or to peers
        self._heard_by_first = False
        self._heard_by_others = False
        self._acquired: list[int] = []  # that are still to be waited for

    def acquire(self, semaphore: int) -> None:
        """Wait for another block of the rank, before whatever comes next."""
        self._acquired.append(semaphore)

    def wait(self, ends: Sequence[End], *, relaxed: bool = False) -> None:
        """Wait for the next signal of channels."""
        self._wait_for_blocks()
        parts = list(_by_operation(ends))
        if self._changes_lane(_WAITS, parts):
            self.meet()
        for kind, part in parts:
            name = OpName.RELAXED_WAIT if relaxed else OpName.WAIT
            self.operations.append(Operation(name, channel=kind, channels=part))
            self._heard_by_first = True
            self._heard_by_others |= len(part) > 1

    def tell_started(self, ends: Sequence[End]) -> None:
        """Signal through these channels that the rank's kernel has begun; before all else."""
        for kind, part in _by_operation(ends):
            self.operations.append(Operation(OpName.RELAXED_SIGNAL, channel=kind, channels=part))

    def signal(self, ends: Sequence[End]) -> None:
        """Signal through channels that all that came before is done."""
        if ends:
            self._published()
        parts = list(_by_operation(ends))
        several = any(len(part) > 1 for _, part in parts)
        if (several and self._heard_by_first) or self._changes_lane(_SIGNALS, parts):
            self.meet()
        for kind, part in parts:
            self.operations.append(Operation(OpName.SIGNAL, channel=kind, channels=part))

    def release(self, semaphores: Sequence[int]) -> None:
        """Tell other blocks of the rank that all that came before is done."""
        self._published()
        if len(semaphores) > 1 and self._heard_by_first:
            self.meet()
        for first in range(0, len(semaphores), MAX_OPERATION_SEMAPHORES):
            part = tuple(semaphores[first : first + MAX_OPERATION_SEMAPHORES])
            self.operations.append(Operation(OpName.RELEASE, semaphores=part))

    def work(
        self,
        name: OpName,
        reads: Sequence[Place],
        writes: Sequence[Place],
        targets: Sequence[Range] = (),
        kind: Channel | None = None,
        *,
        channel: int | None = None,
        alone: bool = False,
        behind: Sequence[Range] = (),
    ) -> None:
        """Move or add up data: from places of the rank to places of the rank, then to peers.

        Parameters
        ----------
        channel : of a put of packets through a port.
        alone : nothing else that the rank or a peer does has to do with it.
        behind : what is read behind the places of the rank: a peer's, or packets, which are waited for.
        """
        sources, stored = (*map(own, reads), *behind), (*map(own, writes), *targets)
        channels = () if channel is None else (channel,)
        self._do(Operation(name, kind, channels, sources, stored), reads, writes, alone)

    def switch(self, name: OpName, read: Place, source: Range, written: Place, target: Range) -> None:
        """Sum, or copy, in a switch: from a place and to a place that the rank has like all members."""
        self._do(Operation(name, Channel.SWITCH, (), (source,), (target,)), [read], [written])

    def _do(
        self, operation: Operation, reads: Sequence[Place], writes: Sequence[Place], alone: bool = False
    ) -> None:
        """An operation on these places of the rank, when the threads have met if they have to."""
        self._wait_for_blocks()
        has_heard = self._heard_by_first or self._heard_by_others
        if (has_heard and not alone) or self._conflicts(reads, writes):
            self.meet()
        self._note(reads, writes)
        self.operations.append(operation)

    def push(
        self, name: OpName, channels: Sequence[int], reads: Sequence[Place], targets: Sequence[Range]
    ) -> None:
        """Put through ports and signal, a lane for each channel with its place and its target."""
        self._published()
        if len(channels) > 1 and self._heard_by_first:
            self.meet()
        self._note(reads, ())
        sources = tuple(own(read) for read in reads)
        self.operations.append(Operation(name, Channel.PORT, tuple(channels), sources, tuple(targets)))

    def finish(self) -> None:
        """Wait for what is still to be waited for, at last for all of it at once: its order does not matter.

        Where channels come several times, those that come most often are first, so that each has one lane.
        """
        self._wait_for_blocks()
        last = list(takewhile(lambda each: each.name is OpName.WAIT, reversed(self.operations)))[::-1]
        times = Counter((each.channel, number) for each in last if each.channel for number in each.channels)
        often = sorted(times, key=lambda end: -times[end])
        ends = [end for turn in range(max(times.values(), default=0)) for end in often if times[end] > turn]
        first = len(self.operations) - len(last)
        parts = list(_by_operation(ends))
        if len(parts) < len(last) and not self._changes_lane(_WAITS, parts, first):
            del self.operations[first:]
            self.wait(ends)

    def meet(self) -> None:
        """All threads of the block meet."""
        self.operations.append(Operation(OpName.NOP))
        self._read, self._written = [], []
        self._moved = self._heard_by_first = self._heard_by_others = False

    def _changes_lane(
        self,
        names: Collection[OpName],
        parts: Collection[tuple[Channel, tuple[int, ...]]],
        before: int | None = None,
    ) -> bool:
        """Whether another lane did such an operation for one of these channels since the threads met."""
        since = takewhile(lambda each: each.name is not OpName.NOP, reversed(self.operations[:before]))
        lanes = {
            (each.channel, number): lane
            for each in since
            if each.name in names
            for lane, number in enumerate(each.channels)
        }
        return any(
            lanes.get((kind, number), lane) != lane
            for kind, part in parts
            for lane, number in enumerate(part)
        )

    def _published(self) -> None:
        self._wait_for_blocks()
        if self._moved or self._heard_by_others:
            self.meet()

    def _wait_for_blocks(self) -> None:
        for first in range(0, len(self._acquired), MAX_OPERATION_SEMAPHORES):
            part = tuple(self._acquired[first : first + MAX_OPERATION_SEMAPHORES])
            self.operations.append(Operation(OpName.ACQUIRE, semaphores=part))
            self._heard_by_first = True
            self._heard_by_others |= len(part) > 1
        self._acquired = []

    def _conflicts(self, reads: Sequence[Place], writes: Sequence[Place]) -> bool:
        return any(
            one.overlaps(other)
            for mine, theirs in ((writes, self._read), (writes, self._written), (reads, self._written))
            for one in mine
            for other in theirs
        )

    def _note(self, reads: Sequence[Place], writes: Sequence[Place]) -> None:
        self._read += reads
        self._written += writes
        self._moved = True


def _by_operation(ends: Sequence[End]) -> Iterator[tuple[Channel, tuple[int, ...]]]:
    """Channels of one kind, as many as an operation takes, each always by one lane; else each alone."""
    for kind in Channel:
        mine = [channel for each, channel in ends if each is kind]
        parts: list[list[int]] = []
        for channel in mine:
            if not parts or channel in parts[-1] or len(parts[-1]) == MAX_OPERATION_CHANNELS:
                parts.append([])
            parts[-1].append(channel)
        lanes = {(channel, lane) for part in parts for lane, channel in enumerate(part)}
        if len(lanes) > len(set(mine)):
            parts = [[channel] for channel in mine]
        yield from ((kind, tuple(part)) for part in parts)


def own(place: Place) -> Range:
    """A place of the rank itself as an operand."""
    return Range(place.index, place.size, buffer=place.buffer)
