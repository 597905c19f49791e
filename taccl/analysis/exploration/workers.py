"""Whole searches handed to the workers of a Dask cluster, one to each thread, in place of processes here."""

from __future__ import annotations

import math
import pickle
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from taccl.analysis.exploration import search as here
from taccl.analysis.exploration.search import Outcome, SizeSearch
from taccl.analysis.exploration.tuning import WORKERS_LATE_S, WORKERS_LOOK_S, WORKERS_TRIES
from taccl.synthesis.cluster.connection import Cluster, workers_at
from taccl.synthesis.cluster.pool import Ended
from taccl.synthesis.cluster.work import is_given_up
from taccl.synthesis.search import STOP


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A search for a worker; `number` : its place among those that are handed out together."""

    number: int
    search: SizeSearch

    @cached_property
    def payload(self) -> bytes:
        """The search as bytes."""
        return pickle.dumps(self.search, protocol=5)


@contextmanager
def workers(scheduler: str) -> Iterator[Workers]:
    """The workers of a scheduler, until the context ends.

    Raises
    ------
    ClusterError : no scheduler answers at the address, or none of its workers can be used.
    """
    with workers_at(scheduler, _searched, Outcome, SearchTask) as cluster:
        yield Workers(cluster)


class Workers:
    """`Searchers` of a cluster. A search that is lost with its worker is done again."""

    are_here = False

    def __init__(self, cluster: Cluster[SearchTask, Outcome]) -> None:
        self._cluster, self._pool = cluster, cluster.pool

    @property
    def jobs(self) -> int:
        """As many as there are threads of workers now; without any, searches are done here."""
        return max(1, self._pool.slots)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the cluster, by now."""
        return self._cluster.notes

    def outcomes(self, searches: Sequence[SizeSearch]) -> Iterator[tuple[int, Outcome]]:
        """As `Searchers.outcomes`."""
        waiting = {number: SearchTask(number, search) for number, search in enumerate(searches)}
        tried, end_s = Counter[int](), time.monotonic() + self._most_s(searches)
        self._pool.submit(waiting.values())
        try:
            while waiting and time.monotonic() < end_s:
                for ended in self._pool.ended(WORKERS_LOOK_S):
                    task = ended.task
                    tried[task.number] += 1
                    outcome = self._outcome(ended, tried[task.number])
                    if outcome is None:
                        self._pool.submit([task])
                    else:
                        del waiting[task.number]
                        yield task.number, outcome
            for number in waiting:
                yield number, Outcome(None, failure="no worker answered in time")
        finally:
            self._pool.drop(waiting.values())

    def _outcome(self, ended: Ended[SearchTask, Outcome], tries: int) -> Outcome | None:
        """What a search came to; None: it is to be done again by another worker."""
        if ended.answer is not None and ended.answer.is_final:
            return ended.answer
        if not self._pool.slots and (self._pool.is_gone or tries >= WORKERS_TRIES):
            return here.carried_out(ended.task.search)
        if tries < WORKERS_TRIES:
            return None
        return Outcome(None, failure=f"{ended.remark or 'a worker ended it early'}, {tries} times")

    def _most_s(self, searches: Sequence[SizeSearch]) -> float:
        """Seconds after which nobody is waited for: inf where only work is limited."""
        limits_s = [search.options.time_limit_s for search in searches]
        most_s = max((math.inf if limit_s is None else limit_s for limit_s in limits_s), default=0.0)
        return most_s * math.ceil(len(searches) / self.jobs) + WORKERS_LATE_S


def _searched(payload: bytes, key: str) -> Outcome:
    """What a worker does; `key` : what Dask calls it."""
    search = pickle.loads(payload)
    return here.carried_out(search, lambda _: STOP if is_given_up(key) else None)
