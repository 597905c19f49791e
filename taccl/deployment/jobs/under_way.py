"""Messages that were posted and sums that are to be made, and the memory that they read and write.

What is under way is finished when something else needs its memory, and not before: a message is waited for, a
sum is made. So a rank posts whatever it can, also behind a sum whose parts are still on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: Returns when a message has ended, or makes a sum; a backend's error is raised as it is.
Finish = Callable[[], object]
#: Addresses from the first byte to behind the last, and whether they are written.
_Span = tuple[int, int, bool]


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    spans: tuple[_Span, ...]
    finish: Finish


class UnderWay:
    """What a rank has begun; `most` : of these at once, then the oldest is finished."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[_Begun] = []

    def before(self, memory: Any, *, writes: bool) -> None:
        """Finish what writes to an array or tensor; before it is written, what reads it, too."""
        self._finish_before((_span(memory, writes),), len(self._begun))

    def add(self, memory: Any, wait: Finish, *, writes: bool) -> None:
        """Note a message that was posted."""
        self._add(_Begun((_span(memory, writes),), wait))

    def add_sum(self, target: Any, parts: Sequence[Any], make: Finish) -> None:
        """Note a sum that is to be made. What comes after it and needs its memory makes it first."""
        spans = (_span(target, True), *(_span(part, False) for part in parts))
        self._add(_Begun(spans, make))

    def end(self) -> None:
        """Finish all."""
        while self._begun:
            self._finish(0)

    def _add(self, begun: _Begun) -> None:
        self._begun.append(begun)
        if len(self._begun) > self._most:
            self._finish(0)

    def _finish_before(self, spans: tuple[_Span, ...], place: int) -> int:
        """Finish what meets these spans among the first this many; how many of those are left."""
        at = 0
        while at < place:
            if _meet(self._begun[at].spans, spans):
                place -= self._finish(at)
                at = 0
            else:
                at += 1
        return place

    def _finish(self, place: int) -> int:
        """Finish one, and before it what was begun before it and meets it; how many were finished."""
        begun = self._begun[place]
        left = self._finish_before(begun.spans, place)
        del self._begun[left]
        begun.finish()
        return place - left + 1


def _meet(some: tuple[_Span, ...], others: tuple[_Span, ...]) -> bool:
    return any(a[0] < b[1] and b[0] < a[1] and (a[2] or b[2]) for a in some for b in others)


def _span(memory: Any, writes: bool) -> _Span:
    first = memory.data_ptr() if hasattr(memory, "data_ptr") else memory.__array_interface__["data"][0]
    return first, first + memory.nbytes, writes
