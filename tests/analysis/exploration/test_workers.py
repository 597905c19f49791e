"""Searches on the workers of a real cluster: the table is that of this computer."""

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from dask_here import two_workers

from taccl import Explored, explore
from taccl.analysis.exploration import workers
from taccl.analysis.exploration.answer import Answer
from taccl.analysis.exploration.cache import Cache
from taccl.analysis.exploration.search import Outcome, SizeSearch, carried_out
from taccl.synthesis.cluster import pool

SMALL = {"collective": "allgather,alltoall", "topology": "ring:4", "sizes": "1KB..64KB", "effort": 300}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with two_workers() as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def alone() -> Explored:
    return explore(**SMALL, cache=False)


def test_with_an_effort_the_table_is_that_of_this_computer(
    address: str, alone: Explored, tmp_path: Path
) -> None:
    table = explore(**SMALL, cache=tmp_path, scheduler=address)
    assert table.best == alone.best
    assert len(table.cells) == len(alone.cells) == len(list(tmp_path.iterdir()))
    again = explore(**SMALL, cache=tmp_path)
    assert again.best == alone.best
    assert all(cell.is_known for cell in again.cells)


def test_a_bound_of_a_worker_is_its_claim(address: str) -> None:
    table = explore(**SMALL, cache=False, scheduler=address)
    answers = [cell.answer for cell in table.cells if cell.answer is not None]
    assert all(answer.saved.lower_bound_us == 0 for answer in answers)
    assert any(answer.claimed_us > 0 for answer in answers)


def test_a_search_whose_worker_dies_is_done_again(
    address: str, alone: Explored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker is killed by its first search, before it says a word."""
    (tmp_path / "alive").touch()

    def dies(payload: bytes, key: str) -> Outcome:
        try:
            (tmp_path / "alive").unlink()
        except FileNotFoundError:
            return carried_out(pickle.loads(payload))
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it was killed")

    monkeypatch.setattr(workers, "_searched", dies)
    table = explore(**SMALL, cache=False, scheduler=address)
    assert not (tmp_path / "alive").exists()
    assert table.best == alone.best
    assert not any(cell.failure for cell in table.cells)


def test_a_search_that_fails_everywhere_is_an_error_of_its_own(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(payload: bytes, key: str) -> Outcome:
        raise MemoryError("too large")

    monkeypatch.setattr(workers, "_searched", fails)
    table = explore(**{**SMALL, "collective": "allgather"}, cache=False, scheduler=address)
    assert {cell.failure for cell in table.cells} == {"MemoryError: too large, 2 times"}
    assert all(row["time_us"] is not None for row in table.best)


def test_without_the_scheduler_the_rest_is_done_here(
    address: str, alone: Explored, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = pool.Pool.submit

    def gone(self: pool.Pool, tasks: list[object]) -> None:  # type: ignore[type-arg]
        self._lose_all("the scheduler went away")
        submit(self, tasks)

    monkeypatch.setattr(pool.Pool, "submit", gone)
    table = explore(**SMALL, cache=False, scheduler=address)
    assert table.best == alone.best
    assert "the scheduler went away, and the search went on here" in table.notes


def test_what_another_problem_is_for_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that gives the schedule of another machine, or of another size, gives none."""

    def searched(payload: bytes, key: str) -> Outcome:
        search = pickle.loads(payload)
        return carried_out(replace(search, request=replace(search.request, topology="ring:3")))

    monkeypatch.setattr(workers, "_searched", searched)
    table = explore(**{**SMALL, "sizes": "16KB,48KB"}, cache=False, scheduler=address)
    assert all(cell.failure.startswith("what a worker gave back is refused: ") for cell in table.cells)


def test_answers_are_kept_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first search of a wave is the last to end: by then the others are in the cache."""
    kept: list[int] = []

    class Backwards:
        are_here, jobs, notes = True, 4, ()

        def outcomes(self, searches: list[SizeSearch]) -> Iterator[tuple[int, Outcome]]:
            for number in reversed(range(len(searches))):
                yield number, carried_out(searches[number])
                kept.append(len(list(Cache(tmp_path).files())))

    words = {key: SMALL[key] for key in ("topology", "sizes", "effort")}
    alone = explore("alltoall", **words, cache=False)  # type: ignore[arg-type]
    monkeypatch.setattr("taccl.analysis.exploration.explore.processes", lambda jobs: nullcontext(Backwards()))
    found = explore("alltoall", **words, cache=tmp_path)  # type: ignore[arg-type]
    assert kept == list(range(1, len(kept) + 1))
    assert found.best == alone.best


def test_an_answer_says_what_is_claimed(alone: Explored) -> None:
    answer = next(cell.answer for cell in alone.cells if cell.answer is not None)
    claimed = answer.believed_for(answer.saved.schedule.problem)
    again = Answer.from_text(claimed.to_text())
    assert again is not None
    assert again.claimed_us == answer.saved.lower_bound_us
    assert again.saved.lower_bound_us == 0
