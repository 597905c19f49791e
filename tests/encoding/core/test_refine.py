"""A schedule for coarse chunks, read as one for finer chunks."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from registered import greedy
from small_problems import full, problem, random_schedules, ring

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.refine import coarsened, refined
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.textbook.engine import built
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.solve import solve
from taccl.errors import ScheduleError
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def cut(coarse: Problem, pieces: int, max_group: int = 71) -> Problem:
    """The same problem with each chunk cut into this many."""
    collective = coarse.collective
    finer = make_collective(
        collective.name, collective.num_ranks, collective.chunks_per_rank * pieces, collective.root
    )
    return replace(coarse, collective=finer, chunk_mb=coarse.chunk_mb / pieces, max_group=max_group)


@given(random_schedules(COLLECTIVES), st.integers(1, 4))
def test_chunks_that_travel_together_take_as_long_as_one(schedule: Schedule, pieces: int) -> None:
    finer = refined(schedule, cut(schedule.problem, pieces))
    finer.check()
    assert finer.makespan_us == pytest.approx(schedule.makespan_us, abs=1e-9)
    assert len(finer) == pieces * len(schedule)
    assert len(finer.sends) == len(schedule.sends)


@given(random_schedules(COLLECTIVES), st.integers(1, 4), st.integers(1, 3))
def test_groups_that_are_too_large_are_split_and_valid(schedule: Schedule, pieces: int, most: int) -> None:
    finer = refined(schedule, cut(schedule.problem, pieces, most))
    finer.check()
    assert finer.sends.count.max(initial=0) <= most


@pytest.mark.parametrize("most", [1, 3, 71])
def test_sums_that_are_made_at_several_ranks_stay_so(most: int) -> None:
    coarse = problem(full(4), "allreduce")
    for _, schedule in built(Instance(coarse), Budget.of_work(60_000)):
        finer = refined(schedule, cut(coarse, 3, most))
        finer.check()
        assert (finer.sums is None) == (schedule.sums is None)
        if most == 71:
            assert finer.makespan_us == pytest.approx(schedule.makespan_us)


def test_a_group_that_is_split_pays_an_alpha_more() -> None:
    """Four chunks in one send, 1 + 4 us; as eight halves, five to a send at most: two sends of 1 + 2 us."""
    coarse = problem(ring(2), "broadcast", 4)
    schedule = in_order(coarse, [Decision((0, 1, 2, 3), coarse.topology.link_index[0, 1])])
    assert schedule.makespan_us == pytest.approx(5.0)
    finer = refined(schedule, cut(coarse, 2, 5))
    assert finer.sends.count.tolist() == [4, 4]
    assert finer.makespan_us == pytest.approx(6.0)


def test_only_a_finer_cut_of_the_same_problem_is_one() -> None:
    coarse = problem(ring(3), "allgather", 2)
    schedule = next(each for _, each in built(Instance(coarse), Budget.of_work(60_000)))
    others = [
        problem(ring(3), "allgather", 3, chunk_mb=2 / 3),
        problem(ring(3), "allgather", 4),
        problem(ring(3), "reducescatter", 4, chunk_mb=0.5),
        problem(ring(4), "allgather", 4, chunk_mb=0.5),
        problem(ring(3, both=True), "allgather", 4, chunk_mb=0.5),
        problem(full(3), "allgather", 4, chunk_mb=0.5),
        problem(ring(3), "allgather", 1, chunk_mb=2.0),
    ]
    for other in others:
        with pytest.raises(ScheduleError, match="finer cut of its own problem"):
            refined(schedule, other)


@given(random_schedules(COLLECTIVES), st.integers(1, 4), st.randoms(use_true_random=False))
def test_what_was_refined_can_be_read_back_whatever_the_numbers_of_pieces(
    schedule: Schedule, pieces: int, random: Random
) -> None:
    finer = refined(schedule, cut(schedule.problem, pieces))
    collective = finer.problem.collective
    ends = [
        [sorted(each.rank[each.chunk == chunk].tolist()) for each in (collective.inputs, collective.outputs)]
        for chunk in range(collective.num_chunks)
    ]
    # Pieces that are there and wanted at the same ranks change their numbers.
    number = np.arange(collective.num_chunks)
    for these in ([c for c, each in enumerate(ends) if each == ends[chunk]] for chunk in range(len(ends))):
        number[these] = random.sample(number[these].tolist(), len(these))
    finer = replace(finer, chunk=number[finer.chunk]).sorted()
    finer.check()
    coarse = coarsened(finer, schedule.problem)
    assert coarse is not None
    coarse.check()
    assert len(coarse) == len(schedule)
    assert coarse.makespan_us == finer.makespan_us


@pytest.mark.parametrize("explicit", [False, True])
def test_sums_at_several_ranks_are_read_back_too(explicit: bool) -> None:
    coarse, read = problem(full(4), "allreduce"), 0
    for _, schedule in built(Instance(coarse), Budget.of_work(60_000)):
        if (schedule.sums is not None) == explicit:
            back = coarsened(refined(schedule, cut(coarse, 3)), coarse)
            assert back is not None
            back.check()
            assert back.makespan_us == pytest.approx(schedule.makespan_us)
            read += 1
    assert read


def test_pieces_that_go_different_ways_are_no_chunk() -> None:
    """Two halves of a chunk go round a ring of three, one each way; each is half a chunk."""
    halves = problem(ring(3, both=True), "broadcast", 2)
    link = halves.topology.link_index
    ways = [
        Decision((half,), link[ends]) for half, ends in ((0, (0, 1)), (0, (1, 2)), (1, (0, 2)), (1, (2, 1)))
    ]
    apart, whole = in_order(halves, ways), problem(ring(3, both=True), "broadcast", 1, chunk_mb=2.0)
    apart.check()
    assert coarsened(apart, whole) is None
    same_way = [Decision((0, 1), link[ends]) for ends in ((0, 1), (1, 2))]
    together = coarsened(in_order(halves, same_way), whole)
    assert together is not None
    together.check()
    assert together.chunk.tolist() == [0, 0]
    assert together.makespan_us == pytest.approx(2 * (1 + 2))


def test_chunks_with_moments_of_their_own_stay_as_they_are() -> None:
    halves = problem(ring(2), "broadcast", 2)
    sent = in_order(halves, [Decision((0, 1), halves.topology.link_index[0, 1])])
    whole = problem(ring(2), "broadcast", 1, chunk_mb=2.0)
    assert coarsened(sent, whole) is not None
    late = replace(sent, problem=replace(halves, ready_us=np.array([0.0, 1.0])))
    assert coarsened(late, whole) is None


def test_a_search_begins_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to a first schedule that nobody improved, which is slower."""
    monkeypatch.setattr("taccl.encoding.portfolio.contenders.CONTENDERS_OPENING", 0.0)
    coarse = problem(ring(4, both=True), "alltoall")
    *_, last = (
        update.schedule for update in solve(coarse, SearchOptions(time_limit_s=0.5)) if update.schedule
    )
    finer = cut(coarse, 5)
    known = refined(last, finer)
    first = next(greedy(finer, SearchOptions(), Budget(0.0), None)).schedule
    assert first is not None and known.makespan_us < first.makespan_us
    updates = solve(finer, SearchOptions("greedy", 60.0, known=known))
    begun = [(update.stage, update.schedule is known) for update in updates if update.schedule is not None]
    assert begun[:2] == [("refined", True), ("greedy", False)]


def test_the_columns_are_those_of_the_pieces() -> None:
    coarse = problem(ring(2), "allgather")
    schedule = next(each for _, each in built(Instance(coarse), Budget.of_work(60_000)))
    finer = refined(schedule, cut(coarse, 2))
    assert np.sort(finer.chunk).tolist() == [0, 1, 2, 3]
