"""Permutations that machines are built by: what is tried before anything is searched.

*Rotations*: in blocks of equal size, every rank moves on by the same number of ranks, round to the start; so
do the GPUs of each node, or the nodes, or the rows of a torus. Only steps that divide the block are of
interest: another one generates the same rotations as its greatest common divisor with the block.
*Exchanges*: bits of the rank's number are flipped, as in a hypercube or in pairs of anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology


def candidates(num_ranks: int, exchanges_first: bool = False) -> Iterator[IntArray]:
    """Rotations, then exchanges, or the other way round; each moves every rank.

    What comes first counts where two do not go together: the rotation of all ranks is in no group with the
    exchanges, which recursive doubling and halving have.
    """
    kinds = (exchanges, rotations) if exchanges_first else (rotations, exchanges)
    for kind in kinds:
        yield from kind(num_ranks)


def candidates_of(topology: LogicalTopology, exchanges_first: bool = False) -> Iterator[IntArray]:
    """The candidates for a network: its helpers go where the members go that they are linked to."""
    for members in candidates(topology.num_members, exchanges_first):
        yield members if topology.is_helper is None else with_helpers(members, topology)


def with_helpers(members: IntArray, topology: LogicalTopology) -> IntArray:
    """A permutation of the members, and of the helpers by the members that they are linked to.

    Sets of members are compared by the sums of random numbers; of helpers with the same members the k-th goes
    to the k-th. Where that does not fit, the permutation is none, or no automorphism.
    """
    first, ranks = topology.num_members, np.arange(topology.num_ranks)
    number = np.zeros((2, topology.num_ranks), dtype=np.int64)
    number[:, :first] = np.random.default_rng(0).integers(0, 2**30, (2, first))
    known = []
    for moved in (ranks, np.concatenate([members, ranks[first:]])):
        sums = np.zeros((2, topology.num_ranks), dtype=np.int64)
        np.add.at(sums[0], topology.dst, number[0, moved[topology.src]])
        np.add.at(sums[1], topology.src, number[1, moved[topology.dst]])
        known.append(np.lexsort((ranks[first:], *sums[:, first:])))
    before, after = known
    image = np.concatenate([members, ranks[first:]])
    image[first + after] = first + before
    return image


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
