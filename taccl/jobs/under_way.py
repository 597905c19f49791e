"""Messages that were posted and have not been waited for, and the memory that they read and write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Returns when a message has ended; a backend's error is raised as it is.
Wait = Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Posted:
    first: int
    last: int
    writes: bool
    wait: Wait


class UnderWay:
    """What a rank has posted; `most` : of these at once, then the oldest is waited for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._posted: list[_Posted] = []

    def before(self, memory: Any, *, writes: bool) -> None:
        """Wait for what is written in an array or tensor; before a write, for what is read there, too."""
        first, last = _span(memory)
        left = []
        for each in self._posted:
            if each.first < last and first < each.last and (writes or each.writes):
                each.wait()
            else:
                left.append(each)
        self._posted = left

    def add(self, memory: Any, wait: Wait, *, writes: bool) -> None:
        """Note a message that was posted."""
        self._posted.append(_Posted(*_span(memory), writes, wait))
        if len(self._posted) > self._most:
            self._posted.pop(0).wait()

    def end(self) -> None:
        """Wait for all."""
        posted, self._posted = self._posted, []
        for each in posted:
            each.wait()


def _span(memory: Any) -> tuple[int, int]:
    """Addresses of its bytes, from the first to behind the last."""
    first = memory.data_ptr() if hasattr(memory, "data_ptr") else memory.__array_interface__["data"][0]
    return first, first + memory.nbytes
