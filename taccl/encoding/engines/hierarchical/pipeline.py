"""When sends start that wait for each other and for ports: of those that can, the first in order goes.

It knows what each send waits for and how long it keeps which port busy; it must not know chunks.
"""

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
    followers: list[list[int]] = [[] for _ in tasks]
    in_line: list[list[int]] = [[] for _ in tasks]
    pending = [len(task.after) + len(task.behind) for task in tasks]
    for number, task in enumerate(tasks):
        for before in task.after:
            followers[before].append(number)
        for before in task.behind:
            in_line[before].append(number)
    free = [0.0] * num_ports
    waiting: list[list[int]] = [[] for _ in range(num_ports)]
    ready = [number for number in range(len(tasks)) if not pending[number]]
    heapq.heapify(ready)
    #: Ends of tasks, by number, and ports that are free again, by -1 - port.
    events: list[tuple[float, int]] = []
    start = np.zeros(len(tasks))
    now = 0.0
    while True:
        while ready:
            number = heapq.heappop(ready)
            task = tasks[number]
            blocked = next((port for port in task.ports if free[port] > now), None)
            if blocked is not None:
                heapq.heappush(waiting[blocked], number)
                # A port that was kept for this one is for the next.
                for port in task.ports:
                    if free[port] <= now and waiting[port]:
                        heapq.heappush(ready, heapq.heappop(waiting[port]))
                continue
            start[number] = now
            heapq.heappush(events, (now + task.takes_us, number))
            for port, busy in zip(task.ports, task.busy_us, strict=True):
                free[port] = now + busy
                heapq.heappush(events, (free[port], -1 - port))
            for next_one in in_line[number]:
                pending[next_one] -= 1
                if not pending[next_one]:
                    heapq.heappush(ready, next_one)
        if not events:
            return start
        together = events[0][0] + _SAME_US
        while events and events[0][0] <= together:
            now, number = heapq.heappop(events)
            if number < 0:
                port = -1 - number
                if free[port] <= now and waiting[port]:
                    heapq.heappush(ready, heapq.heappop(waiting[port]))
                continue
            for follower in followers[number]:
                pending[follower] -= 1
                if not pending[follower]:
                    heapq.heappush(ready, follower)


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
