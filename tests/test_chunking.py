import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from taccl import bounds, synthesize
from taccl.api import StatedProblem, make_problem
from taccl.chunking import Choice, candidates, choose_chunks
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.solve import solve as real_solve
from taccl.errors import CollectiveError, NoScheduleInTime, SolverError, TacclError
from taccl.problem import Problem
from taccl.schedule import Schedule
from taccl.search import STOP, Answer, Progress
from taccl.units import MB

#: With first schedules only, the limit is never reached.
QUICK = SearchOptions(engine="greedy", gap=0.05, time_limit_s=60.0)
RING = {"topology": "ring-oneway:3"}


def stated(number: int, size: int = 48 * MB, collective: str = "broadcast") -> StatedProblem:
    return make_problem(collective, size=size, chunks=number, **RING)  # type: ignore[arg-type]


def chosen(**change: object) -> Choice[StatedProblem]:
    return choose_chunks(stated, replace(QUICK, **change))  # type: ignore[arg-type]


@pytest.fixture
def first_schedules_only(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Searches end with the first schedule; the numbers of chunks that were searched."""
    searched: list[int] = []

    def solve(problem: Problem, options: SearchOptions, journal: Journal) -> Iterator[Update]:
        searched.append(problem.collective.chunks_per_rank)
        yield next(real_solve(problem, options))

    monkeypatch.setattr("taccl.search.solve", solve)
    return searched


def test_numbers_are_tried_that_cut_the_size_into_equal_chunks_of_some_size() -> None:
    assert candidates(stated(1, size=96 * 1024).problem)[:8] == [1, 2, 3, 4, 6, 8, 12, 16]
    assert candidates(stated(1, size=10 * 1025).problem) == [1, 2, 5, 10]
    assert candidates(stated(1, size=5).problem) == [1]
    assert candidates(stated(1, size=4096).problem) == [1, 2, 4]
    assert candidates(stated(1, size=2**30, collective="broadcast").problem)[-1] <= 1024


def test_numbers_for_alltoall_cut_the_part_of_each_pair() -> None:
    for number in candidates(stated(1, size=9 * 4096, collective="alltoall").problem):
        assert stated(number, size=9 * 4096, collective="alltoall").problem.size_bytes == 9 * 4096


def test_a_large_broadcast_in_a_line_is_cut_finely(first_schedules_only: list[int]) -> None:
    choice = chosen()
    assert choice.stated.problem.collective.chunks_per_rank > 1
    assert choice.stated.problem.size_bytes == 48 * MB
    assert choice.found.schedule.problem is choice.stated.problem
    assert choice.found.schedule.makespan_us == min(tried.time_us for tried in choice.tried)


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_cutting_finer_never_makes_it_slower(collective: str) -> None:
    """What is found for one number of chunks is where the search for its multiples begins."""
    choice = choose_chunks(
        lambda number: make_problem(collective, size=192 * 1024, chunks=number, topology="ring:4"),
        replace(QUICK, gap=0.0, time_limit_s=3.0),
    )
    assert len(choice.tried) > 2
    for finer, coarser in itertools.permutations(choice.tried, 2):
        if finer.chunks % coarser.chunks == 0 and 16 * finer.chunks <= 71:  # so that no group has to be split
            assert finer.time_us <= coarser.time_us + 1e-6


def test_each_time_stands_with_the_bound_for_its_number(first_schedules_only: list[int]) -> None:
    choice = chosen()
    for tried in choice.tried:
        largest = bounds("broadcast", size=48 * MB, chunks=tried.chunks, **RING)[0]  # type: ignore[arg-type]
        assert tried.lower_bound_us <= largest.value_us
        assert choice.any_chunks.value_us <= tried.time_us
    assert [tried.remark for tried in choice.tried].count("chosen") == 1
    assert f"the bound is for {choice.stated.problem.collective.chunks_per_rank}" in choice.note


def test_finer_chunks_are_left_alone_once_they_only_get_slower(first_schedules_only: list[int]) -> None:
    many = len(candidates(stated(1, size=2**16).problem))
    choice = choose_chunks(lambda number: stated(number, size=2**16), QUICK)
    assert len(choice.tried) < many


def test_a_number_whose_bound_is_above_the_best_time_is_not_searched_again(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_tight_bound(problem: Problem, options: SearchOptions, journal: Journal) -> Iterator[Update]:
        first_schedules_only.append(problem.collective.chunks_per_rank)
        first = next(real_solve(problem, options))
        assert first.schedule is not None
        yield replace(first, lower_bound_us=first.schedule.makespan_us)

    monkeypatch.setattr("taccl.search.solve", with_tight_bound)
    chosen(gap=0.0)
    assert len(first_schedules_only) == len(set(first_schedules_only))


def test_numbers_that_there_was_no_time_to_look_at_come_last(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taccl.chunking._Hunt._first_takes_until", lambda hunt, number: number * 1e9 - 1e9)
    choice = chosen(gap=0.0)
    assert [tried.chunks for tried in choice.tried] == candidates(stated(1).problem)
    assert choice.stated.problem.collective.chunks_per_rank > 1


def test_a_schedule_that_no_file_can_hold_is_not_chosen(first_schedules_only: list[int]) -> None:
    def holds_few(schedule: Schedule) -> None:
        if schedule.problem.collective.chunks_per_rank > 2:
            raise CollectiveError("too large")

    choice = choose_chunks(stated, QUICK, can_be_used=holds_few)
    assert choice.stated.problem.collective.chunks_per_rank == 2
    assert "no file can hold it" in [tried.remark for tried in choice.tried]


def test_a_search_that_finds_nothing_in_its_time_leaves_the_look(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_once(problem: Problem, options: SearchOptions, journal: Journal) -> Iterator[Update]:
        number = problem.collective.chunks_per_rank
        first_schedules_only.append(number)
        if first_schedules_only.count(number) > 1:
            raise NoScheduleInTime("too late")
        yield next(real_solve(problem, options))

    monkeypatch.setattr("taccl.search.solve", only_once)
    choice = chosen(gap=0.0)
    assert len(first_schedules_only) > len(choice.tried)
    assert choice.found.schedule.makespan_us == min(tried.time_us for tried in choice.tried)


@pytest.mark.parametrize("finished_looks", [0, 1, 3])
def test_ctrl_c_keeps_the_best_so_far(first_schedules_only: list[int], finished_looks: int) -> None:
    news: list[Progress] = []

    def stop(progress: Progress) -> None:
        news.append(progress)
        if len(news) > finished_looks:
            raise KeyboardInterrupt

    choice = choose_chunks(stated, replace(QUICK, gap=0.0), stop)
    assert len(choice.tried) == len(news) == finished_looks + 1
    assert choice.found.status == "interrupted"


def test_an_observer_that_says_stop_ends_all_searches_and_keeps_the_best(
    first_schedules_only: list[int],
) -> None:
    news: list[Progress] = []

    def stop_at_the_second(progress: Progress) -> Answer:
        news.append(progress)
        return STOP if len(news) == 2 else None

    choice = choose_chunks(stated, replace(QUICK, gap=0.0), stop_at_the_second)
    assert len(choice.tried) == len(news) == 2
    assert choice.found.status == "interrupted"


def test_ctrl_c_before_any_schedule_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(problem: Problem, options: SearchOptions, journal: Journal) -> Iterator[Update]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("taccl.search.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        chosen()


def test_a_wrong_bound_is_told_and_no_number_is_lost_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(problem: Problem, options: SearchOptions, journal: Journal) -> Iterator[Update]:
        yield replace(next(real_solve(problem, options)), lower_bound_us=1e9)

    monkeypatch.setattr("taccl.search.solve", wrong)
    choice = chosen()
    assert any("stands above a valid schedule" in each.text for each in choice.found.failures)
    assert choice.found.lower_bound_us <= choice.found.schedule.makespan_us
    assert len(choice.tried) > 1


def test_progress_says_which_number_it_is_about(first_schedules_only: list[int]) -> None:
    news: list[Progress] = []
    choose_chunks(stated, QUICK, news.append)
    assert news[0].stage.endswith("chunks 1")
    assert np.all(np.diff([each.elapsed_s for each in news]) >= 0)


def test_an_unknown_engine_is_found_before_any_look() -> None:
    with pytest.raises(SolverError, match="unknown engine"):
        chosen(engine="quick")


def test_synthesize_takes_auto_and_says_what_it_tried(first_schedules_only: list[int]) -> None:
    result = synthesize("broadcast", size="48MB", chunks="auto", gap=0.05, time_limit=60, **RING)  # type: ignore[arg-type]
    assert result.collective.chunks_per_rank > 1
    assert result.size_bytes == 48 * MB
    assert result.verified
    assert result.notes[-1].startswith("chunks auto: ")
    assert "chosen" in result.summary()
    figures = json.loads(json.dumps(result.figures(), allow_nan=False))
    assert {"chunks", "time_us", "lower_bound_us", "gap"} <= set(figures["chunks_tried"][0])


@pytest.mark.parametrize("chunks", ["many", "4"])
def test_other_words_are_refused(chunks: str) -> None:
    with pytest.raises(TacclError, match="a number or auto"):
        synthesize("broadcast", size="3MB", chunks=chunks, **RING)  # type: ignore[arg-type]
