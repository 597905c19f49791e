"""What an algorithm is on a line of ranks: who sends which block to whom, step by step, as columns.

Textbook algorithms are reported for ranks 0 .. n - 1. Here those are *positions* on a line, whatever ranks
stand there, so that a line can be all ranks, the ranks of one node, or one rank of each node, and algorithms
for machines of several levels are composed of algorithms for one (`grid`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taccl.model.collective import BoolArray, IntArray


class Hops(NamedTuple):
    """Moves of blocks, as columns of one length; rows of one step that have both ends in common are one send.

    `step` : moves of one step wait for none of each other; on a port they go in the order of the rows.
    `src`, `dst` : positions, or ranks.
    `block` : the number of what moves.
    """

    step: IntArray
    src: IntArray
    dst: IntArray
    block: IntArray

    def where(self, chosen: BoolArray) -> Hops:
        """The chosen rows."""
        return Hops(*(column[chosen] for column in self))


class Carried(NamedTuple):
    """What of that which came to a sender is in the partial sums that it sends; an entry for each step.

    `since` : the step before which it had come. `after` : the step from which on; -1: all that it had at
    first, too. None: -1 at all steps.
    """

    since: IntArray
    after: IntArray | None = None


#: In one step, all that the sender has by then.
AS_IT_IS = Carried(np.zeros(1, dtype=np.int64))


def hops(step: IntArray | int, src: IntArray | int, dst: IntArray | int, block: IntArray | int) -> Hops:
    """Columns that are broadcast against each other, the first axis slowest."""
    return Hops(*(column.ravel() for column in np.broadcast_arrays(step, src, dst, block)))


def straight(begin: IntArray, distance: IntArray, ahead: int) -> Hops:
    """Each block so many positions one way (`ahead` is 1) or the other (-1), a hop in each step."""
    block = np.repeat(np.arange(len(begin)), distance)
    step = np.arange(len(block)) - np.repeat(np.cumsum(distance) - distance, distance)
    at = begin[block] + ahead * step
    return hops(step, at, at + ahead, block)


def joined(*some: Hops) -> Hops:
    """Rows of several, one after another."""
    return Hops(*(np.concatenate(columns) for columns in zip(*some, strict=True)))


#: From n and where blocks begin, the hops by which they get to all others.
Spread = Callable[[int, IntArray], Hops]


@dataclass(frozen=True)
class LineAlgorithm:
    """An algorithm for a line of n positions, as far as it has an answer to each of three questions.

    Parameters
    ----------
    name : as people call it.
    spread : (n, begin) -> the hops by which the block that begins at each of these positions gets to all
        others. Read backwards, on links turned round, it adds up blocks there.
    turned : the same with more the other way round, where `spread` sends more one way for even n: so half of
        the data can go each way.
    route : (n, begin, end) -> the hops of blocks from one position to another, such that blocks that move
        together share a send.
    total : n -> the hops of partial sums by which every position ends with the sum over all, each adding up
        for itself; and what they carry.
    sends : n -> how many sends each position makes in `spread`, if there is a block at each.
    adds : n -> how many sends each position makes in `total`.
    steps : n -> how many sends of `spread` or `total` wait for each other, one after another; None: all.
    mean_hops : n -> how many hops a block has on average in `route`, about.
    fits : whether it is for n positions; the others are only called where it is.
    is_variant : whether there is another that is mostly as good, so that this one may come later.
    of_libraries : whether NCCL, RCCL or an MPI run it.
    """

    name: str
    spread: Spread
    sends: Callable[[int], int]
    turned: Spread | None = None
    route: Callable[[int, IntArray, IntArray], Hops] | None = None
    total: Callable[[int], tuple[Hops, Carried]] | None = None
    adds: Callable[[int], int] = lambda n: 0
    steps: Callable[[int], int] | None = None
    mean_hops: Callable[[int], float] = lambda n: 1.0
    fits: Callable[[int], bool] = lambda n: True
    is_variant: bool = False
    of_libraries: bool = True

    def spreads(self, n: int) -> tuple[Spread, ...]:
        """By these equal parts of the data are spread, so that all links carry as much."""
        return (self.spread,) if self.turned is None or n % 2 else (self.spread, self.turned)


#: From a number of ranks, the line algorithms for a line of this many.
Lines = Callable[[int], tuple[LineAlgorithm, ...]]
