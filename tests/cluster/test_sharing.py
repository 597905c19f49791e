"""A search with the workers of a real cluster: two processes on this machine, begun once for all tests."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

pytest.importorskip("distributed")

from distributed import LocalCluster

from taccl.api import make_problem, synthesize
from taccl.cli.main import main
from taccl.cluster import pool, work
from taccl.cluster.connection import connected
from taccl.cluster.sharing import Sharing
from taccl.cluster.task import Answer
from taccl.cluster.versions import about
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.errors import ClusterError
from taccl.problem import Problem
from taccl.schemas import json_schema
from taccl.search import Found, Observer, Progress

Work = Callable[[bytes, str], Answer]

#: So many units of work for the whole, of which each of eight tasks has three quarters.
WORK = SearchOptions(engine="greedy", effort=40)
CLOCK = SearchOptions(engine="greedy", time_limit_s=30.0)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        scheduler_port=0,
        dashboard_address=":0",
        silence_logs=100,
    ) as cluster:
        yield cluster.scheduler_address


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
        main, [*words.split(), "--effort", "40", "--scheduler", address, "--no-xml", "--json", "-q"]
    )
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)
    Draft202012Validator(json_schema(told["schema"])).validate(told)
    assert told["scheduler"] == address
    assert [task["seed"] for task in told["tasks"]] == list(range(8))
    assert {task["chunks"] for task in told["tasks"]} == {1}
    assert all(task["time_us"] >= told["time_us"] for task in told["tasks"])
    assert f"8 of 8 tasks at {address} gave a valid schedule" in told["notes"]


def test_the_same_seed_and_effort_give_the_same_answer_whoever_is_faster(
    address: str, problem: Problem
) -> None:
    def told(sharing: Sharing) -> list[object]:
        return [replace(run, worker="", seconds=0.0) for run in sharing.runs]

    (once, of_once), (again, of_again) = (searched(address, problem) for _ in range(2))
    assert told(of_once) == told(of_again)
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
        xml=False,
    )
    numbers = {task.chunks for task in result.tasks}
    assert numbers >= {tried.chunks for tried in result.chunks_tried}
    assert len(numbers) > 1
    assert result.time_us == min(task.time_us for task in result.tasks if task.time_us is not None)


def test_a_schedule_that_is_not_valid_here_is_refused(address: str, problem: Problem) -> None:
    def in_half_the_time(payload: bytes, key: str) -> Answer:
        answer = work.carried_out(payload, key)
        columns = answer.columns
        return replace(
            answer, columns=replace(columns, start_us=columns.start_us / 2, end_us=columns.end_us / 2)
        )

    found, sharing = searched(address, problem, carried_out=in_half_the_time)
    assert {run.remark for run in sharing.runs} == {"refused: its schedule is not valid"}
    assert all(run.time_us is None for run in sharing.runs)
    assert "the schedule is not valid" in found.failures[0].text
    found.schedule.check()


def test_what_is_no_answer_costs_its_task_only(address: str, problem: Problem) -> None:
    def something(payload: bytes, key: str) -> object:
        if key < "taccl-8":
            raise ZeroDivisionError("half of them\nfail")
        return "fast"

    found, sharing = searched(address, problem, carried_out=something)
    assert {run.remark for run in sharing.runs} <= {"fast", "ZeroDivisionError: half of them"}
    assert len(found.failures) == 8
    found.schedule.check()


@pytest.mark.parametrize("part", [0.999, 2.0])
def test_a_bound_of_a_worker_is_told_as_its_claim_or_not_at_all(
    address: str, problem: Problem, part: float
) -> None:
    def claims(payload: bytes, key: str) -> Answer:
        answer = work.carried_out(payload, key)
        return replace(answer, claimed_us=part * answer.columns.end_us.max(), claimed_source="I say\nso")

    found, sharing = searched(address, problem, carried_out=claims)
    notes = " ".join(sharing.notes_on(found, counts_work=True))
    assert found.lower_bound_us < 0.999 * found.schedule.makespan_us
    assert ("claims a bound of" in notes and "(I say so), which is not proved here" in notes) == (part < 1)
    assert any("above a valid schedule" in each.text for each in found.failures) == (part > 1)


def test_an_interruption_keeps_the_best_and_frees_the_workers(address: str, problem: Problem) -> None:
    def until_given_up(payload: bytes, key: str) -> Answer:
        while not work._is_given_up(key):
            time.sleep(0.02)
        return Answer(None)

    def interrupt(progress: Progress) -> None:
        if progress.stage == "bound":
            raise KeyboardInterrupt

    found, _ = searched(address, problem, CLOCK, until_given_up, interrupt)
    assert found.status == "interrupted"
    found.schedule.check()
    _, sharing = searched(address, problem)
    assert all(run.time_us is not None for run in sharing.runs)


def test_who_does_not_answer_in_time_is_not_waited_for(address: str, problem: Problem) -> None:
    def until_given_up(payload: bytes, key: str) -> Answer:
        while not work._is_given_up(key):
            time.sleep(0.02)
        return Answer(None)

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


def test_a_worker_that_dies_loses_its_task_and_nothing_else(address: str, problem: Problem) -> None:
    def dies_of_seed_1(payload: bytes, key: str) -> Answer:
        import pickle
        import signal

        if pickle.loads(payload)[1].seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return work.carried_out(payload, key)

    found, sharing = searched(address, problem, carried_out=dies_of_seed_1)
    lost = [run for run in sharing.runs if run.time_us is None]
    assert [(run.seed, run.remark) for run in lost] == [(1, "lost: its worker died")]
    assert len(sharing.runs) == 8
    assert "tasks lost with their workers: 1" in " ".join(sharing.notes_on(found, counts_work=True))
    found.schedule.check()
