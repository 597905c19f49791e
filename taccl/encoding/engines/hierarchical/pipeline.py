"""When sends start that wait for each other and for ports: of those that can, the first in order goes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.model.network import FloatArray

#: What ends within so short a time of the first, ends with the last: sums of equal costs in another order
#: differ by their rounding, and who is there a rounding before would miss the turn of who is after.
_SAME_US = 1e-6


@dataclass(frozen=True)
class Task:
    """One send.

    Parameters
    ----------
    after : tasks that must have ended before it starts.
    behind : tasks that must have started before it starts.
    takes_us : from its start to its end.
    ports, busy_us : its ports, and how long it keeps each busy.
    """

    after: tuple[int, ...]
    behind: tuple[int, ...]
    takes_us: float
    ports: tuple[int, ...]
    busy_us: tuple[float, ...]


def starts_us(tasks: Sequence[Task], num_ports: int) -> FloatArray:
    """When each task starts, shape (len(tasks),), by list scheduling: of several the first."""
    line = _Line(tasks, num_ports)
    while True:
        while line.ready:
            line.start(heapq.heappop(line.ready))
        if not line.events:
            return line.starts_us
        together = line.events[0][0] + _SAME_US
        while line.events and line.events[0][0] <= together:
            line.take_event()


class _Line:
    """Tasks in line for ports.

    `ready` : tasks that may start, the first on top. `events` : ends of tasks, by index, and moments when a
    port is free again, by -1 - port.
    """

    def __init__(self, tasks: Sequence[Task], num_ports: int) -> None:
        self._tasks = tasks
        self._followers: list[list[int]] = [[] for _ in tasks]
        self._in_line: list[list[int]] = [[] for _ in tasks]
        self._pending = [len(task.after) + len(task.behind) for task in tasks]
        for index, task in enumerate(tasks):
            for before in task.after:
                self._followers[before].append(index)
            for before in task.behind:
                self._in_line[before].append(index)
        self._free_us = [0.0] * num_ports
        self._waiting: list[list[int]] = [[] for _ in range(num_ports)]
        self._now_us = 0.0
        self.ready = [index for index in range(len(tasks)) if not self._pending[index]]
        heapq.heapify(self.ready)
        self.events: list[tuple[float, int]] = []
        self.starts_us: FloatArray = np.zeros(len(tasks))

    def start(self, index: int) -> None:
        """Start a task now, or let it wait for the first of its ports that is busy."""
        task = self._tasks[index]
        busy_port = next((port for port in task.ports if self._free_us[port] > self._now_us), None)
        if busy_port is not None:
            heapq.heappush(self._waiting[busy_port], index)
            for port in task.ports:  # a port that was kept for this task is for the next
                self._serve_next(port)
            return
        self.starts_us[index] = self._now_us
        heapq.heappush(self.events, (self._now_us + task.takes_us, index))
        for port, busy_us in zip(task.ports, task.busy_us, strict=True):
            self._free_us[port] = self._now_us + busy_us
            heapq.heappush(self.events, (self._free_us[port], -1 - port))
        self._release(self._in_line[index])

    def take_event(self) -> None:
        """Go on to the next event: a port is free, or a task ends."""
        self._now_us, index = heapq.heappop(self.events)
        if index < 0:
            self._serve_next(-1 - index)
        else:
            self._release(self._followers[index])

    def _serve_next(self, port: int) -> None:
        if self._free_us[port] <= self._now_us and self._waiting[port]:
            heapq.heappush(self.ready, heapq.heappop(self._waiting[port]))

    def _release(self, followers: Sequence[int]) -> None:
        for follower in followers:
            self._pending[follower] -= 1
            if not self._pending[follower]:
                heapq.heappush(self.ready, follower)


def in_order_us(tasks: Sequence[Task], order: Sequence[int], num_ports: int) -> FloatArray:
    """When each task starts if its ports serve tasks in this order, shape (len(tasks),).

    In `order` no task stands before one that it waits for. If tasks have starts in this order at which no two
    are in each other's way, these are no later.
    """
    free, start = [0.0] * num_ports, np.zeros(len(tasks))
    ends = [0.0] * len(tasks)
    for number in order:
        task = tasks[number]
        at = max(*(ends[before] for before in task.after), *(free[port] for port in task.ports), 0.0)
        start[number], ends[number] = at, at + task.takes_us
        for port, busy in zip(task.ports, task.busy_us, strict=True):
            free[port] = at + busy
    return start
