"""One order of everything that happens, which all thread blocks and dependencies follow.

Each send is three events: its send step, its receive step, and its arrival, when what was
received is added or copied on. The order is a topological order of these rules, by time:

- a send comes after the arrivals of all that it carries;
- a receive comes after its send, and before the next send of its connection;
- the receive of several chunks comes directly after its send;
- an arrival comes before the next receive of its connection.

The last rule only ever moves an arrival ahead of its time where messages of one connection overlap, because
latency is not occupancy. An addition to the same sum from another connection may then wait for it, by that
latency at most.

Of sends at one moment, those whose chunks have come furthest go first: a chain of ranks then passes on
before it takes more, and a single step can do both.

Why no program that follows it can deadlock: take the first event in the order that has not happened.
All that its thread block does before has happened, and so has all that it waits for. If it is a send
of one chunk, the message before it on the connection has been taken, so a single slot is free; if it
is a send of several, its receiver is ready to take piece after piece. So it can happen, with one slot
per connection, in every iteration of the runtime's loop.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from taccl.backend.lower.flow import Flow
from taccl.model.collective import IntArray
from taccl.model.schedule.numbering import by_value
from taccl.support.jit import Loop


class EventKind(IntEnum):
    """Kinds of event, in the order that they have at one moment."""

    RECEIVE = 0
    ARRIVE = 1
    SEND = 2


#: Times that agree to this many decimals (of a microsecond) are one moment.
_DECIMALS = 6

#: (what, send)
Event = tuple[EventKind, int]


@dataclass(frozen=True, eq=False)
class Events:
    """Everything that happens, in order.

    Parameters
    ----------
    kind, index : what happens, and the send that it is about.
    """

    kind: IntArray
    index: IntArray

    def __len__(self) -> int:
        return len(self.kind)

    def __iter__(self) -> Iterator[Event]:
        kinds = tuple(EventKind)
        return (
            (kinds[kind], index) for kind, index in zip(self.kind.tolist(), self.index.tolist(), strict=True)
        )

    @cached_property
    def at(self) -> IntArray:
        """The place in the order of what happens to each send, shape (kinds, sends)."""
        at = np.zeros((len(EventKind), len(self) // len(EventKind)), dtype=np.int64)
        at[self.kind, self.index] = np.arange(len(self))
        return at

    @cached_property
    def sends(self) -> IntArray:
        """The sends as they leave."""
        return np.asarray(self.index[self.kind == EventKind.SEND])


def order_events(flow: Flow) -> Events:
    """All events of a valid schedule. A receive of one chunk counts at the end of its send."""
    columns = flow.columns
    needed, sources = flow.all_sources
    by_source = by_value(sources)
    followers = np.repeat(np.arange(len(columns)), np.diff(needed))[by_source]
    first_follower = np.searchsorted(sources[by_source], np.arange(len(columns) + 1))
    kinds, indices = _order(
        len(columns),
        # Python rounds to the nearest decimal, NumPy to one that is near.
        start_us=np.array([round(start, _DECIMALS) for start in columns.start_us.tolist()], dtype=np.float64),
        end_us=np.array([round(end, _DECIMALS) for end in columns.end_us.tolist()], dtype=np.float64),
        is_single=columns.count == 1,
        connection=columns.link * (int(columns.instance.max(initial=0)) + 1) + columns.instance,
        num_sources=np.diff(needed),
        first_follower=first_follower,
        followers=followers,
        connections=int(columns.link.max(initial=0) + 1) * int(columns.instance.max(initial=0) + 1),
    )
    return Events(np.array(kinds, dtype=np.int64), np.array(indices, dtype=np.int64))


def _order_columns(
    start_us: Sequence[float],
    end_us: Sequence[float],
    is_single: Sequence[bool],
    connection: Sequence[int],
    num_sources: Sequence[int],
    first_follower: Sequence[int],
    followers: Sequence[int],
    connections: int,
) -> tuple[list[int], list[int]]:
    """Kind and send of all events, from columns over sends; a heap has what may be next.

    Parameters
    ----------
    is_single : whether it is a send of one chunk.
    connection : a number from 0, below `connections`.
    num_sources : how many sends must have arrived before it.
    first_follower, followers : those that wait for send k begin at followers[first_follower[k]].
    """
    receive, arrive, send = 0, 1, 2
    number = len(start_us)
    kinds, indices = [0] * (3 * number), [0] * (3 * number)
    have = 0
    happened = [False] * (3 * number)
    hops = [0] * number  # how many sends led to this one, at most
    missing = [num_sources[index] for index in range(number)]
    under_way = [-1] * connections  # the last send of each connection
    before = [-1] * number  # the send before it on its connection
    heap = [(start_us[index], send, 0, index) for index in range(number) if missing[index] == 0]
    heapq.heapify(heap)
    while len(heap) > 0:
        _, kind, _, index = heapq.heappop(heap)
        if happened[3 * index + kind]:
            continue
        if kind == send:
            before[index] = under_way[connection[index]]
        for what, which in _due(kind, index, before, is_single[index]):
            if happened[3 * which + what]:
                continue
            happened[3 * which + what] = True
            kinds[have], indices[have] = what, which
            have += 1
            if what == send:
                under_way[connection[which]] = which
                if is_single[which]:
                    heapq.heappush(heap, (end_us[which], receive, -hops[which], which))
            elif what == receive:
                heapq.heappush(heap, (end_us[which], arrive, -hops[which], which))
            else:
                for place in range(first_follower[which], first_follower[which + 1]):
                    follower = followers[place]
                    missing[follower] -= 1
                    hops[follower] = max(hops[follower], hops[which] + 1)
                    if missing[follower] == 0:
                        heapq.heappush(heap, (start_us[follower], send, -hops[follower], follower))
    return kinds[:have], indices[:have]


def _due(kind: int, index: int, before: Sequence[int], is_single: bool) -> list[tuple[int, int]]:
    """What has to happen up to an event, in order, of its send and of those before on the connection."""
    receive, arrive, send = 0, 1, 2
    last = before[index]
    due = [(kind, index)]
    if kind == receive and last >= 0:
        due = [(arrive, last), (receive, index)]
    elif kind == send and last >= 0:
        due = [(receive, last), (send, index)]
        if before[last] >= 0:
            due = [(arrive, before[last]), (receive, last), (send, index)]
        if not is_single:
            due = [*due[:-1], (arrive, last), (send, index)]
    if kind == send and not is_single:
        due.append((receive, index))
    return due


_order = Loop(_order_columns, (_due,))
