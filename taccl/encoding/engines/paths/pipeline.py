r"""All transfers along paths, scheduled: whatever can go goes, and of several the most urgent.

A transfer starts as soon as its chunk is there and all ports of its link are free. Of those that wait for a
port the one with the least key goes first: the longer the rest of its way, the less.

Chunks that wait for the same link as the one that goes, go with it, at most `most` at a time: so alpha is
paid less often, and nothing waits for company.
It knows paths and costs; it must not know how the paths were chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taccl.collective import IntArray
from taccl.compiled import compiled, is_at_hand
from taccl.encoding.core.costs import Costs
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.engines.paths.choose import Paths
from taccl.network import FloatArray


def chunks_of(paths: Paths) -> IntArray:
    """Whose each step is, as a number of a moving chunk, shape (num_steps,)."""
    return np.repeat(np.arange(len(paths.first) - 1, dtype=np.int32), np.diff(paths.first))


def remaining(paths: Paths, weight: FloatArray) -> FloatArray:
    """The sum of a weight over the rest of each step's way, with that step; `weight` is one for each link."""
    so_far = np.concatenate([[0.0], np.cumsum(weight[paths.link])])
    return np.asarray(so_far[np.repeat(paths.first[1:], np.diff(paths.first))] - so_far[:-1])


def scheduled(
    paths: Paths, costs: Costs, chunk_mb: float, key: FloatArray, most: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """When each step starts and ends, and a number that those have in common that travel together.

    Parameters
    ----------
    key : shape (num_steps,); of those that wait, the least goes first.
    most : chunks in one send.
    """
    start, end = np.full(len(key), -1.0), np.zeros(len(key))
    leader = np.zeros(len(key), dtype=np.int64)
    _run(
        chunks_of(paths), paths.link, paths.first, costs, chunk_mb, key.astype(np.float32), most,
        start, end, leader,
    )  # fmt: skip
    return start, end, leader


def scheduling_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_run)


@compiled
def _append(e: int, link: int, head: Any, tail: Any, behind: Any) -> None:
    """Add a step to those that may go over its link."""
    if head[link] < 0:
        head[link] = e
    else:
        behind[tail[link]] = e
    tail[link] = e


@compiled
def _run(
    chunk_of: Any,
    link_of: Any,
    first: Any,
    costs: Any,
    mb: float,
    key: Any,
    most: int,
    start: Any,
    end: Any,
    leader: Any,
) -> None:
    """Fill `start`, `end` and `leader`. A step's number is where it stands in these columns."""
    chunks, num_ports, num_links = len(first) - 1, costs.num_ports, len(costs.alpha_us)
    free = np.zeros(num_ports)
    # The steps that may go over each link, in the order in which their chunks came; gone ones are taken off
    # when they are met. It is kept where chunks may share sends.
    head, tail = np.full(num_links, -1, np.int64), np.full(num_links, -1, np.int64)
    behind = np.full(len(link_of) if most > 1 else 0, -1, np.int64)
    next_of_send = np.full(len(link_of) if most > 1 else 0, -1, np.int64)
    queue_first = np.zeros(num_ports + 1, np.int64)
    for link in link_of:
        for pair in range(costs.first[link], costs.first[link + 1]):
            queue_first[costs.port[pair] + 1] += 1
    for p in range(num_ports):
        queue_first[p + 1] += queue_first[p]
    queue_keys = np.zeros(queue_first[-1], np.float32)
    queue_items = np.zeros(queue_first[-1], np.int64)
    queue_size = np.zeros(num_ports, np.int64)
    # A step is in one heap at a time: of those that may go now, or of those that wait for a port. Events are
    # the ends of sends, by their first step, and ports that are free again, by -1 - port.
    room = len(link_of) + num_ports
    keys, items, waiting = np.zeros(room, np.float32), np.zeros(room, np.int64), 0
    room = chunks + num_ports
    event_keys, event_items, events = np.zeros(room), np.zeros(room, np.int64), 0
    for c in range(chunks):
        e = first[c]
        if e < first[c + 1]:
            push(keys, items, 0, waiting, key[e], e)
            waiting += 1
            if most > 1:
                _append(e, link_of[e], head, tail, behind)
    now = 0.0
    while True:
        while waiting:
            urgency, e = keys[0], items[0]
            pop(keys, items, 0, waiting)
            waiting -= 1
            link = link_of[e]
            gone = start[e] >= 0.0  # with others of its batch
            blocked = -1
            for pair in range(costs.first[link], costs.first[link + 1]):
                if free[costs.port[pair]] > now:
                    blocked = costs.port[pair]
                    break
            if blocked >= 0 and not gone:
                push(queue_keys, queue_items, queue_first[blocked], queue_size[blocked], urgency, e)
                queue_size[blocked] += 1
            if blocked >= 0 or gone:
                # A port that was kept for this one is for the next.
                for pair in range(costs.first[link], costs.first[link + 1]):
                    p = costs.port[pair]
                    if free[p] <= now and queue_size[p]:
                        at = queue_first[p]
                        push(keys, items, 0, waiting, queue_keys[at], queue_items[at])
                        waiting += 1
                        pop(queue_keys, queue_items, at, queue_size[p])
                        queue_size[p] -= 1
                continue
            together = 1
            start[e], leader[e] = now, e
            if most > 1:
                other, latest = head[link], e
                while other >= 0 and together < most:
                    if start[other] < 0.0:
                        start[other], leader[other] = now, e
                        next_of_send[latest] = other
                        latest = other
                        together += 1
                    other = behind[other]
                head[link] = other
            ends = now + costs.alpha_us[link] + together * mb * costs.beta_us[link]
            end[e] = ends
            push(event_keys, event_items, 0, events, ends, e)
            events += 1
            for pair in range(costs.first[link], costs.first[link + 1]):
                p = costs.port[pair]
                free[p] = now + costs.busy_alpha_us[pair] + together * mb * costs.busy_beta_us[pair]
                if free[p] > now:
                    push(event_keys, event_items, 0, events, free[p], -1 - p)
                    events += 1
                elif queue_size[p]:
                    at = queue_first[p]
                    push(keys, items, 0, waiting, queue_keys[at], queue_items[at])
                    waiting += 1
                    pop(queue_keys, queue_items, at, queue_size[p])
                    queue_size[p] -= 1
        if not events:
            return
        now = event_keys[0]
        while events and event_keys[0] <= now:
            e = event_items[0]
            pop(event_keys, event_items, 0, events)
            events -= 1
            if e < 0:
                p = -1 - e
                if free[p] <= now and queue_size[p]:
                    at = queue_first[p]
                    push(keys, items, 0, waiting, queue_keys[at], queue_items[at])
                    waiting += 1
                    pop(queue_keys, queue_items, at, queue_size[p])
                    queue_size[p] -= 1
                continue
            while e >= 0:
                end[e] = now
                if e + 1 < first[chunk_of[e] + 1]:
                    push(keys, items, 0, waiting, key[e + 1], e + 1)
                    waiting += 1
                    if most > 1:
                        _append(e + 1, link_of[e + 1], head, tail, behind)
                e = next_of_send[e] if most > 1 else -1
