"""The critical path: backwards from the last end, each time to what the start had to wait for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import OWN, derive

#: A row and the moment at which it lets others go.
Release = tuple[int, float]


def walk_back(
    last: int, start: Callable[[int], float], releases: Callable[[int], Iterable[Release]]
) -> list[int]:
    """The rows from the first to `last`, each the one that let the next go latest.

    Parameters
    ----------
    start : when a row starts.
    releases : what a row had to wait for, in the order in which ties are decided; those that let it
        go after it started are no reason for its start and are passed over.
    """
    path, seen = [last], {last}
    while True:
        begin = start(path[-1])
        slack = 1e-9 * max(1.0, abs(begin))
        found = [(row, when) for row, when in releases(path[-1]) if when <= begin + slack and row not in seen]
        if not found:
            return path[::-1]
        row, _ = max(found, key=lambda release: release[1])
        path.append(row)
        seen.add(row)


class InOrder:
    """Rows that share something, by when they let go of it; answers which was the last before a moment."""

    def __init__(self, key: IntArray, row: IntArray, until: FloatArray, size: int) -> None:
        order = np.lexsort((row, until, key))
        self._row = row[order].tolist()
        self._until = until[order].tolist()
        self._first = np.searchsorted(key[order], np.arange(size + 1)).tolist()

    def before(self, key: int, moment: float) -> Iterable[Release]:
        """The last row of `key` that was done by `moment` (a billionth later still counts)."""
        first, end = self._first[key], self._first[key + 1]
        place = bisect_right(self._until, moment + 1e-9 * max(1.0, abs(moment)), first, end)
        if place > first:
            yield self._row[place - 1], self._until[place - 1]


def critical_sends(schedule: Schedule) -> IntArray:
    """The sends (rows of `schedule.sends`) on one critical path, in the order of time.

    A send waits for its chunks to arrive (of a sum, all of its parts) and for its ports to be free.
    Where both end at once, the chunk is the reason. A send that keeps a port busy for no time makes
    nobody wait for it.
    """
    sends, problem = schedule.sends, schedule.problem
    topology = problem.topology
    if not len(sends):
        return np.zeros(0, dtype=np.int64)
    used = [topology.ports[link] for link in sends.link.tolist()]
    user, pair = topology.pairs_of(sends.link)
    busy = topology.port_busy_us(pair, sends.size_mb[user])
    user, pair, busy = user[busy > 0], pair[busy > 0], busy[busy > 0]
    port_users = InOrder(topology.incidence[1][pair], user, sends.start_us[user] + busy, topology.num_ports)
    arrivals = InOrder(
        _place(schedule, schedule.chunk, schedule.dst, schedule.reduce),
        sends.of_row,
        schedule.end_us,
        2 * problem.num_chunks * problem.num_ranks,
    )
    rows_of = np.argsort(sends.of_row, kind="stable")
    first = np.concatenate([[0], np.cumsum(sends.count)])
    named = {} if schedule.sums is None else derive(schedule).rows

    def releases(send: int) -> Iterable[Release]:
        begin, source = float(sends.start_us[send]), topology.src[sends.link[send]]
        rows = rows_of[first[send] : first[send + 1]]
        for row in rows.tolist():
            for part in named.get(row, ()):
                if part != OWN:
                    yield int(sends.of_row[part]), float(schedule.end_us[part])
        chunks = schedule.chunk[[row for row in rows.tolist() if row not in named]]
        # Parts of a sum are made of parts alone; a copy may be one of a copy or of the sum.
        for kind in (True,) if schedule.reduce[rows].all() else (False, True):
            for place in _place(schedule, chunks, source, kind).tolist():
                yield from arrivals.before(place, begin)
        for each in used[send]:
            yield from port_users.before(each, begin)

    path = walk_back(int(np.argmax(sends.end_us)), lambda send: float(sends.start_us[send]), releases)
    return np.array(path, dtype=np.int64)


def _place(schedule: Schedule, chunk: IntArray, rank: IntArray, adds: BoolArray | bool) -> IntArray:
    """A number for a chunk at a rank, other for a part of a sum than for a copy."""
    return np.asarray(2 * (chunk * schedule.problem.num_ranks + rank) + adds)
