"""What an algorithm is on a line of ranks: who sends what to whom, step by step, by positions.

Textbook algorithms are reported for ranks 0 .. n - 1. Here those are *positions* on a line, whatever ranks
stand there, so that a line can be all ranks, the ranks of one node, or one rank of each node, and algorithms
for machines of several levels are put together from algorithms for one (`grid`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: One send of an algorithm that spreads blocks: (from, to, the blocks, each named by where it began).
Carry = tuple[int, int, tuple[int, ...]]
#: One send of an algorithm that adds up: (from, to, the step before which what is sent was known).
Add = tuple[int, int, int]
#: One send on the way of a block to one position: (step, from, to).
Hop = tuple[int, int, int]

Spread = tuple[tuple[Carry, ...], ...]
Total = tuple[tuple[Add, ...], ...]


@dataclass(frozen=True)
class LineAlgorithm:
    """An algorithm for a line of n positions, as far as it has an answer to each of three questions.

    Parameters
    ----------
    name : as people call it.
    spread : n -> steps by which every position gets every other's block; None: not for this n. Read
        backwards, on links turned round, it adds up blocks at their positions.
    total : n -> steps by which every position gets the sum over all, each adding up for itself; None: not
        for this n.
    hops : (n, begin, end) -> the routes of a block from one position to another, such that blocks that move
        together share a send; None: not for this n.
    adds : n -> how often each position sends in `total`.
    mean_hops : n -> how many hops a block has on average, about.
    repeats : n -> how often each position sends to each of those, at most.
    is_at_once : whether no hop waits for another one, so that their steps only order them.
    is_variant : whether there is another that is mostly as good, so that this one may come later.
    reaches : n -> where position 0 sends to in `spread` and `hops`, if all have something for all.
    """

    name: str
    spread: Callable[[int], Spread | None] = lambda n: None
    total: Callable[[int], Total | None] = lambda n: None
    hops: Callable[[int, int, int], tuple[Hop, ...] | None] = lambda n, begin, end: None
    adds: Callable[[int], int] = lambda n: 0
    mean_hops: Callable[[int], float] = lambda n: 1.0
    reaches: Callable[[int], Iterable[int]] = lambda n: ()
    repeats: Callable[[int], int] = lambda n: 1
    is_at_once: bool = False
    is_variant: bool = False

    def sends(self, n: int) -> int:
        """How many sends each position makes at most, if all have something for all."""
        return self.repeats(n) * len(tuple(self.reaches(n)))


def is_power_of_two(n: int) -> bool:
    """Whether n is 1, 2, 4, 8, ..."""
    return n > 0 and n & (n - 1) == 0
