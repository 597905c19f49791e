"""What stays in a node: each item comes where it is wanted as soon as the gaps between other sends let it."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence

from taccl.encoding.sending_model.node_parts import Around, Item, Placed


class Gaps:
    """When each port of a node is busy."""

    def __init__(self, around: Around, sends: Sequence[Placed]) -> None:
        self._around = around
        self._busy: dict[int, list[tuple[float, float]]] = {}
        for send in sends:
            self.take(send)

    def take(self, send: Placed) -> None:
        """Keep the ports of a send busy."""
        link = self._around.links[send.link]
        end = send.end_us - (0.0 if self._around.is_serial else link.alpha_us)
        for port in link.ports:
            bisect.insort(self._busy.setdefault(port, []), (send.start_us, end))

    def first(self, index: int, chunks: int, ready_us: float) -> float:
        """From when on this many chunks can go over a link, no sooner than they are ready."""
        link = self._around.links[index]
        length = link.cost_us * chunks + link.alpha_us * self._around.is_serial
        busy = sorted(each for port in link.ports for each in self._busy.get(port, ()))
        start = ready_us
        for begin, end in busy:
            if start + length <= begin:
                break
            start = max(start, end)
        return start


def filled(around: Around, items: Sequence[Item], sends: Sequence[Placed]) -> tuple[Placed, ...]:
    """Sends that bring every item where it is wanted, in the gaps of `sends`; those that are nearest first.

    `Placed.items` are numbers of `items`.
    """
    gaps, found = Gaps(around, sends), []
    held = [dict(item.starts) for item in items]
    lacking = [set(item.wanted) - set(there) for item, there in zip(items, held, strict=True)]
    while any(lacking):
        for number, wanted in enumerate(lacking):
            if not wanted:
                continue
            way = _soonest(around, gaps, held[number], wanted, len(items[number].chunks))
            for index, start, end in way:
                send = Placed(index, (number,), start, end)
                gaps.take(send)
                found.append(send)
                held[number][around.links[index].dst] = end
            wanted -= set(held[number])
            if not way:
                wanted.clear()  # nothing leads there inside the node
    return tuple(found)


def _soonest(
    around: Around, gaps: Gaps, held: dict[int, float], wanted: set[int], chunks: int
) -> list[tuple[int, float, float]]:
    """The sends, (link, start, end), that bring an item soonest to one of those who want it."""
    at = dict(held)
    came: dict[int, tuple[int, float, float]] = {}
    queue = [(when, place) for place, when in held.items()]
    heapq.heapify(queue)
    while queue:
        when, place = heapq.heappop(queue)
        if when > at[place]:
            continue
        if place in wanted:
            way = []
            while place not in held:
                way.append(came[place])
                place = around.links[came[place][0]].src
            return way[::-1]
        for index, link in enumerate(around.links):
            if link.src == place and link.dst not in held:  # it comes there once, even if later than it could
                start = gaps.first(index, chunks, when)
                end = start + link.alpha_us + link.cost_us * chunks
                if end < at.get(link.dst, float("inf")):
                    at[link.dst], came[link.dst] = end, (index, start, end)
                    heapq.heappush(queue, (end, link.dst))
    return []
