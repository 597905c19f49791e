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
from enum import IntEnum

from taccl.backend.lower.flow import Flow


class Kind(IntEnum):
    """Kinds of event, in the order that they have at one moment."""

    RECEIVE = 0
    ARRIVE = 1
    SEND = 2


#: Times that agree to so many decimals (of a microsecond) are one moment.
_DECIMALS = 6

#: (what, send)
Event = tuple[Kind, int]


def order_events(flow: Flow) -> list[Event]:
    """All events of a valid schedule. A receive of one chunk counts at the end of its send."""
    return _Ordering(flow).run()


class _Ordering:
    def __init__(self, flow: Flow) -> None:
        self.sends = flow.sends
        self.events: list[Event] = []
        self.happened: set[Event] = set()
        self.heap: list[tuple[float, Kind, int, int]] = []
        self.hops = [0] * len(self.sends)  # how many sends led to this one, at most
        self.missing = [0] * len(self.sends)
        self.waiting: dict[int, list[int]] = {}
        self.under_way: dict[tuple[int, int], int] = {}  # the last send of each connection
        self.before: dict[int, int] = {}  # the send before it on its connection
        for send in self.sends:
            sources = flow.sources(send)
            self.missing[send.index] = len(sources)
            for source in sources:
                self.waiting.setdefault(source, []).append(send.index)
            if not sources:
                self._push(send.start_us, Kind.SEND, send.index)

    def run(self) -> list[Event]:
        while self.heap:
            _, kind, _, index = heapq.heappop(self.heap)
            if (kind, index) in self.happened:
                continue
            if kind is Kind.SEND:
                self._send(index)
            elif kind is Kind.RECEIVE:
                self._receive(index)
            else:
                self._arrive(index)
        return self.events

    def _push(self, time_us: float, kind: Kind, index: int) -> None:
        heapq.heappush(self.heap, (round(time_us, _DECIMALS), kind, -self.hops[index], index))

    def _happens(self, kind: Kind, index: int) -> None:
        self.events.append((kind, index))
        self.happened.add((kind, index))

    def _send(self, index: int) -> None:
        send = self.sends[index]
        before = self.under_way.get(send.connection)
        if before is not None:
            self._receive(before)
            self.before[index] = before
            if len(send.chunks) > 1:
                self._arrive(before)
        self.under_way[send.connection] = index
        self._happens(Kind.SEND, index)
        if len(send.chunks) > 1:
            self._receive(index)
        else:
            self._push(send.end_us, Kind.RECEIVE, index)

    def _receive(self, index: int) -> None:
        if (Kind.RECEIVE, index) in self.happened:
            return
        if index in self.before:
            self._arrive(self.before[index])
        self._happens(Kind.RECEIVE, index)
        self._push(self.sends[index].end_us, Kind.ARRIVE, index)

    def _arrive(self, index: int) -> None:
        if (Kind.ARRIVE, index) in self.happened:
            return
        self._happens(Kind.ARRIVE, index)
        for follower in self.waiting.get(index, ()):
            self.missing[follower] -= 1
            self.hops[follower] = max(self.hops[follower], self.hops[index] + 1)
            if not self.missing[follower]:
                self._push(self.sends[follower].start_us, Kind.SEND, follower)
