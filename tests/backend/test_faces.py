"""Which helpers are switches that sum or copy for the GPUs of a node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from switched import switched

from taccl.backend.faces import Face, faces_of, find_face


def test_each_node_has_a_face_that_sums_and_one_that_copies() -> None:
    faces = faces_of(switched(2, nodes=2, loops_back=False))
    assert faces == (
        Face(4, True, (0, 1)),
        Face(5, False, (0, 1)),
        Face(6, True, (2, 3)),
        Face(7, False, (2, 3)),
    )
    assert find_face(faces, (3, 2), sums=True) == faces[2]
    assert find_face(faces, (2,), sums=False) == faces[3]
    assert find_face(faces, (1, 2), sums=True) is None


def test_a_helper_that_does_both_is_no_face_nor_is_one_of_several_nodes() -> None:
    topology = switched(3)
    both = replace(topology, may_copy=None)
    assert [face.sums for face in faces_of(both)] == [False]
    apart = replace(topology, node_of=np.array([0, 0, 1, 0, 0]))
    assert faces_of(apart) == ()


@pytest.mark.parametrize("loops_back", [True, False])
def test_a_face_whose_links_pass_a_member_both_ways_is_looped(loops_back: bool) -> None:
    faces = faces_of(switched(3, loops_back=loops_back))
    assert [face.is_looped for face in faces] == [loops_back] * 2
