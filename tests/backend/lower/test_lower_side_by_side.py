"""Chunks that nothing tells apart change places, so that groups lie side by side."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_schedules import Row, by_hand, program_of, steps_of

from taccl.backend.lower.side_by_side import side_by_side
from taccl.backend.program import Buffer, Op
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule


def sent(schedule: Schedule) -> list[tuple[int, ...]]:
    """The chunks of each send, in the order of the sends."""
    of_row = schedule.sends.of_row
    return [tuple(sorted(schedule.chunk[of_row == number].tolist())) for number in range(len(schedule.sends))]


def neighbours(schedule: Schedule) -> int:
    return sum(some[-1] - some[0] == len(some) - 1 for some in sent(schedule))


def broadcast(chunks: int, *sets: tuple[int, ...]) -> Schedule:
    """Rank 0 sends the sets of chunks in turn to rank 1."""
    rows: list[Row] = []
    start = 0.0
    for some in sets:
        rows.append((start, 0, 1, some, False))
        start += 1.0 + len(some)
    return by_hand(make_collective("broadcast", 2, chunks), rows)


def test_sets_that_are_nested_or_apart_all_become_neighbours() -> None:
    rows: list[Row] = [(0.0, 0, 1, (0, 2), False), (3.0, 0, 1, (1, 3), False), (6.0, 0, 1, (4,), False)]
    rows += [(0.0, 0, 2, (0, 2, 4), False), (4.0, 0, 2, (1, 3), False)]
    found = side_by_side(by_hand(make_collective("broadcast", 3, 5), rows))
    assert sorted(sent(found)) == [(0, 1), (0, 1, 2), (2,), (3, 4), (3, 4)]


def test_of_sets_that_overlap_those_that_more_sends_take_come_first() -> None:
    rows: list[Row] = [(0.0, 0, 1, (0, 2), False), (3.0, 0, 1, (1,), False)]
    rows += [(0.0, 0, 2, (1, 2), False), (3.0, 0, 2, (0,), False)]
    rows += [(3.0, 1, 3, (0, 2), False), (6.0, 1, 3, (1,), False)]
    found = side_by_side(by_hand(make_collective("broadcast", 4, 3), rows))
    assert sent(found).count((0, 1)) == 2


def test_what_lies_side_by_side_stays_where_it_is() -> None:
    schedule = broadcast(4, (0, 1), (2, 3))
    assert side_by_side(schedule) is schedule


def test_parts_of_different_ranks_do_not_change_places() -> None:
    rows: list[Row] = [(0.0, 0, 1, (0, 2), False), (3.0, 0, 1, (1,), False), (0.0, 1, 0, (3, 5), False)]
    rows += [(3.0, 1, 0, (4,), False)]
    found = side_by_side(by_hand(make_collective("allgather", 2, 3), rows))
    assert sorted(sent(found)) == [(0, 1), (2,), (3, 4), (5,)]
    found.check()


@pytest.mark.parametrize("name", ["scatter", "alltoall"])
def test_what_different_ranks_want_does_not_change_places(name: str) -> None:
    collective = make_collective(name, 3)
    relayed = (1, 2)
    rows: list[Row] = [(0.0, 0, 1, relayed, False), (3.0, 1, 2, (2,), False)]
    if name == "alltoall":
        rows += [(0.0, 1, 0, (3,), False), (0.0, 1, 2, (5,), False)]
        rows += [(0.0, 2, 0, (6,), False), (0.0, 2, 1, (7,), False)]
    schedule = by_hand(collective, rows)
    assert side_by_side(schedule) is schedule


@given(st.permutations(range(8)), st.lists(st.integers(1, 7), max_size=4))
def test_the_result_is_as_valid_and_no_fewer_are_neighbours(order: list[int], cuts: list[int]) -> None:
    """In two directions, so that sets overlap: an AllReduce of two ranks, each summing half of the chunks."""
    ends = sorted({0, *cuts, 8})
    halves = [order[begin:end] for begin, end in pairwise(ends)]
    rows: list[Row] = []
    start = 0.0
    for reduce in (True, False):
        for some in halves:
            rows.append((start, 0 if reduce else 1, 1 if reduce else 0, tuple(sorted(some)), reduce))
            start += 1.0 + len(some)
    schedule = by_hand(make_collective("allreduce", 2, 4), rows)
    found = side_by_side(schedule)
    found.check()
    assert neighbours(found) >= neighbours(schedule)
    assert np.array_equal(np.bincount(found.chunk), np.bincount(schedule.chunk))
    assert neighbours(found) == len(found.sends), "all sets are disjoint"
    steps = [step for rank in program_of(schedule).ranks for step in steps_of(rank)]
    assert not any(step.op is Op.COPY and step.dst is Buffer.SCRATCH for step in steps)


def test_a_collective_of_ones_own_stays_as_it_is() -> None:
    """Its chunks lie where its file says: here those with even numbers side by side."""
    collective = replace(make_collective("broadcast", 2, 4), name="own")
    schedule = by_hand(collective, [(0.0, 0, 1, (0, 2), False), (3.0, 0, 1, (1, 3), False)])
    assert side_by_side(schedule) is schedule


def test_pieces_of_an_alltoall_that_lie_side_by_side_stay_there() -> None:
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    rows: list[Row] = [(0.0, a, b, (2 * (4 * a + b), 2 * (4 * a + b) + 1), False) for a, b in pairs]
    schedule = by_hand(make_collective("alltoall", 4, 2), rows)
    assert side_by_side(schedule) is schedule
