"""Races: two touches of a cell, one of them a write, that nothing orders.

They are by hosts, by threads of blocks, and by transfers of ports. Every access is compared with the write
before it, and every write with the reads since then: if those are ordered, so are all that conflict, order
being transitive, and the pairs to look at are linear in the accesses.

Threads of a block are in no order until they meet, but one thread does what it does in order: two accesses of
one segment that begin at the same cell and are equally wide give each byte to the same thread. Packets of one
call in one place hold the same, and need no order; only ports, which do not wait for them, must come after.
What was only read may be overwritten once the read is known to be done; what was written must be visible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.backend.machine.acts import Ints
from taccl.backend.machine.order import DATA, PACKETS, RELAXED, Order
from taccl.backend.machine.touches import NO_THREAD, WHOLE_BLOCK, Accesses, Touches
from taccl.model.collective import BoolArray, IntArray
from taccl.model.schedule.numbering import by_value


@dataclass(frozen=True, eq=False)
class Pairs:
    """Accesses to one cell that have to be ordered, an earlier and a later one in the order of the run.

    Parameters
    ----------
    accesses : of which `first` and `second` are rows.
    """

    accesses: Accesses
    first: Ints
    second: Ints

    def __len__(self) -> int:
        return len(self.first)

    def where(self, chosen: BoolArray | Ints) -> Pairs:
        """Some of them."""
        return Pairs(self.accesses, self.first[chosen], self.second[chosen])

    @property
    def touches(self) -> tuple[Ints, Ints]:
        """The touches of both."""
        return self.accesses.touch[self.first], self.accesses.touch[self.second]

    @property
    def cell(self) -> Ints:
        """What both touch."""
        return self.accesses.cell[self.first]

    def once(self) -> Pairs:
        """The first pair of every two actors, in the order of the run."""
        actor = self.accesses.touches.actor
        first, second = (actor[touch].astype(np.int64) for touch in self.touches)
        _, kept = np.unique(first * (int(actor.max(initial=0)) + 1) + second, return_index=True)
        return self.where(np.sort(kept))


def conflicts(touches: Touches) -> Pairs:
    """All pairs of accesses that have to be ordered, linear in the accesses."""
    accesses = touches.accesses()
    by_cell = by_value(accesses.cell).astype(np.int32)
    cell, writes = accesses.cell[by_cell], accesses.writes[by_cell]
    index = np.arange(len(cell), dtype=np.int32)
    last_write = np.maximum.accumulate(np.where(writes, index, -1))
    before = np.append(np.int32(-1), last_write[:-1])[: len(cell)]
    after_write = (before >= 0) & (cell[before] == cell) if len(cell) else writes
    next_write = np.minimum.accumulate(np.where(writes, index, len(cell))[::-1])[::-1]
    next_write = np.minimum(next_write, len(cell) - 1)
    overwritten = ~writes & writes[next_write] & (cell[next_write] == cell)
    earlier = np.concatenate([before[after_write], index[overwritten]])
    later = np.concatenate([index[after_write], next_write[overwritten]])
    return Pairs(accesses, by_cell[earlier], by_cell[later])


def unordered(order: Order, pairs: Pairs, level: int) -> IntArray:
    """Rows of the pairs of which the second does not know, at this level, that the first is done."""
    touches = pairs.accesses.touches
    first, second = pairs.touches
    width = touches.width[first]
    same_thread = (touches.segment[first] == touches.segment[second]) & (
        touches.first[first] == touches.first[second]
    )
    same_thread &= width != NO_THREAD
    same_thread |= (width == WHOLE_BLOCK) & (touches.column[first] == touches.column[second])
    same_thread &= width == touches.width[second]
    rows = np.flatnonzero(~same_thread & ~_same_packet(pairs))
    u, v, within = first[rows], second[rows], pairs.accesses.within[pairs.second[rows]]
    moment = touches.moment[v] + within * touches.each[v]
    return rows[~order.knows(level, moment, touches.column[u], touches.tick[u])]


@dataclass(frozen=True, eq=False)
class Unordered:
    """Pairs of accesses without the order that they need.

    Parameters
    ----------
    racing : nothing orders them.
    relaxed : only relaxed signals say that the first is done, where its data have to arrive.
    rewritten : only packets say so; and the second puts what the first has put there.
    """

    racing: Pairs
    relaxed: Pairs
    rewritten: Pairs


def unordered_threads(order: Order, pairs: Pairs, rewritten: IntArray) -> Unordered:
    """Of the pairs of threads, transfers and hosts those without the order that they need.

    Parameters
    ----------
    rewritten : as in `Contents`.
    """
    pairs = _with_packets_before(pairs)
    pairs = pairs.where(unordered(order, pairs, DATA))
    touches, accesses = pairs.accesses.touches, pairs.accesses
    needs_data = accesses.writes[pairs.first] & (touches.packets[pairs.touches[1]] == 0)

    data, done = pairs.where(needs_data), pairs.where(~needs_data)
    is_open: BoolArray = np.zeros(len(data), dtype=np.bool_)
    is_open[unordered(order, data, RELAXED)] = True
    relaxed, data = data.where(~is_open), data.where(is_open)

    puts_the_same = np.flatnonzero(_is_one_of(data, rewritten))
    by_packets: BoolArray = np.zeros(len(data), dtype=np.bool_)
    by_packets[puts_the_same] = ~_unordered_by_packets(order, data.where(puts_the_same))
    racing = (data.where(~by_packets), done.where(_unordered_by_packets(order, done)))
    return Unordered(
        Pairs(
            accesses,
            np.concatenate([some.first for some in racing]),
            np.concatenate([some.second for some in racing]),
        ),
        relaxed,
        data.where(by_packets),
    )


def _unordered_by_packets(order: Order, pairs: Pairs) -> BoolArray:
    """Per pair, whether not even packets say that the first is done; threads of packets say so one by one."""
    touches, within = pairs.accesses.touches, pairs.accesses.within
    is_open: BoolArray = np.zeros(len(pairs), dtype=np.bool_)
    is_open[unordered(order, pairs, PACKETS)] = True
    u, v = pairs.touches
    alone = np.flatnonzero(is_open & (touches.each[u] != 0))
    moment = touches.moment[v] + within[pairs.second] * touches.each[v]
    is_open[alone] = ~order.reaches(touches.moment[u[alone]] + within[pairs.first[alone]], moment[alone])
    return is_open


def _is_one_of(pairs: Pairs, rewritten: IntArray) -> BoolArray:
    """Per pair, whether its second access is a write of those."""
    noted = set(map(tuple, rewritten.tolist()))
    touches, touch = pairs.accesses.touches, pairs.touches[1]
    rows = zip(touches.act[touch].tolist(), pairs.cell.tolist(), touches.call[touch].tolist(), strict=True)
    is_noted = np.fromiter((row in noted for row in rows), dtype=np.bool_, count=len(pairs))
    return np.asarray(is_noted & pairs.accesses.writes[pairs.second])


def _with_packets_before(pairs: Pairs) -> Pairs:
    """More pairs: packets of one call in one place need no order.

    So what comes after the last of them must also come after the others, and after whoever read them.
    """
    rewritten = _same_packet(pairs) & pairs.accesses.writes[pairs.second]
    earlier: dict[int, list[int]] = {}
    for u, v in zip(pairs.first[rewritten].tolist(), pairs.second[rewritten].tolist(), strict=True):
        earlier.setdefault(v, []).append(u)
    if not earlier:
        return pairs
    more = [
        (u, v)
        for last, v in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
        if last in earlier
        for u in _all_before(last, earlier)
    ]
    added = np.array(more, dtype=np.int64).reshape(-1, 2)
    first, second = np.concatenate([pairs.first, added[:, 0]]), np.concatenate([pairs.second, added[:, 1]])
    return Pairs(pairs.accesses, first, second)


def _all_before(row: int, earlier: dict[int, list[int]]) -> set[int]:
    found, ahead = set[int](), [row]
    while ahead:
        for access in earlier.get(ahead.pop(), ()):
            if access not in found:
                found.add(access)
                ahead.append(access)
    return found


def _same_packet(pairs: Pairs) -> BoolArray:
    """Whether the second writes what is there already, or waits for it, as transfers of ports do not."""
    touches = pairs.accesses.touches
    first, second = pairs.touches
    packets = (touches.packets[first] != 0) & (touches.packets[second] != 0)
    if not packets.any():
        return np.asarray(packets)
    same = packets & (touches.call[first] == touches.call[second])
    waits = (touches.writes[second] != 0) | (touches.width[second] != NO_THREAD)
    return np.asarray(same & waits)
