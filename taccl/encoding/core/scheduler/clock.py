"""What a scheduler's loops share: lines of waiting sends, the events to come, and ports that are busy.

Events are the ends of sends, by number, and ports that are free again, by -1 - port. Events that differ by
rounding are one moment: sums of equal costs in another order differ so, and who comes a rounding later would
miss its turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.core.scheduler.graph import SendGraph
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray

#: Events within this time of the first are one moment, microseconds.
SAME_US = 1e-6


class Lines(NamedTuple):
    """Heaps of waiting sends, one behind another: `size[i]` of them from `first[i]` on."""

    first: IntArray
    size: IntArray
    keys: FloatArray
    items: IntArray


class EventClock(NamedTuple):
    """The moment, what comes next, and when each port is free.

    Parameters
    ----------
    now_us, num_events, num_started : shape (1,).
    event_us, event_items : the heap of events.
    free_us : shape (num_ports,).
    """

    now_us: FloatArray
    num_events: IntArray
    num_started: IntArray
    event_us: FloatArray
    event_items: IntArray
    free_us: FloatArray


class Progress(NamedTuple):
    """What became of each send.

    Parameters
    ----------
    start_us, end_us : shape (num_sends,); no start yet is negative.
    via : the link that each took.
    turn : how many started before it.
    leader : what those have in common that go as one send.
    mate : the next of those, -1: none.
    missing, pending : cells that each send still needs, and sends that still give each cell.
    """

    start_us: FloatArray
    end_us: FloatArray
    via: IntArray
    turn: IntArray
    leader: IntArray
    mate: IntArray
    missing: IntArray
    pending: IntArray


def lines(room: IntArray) -> Lines:
    """Empty lines with room for this many sends each."""
    first = np.concatenate([[0], np.cumsum(room.astype(np.int64))])
    return Lines(
        first[:-1], np.zeros(len(room), np.int64), np.zeros(first[-1]), np.zeros(first[-1], np.int64)
    )


def clock(costs: Costs, sends: int) -> EventClock:
    """A clock at 0 for this many sends on their way at once."""
    room = sends + costs.num_ports
    return EventClock(
        np.zeros(1),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(costs.num_ports),
    )


def progress(graph: SendGraph) -> Progress:
    """Nothing has started."""
    sends, many = graph.sends, len(graph.sends.link)
    return Progress(
        np.full(many, -1.0),
        np.zeros(many),
        np.array(sends.link),
        np.zeros(many, np.int64),
        np.arange(many),
        np.full(many, -1),
        np.diff(sends.first_need),
        np.array(graph.pending),
    )


def enter(waiting: Any, line: int, key: float, item: int) -> None:
    """Add a send to a line."""
    push(waiting.keys, waiting.items, waiting.first[line], waiting.size[line], key, item)
    waiting.size[line] += 1


def leave(waiting: Any, line: int) -> Any:
    """Take the first send of a line, with its key."""
    at = waiting.first[line]
    key, item = waiting.keys[at], waiting.items[at]
    pop(waiting.keys, waiting.items, at, waiting.size[line])
    waiting.size[line] -= 1
    return key, item


def expect(clock: Any, at_us: float, item: int) -> None:
    """Let `next_event` return an item at a moment."""
    push(clock.event_us, clock.event_items, 0, clock.num_events[0], at_us, item)
    clock.num_events[0] += 1


def next_event(clock: Any, until_us: float) -> Any:
    """Whether something happens by then, and what; time goes on to it."""
    if clock.num_events[0] == 0 or clock.event_us[0] > until_us:
        return False, 0
    item = clock.event_items[0]
    clock.now_us[0] = clock.event_us[0]
    pop(clock.event_us, clock.event_items, 0, clock.num_events[0])
    clock.num_events[0] -= 1
    return True, item


def blocked_at(clock: Any, costs: Any, link: int) -> int:
    """The first port of a link that is busy; -1: none is."""
    for pair in range(costs.first[link], costs.first[link + 1]):
        if clock.free_us[costs.port[pair]] > clock.now_us[0]:
            return int(costs.port[pair])
    return -1


def send(clock: Any, costs: Any, link: int, mb: float, item: int) -> float:
    """Start a send of this many MB; when it ends. Its end is the event `item`, a free port one of its own."""
    now_us = clock.now_us[0]
    end_us: float = now_us + costs.alpha_us[link] + mb * costs.beta_us[link]
    expect(clock, end_us, item)
    for pair in range(costs.first[link], costs.first[link + 1]):
        port = costs.port[pair]
        free_us = now_us + costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
        clock.free_us[port] = free_us
        if free_us > now_us:  # so a port has one event at most
            expect(clock, free_us, -1 - port)
    return end_us


#: For the loops that call them.
PARTS = (enter, leave, expect, next_event, blocked_at, send)
