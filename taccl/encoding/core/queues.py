"""Who waits for which port, as sends are placed one after another."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


class Queues:
    """Sends that wait, each for one busy port: only the first of each port tries again, not all of them.

    Without them, whatever waits for a port would be looked at again each time that the port has been taken.

    num_ports : how many there are. priority : of each send; the highest is the first.
    """

    def __init__(self, num_ports: int, priority: Sequence[float]) -> None:
        self._priority = priority
        self._queues: list[list[tuple[float, int]]] = [[] for _ in range(num_ports)]
        self._port: list[int | None] = [None] * len(priority)
        self._is_placed = [False] * len(priority)

    def is_behind(self, index: int) -> bool:
        """Whether a send was placed, or another waits before it."""
        port = self._port[index]
        return self._is_placed[index] or (port is not None and self._queues[port][0][1] != index)

    def waits(self, index: int, port: int) -> list[tuple[int, int]]:
        """A send that is the first where it waits, if it does, waits for a port.

        Returns ports and the sends that try next there.
        """
        following = [] if self._port[index] == port else self._next_at(index)
        if self._port[index] != port:
            heapq.heappush(self._queues[port], (-self._priority[index], index))
            self._port[index] = port
        if self._queues[port][0][1] == index:
            following.append((port, index))
        return following

    def leaves(self, index: int) -> list[tuple[int, int]]:
        """A send is placed; returns what `waits` does."""
        self._is_placed[index] = True
        return self._next_at(index)

    def _next_at(self, index: int) -> list[tuple[int, int]]:
        """Where a send was the first: who is now."""
        port = self._port[index]
        if port is None:
            return []
        heapq.heappop(self._queues[port])
        return [(port, self._queues[port][0][1])] if self._queues[port] else []
