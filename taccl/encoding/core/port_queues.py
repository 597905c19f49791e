"""Sends in a pipeline, for compiled functions: what may go now, what waits for a port, and what comes when.

A transfer starts as soon as all ports of its link are free; of those that wait for a port, the one with the
least key goes first. A transfer is in one heap at a time: of those that are ready, or of those that wait at
one port. Events are the ends of sends, by the numbers of their transfers, and ports that are free again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.heaps import pop, push
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled_in_place

#: Where the sizes of two heaps stand.
_READY, _EVENTS = 0, 1


class PortQueues(NamedTuple):
    """The state of a pipeline.

    Parameters
    ----------
    free_us : shape (num_ports,); when each port is free again.
    first, size : shape (num_ports,); where the heap of each port begins, and how many wait there.
    keys, items : the heaps of the ports, one behind another.
    ready_keys, ready_items : the heap of what may go now.
    event_us, event_items : the heap of ends of sends, by transfers, and of free ports, by -1 - port.
    sizes : shape (2,); of the heaps of what is ready and of events.
    """

    free_us: FloatArray
    first: IntArray
    size: IntArray
    keys: Any
    items: IntArray
    ready_keys: Any
    ready_items: IntArray
    event_us: FloatArray
    event_items: IntArray
    sizes: IntArray


def port_queues(costs: Costs, uses: IntArray, most_ready: int, sends: int, keys: DTypeLike) -> PortQueues:
    """Empty queues, with room for all that will ever wait.

    Parameters
    ----------
    uses : shape (num_links,); how many transfers may want each link.
    most_ready : transfers that may be ready at once.
    sends : that may be on their way at once.
    keys : of which type keys are: with many transfers, smaller ones save memory.
    """
    of_port = np.bincount(costs.port, np.repeat(uses, np.diff(costs.first)), costs.num_ports)
    first = np.concatenate([[0], np.cumsum(of_port.astype(np.int64))])
    room = int(first[-1])
    return PortQueues(
        np.zeros(costs.num_ports),
        first[:-1],
        np.zeros(costs.num_ports, np.int64),
        np.zeros(room, keys),
        np.zeros(room, np.int64),
        np.zeros(most_ready, keys),
        np.zeros(most_ready, np.int64),
        np.zeros(sends + costs.num_ports),
        np.zeros(sends + costs.num_ports, np.int64),
        np.zeros(2, np.int64),
    )


@compiled_in_place
def offer(queues: Any, key: float, item: int) -> None:
    """Add a transfer to those that may go now."""
    push(queues.ready_keys, queues.ready_items, 0, queues.sizes[_READY], key, item)
    queues.sizes[_READY] += 1


@compiled_in_place
def any_ready(queues: Any) -> bool:
    """Whether there is something to take."""
    return bool(queues.sizes[_READY] > 0)


@compiled_in_place
def take(queues: Any) -> Any:
    """The most urgent transfer that is ready, with its key: it is there no more."""
    key, item = queues.ready_keys[0], queues.ready_items[0]
    pop(queues.ready_keys, queues.ready_items, 0, queues.sizes[_READY])
    queues.sizes[_READY] -= 1
    return key, item


@compiled_in_place
def _wake(queues: Any, port: int, now_us: float) -> None:
    """Offer the most urgent of those that wait for a port, if it is free."""
    if queues.free_us[port] <= now_us and queues.size[port]:
        at = queues.first[port]
        offer(queues, queues.keys[at], queues.items[at])
        pop(queues.keys, queues.items, at, queues.size[port])
        queues.size[port] -= 1


@compiled_in_place
def may_start(queues: Any, costs: Any, link: int, now_us: float, key: float, item: int, gone: bool) -> bool:
    """Whether a transfer that was taken may start now; if not, it waits at a port that is not free.

    One that is gone already must neither start nor wait.
    """
    blocked = -1
    for pair in range(costs.first[link], costs.first[link + 1]):
        if queues.free_us[costs.port[pair]] > now_us:
            blocked = costs.port[pair]
            break
    if blocked < 0 and not gone:
        return True
    if not gone:
        push(queues.keys, queues.items, queues.first[blocked], queues.size[blocked], key, item)
        queues.size[blocked] += 1
    # A port that was kept for this one is for the next.
    for pair in range(costs.first[link], costs.first[link + 1]):
        _wake(queues, costs.port[pair], now_us)
    return False


@compiled_in_place
def send(queues: Any, costs: Any, link: int, now_us: float, mb: float, item: int) -> float:
    """Start a send of this many MB, which is reported of as the transfer `item`; when it ends."""
    ends_us: float = now_us + costs.alpha_us[link] + mb * costs.beta_us[link]
    push(queues.event_us, queues.event_items, 0, queues.sizes[_EVENTS], ends_us, item)
    queues.sizes[_EVENTS] += 1
    for pair in range(costs.first[link], costs.first[link + 1]):
        port = costs.port[pair]
        free_us = now_us + costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
        queues.free_us[port] = free_us
        if free_us > now_us:  # so a port has one event at most
            push(queues.event_us, queues.event_items, 0, queues.sizes[_EVENTS], free_us, -1 - port)
            queues.sizes[_EVENTS] += 1
        else:
            _wake(queues, port, now_us)
    return ends_us


@compiled_in_place
def expect(queues: Any, at_us: float, item: int) -> None:
    """Let `next_arrival` return an item at a moment, without any send."""
    push(queues.event_us, queues.event_items, 0, queues.sizes[_EVENTS], at_us, item)
    queues.sizes[_EVENTS] += 1


@compiled_in_place
def next_us(queues: Any) -> float:
    """When something happens next; infinite if nothing is on its way."""
    return float(queues.event_us[0]) if queues.sizes[_EVENTS] else np.inf


@compiled_in_place
def next_arrival(queues: Any, now_us: float) -> int:
    """The transfer whose send ended by now, each once; -1 if there is no other. Free ports take the next."""
    while queues.sizes[_EVENTS] and queues.event_us[0] <= now_us:
        item = queues.event_items[0]
        pop(queues.event_us, queues.event_items, 0, queues.sizes[_EVENTS])
        queues.sizes[_EVENTS] -= 1
        if item >= 0:
            return int(item)
        _wake(queues, -1 - item, now_us)
    return -1
