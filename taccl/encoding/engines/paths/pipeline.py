r"""All transfers along paths, scheduled: whatever can go goes, and of several the most urgent.

A transfer starts as soon as its chunk is there and all ports of its link are free. Of those that wait for a
port the one with the least key goes first: the longer the rest of its way, the less.

Chunks that wait for the same link as the one that goes, go with it, at most `most` at a time: so alpha is
paid less often, and nothing waits for company.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.port_queues import (
    any_ready,
    expect,
    may_start,
    next_arrival,
    next_us,
    offer,
    port_queues,
    send,
    take,
)
from taccl.encoding.engines.paths.choose import Paths
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled, is_at_hand


def chunks_of(paths: Paths) -> IntArray:
    """Whose each step is, as a number of a moving chunk, shape (num_steps,)."""
    return np.repeat(np.arange(len(paths.first) - 1, dtype=np.int32), np.diff(paths.first))


def remaining(paths: Paths, weight: FloatArray) -> FloatArray:
    """The sum of a weight over the rest of each step's way, with that step; `weight` is one for each step."""
    so_far = np.concatenate([[0.0], np.cumsum(weight)])
    return np.asarray(so_far[np.repeat(paths.first[1:], np.diff(paths.first))] - so_far[:-1])


def scheduled(
    paths: Paths, costs: Costs, mb: FloatArray, ready_us: FloatArray, key: FloatArray, most: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """When each step starts and ends, and a number that those have in common that travel together.

    Parameters
    ----------
    mb, ready_us : shape (num_moving,); the size of each chunk, and when it is there.
    key : shape (num_steps,); of those that wait, the least goes first.
    most : chunks in one send.
    """
    start, end = np.full(len(key), -1.0), np.zeros(len(key))
    leader = np.zeros(len(key), dtype=np.int64)
    uses = np.bincount(paths.link, minlength=len(costs.alpha_us))
    queues = port_queues(costs, uses, len(key), len(paths.first) - 1, np.float32)
    ends_of_lines = np.full((2, len(costs.alpha_us)), -1)
    followers = np.full((2, len(key) if most > 1 else 0), -1)
    _run(
        chunks_of(paths), paths.link, paths.first, costs, queues, mb, ready_us, key.astype(np.float32), most,
        start, end, leader, *ends_of_lines, *followers,
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
def _come(e: int, key: Any, link_of: Any, most: int, queues: Any, head: Any, tail: Any, behind: Any) -> None:
    """The chunk of a step is there: the step may go."""
    offer(queues, key[e], e)
    if most > 1:
        _append(e, link_of[e], head, tail, behind)


@compiled
def _run(
    chunk_of: Any,
    link_of: Any,
    first: Any,
    costs: Any,
    queues: Any,
    mb: Any,
    ready_us: Any,
    key: Any,
    most: int,
    start: Any,
    end: Any,
    leader: Any,
    head: Any,
    tail: Any,
    behind: Any,
    next_of_send: Any,
) -> None:
    """Fill `start`, `end` and `leader`. A step's number is where it stands in these columns.

    `head`, `tail`, `behind` : the steps that may go over each link, in the order in which their chunks came;
    gone ones are taken off when they are met. It is kept where chunks may share sends, and `next_of_send`.
    """
    for c in range(len(first) - 1):
        e = first[c]
        if e < first[c + 1] and ready_us[c] > 0.0:
            expect(queues, ready_us[c], len(link_of) + c)
        elif e < first[c + 1]:
            _come(e, key, link_of, most, queues, head, tail, behind)
    now = 0.0
    while now < np.inf:
        while any_ready(queues):
            urgency, e = take(queues)
            link = link_of[e]
            gone = start[e] >= 0.0  # with others of its batch
            if not may_start(queues, costs, link, now, urgency, e, gone):
                continue
            together, load = 1, mb[chunk_of[e]]
            start[e], leader[e] = now, e
            if most > 1:
                other, latest = head[link], e
                while other >= 0 and together < most:
                    if start[other] < 0.0:
                        start[other], leader[other] = now, e
                        next_of_send[latest] = other
                        latest = other
                        together += 1
                        load += mb[chunk_of[other]]
                    other = behind[other]
                head[link] = other
            end[e] = send(queues, costs, link, now, load, e)
        now = next_us(queues)
        e = next_arrival(queues, now)
        while e >= 0:
            if e >= len(link_of):  # a chunk is there
                e = first[e - len(link_of)]
                _come(e, key, link_of, most, queues, head, tail, behind)
                e = -1
            while e >= 0:
                end[e] = now
                if e + 1 < first[chunk_of[e] + 1]:
                    _come(e + 1, key, link_of, most, queues, head, tail, behind)
                e = next_of_send[e] if most > 1 else -1
            e = next_arrival(queues, now)
