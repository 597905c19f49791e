from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from taccl.api import make_problem
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.errors import NoScheduleInTime, ScheduleError, SolverError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.synthesis.search import STOP, Progress, Status, relative_gap, search, status_of

Engine = Callable[..., Iterator[Update]]


@pytest.fixture
def problem() -> Problem:
    """Two GPUs swap a chunk of 1 MB: one send each way, at once."""
    return make_problem("allgather", topology="full:2", size="2MB").problem


def swap(problem: Problem, start_us: float = 0.0) -> Schedule:
    topology = problem.topology
    sends = [Send((int(topology.src[link]),), link, start_us) for link in range(topology.num_links)]
    return schedule_from_sends(problem, sends)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], None]:
    return lambda solve: monkeypatch.setattr("taccl.synthesis.search.solve", solve)


def says(*updates: Update, then: type[BaseException] | None = None) -> Engine:
    def solve(problem: Problem, options: SearchOptions, *rest: object) -> Iterator[Update]:
        yield from updates
        if then is SolverError:
            raise SolverError("the solver broke down")
        if then is not None:
            raise then

    return solve


def test_a_note_is_about_the_last_schedule_and_goes_with_it(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    news = [Update("a", swap(problem, 9.0), note="swapped"), Update("bound", None, 1.0, "b")]
    engine(says(*news))
    assert search(problem, SearchOptions()).note == "swapped"
    engine(says(*news, Update("slower", swap(problem, 9.5))))
    assert search(problem, SearchOptions()).note == "swapped"
    engine(says(*news, Update("b", swap(problem, 4.0))))
    assert search(problem, SearchOptions()).note == ""


def test_the_fastest_schedule_and_the_highest_bound_are_kept(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    fast = swap(problem, 1.0)
    engine(
        says(
            Update("a", swap(problem, 9.0), 5.0, "weak"),
            Update("b", fast, 3.0, "weaker"),
            Update("c", swap(problem, 4.0)),
            Update("d", None, 7.0, "strong"),
        )
    )
    found = search(problem, SearchOptions())
    assert found.schedule is fast
    assert (found.lower_bound_us, found.bound_source) == (7.0, "strong")
    assert found.status == "finished"


def test_a_schedule_that_meets_its_bound_is_optimal_and_ends_the_search(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    best = swap(problem)
    engine(says(Update("a", best, best.makespan_us, "proof"), then=AssertionError))
    assert search(problem, SearchOptions()).status == "optimal"


def test_the_gap_asked_for_ends_the_search(problem: Problem, engine: Callable[[Engine], None]) -> None:
    schedule = swap(problem)
    engine(says(Update("a", schedule, 0.9 * schedule.makespan_us, "b"), then=AssertionError))
    assert search(problem, SearchOptions(gap=0.2)).status == "gap reached"


def test_ctrl_c_keeps_the_best_so_far(problem: Problem, engine: Callable[[Engine], None]) -> None:
    schedule = swap(problem)
    engine(says(Update("a", schedule), then=KeyboardInterrupt))
    found = search(problem, SearchOptions())
    assert found.schedule is schedule
    assert found.status == "interrupted"


class _FromMachineCode(SystemError):
    """What becomes of Ctrl-C while the result of machine code is unpickled."""

    def __init__(self) -> None:
        super().__init__("returned a result with an exception set")
        self.__cause__ = KeyboardInterrupt()


def test_ctrl_c_that_came_out_of_machine_code_as_another_exception_is_ctrl_c(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    engine(says(Update("a", schedule), then=_FromMachineCode))
    found = search(problem, SearchOptions())
    assert (found.schedule, found.status, found.failures) == (schedule, "interrupted", ())
    engine(says(Update("a", None, 1.0, "b"), then=_FromMachineCode))
    with pytest.raises(KeyboardInterrupt):
        search(problem, SearchOptions())


def test_an_observer_that_says_stop_ends_the_search_and_keeps_the_best(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    engine(says(Update("a", schedule), then=AssertionError))
    found = search(problem, SearchOptions(), lambda progress: STOP)
    assert found.schedule is schedule
    assert found.status == "interrupted"


def test_stop_at_a_proof_leaves_it_one(problem: Problem, engine: Callable[[Engine], None]) -> None:
    best = swap(problem)
    engine(says(Update("a", best, best.makespan_us, "proof")))
    assert search(problem, SearchOptions(), lambda progress: STOP).status == "optimal"


def test_stop_before_any_schedule_says_so(problem: Problem, engine: Callable[[Engine], None]) -> None:
    engine(says(Update("a", None, 1.0, "b"), then=AssertionError))
    with pytest.raises(NoScheduleInTime, match="stopped before there was any"):
        search(problem, SearchOptions(), lambda progress: STOP)


def test_other_answers_of_an_observer_let_the_search_go_on(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    """Bars of progress return true where they draw, and nobody means by it that the search should end."""
    fast = swap(problem)
    engine(says(Update("a", swap(problem, 9.0)), Update("b", fast)))
    answers: list[object] = [True, "go on"]
    found = search(problem, SearchOptions(), lambda progress: answers.pop())
    assert found.schedule is fast


def test_ctrl_c_in_the_progress_report_keeps_the_best_so_far(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    engine(says(Update("a", schedule), Update("b")))

    def press(progress: Progress) -> None:
        raise KeyboardInterrupt

    assert search(problem, SearchOptions(), press).schedule is schedule


def test_ctrl_c_before_any_schedule_is_passed_on(problem: Problem, engine: Callable[[Engine], None]) -> None:
    engine(says(Update("a", None, 1.0, "b"), then=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        search(problem, SearchOptions())


def test_no_schedule_at_all_is_an_error_that_tells_the_bound(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    engine(says(Update("a", None, 12.5, "b")))
    with pytest.raises(NoScheduleInTime, match=r"12\.50 us"):
        search(problem, SearchOptions())


def test_a_first_schedule_that_comes_late_is_kept_and_said_to_be_late(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    engine(says(Update("a", schedule)))
    found = search(problem, SearchOptions(time_limit_s=1e-9))
    assert found.schedule is schedule
    assert found.status == "late"


def test_a_schedule_that_is_not_valid_is_never_kept(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    broken = Update("a", replace(schedule, end_us=schedule.end_us / 2))
    engine(says(broken))
    with pytest.raises(ScheduleError):
        search(problem, SearchOptions())
    engine(says(Update("b", schedule), broken))
    found = search(problem, SearchOptions())
    assert found.schedule is schedule
    assert [(each.name, "not valid" in each.text) for each in found.failures] == [("a", True)]
    assert found.status == "engine failed"


def test_a_bound_above_a_valid_schedule_is_told_as_a_failure_and_not_as_a_bound(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    wrong = Update("a", None, 1.01 * schedule.makespan_us, "wrong")
    for news in ((Update("a", schedule, 1.0, "right"), wrong), (wrong, Update("a", schedule))):
        engine(says(*news))
        found = search(problem, SearchOptions())
        assert found.schedule is schedule
        assert found.lower_bound_us <= 1.0
        assert "stands above a valid schedule" in found.failures[0].text


def test_a_bug_of_an_engine_costs_nothing_of_what_was_found(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    engine(says(Update("a", schedule), then=ZeroDivisionError))
    found = search(problem, SearchOptions())
    assert found.schedule is schedule
    assert found.failures[0].text.startswith("ZeroDivisionError")


def test_progress_tells_each_news_and_whether_it_is_an_improvement(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    schedule = swap(problem)
    engine(
        says(
            Update("bound", None, 1.0, "b"), Update("greedy", schedule), Update("slower", swap(problem, 5.0))
        )
    )
    heard: list[Progress] = []
    search(problem, SearchOptions(), heard.append)
    assert [(p.stage, p.time_us, p.improved) for p in heard] == [
        ("bound", None, False),
        ("greedy", schedule.makespan_us, True),
        ("slower", schedule.makespan_us, False),
    ]
    assert heard[0].gap is None
    assert heard[1].gap == relative_gap(schedule.makespan_us, 1.0)


def test_where_nothing_moves_the_gap_is_zero() -> None:
    assert relative_gap(0.0, 0.0) == 0.0


def test_a_solver_that_breaks_down_costs_nothing_of_what_was_found(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    engine(says(Update("greedy", swap(problem, 1.0)), then=SolverError))
    found = search(problem, SearchOptions())
    assert found.status == "engine failed"
    found.schedule.check()


def test_a_solver_that_breaks_down_before_any_schedule_is_an_error(
    problem: Problem, engine: Callable[[Engine], None]
) -> None:
    engine(says(then=SolverError))
    with pytest.raises(SolverError, match="broke down"):
        search(problem, SearchOptions())


@pytest.mark.parametrize(
    ("gap", "cut_short", "first_s", "elapsed_s", "failed", "status"),
    [
        (0.0, "interrupted", 11.0, 11.0, True, "optimal"),
        (0.1, "interrupted", 11.0, 11.0, True, "gap reached"),
        (0.2, "interrupted", 11.0, 11.0, True, "interrupted"),
        (0.2, "engine failed", 11.0, 11.0, True, "engine failed"),
        (0.2, None, 11.0, 11.0, True, "late"),
        (0.2, None, 1.0, 9.5, True, "time limit"),
        (0.2, None, 1.0, 9.4, True, "engine failed"),
        (0.2, None, 1.0, 9.4, False, "finished"),
    ],
)
def test_a_status_tells_what_is_proved_before_what_stopped_it_and_that_before_the_clock(
    gap: float, cut_short: Status | None, first_s: float, elapsed_s: float, failed: bool, status: Status
) -> None:
    options = SearchOptions(gap=0.1, time_limit_s=10.0)
    reported = status_of(
        gap, options, cut_short=cut_short, first_s=first_s, elapsed_s=elapsed_s, failed=failed
    )
    assert reported == status


@pytest.mark.parametrize(("effort", "status"), [(None, "time limit"), (100, "finished")])
def test_no_gap_settles_what_others_had_no_time_for(effort: int | None, status: Status) -> None:
    options = SearchOptions(gap=0.1, time_limit_s=10.0, effort=effort)
    reported = status_of(
        0.0, options, cut_short=None, first_s=1.0, elapsed_s=5.0, failed=False, is_settled=False
    )
    assert reported == status
