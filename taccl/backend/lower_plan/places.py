"""Places in the memory of ranks, and the one name of each chunk where a user's buffers lie in each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from taccl.backend.program import Buffer

#: (rank, buffer, chunk)
Cell: TypeAlias = tuple[int, Buffer, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Chunks in the memory of a rank."""

    buffer: Buffer
    index: int
    size: int

    def cells(self, rank: int) -> Iterator[Cell]:
        """Chunk by chunk."""
        return ((rank, self.buffer, self.index + at) for at in range(self.size))

    def overlaps(self, other: Place) -> bool:
        """Whether they have a chunk in common."""
        return (
            self.buffer is other.buffer
            and self.index < other.index + other.size
            and other.index < self.index + self.size
        )


@dataclass(frozen=True, slots=True)
class Aliases:
    """The one name of each chunk of a user's buffers.

    Parameters
    ----------
    of : the buffer that has another name; None: none has.
    name : that of the buffer that it is part of, or the same as.
    first : by rank, where in that it begins.
    """

    of: Buffer | None
    name: Buffer
    first: tuple[int, ...]

    def place(self, rank: int, buffer: Buffer, index: int, size: int) -> Place:
        """A place by its one name."""
        if buffer is self.of:
            return Place(self.name, self.first[rank] + index, size)
        return Place(buffer, index, size)


def aliases(collective: str, ranks: int, part: int, in_place: bool) -> Aliases:
    """How a call's buffers lie in each other.

    The name that all use begins equivalent at all ranks: of an AllGather the output, of a ReduceScatter the
    input.

    Parameters
    ----------
    part : chunks that a rank gives (AllGather) or gets (ReduceScatter).
    """
    if not in_place:
        return Aliases(None, Buffer.INPUT, (0,) * ranks)
    if collective == "allgather":
        return Aliases(Buffer.INPUT, Buffer.OUTPUT, tuple(rank * part for rank in range(ranks)))
    if collective == "reducescatter":
        return Aliases(Buffer.OUTPUT, Buffer.INPUT, tuple(rank * part for rank in range(ranks)))
    return Aliases(Buffer.INPUT, Buffer.OUTPUT, (0,) * ranks)
