"""Connections as queues of pieces, and the flags of thread blocks: of one process, or shared by several."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from taccl.backend.execute.job import Lock
from taccl.backend.execute.reference import Array
from taccl.backend.execute.shared import Region


class LocalQueues:
    """Queues in the memory of one process; each has one sender and one receiver."""

    def __init__(self, connections: int, slots: int, blocks: int) -> None:
        self._slots = slots
        self._held: list[list[Array]] = [[] for _ in range(connections)]
        self._flags = [-1] * blocks

    def holds_piece(self, connection: int) -> bool:
        return bool(self._held[connection])

    def has_room(self, connection: int) -> bool:
        return len(self._held[connection]) < self._slots

    def take(self, connection: int) -> Array:
        return self._held[connection].pop(0)

    def put(self, connection: int, piece: Array) -> None:
        self._held[connection].append(piece)

    def publish(self, block: int, value: int) -> None:
        self._flags[block] = value

    def published(self, block: int) -> int:
        return self._flags[block]

    @property
    def sent(self) -> int:
        """What was sent is not counted here: thread blocks of the same process do."""
        return 0

    def left_over(self) -> list[tuple[int, int]]:
        """Connections that still hold pieces, and how many."""
        return [(connection, len(held)) for connection, held in enumerate(self._held) if held]


class SharedQueues:
    """Queues as rings in memory that processes share: sent and taken are counted by their two ends.

    Parameters
    ----------
    elements : of the longest piece, of `dtype`.
    """

    def __init__(
        self, region: Region, connections: int, slots: int, blocks: int, elements: int, dtype: str
    ) -> None:
        self._slots = slots
        self._sent, self._taken = region.numbers(connections), region.numbers(connections)
        self._flags = region.numbers(blocks)
        self._lengths = region.numbers(connections * slots).reshape(connections, slots)
        self._pieces = region.take(connections * slots * elements, dtype).reshape(
            connections, slots, elements
        )
        #: Whoever reads a counter and takes the lock sees what was written before the counter rose.
        self.lock: Lock = nullcontext()

    def begin(self) -> None:
        """No thread block has published anything."""
        self._flags[:] = -1

    def holds_piece(self, connection: int) -> bool:
        return self._held(connection) > 0

    def has_room(self, connection: int) -> bool:
        return self._held(connection) < self._slots

    def _held(self, connection: int) -> int:
        return int(self._sent[connection] - self._taken[connection])

    def take(self, connection: int) -> Array:
        slot = int(self._taken[connection]) % self._slots
        with self.lock:
            piece: Array = self._pieces[connection, slot, : self._lengths[connection, slot]].copy()
            self._taken[connection] += 1
        return piece

    def put(self, connection: int, piece: Array) -> None:
        slot = int(self._sent[connection]) % self._slots
        with self.lock:
            self._lengths[connection, slot] = len(piece)
            self._pieces[connection, slot, : len(piece)] = piece
            self._sent[connection] += 1

    def publish(self, block: int, value: int) -> None:
        self._flags[block] = value

    def published(self, block: int) -> int:
        return int(self._flags[block])

    @property
    def sent(self) -> int:
        """Pieces that were sent by all."""
        return int(self._sent.sum())

    def left_over(self) -> list[tuple[int, int]]:
        """Connections that still hold pieces, and how many."""
        held = np.flatnonzero(self._sent - self._taken).tolist()
        return [(connection, self._held(connection)) for connection in held]
