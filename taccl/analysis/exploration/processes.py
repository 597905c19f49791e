"""Searches in other processes of this computer, several at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from signal import SIG_DFL, SIG_IGN, SIGINT, SIGTERM, signal

from taccl.analysis.exploration.search import Outcome, SizeSearch, carried_out
from taccl.analysis.exploration.tuning import PROCESSES_LOOK_S, WORKERS_TRIES


@contextmanager
def processes(jobs: int) -> Iterator[Processes]:
    """Who searches: for one job this process, else as many others, which end with the block."""
    others = Processes(jobs)
    try:
        yield others
    finally:
        others.end()


class Processes:
    """`Searchers` of this computer. Searches that are lost with a process are done again."""

    are_here = True
    notes: tuple[str, ...] = ()

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._context = get_context("spawn")
        # Not an Event, of which setting waits for each process that waited, also for one that was killed.
        self._listens, self._ending = self._context.Pipe(duplex=False)
        self._pool: ProcessPoolExecutor | None = None

    def outcomes(self, searches: Sequence[SizeSearch]) -> Iterator[tuple[int, Outcome]]:
        """As `Searchers.outcomes`."""
        if self.jobs == 1:
            yield from enumerate(map(carried_out, searches))
            return
        waiting = dict(enumerate(searches))
        for _ in range(WORKERS_TRIES):
            futures = self._begun(waiting)
            for future in as_completed(futures):
                number = futures[future]
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    self._pool = None
                    continue
                del waiting[number]
                yield number, outcome
            if not waiting:
                return
        for number in waiting:
            yield number, Outcome(None, failure=f"its process was ended, {WORKERS_TRIES} times")

    def end(self) -> None:
        """End all processes, whatever they do."""
        self._ending.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._listens.close()

    def _begun(self, searches: Mapping[int, SizeSearch]) -> dict[Future[Outcome], int]:
        """The searches handed out. Processes begin with what is ignored here."""
        with _uninterrupted():
            if self._pool is None:
                arguments = (os.getpid(), self._listens)
                self._pool = ProcessPoolExecutor(self.jobs, self._context, _begin, arguments)
            return {self._pool.submit(carried_out, search): number for number, search in searches.items()}


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C for a moment; elsewhere than in the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal(SIGINT, SIG_IGN)
    try:
        yield
    finally:
        signal(SIGINT, before)


def _begin(parent: int, ending: Connection) -> None:
    """Ctrl-C reaches all processes of a terminal, but who hands out the work ends the others.

    Where that process was killed, they end by themselves.
    """
    signal(SIGINT, SIG_IGN)
    signal(SIGTERM, SIG_DFL)
    threading.Thread(target=_end_with, args=(parent, ending), daemon=True).start()


def _end_with(parent: int, ending: Connection) -> None:
    """End when the other end of the pipe is closed, or the parent is another."""
    while os.getppid() == parent and not wait([ending], PROCESSES_LOOK_S):
        pass
    os._exit(1)
