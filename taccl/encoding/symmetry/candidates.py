"""Permutations that machines are built by: what is tried before anything is searched.

*Rotations*: in blocks of equal size, every rank moves on by the same number of ranks, round to the start; so
do the GPUs of each node, or the nodes, or the rows of a torus. Only steps that divide the block are of
interest: another one generates the same rotations as its greatest common divisor with the block.
*Exchanges*: bits of the rank's number are flipped, as in a hypercube or in pairs of anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.collectives import IntArray


def candidates(num_ranks: int, exchanges_first: bool = False) -> Iterator[IntArray]:
    """Rotations, then exchanges, or the other way round; each moves every rank.

    What comes first counts where two do not go together: the rotation of all ranks is in no group with the
    exchanges, which recursive doubling and halving have.
    """
    kinds = (exchanges, rotations) if exchanges_first else (rotations, exchanges)
    for kind in kinds:
        yield from kind(num_ranks)


def rotations(num_ranks: int) -> Iterator[IntArray]:
    """Those that reach most ranks first, and of these the largest blocks first."""
    ranks = np.arange(num_ranks)
    orders = [
        (order, step)
        for order in range(2, num_ranks + 1)
        for step in range(1, num_ranks // order + 1)
        if num_ranks % (order * step) == 0
    ]
    for order, step in sorted(orders, reverse=True):
        block = order * step
        yield ranks // block * block + (ranks + step) % block


def exchanges(num_ranks: int) -> Iterator[IntArray]:
    """Those that flip one bit first, the lowest first."""
    ranks, blocks = np.arange(num_ranks), num_ranks & -num_ranks
    for mask in sorted(range(1, blocks), key=lambda mask: (mask.bit_count(), mask)):
        yield ranks ^ mask
