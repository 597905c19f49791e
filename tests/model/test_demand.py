"""Demands: unequal parts, and several collectives at once."""

from __future__ import annotations

import numpy as np
import pytest

from taccl.errors import CollectiveError
from taccl.model.collectives import make_collective
from taccl.model.demand import Demand, Part, alltoallv, together


def test_an_alltoallv_has_a_chunk_for_each_part_and_none_for_nothing() -> None:
    demand = alltoallv(np.array([[0, 300, 0], [100, 0, 200], [0, 0, 0]]))
    collective = demand.collective
    assert collective.source.tolist() == [0, 1, 1]
    assert collective.destination.tolist() == [1, 0, 2]
    assert collective.inputs.offset.tolist() == [0, 0, 1]
    assert collective.outputs.offset.tolist() == [0, 0, 0]
    assert demand.sizes is not None
    assert demand.sizes.tolist() == [3, 1, 2]
    assert demand.chunk_bytes == 100


def test_equal_parts_have_no_sizes_and_pieces_cut_each_part() -> None:
    demand = alltoallv(np.full((3, 3), 64), pieces=4)
    assert demand.sizes is None
    assert demand.chunk_bytes == 16
    assert demand.collective.num_chunks == 36


def test_pieces_are_whole_bytes() -> None:
    with pytest.raises(CollectiveError, match=r"4 chunks of each part .* multiples of 6") as refused:
        alltoallv(np.array([[0, 18], [12, 0]]), pieces=4)
    assert refused.value.hint == "as many chunks as divide 6, or auto"
    with pytest.raises(CollectiveError, match=r"2 chunks of each part .* multiples of 1"):
        alltoallv(np.array([[0, 7], [8, 0]]), pieces=2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (np.zeros((2, 3), int), "square table"),
        (np.zeros((2, 2)), "whole numbers"),
        (np.array([[0, -1], [0, 0]]), "from 0 to"),
        (np.zeros((2, 2), int), "send something"),
    ],
)
def test_what_is_no_table_of_sizes_is_refused(sizes: np.ndarray, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        alltoallv(sizes)


def test_parts_stand_one_behind_another_in_the_buffers_of_their_members() -> None:
    pair = Demand(make_collective("allgather", 2), chunk_bytes=100)
    all_three = Demand(make_collective("broadcast", 3), chunk_bytes=300, ready_us=np.array([5.0]))
    both = together("both", 3, [Part(pair, np.array([2, 0])), Part(all_three, np.array([0, 1, 2]))])
    collective = both.collective
    assert collective.inputs.rank.tolist() == [2, 0, 0]
    assert collective.inputs.offset.tolist() == [0, 0, 1]
    assert both.sizes is not None
    assert both.sizes.tolist() == [1, 1, 3]
    assert both.ready_us is not None
    assert both.ready_us.tolist() == [0, 0, 5]
    assert both.tail_us is None
    assert collective.owner.tolist() == [2, 0, 0]


@pytest.mark.parametrize(
    ("members", "chunk_bytes", "message"),
    [
        ([0, 1, 2], 1.0, "is for 2 ranks and has 3 members"),
        ([0, 3], 1.0, "member 3 of part 0 of x is no rank"),
        ([1, 1], 1.0, "a member twice"),
        ([0, 1], None, "how large"),
    ],
)
def test_parts_that_fit_no_ranks_are_refused(
    members: list[int], chunk_bytes: float | None, message: str
) -> None:
    part = Part(Demand(make_collective("allgather", 2), chunk_bytes=chunk_bytes), np.array(members))
    with pytest.raises(CollectiveError, match=message):
        together("x", 3, [part])
