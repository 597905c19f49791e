"""A search with the workers of a real cluster: two processes on this machine, begun once for all tests."""

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

pytest.importorskip("distributed")

import cloudpickle
from dask_here import two_workers

from taccl.api import make_problem, synthesize
from taccl.cli.main import main
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance
from taccl.errors import ClusterError
from taccl.model.problem import Problem
from taccl.support.schemas import json_schema
from taccl.synthesis.cluster import pool, work
from taccl.synthesis.cluster.connection import connected
from taccl.synthesis.cluster.sharing import Sharing
from taccl.synthesis.cluster.task import TaskAnswer
from taccl.synthesis.cluster.versions import about
from taccl.synthesis.search import Found, Observer, Progress, search

Work = Callable[[bytes, str], TaskAnswer]

#: This many units of work for the whole, of which each of eight tasks has three quarters.
WORK = SearchOptions(engine="greedy", effort=40)
CLOCK = SearchOptions(engine="greedy", time_limit_s=30.0)


def until_given_up(payload: bytes, key: str) -> TaskAnswer:
    """Work until nobody waits any more."""
    while not work.is_given_up(key):
        time.sleep(0.02)
    return TaskAnswer(None)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # workers cannot import a module of tests
    with two_workers() as cluster:
        yield cluster.scheduler_address
    cloudpickle.unregister_pickle_by_value(here)


@pytest.fixture
def problem() -> Problem:
    """A mesh with sums: list scheduling ends at once, and proves nothing."""
    return make_problem("allreduce", topology="mesh:2x3", size="6MB").problem


def searched(
    address: str,
    problem: Problem,
    options: SearchOptions = WORK,
    carried_out: Work = work.carried_out,
    on_progress: Observer | None = None,
) -> tuple[Found, Sharing]:
    with connected(address, work=carried_out) as cluster:
        sharing = Sharing(cluster)
        return sharing.search(Instance(problem), options, on_progress), sharing


def test_the_command_tells_what_became_of_each_task(address: str) -> None:
    words = "synthesize --collective allreduce --topology mesh:2x3 --size 6MB --chunks 1 --engine greedy"
    ran = CliRunner().invoke(
        main, [*words.split(), "--effort", "40", "--scheduler", address, "--no-file", "--json", "-q"]
    )
    assert ran.exit_code == 0, ran.stderr
    reported = json.loads(ran.stdout)
    Draft202012Validator(json_schema(reported["schema"])).validate(reported)
    assert reported["scheduler"] == address
    assert [task["seed"] for task in reported["tasks"]] == list(range(8))
    assert {task["chunks"] for task in reported["tasks"]} == {1}
    assert all(task["time_us"] >= reported["time_us"] for task in reported["tasks"])
    assert f"8 of 8 tasks at {address} gave a valid schedule" in reported["notes"]


def test_the_same_seed_and_effort_give_the_same_answer_whoever_is_faster(
    address: str, problem: Problem
) -> None:
    def reported(sharing: Sharing) -> list[object]:
        return [replace(run, worker="", seconds=0.0) for run in sharing.runs]

    (once, of_once), (again, of_again) = (searched(address, problem) for _ in range(2))
    assert reported(of_once) == reported(of_again)
    assert once.schedule.to_dict() == again.schedule.to_dict()


def test_numbers_of_chunks_are_tasks_too(address: str) -> None:
    result = synthesize(
        "allreduce",
        topology="mesh:2x3",
        size="18KB",
        chunks="auto",
        engine="greedy",
        effort=100,
        scheduler=address,
        file=False,
    )
    numbers = {task.chunks for task in result.tasks}
    assert numbers >= {tried.chunks for tried in result.chunks_tried}
    assert len(numbers) > 1
    assert result.time_us == min(task.time_us for task in result.tasks if task.time_us is not None)


def test_an_interruption_keeps_the_best_and_frees_the_workers(address: str, problem: Problem) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "bound":
            raise KeyboardInterrupt

    found, _ = searched(address, problem, CLOCK, until_given_up, interrupt)
    assert found.status == "interrupted"
    found.schedule.check()
    _, sharing = searched(address, problem)
    assert all(run.time_us is not None for run in sharing.runs)


def test_who_does_not_answer_in_time_is_not_waited_for(address: str, problem: Problem) -> None:
    found, sharing = searched(address, problem, replace(CLOCK, time_limit_s=1.0), until_given_up)
    assert found.status == "time limit"
    assert {run.remark for run in sharing.runs} == {"given up when the search ended"}


