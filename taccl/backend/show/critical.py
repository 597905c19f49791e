"""The critical path: backwards from the last end, each time to what the start had to wait for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

import numpy as np

from taccl.collectives import IntArray
from taccl.problem import FloatArray
from taccl.schedule import Schedule

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
    Where both end at once, the chunk is the reason.
    """
    sends, problem = schedule.sends, schedule.problem
    topology = problem.topology
    if not len(sends):
        return np.zeros(0, dtype=np.int64)
    freed = sends.start_us + topology.busy_us(sends.link, sends.count * problem.chunk_mb)
    used = [topology.ports[link] for link in sends.link.tolist()]
    row = np.repeat(np.arange(len(sends)), [len(ports) for ports in used])
    on = np.array([port for ports in used for port in ports], dtype=np.int64)
    port_users = InOrder(on, row, freed[row], topology.num_ports)
    ranks = problem.num_ranks
    arrivals = InOrder(
        schedule.chunk * ranks + schedule.dst, sends.of_row, schedule.end_us, problem.num_chunks * ranks
    )
    rows_of = np.argsort(sends.of_row, kind="stable")
    first = np.concatenate([[0], np.cumsum(sends.count)])

    def releases(send: int) -> Iterable[Release]:
        begin, source = float(sends.start_us[send]), int(topology.src[sends.link[send]])
        for chunk in schedule.chunk[rows_of[first[send] : first[send + 1]]].tolist():
            yield from arrivals.before(chunk * ranks + source, begin)
        for port in used[send]:
            yield from port_users.before(port, begin)

    path = walk_back(int(np.argmax(sends.end_us)), lambda send: float(sends.start_us[send]), releases)
    return np.array(path, dtype=np.int64)
