"""Memory that all ranks of a run share, in one piece, so that ranks may be processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.heap import BufferWrapper
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.deadline import blocks_of
from taccl.errors import TacclError

_WORD = 8


class Region:
    """Bytes that are handed out one after another, each piece at a multiple of 8.

    Parameters
    ----------
    data : shape (bytes,), zeros; None: nothing is there, and `taken` only counts what it would take.
    """

    def __init__(self, data: NDArray[np.uint8] | None = None) -> None:
        self._data, self.taken = data, 0

    def take(self, count: int, dtype: Any) -> NDArray[Any]:
        """Room for this many elements."""
        kind = np.dtype(dtype)
        first, size = self.taken, count * kind.itemsize
        self.taken += -(-size // _WORD) * _WORD
        if self._data is None:
            return np.broadcast_to(np.zeros((), dtype=kind), (count,))
        return self._data[first : first + size].view(kind)

    def numbers(self, count: int) -> NDArray[np.int64]:
        """Room for this many counters."""
        return self.take(count, np.int64)


class World:
    """What ranks that run next to each other count for whoever watches them.

    Attributes
    ----------
    acts, looks, state : per rank; see `watch`.
    """

    def __init__(self, num_ranks: int, region: Region) -> None:
        self.num_ranks = num_ranks
        self.acts, self.looks, self.state = (region.numbers(num_ranks) for _ in range(3))

    def begin(self) -> None:
        """Give counters that do not begin at zero their first values."""


def local(size: int) -> Region:
    """A region of this process."""
    return Region(np.zeros(size, dtype=np.uint8))


def shared(segment: BufferWrapper, look: Callable[[], None] | None = None) -> Region:
    """A region in memory that child processes have, too; with `look`, set to zero first."""
    words = np.frombuffer(segment.create_memoryview(), dtype=np.int64)
    for block in () if look is None else blocks_of(len(words), look):
        words[block] = 0
    return Region(words.view(np.uint8))


def check_room(size: int, ranks: int, hint: str) -> None:
    """Refuse a run whose memory does not fit in this machine.

    Parameters
    ----------
    size : bytes. ranks : of how many ranks.

    Raises
    ------
    TacclError : it does not fit.
    """
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a system that says so
        return
    if size > there:
        raise TacclError(
            f"the buffers of {ranks} ranks take {size >> 20} MB, and there are {there >> 20} MB here",
            hint=hint,
        )