def test_a_worker_with_another_taccl_is_told_and_not_used(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()
    monkeypatch.setattr(
        pool, "about", lambda: replace(about(), taccl="9.9") if os.getpid() == here else about()
    )
    with (
        pytest.raises(ClusterError, match=r"it has taccl .*, and here is taccl 9\.9") as refused,
        connected(address),
    ):
        pass
    assert "the same taccl" in str(refused.value.hint)


def test_a_faster_schedule_of_a_worker_is_the_answer(
    address: str, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found_late(instance: Instance, *rest: object) -> Iterator[Update]:
        schedule = search(instance.problem, WORK).schedule
        start_us, end_us = schedule.start_us + 100, schedule.end_us + 100
        yield Update("late", replace(schedule, start_us=start_us, end_us=end_us))

    monkeypatch.setattr("taccl.synthesis.cluster.sharing.solve", found_late)
    found, sharing = searched(address, problem)
    alone = search(problem, WORK)
    assert found.schedule.makespan_us == alone.schedule.makespan_us
    assert [run.remark for run in sharing.runs] == ["faster", *["not faster"] * 7]
    assert 0 < found.lower_bound_us <= found.schedule.makespan_us


#: What workers make of tasks, by seed, and what is reported of each.
STRANGE = {
    0: "refused: its schedule is not valid",
    1: "ZeroDivisionError: one line",
    2: "fast",
    3: "not faster",
    4: "not faster",
    5: "refused: it is no schedule of the problem",
    6: "SolverError: no such solver",
    7: "lost: its worker died",
}


def strange(payload: bytes, key: str) -> object:
    """What a worker could say."""
    seed = pickle.loads(payload)[1].seed
    if seed == 1:
        raise ZeroDivisionError("one line\nand another")
    if seed == 2:
        return "fast"
    if seed == 6:
        return TaskAnswer(None, failures=("SolverError: no such solver",))
    if seed == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    answer = work.carried_out(payload, key)
    columns = answer.columns
    assert columns is not None
    if seed == 0:
        columns = replace(columns, start_us=columns.start_us / 2, end_us=columns.end_us / 2)
    elif seed == 5:
        columns = replace(columns, link=columns.link + 1000)
    part = {3: 0.999, 4: 2.0}.get(seed, 0.0)
    claimed_us = part * float(columns.end_us.max())
    return replace(answer, columns=columns, claimed_us=claimed_us, claimed_source="I say\nso")


@pytest.fixture(scope="module")
def by_strangers(address: str) -> tuple[Found, Sharing]:
    """A search whose tasks all go wrong in another way; one ends its worker."""
    problem = make_problem("allreduce", topology="mesh:2x3", size="6MB").problem
    return searched(address, problem, carried_out=strange)


def test_what_goes_wrong_with_a_task_costs_that_task(by_strangers: tuple[Found, Sharing]) -> None:
    found, sharing = by_strangers
    assert {run.seed: run.remark for run in sharing.runs} == STRANGE
    assert [run.seed for run in sharing.runs if run.time_us is not None] == [3, 4]
    found.schedule.check()


def test_a_worker_that_dies_loses_its_task_and_nothing_else(by_strangers: tuple[Found, Sharing]) -> None:
    found, sharing = by_strangers
    assert not any("died" in each.text for each in found.failures)
    lost = "tasks lost with their workers: 1"
    assert f"{lost}, and nothing else" in sharing.notes_on(found, counts_work=False)
    assert f"{lost}, so another run may find another schedule" in sharing.notes_on(found, counts_work=True)


def test_a_bound_of_a_worker_is_its_claim(by_strangers: tuple[Found, Sharing]) -> None:
    found, sharing = by_strangers
    assert found.lower_bound_us < 0.99 * found.schedule.makespan_us
    claimed = sharing.runs[3]
    note = f"the worker {claimed.worker} claims a bound of {claimed.claimed_bound_us:.2f} us (I say so)"
    assert f"{note}, which is not proved here" in sharing.notes_on(found, counts_work=False)


def test_a_claim_above_a_valid_schedule_is_a_failure(by_strangers: tuple[Found, Sharing]) -> None:
    found, _ = by_strangers
    assert [each.text for each in found.failures if "seed 4" in each.name] == [
        f"it claims a bound of {2 * found.schedule.makespan_us:.6f} us, above a valid schedule"
    ]
