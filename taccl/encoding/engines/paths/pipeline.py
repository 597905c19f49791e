r"""All transfers along paths, scheduled: whatever can go goes, and of several the most urgent.

A transfer starts as soon as its chunk is there and all ports of its link are free. Of those that wait for a
port the one with the least key goes first: the longer the rest of its way, the less.

Chunks of one batch travel together where several of them wait for the same link, at most `most` at a time.
It knows paths and costs; it must not know how the paths were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.collective import IntArray
from taccl.compiled import compiled, is_at_hand
from taccl.encoding.engines.forest.arcs import Costs
from taccl.encoding.engines.forest.heaps import pop, push
from taccl.encoding.engines.paths.choose import Batches, Paths
from taccl.network import FloatArray


@dataclass(frozen=True, eq=False)
class Steps:
    """Every step of every chunk: columns of equal length, those of a chunk together and in order.

    Parameters
    ----------
    place : whose step it is, as a place of `Batches.chunk`.
    link : over which link.
    first : shape (num_places + 1,); where the steps of each place begin.
    """

    place: IntArray
    link: IntArray
    first: IntArray


def steps_of(paths: Paths, batches: Batches) -> Steps:
    """The steps of all chunks along the paths of their batches."""
    size = np.diff(batches.first)
    batch = np.repeat(np.arange(len(batches)), size)
    many = np.diff(paths.first)[batch]
    first = np.concatenate([[0], np.cumsum(many)])
    link = paths.link[np.repeat(paths.first[batch] - first[:-1], many) + np.arange(first[-1])]
    return Steps(np.repeat(np.arange(len(batch), dtype=np.int32), many), link, first)


def remaining(steps: Steps, weight: FloatArray) -> FloatArray:
    """The sum of a weight over the rest of each step's way, with that step; `weight` is one for each link."""
    so_far = np.concatenate([[0.0], np.cumsum(weight[steps.link])])
    return so_far[steps.first[1:]][steps.place] - so_far[:-1]


def scheduled(
    steps: Steps, batches: Batches, costs: Costs, chunk_mb: float, key: FloatArray, most: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """When each step starts and ends, and a number that those have in common that travel together.

    Parameters
    ----------
    key : shape (num_steps,); of those that wait, the least goes first.
    most : chunks in one send.
    """
    size = np.diff(batches.first)
    last = np.repeat(batches.first[1:], size)
    start, end = np.full(len(key), -1.0), np.zeros(len(key))
    leader = np.zeros(len(key), dtype=np.int32 if len(key) < 2**31 else np.int64)
    _run(
        steps.place, steps.link, steps.first, last, costs, chunk_mb, key.astype(np.float32), most,
        start, end, leader,
    )  # fmt: skip
    return start, end, leader


def scheduling_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_run)


@compiled
def _run(
    place_of: Any,
    link_of: Any,
    first: Any,
    last: Any,
    costs: Any,
    mb: float,
    key: Any,
    most: int,
    start: Any,
    end: Any,
    leader: Any,
) -> None:
    """Fill `start`, `end` and `leader`. A step's number is where it stands in these columns."""
    places, num_ports = len(first) - 1, costs.num_ports
    free = np.zeros(num_ports)
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
    room = places + num_ports
    event_keys, event_items, events = np.zeros(room), np.zeros(room, np.int64), 0
    arrived = np.zeros(places, np.int64)  # the step that each place is ready for
    for c in range(places):
        arrived[c] = first[c]
        if first[c] < first[c + 1]:
            push(keys, items, 0, waiting, key[first[c]], first[c])
            waiting += 1
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
            c = place_of[e]
            step, together = e - first[c], 1
            while (
                together < most
                and c + together < last[c]
                and arrived[c + together] == first[c + together] + step
                and start[first[c + together] + step] < 0.0
            ):
                together += 1
            ends = now + costs.alpha_us[link] + together * mb * costs.beta_us[link]
            for other in range(c, c + together):
                start[first[other] + step] = now
                end[first[other] + step] = ends
                leader[first[other] + step] = e
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
            c = place_of[e]
            step = e - first[c]
            while c < last[place_of[e]] and first[c] + step < first[c + 1] and leader[first[c] + step] == e:
                if start[first[c] + step] < 0.0:
                    break
                following = first[c] + step + 1
                arrived[c] = following
                if following < first[c + 1]:
                    push(keys, items, 0, waiting, key[following], following)
                    waiting += 1
                c += 1
