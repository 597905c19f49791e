"""Symmetries that nobody asked for: what a machine and a collective have in common with themselves.

A search over orbits is so much faster that it pays to look for some. Only permutations that machines
are built by are tried: rotations inside blocks of equal size, rotations of whole blocks, and exchanges
of neighbours at a distance that is a power of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.collectives import IntArray
from taccl.encoding.automorphisms import is_automorphism
from taccl.problem import Problem


def with_symmetry(problem: Problem, exchanges_first: bool = False) -> Problem:
    """The problem as it is if it has symmetries, else with those that are found.

    What comes first counts where two do not go together: a rotation of all ranks is none of the group of
    exchanges, which recursive doubling and halving have.
    """
    if problem.symmetry:
        return problem
    candidates = list(_candidates(problem.num_ranks))
    ordered = reversed(candidates) if exchanges_first else candidates
    return replace(problem, symmetry=tuple(each for each in ordered if is_automorphism(problem, each)))


def _candidates(ranks: int) -> Iterator[IntArray]:
    """Rotations that move every rank, the largest groups first, then exchanges."""
    rank = np.arange(ranks)
    blocks = [size for size in range(ranks, 1, -1) if ranks % size == 0]
    for size in blocks:
        for step in range(1, size):
            if size % step == 0:
                yield rank // size * size + (rank % size + step) % size
    distance = 1
    while 2 * distance <= ranks and ranks % (2 * distance) == 0:
        yield rank ^ distance
        distance *= 2
