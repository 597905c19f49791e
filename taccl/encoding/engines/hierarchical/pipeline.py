"""When sends start that wait for each other and for ports: of those that can, the first in order goes.

It knows what each send waits for, its turn, and how long it keeps which port busy; it must not know chunks.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.network import FloatArray


@dataclass(frozen=True)
class Task:
    """One send.

    Parameters
    ----------
    after : tasks that must have ended before it starts.
    turn : of several that wait for a port, the one with the least goes first.
    takes_us : from its start to its end.
    ports, busy_us : its ports, and how long it keeps each busy.
    """

    after: tuple[int, ...]
    turn: float
    takes_us: float
    ports: tuple[int, ...]
    busy_us: tuple[float, ...]


def starts_us(tasks: Sequence[Task], num_ports: int) -> FloatArray:
    """When each task starts, shape (len(tasks),), by list scheduling."""
    followers: list[list[int]] = [[] for _ in tasks]
    pending = [len(task.after) for task in tasks]
    for number, task in enumerate(tasks):
        for before in task.after:
            followers[before].append(number)
    free = [0.0] * num_ports
    waiting: list[list[tuple[float, int]]] = [[] for _ in range(num_ports)]
    ready = [(task.turn, number) for number, task in enumerate(tasks) if not task.after]
    heapq.heapify(ready)
    #: Ends of tasks, by number, and ports that are free again, by -1 - port.
    events: list[tuple[float, int]] = []
    start = np.zeros(len(tasks))
    now = 0.0
    while True:
        while ready:
            turn, number = heapq.heappop(ready)
            task = tasks[number]
            blocked = next((port for port in task.ports if free[port] > now), None)
            if blocked is not None:
                heapq.heappush(waiting[blocked], (turn, number))
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
        if not events:
            return start
        now = events[0][0]
        while events and events[0][0] <= now:
            number = heapq.heappop(events)[1]
            if number < 0:
                port = -1 - number
                if free[port] <= now and waiting[port]:
                    heapq.heappush(ready, heapq.heappop(waiting[port]))
                continue
            for follower in followers[number]:
                pending[follower] -= 1
                if not pending[follower]:
                    heapq.heappush(ready, (tasks[follower].turn, follower))
