"""Which numbers of chunks come into question."""

from __future__ import annotations

from taccl.model.problem import Problem

#: Finer than this, alpha is nearly all that a chunk costs on any link between GPUs. Where ports are not
#: busy for alpha, it costs latency alone, and what a GPU loads at once is the least.
_LEAST_CHUNK_BYTES = {"serial": 1024, "pipelined": 16}
_MOST_CHUNKS = 1024


def candidates(coarsest: Problem, chunk_bytes: int = 1) -> list[int]:
    """1, 2, 3, 4, 5, 6, 8, 10, 12, 16, ... : numbers of chunks into which the size can be cut evenly.

    `coarsest` has one chunk where the others have that many; chunks of the others are multiples of so many
    bytes.
    """
    size_bytes, parts = coarsest.size_bytes, coarsest.collective.chunks_per_size
    least = _LEAST_CHUNK_BYTES[coarsest.topology.occupancy]
    numbers = sorted({1} | {k << n for n in range(10) for k in (2, 3, 5)})

    def cuts_evenly(number: int) -> bool:
        chunk, rest = divmod(size_bytes, number * parts)
        return number <= _MOST_CHUNKS and not rest and chunk >= least and not chunk % chunk_bytes

    return [number for number in numbers if number == 1 or cuts_evenly(number)]
