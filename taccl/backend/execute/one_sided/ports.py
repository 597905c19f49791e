"""The proxy of a port channel: it does what was pushed, in order, some time later.

Nothing orders two channels, so each has an agent of its own. A transfer reads its source and writes its
target piece by piece, with time in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from taccl.backend.execute.agents import Wait
from taccl.backend.execute.one_sided.memory import PlanWorld, Words
from taccl.backend.plan import ChannelEnd

#: This many pieces a transfer has at most.
_PIECES = 3


@dataclass(frozen=True, slots=True)
class Push:
    """What a push asks for: rows to copy, or (None) a signal."""

    source: Words | None
    target: Words | None


class Port:
    """One end of a port channel, with what was pushed and is not yet done.

    `pushed`, `done` : how many of all calls. `last_lanes` : of its rank, over all calls, this many lanes come
    to the ends of their kernels.
    """

    def __init__(self, world: PlanWorld, end: ChannelEnd) -> None:
        self.world, self.end, self.rank = world, end, end.rank
        self.queue: deque[Push] = deque()
        self.pushed = self.done = self.moved = 0
        self.ended = False
        self.waits_for: Wait | None = None
        self.last_lanes = 0

    def put(self, source: Words, target: Words) -> None:
        """Ask for a copy of rows."""
        self.pushed += 1
        self.queue.append(Push(source, target))

    def signal(self) -> None:
        """Ask for a signal after all that was requested before."""
        self.pushed += 1
        self.queue.append(Push(None, None))

    def is_idle(self) -> bool:
        """Whether all that was requested is done."""
        return self.done == self.pushed

    def run(self) -> Iterator[Wait | None]:
        """Serve the channel until no thread block can push any more."""
        while True:
            yield Wait(self._has_work_or_is_over)
            if not self.queue:
                break
            requested = self.queue.popleft()
            yield None
            if requested.source is None or requested.target is None:
                if self.end.other is not None:
                    self.world.come[self.end.other] += 1
            else:
                step = max(1, -(-len(requested.source) // _PIECES))
                for first in range(0, len(requested.source), step):
                    read = requested.source[first : first + step].copy()
                    yield None
                    requested.target[first : first + step] = read
                self.moved += 1
            self.done += 1
        self.ended = True

    def _has_work_or_is_over(self) -> bool:
        return bool(self.queue) or bool(self.world.ended[self.rank] >= self.last_lanes)
