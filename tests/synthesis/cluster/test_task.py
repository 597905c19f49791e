import pickle
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from taccl.api import make_problem
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.errors import ScheduleError
from taccl.model.problem import Problem
from taccl.synthesis.cluster.plan import engines_for, variations
from taccl.synthesis.cluster.task import Task, TaskAnswer, TaskColumns
from taccl.synthesis.cluster.work import carried_out

GREEDY = SearchOptions(engine="greedy", effort=50, seed=7)


@pytest.fixture
def problem() -> Problem:
    return make_problem("allreduce", topology="ring:3", size="3MB").problem


@pytest.fixture
def answer(problem: Problem) -> TaskAnswer:
    return carried_out(Task(0, problem, GREEDY).payload, "no key of Dask")


def test_a_task_says_what_it_is(problem: Problem) -> None:
    assert Task(3, problem, GREEDY).name == "greedy, seed 7, chunks 1"


def test_what_was_derived_from_a_problem_stays_here(problem: Problem) -> None:
    before = len(Task(0, problem, GREEDY).payload)
    _ = problem.topology.link_index, problem.size_mb, problem.features
    assert len(Task(0, problem, GREEDY).payload) == before
    sent, _ = pickle.loads(Task(0, problem, GREEDY).payload)
    assert "link_index" not in vars(sent.topology)


def test_an_answer_is_a_schedule_of_the_problem_as_it_is_known_here(
    problem: Problem, answer: TaskAnswer
) -> None:
    schedule = answer.columns.as_schedule_of(problem)
    assert schedule.problem is problem
    schedule.check()


def test_what_fails_on_a_worker_is_part_of_its_answer(problem: Problem) -> None:
    answer = carried_out(Task(0, problem, replace(GREEDY, engine="milp", solver="none")).payload, "key")
    assert answer.columns is None
    assert "none" in answer.failures[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunk": np.array([0])},
        {"chunk": "chunks"},
        {"link": np.array([10**6])},
        {"link": np.array([-1])},
        {"end_us": np.array([np.nan])},
        {"end_us": np.array([1])},
        {"group": np.zeros((1, 1), dtype=np.int64)},
        {"sum_of_row": np.array([0])},
        {"sum_of_row": np.array([5]), "sum_members": np.ones((1, 3), dtype=np.bool_)},
        {"sum_of_row": np.array([0]), "sum_members": np.ones((1, 4), dtype=np.bool_)},
    ],
    ids=str,
)
def test_columns_that_fit_no_schedule_of_the_problem_are_refused(
    problem: Problem, answer: TaskAnswer, wrong: dict[str, object]
) -> None:
    """The others are one row long; `chunk` alone has a row where the others have more."""
    columns = answer.columns
    if "chunk" not in wrong:
        row = {name: column[:1] for name, column in vars(columns).items() if column is not None}
        columns = TaskColumns(**row)
    with pytest.raises(ScheduleError, match="is no schedule"):
        replace(columns, **wrong).as_schedule_of(problem)


def test_figures_and_texts_of_a_worker_are_made_sane() -> None:
    wild = TaskAnswer("fast", float("nan"), "x" * 1000, "proved", -1.0, ("\x1b[31mred", *("more",) * 100))
    sane = wild.made_sane()
    assert (sane.columns, sane.claimed_us, sane.claimed_source) == (None, 0.0, "")
    assert (sane.status, sane.seconds) == (None, 0.0)
    assert sane.failures[0] == " [31mred"
    assert len(sane.failures) < 10


def test_engines_take_turns_and_then_seeds(problem: Problem) -> None:
    engines = ("auto", "greedy", "cp")
    turns = islice(variations(SearchOptions(seed=2**31 - 1), engines), 6)
    assert [(each.engine, each.seed) for each in turns] == [
        ("auto", 2**31 - 1),
        ("greedy", 2**31 - 1),
        ("auto", 0),
        ("cp", 0),
        ("auto", 1),
        ("auto", 2),
    ]


def test_an_engine_that_is_asked_for_is_the_only_one(problem: Problem) -> None:
    assert engines_for(Instance(problem), "greedy", Journal()) == ("greedy",)
    serving = engines_for(Instance(problem), "auto", Journal())
    assert serving[0] == "auto"
    assert {"greedy", "cp"} <= set(serving)
    assert "textbook" not in serving
