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
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.encoding.symmetry.search import is_automorphism
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule


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


def kept_by(schedule: Schedule, group: SymmetryGroup) -> SymmetryGroup:
    """The symmetries of the group that a schedule has: they take each of its rows to one of its rows."""
    start = np.round(schedule.start_us / TOLERANCE_US).astype(np.int64)
    rows = _in_order(schedule.chunk, schedule.link, start)
    keeps = [
        i
        for i, (chunks, links) in enumerate(zip(group.chunk_map, group.link_map, strict=True))
        if np.array_equal(_in_order(chunks[schedule.chunk], links[schedule.link], start), rows)
    ]
    return SymmetryGroup(group.rank_map[keeps], group.chunk_map[keeps], group.link_map[keeps])


def _in_order(*columns: IntArray) -> IntArray:
    return np.array(columns)[:, np.lexsort(columns)]


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
