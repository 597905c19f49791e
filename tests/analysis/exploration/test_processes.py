"""Searches in several processes: what is lost with one is done again, and none is left."""

import multiprocessing
import os
import signal
import threading

import pytest

from taccl import explore
from taccl.analysis.exploration import processes

SMALL = {
    "collective": "allgather",
    "topology": "ring:4",
    "sizes": "1KB..16KB",
    "effort": 300,
    "cache": False,
}


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A process is killed as soon as searches are handed out, until so many were as the list is long."""
    left = [0]
    begun = processes.Processes._begun

    def then_one_is_killed(self: processes.Processes, searches):
        futures = begun(self, searches)
        if left:
            left.pop()
            os.kill(next(iter(self._pool._processes)), signal.SIGKILL)
        return futures

    monkeypatch.setattr(processes.Processes, "_begun", then_one_is_killed)
    return left


def test_what_is_lost_with_a_process_is_done_again(killing: list[int]) -> None:
    table = explore(**SMALL, jobs=2)
    assert not killing
    assert not any(cell.failure for cell in table.cells)
    assert table.best == explore(**SMALL).best


def test_a_search_that_is_lost_twice_is_an_error_of_its_own(killing: list[int]) -> None:
    killing *= 100
    table = explore(**SMALL, jobs=2)
    assert {cell.failure for cell in table.cells} == {"its process was ended, 2 times"}
    assert all(row["time_us"] is not None for row in table.best)  # libraries' algorithms remain


def test_no_process_and_no_thread_is_left() -> None:
    explore(**SMALL, jobs=2)
    assert not multiprocessing.active_children()
    assert not [each for each in threading.enumerate() if "Executor" in type(each).__name__]


def test_a_process_that_was_killed_while_it_waited_keeps_nobody() -> None:
    others = processes.Processes(1)
    others._begun({})
    assert others._pool is not None
    os.kill(others._pool.submit(os.getpid).result(), signal.SIGKILL)
    ends = threading.Thread(target=others.end, daemon=True)
    ends.start()
    ends.join(60)
    assert not ends.is_alive()
