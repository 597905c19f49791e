"""What is tried before anything is searched: rotations and exchanges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_problems import machine

from taccl.encoding.symmetry.candidates import candidates, candidates_of, exchanges, rotations


@pytest.mark.parametrize("ranks", [1, 2, 6, 8, 12])
def test_every_candidate_is_a_permutation_that_moves_every_rank(ranks: int) -> None:
    for first in (False, True):
        for each in candidates(ranks, exchanges_first=first):
            assert sorted(each.tolist()) == list(range(ranks))
            assert (each != np.arange(ranks)).all()


def test_rotations_of_six_ranks() -> None:
    """All, in steps of one, two or three; halves; pairs."""
    assert [each.tolist() for each in rotations(6)] == [
        [1, 2, 3, 4, 5, 0],
        [2, 3, 4, 5, 0, 1],
        [1, 2, 0, 4, 5, 3],
        [3, 4, 5, 0, 1, 2],
        [1, 0, 3, 2, 5, 4],
    ]


def test_exchanges_flip_bits_that_all_ranks_have() -> None:
    assert [each.tolist() for each in exchanges(4)] == [[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
    assert [each.tolist() for each in exchanges(6)] == [[1, 0, 3, 2, 5, 4]]
    assert not list(exchanges(5))


def test_helpers_follow_the_members_that_they_are_linked_to() -> None:
    """Ranks 0, 1 around helper 4, and 2, 3 around helper 5; 6 is linked to all."""
    spokes = [(0, 4), (1, 4), (2, 5), (3, 5), (0, 6), (1, 6), (2, 6), (3, 6)]
    links = [(a, b, 1.0, 1.0) for x, y in spokes for a, b in ((x, y), (y, x))]
    topology = replace(machine(7, links), is_helper=np.arange(7) >= 4)
    moved = {tuple(each.tolist()) for each in candidates_of(topology)}
    assert (1, 0, 3, 2, 4, 5, 6) in moved
    assert (2, 3, 0, 1, 5, 4, 6) in moved
