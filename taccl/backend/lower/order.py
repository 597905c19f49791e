"""One order of everything that happens, which all thread blocks and dependencies follow.

Each transfer is three events: its send step, its receive step, and its arrival, when what was
received is added or copied on. The order is a topological order of these rules, by time:

- a send comes after the arrivals of all that it carries;
- a receive comes after its send, and before the next send of its line;
- the receive of several chunks comes directly after its send.

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
from collections.abc import Iterator
from enum import IntEnum

from taccl.backend.lower.flow import Flow


class Kind(IntEnum):
    """Kinds of event, in the order that they have at one moment."""

    RECEIVE = 0
    ARRIVE = 1
    SEND = 2


#: Times that agree to so many decimals (of a microsecond) are one moment.
_DECIMALS = 6

#: (what, transfer)
Event = tuple[Kind, int]


def order_events(flow: Flow) -> list[Event]:
    """All events of a valid schedule. A receive counts at the end of its transfer (see above)."""
    return list(_events(flow))


def _events(flow: Flow) -> Iterator[Event]:
    transfers = flow.transfers
    missing = [0] * len(transfers)
    waiting: dict[int, list[int]] = {}
    heap: list[tuple[float, Kind, int, int]] = []
    hops = [0] * len(transfers)  # how many transfers led to this one, at most

    def push(time_us: float, kind: Kind, index: int) -> None:
        heapq.heappush(heap, (round(time_us, _DECIMALS), kind, -hops[index], index))

    for transfer in transfers:
        sources = flow.sources(transfer)
        missing[transfer.index] = len(sources)
        for source in sources:
            waiting.setdefault(source, []).append(transfer.index)
        if not sources:
            push(transfer.start_us, Kind.SEND, transfer.index)

    under_way: dict[tuple[int, int], int] = {}
    received = [False] * len(transfers)
    while heap:
        _, kind, _, index = heapq.heappop(heap)
        transfer = transfers[index]
        if kind is Kind.SEND:
            before = under_way.get(transfer.line)
            if before is not None and not received[before]:
                received[before] = True
                yield Kind.RECEIVE, before
                push(transfers[before].end_us, Kind.ARRIVE, before)
            under_way[transfer.line] = index
            yield Kind.SEND, index
            if len(transfer.chunks) > 1:
                received[index] = True
                yield Kind.RECEIVE, index
                push(transfer.end_us, Kind.ARRIVE, index)
            else:
                push(transfer.end_us, Kind.RECEIVE, index)
        elif kind is Kind.RECEIVE:
            if not received[index]:
                received[index] = True
                yield Kind.RECEIVE, index
                push(transfer.end_us, Kind.ARRIVE, index)
        else:
            yield Kind.ARRIVE, index
            for follower in waiting.get(index, ()):
                missing[follower] -= 1
                hops[follower] = max(hops[follower], hops[index] + 1)
                if not missing[follower]:
                    push(transfers[follower].start_us, Kind.SEND, follower)
