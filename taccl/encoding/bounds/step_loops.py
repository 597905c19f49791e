"""The recurrences of `steps` as loops over moments in the order of time.

A moment at which a count may grow is an entry of a heap; what grows makes the moments at which others may.
When a count first is 1, 2, ... lies in a column, from the count's base on: `first[base + 3]` is when it first
is 3. Moments closer than `close` are the same. A loop ends early, with nothing in its answer, where it takes
more units of work than it may.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

from taccl.encoding.bounds.tuning import STEPS_UNITS as _UNITS
from taccl.encoding.bounds.tuning import STEPS_UNITS_PER_LOOK as _PER_LOOK
from taccl.support.jit import Loop


class Links(NamedTuple):
    """The usable links, sorted by the slot in which they take turns: a port of a rank at one end of them.

    Parameters
    ----------
    slot, near, far : shape (num_links,); the slot, the rank of that slot, and the rank at the other end.
    first_in_slot : shape (num_slots + 1,); where the links of each slot begin.
    rank_of_slot, lag_us : shape (num_slots,); its rank, and the least time from when a group leaves the port
        to its end.
    first_slot : shape (num_ranks + 1,); where the slots of each rank begin.
    first_far, of_far : the links by the rank at their other end: where those of each begin, and the links.
    """

    slot: Any
    near: Any
    far: Any
    first_in_slot: Any
    rank_of_slot: Any
    lag_us: Any
    first_slot: Any
    first_far: Any
    of_far: Any


class Limits(NamedTuple):
    """Whether ports are busy at the ends of sends, how far to look, what is the same moment, work."""

    at_ends: bool
    horizon_us: float
    close: float
    units: float


class Chunk(NamedTuple):
    """One chunk on each link: how long it takes, and keeps the port busy; and whom it may come to how soon.

    `wanted`, shape (num_ranks,), is 1 for a rank that wants it. From `first_near` of a rank on lie the
    moments at which another wanting rank can be reached from there by a shortest path.
    """

    takes_us: Any
    busy_us: Any
    wanted: Any
    first_near: Any
    near_us: Any


class _Reach(NamedTuple):
    """What ranks and slots have informed so far, and when; and the moments at which more may be."""

    width: int
    reached: Any
    served: Any
    of_rank: Any
    of_slot: Any
    nearest: Any
    todo: Any


def _at(first: Any, base: int, count: int, moment: float) -> int:
    """What a count that is `count` by now was at a moment."""
    while count > 0 and first[base + count] > moment:
        count -= 1
    return count


def _grow(first: Any, counts: Any, which: int, width: int, count: int, now: float) -> None:
    for number in range(counts[which] + 1, count + 1):
        first[which * width + number] = now
    counts[which] = count


def _look_at(todo: Any, now: float, after: float, which: int, horizon_us: float) -> None:
    if now + after <= horizon_us:
        heapq.heappush(todo, (now + after, which))


def _inform(links: Links, chunk: Chunk, most: int, limits: Limits) -> tuple[Any, float]:
    """When each rank first has informed 1, 2, ... and `most` ranks, from rank * (most + 1) on; units."""
    ranks, slots, width = len(chunk.wanted), len(links.rank_of_slot), most + 1
    todo = [
        (chunk.near_us[at], rank)
        for rank in range(ranks)
        for at in range(chunk.first_near[rank], chunk.first_near[rank + 1])
    ]
    heapq.heapify(todo)
    nearest = [int(chunk.first_near[rank]) for rank in range(ranks)]
    reach = _Reach(
        *(width, [math.inf] * (ranks * width), [math.inf] * (slots * width)),
        *([0] * ranks, [0] * slots, nearest, todo),
    )
    spent, before, last = 0.0, -1.0, 0
    while len(reach.todo) > 0 and spent <= limits.units:
        now, which = heapq.heappop(reach.todo)
        if now == before and which == last:
            continue
        before, last = now, which
        if which < 0:
            spent += _serve(links, chunk, reach, limits, now, -1 - which)
        else:
            spent += _reach_more(links, chunk, reach, limits, now, which)
    return reach.reached, spent


def _serve(links: Links, chunk: Chunk, reach: _Reach, limits: Limits, now: float, slot: int) -> float:
    """What links of a slot bring by now: all at once, but for those that take turns at the port."""
    begin, end = links.first_in_slot[slot], links.first_in_slot[slot + 1]
    width, once, turns, free = reach.width, 0, 0, False
    for link in range(begin, end):
        base, count = links.far[link] * width, reach.of_rank[links.far[link]]
        busy_us = chunk.busy_us[link]
        onward = _at(reach.reached, base, count, now - chunk.takes_us[link] + limits.close)
        once += onward
        free = free or busy_us == 0
        if busy_us > 0:
            if limits.at_ends:
                onward = _at(reach.reached, base, count, now - busy_us + limits.close)
            earlier = _at(reach.served, slot * width, reach.of_slot[slot], now - busy_us + limits.close)
            turns = max(turns, onward + earlier)
    count = min(width - 1, once if free else turns if limits.at_ends else min(once, turns))
    if count > reach.of_slot[slot]:
        _grow(reach.served, reach.of_slot, slot, width, count, now)
        for link in range(begin, end):
            if chunk.busy_us[link] > 0:
                _look_at(reach.todo, now, chunk.busy_us[link], -1 - slot, limits.horizon_us)
        lag_us = links.lag_us[slot] if limits.at_ends and not free else 0.0
        _look_at(reach.todo, now, lag_us, links.rank_of_slot[slot], limits.horizon_us)
    spent: float = _UNITS + _PER_LOOK * (end - begin)
    return spent


def _reach_more(links: Links, chunk: Chunk, reach: _Reach, limits: Limits, now: float, rank: int) -> float:
    """What a rank reaches by now: over its slots, and no more ranks than are near enough."""
    nearest, first, end = reach.nearest, chunk.first_near[rank], chunk.first_near[rank + 1]
    while nearest[rank] < end and chunk.near_us[nearest[rank]] <= now + limits.close:
        nearest[rank] += 1
    spread, looks = chunk.wanted[rank], 0
    for slot in range(links.first_slot[rank], links.first_slot[rank + 1]):
        if limits.at_ends:
            spread += _let_in(links, chunk, reach, limits.close, now, slot)
            looks += links.first_in_slot[slot + 1] - links.first_in_slot[slot]
        else:
            spread += reach.of_slot[slot]
    count = min(nearest[rank] - first, spread)
    if count > reach.of_rank[rank]:
        _grow(reach.reached, reach.of_rank, rank, reach.width, count, now)
        for at in range(links.first_far[rank], links.first_far[rank + 1]):
            link = links.of_far[at]
            _look_at(reach.todo, now, chunk.takes_us[link], -1 - links.slot[link], limits.horizon_us)
            if limits.at_ends:
                _look_at(reach.todo, now, chunk.takes_us[link], links.near[link], limits.horizon_us)
                _look_at(reach.todo, now, chunk.busy_us[link], -1 - links.slot[link], limits.horizon_us)
    spent: float = _UNITS + _PER_LOOK * looks
    return spent


def _let_in(links: Links, chunk: Chunk, reach: _Reach, close: float, now: float, slot: int) -> int:
    """What a slot has brought by the end of its sends, where these keep its port busy."""
    once, free = 0, False
    for link in range(links.first_in_slot[slot], links.first_in_slot[slot + 1]):
        far = links.far[link]
        moment = now - chunk.takes_us[link] + close
        once += _at(reach.reached, far * reach.width, reach.of_rank[far], moment)
        free = free or chunk.busy_us[link] == 0
    moment = now - links.lag_us[slot] + close
    turns = _at(reach.served, slot * reach.width, reach.of_slot[slot], moment)
    return once if free else min(once, turns)


inform = Loop(_inform, (_at, _grow, _look_at, _let_in, _serve, _reach_more), eager=True)


class Groups(NamedTuple):
    """Groups of chunks on each link, and how many chunks may come and are held.

    Parameters
    ----------
    cost : shape (num_links,); links of one cost keep their ports equally long busy, and take equally long.
    size, many : shape (num_links,); the chunks of the largest group, and the chunks that may use the link.
    first_cost : shape (num_costs,); from there on in the next two lies what a group of 1, 2, .. chunks costs.
    busy_us, leave_us : how long it keeps its port busy, and how long before it is through there it leaves.
    through : shape (num_slots,); the most chunks that come through a slot.
    is_alone : shape (num_slots,); whether all that came through a slot is at its one sender when the last
        group begins.
    held, enough : shape (num_ranks,); how many chunks it holds at first, and how many are enough.
    first_near, near_us : as in `Chunk`, the moments at which another chunk can be at a rank; without any,
        all can at once.
    first_come, come_us, come : the same for what comes to each rank from elsewhere, and how many by then.
    """

    cost: Any
    size: Any
    many: Any
    first_cost: Any
    busy_us: Any
    leave_us: Any
    through: Any
    is_alone: Any
    held: Any
    enough: Any
    first_near: Any
    near_us: Any
    first_come: Any
    come_us: Any
    come: Any


class _Gathered(NamedTuple):
    """What ranks hold so far and what came through slots, since when; and the moments at which more may.

    `turns` is what turns alone allow a slot, and `soonest` when they are first known to allow each count.
    """

    width: int
    held: Any
    came: Any
    of_rank: Any
    of_slot: Any
    turns: Any
    soonest: Any
    nearest: Any
    coming: Any
    todo: Any


def _gather(links: Links, groups: Groups, most: int, limits: Limits) -> tuple[Any, float]:
    """When each rank first holds 1, 2, ... and `most` chunks, from rank * (most + 1) on; units."""
    gathered = _first_gathered(links, groups, most, limits)
    lacking = 0
    for rank in range(len(groups.held)):
        lacking += groups.enough[rank] > 0
    spent, before, last, allowed_last = 0.0, -1.0, 0, 0
    while len(gathered.todo) > 0 and lacking > 0 and spent <= limits.units:
        now, which, allowed = heapq.heappop(gathered.todo)
        if now == before and which == last and allowed == allowed_last:
            continue
        before, last, allowed_last = now, which, allowed
        if which < 0:
            spent += _bring(links, groups, gathered, limits, now, -1 - which, allowed)
            continue
        held = gathered.of_rank[which]
        spent += _hold_more(links, groups, gathered, limits, now, which)
        if held < groups.enough[which] <= gathered.of_rank[which]:
            lacking -= 1
    return gathered.held, spent


def _first_gathered(links: Links, groups: Groups, most: int, limits: Limits) -> _Gathered:
    ranks, slots, width = len(groups.held), len(links.rank_of_slot), most + 1
    todo = [(0.0, rank, 0) for rank in range(ranks)]
    for rank in range(ranks):
        for at in range(groups.first_near[rank], groups.first_near[rank + 1]):
            if groups.near_us[at] <= limits.horizon_us:
                todo.append((groups.near_us[at], rank, 0))
        for at in range(groups.first_come[rank], groups.first_come[rank + 1]):
            if groups.come_us[at] <= limits.horizon_us:
                todo.append((groups.come_us[at], rank, 0))
    heapq.heapify(todo)
    turns = [0] * slots
    for slot in range(slots):
        for link in range(links.first_in_slot[slot], links.first_in_slot[slot + 1]):
            if groups.size[link] > 0 and groups.busy_us[groups.first_cost[groups.cost[link]]] == 0:
                turns[slot] = groups.through[slot]  # what takes no time takes no turn
    return _Gathered(
        *(width, [math.inf] * (ranks * width), [math.inf] * (slots * width), [0] * ranks, [0] * slots),
        *(turns, [math.inf] * (slots * width)),
        [int(groups.first_near[rank]) for rank in range(ranks)],
        [int(groups.first_come[rank]) for rank in range(ranks)],
        todo,
    )


def _bring(
    links: Links, groups: Groups, gathered: _Gathered, limits: Limits, now: float, slot: int, allowed: int
) -> float:
    """Another group has come through a slot, or its senders hold more."""
    gathered.turns[slot] = max(gathered.turns[slot], allowed)
    begin, end = links.first_in_slot[slot], links.first_in_slot[slot + 1]
    spent: float = _UNITS + _PER_LOOK * (end - begin)
    width = gathered.width
    count = min(gathered.turns[slot], groups.through[slot])
    if count <= gathered.of_slot[slot]:
        return spent
    there = 0
    for link in range(begin, end):
        if groups.size[link] > 0:
            far, leave_us = links.far[link], groups.leave_us[groups.first_cost[groups.cost[link]]]
            held = _at(gathered.held, far * width, gathered.of_rank[far], now - leave_us + limits.close)
            there += min(groups.many[link], held)
    count = min(count, there)
    if count <= gathered.of_slot[slot]:
        return spent
    _grow(gathered.came, gathered.of_slot, slot, width, count, now)
    if now + links.lag_us[slot] <= limits.horizon_us:
        heapq.heappush(gathered.todo, (now + links.lag_us[slot], links.rank_of_slot[slot], 0))
    most = 0
    for link in range(begin, end):
        if groups.size[link] > 0:
            far = links.far[link]
            most = max(most, gathered.of_rank[far])
            is_last = link + 1 == end or groups.cost[link + 1] != groups.cost[link]
            # Of links that cost the same, what the sender that holds most may send is all that they may.
            if limits.at_ends or is_last:
                holds = gathered.of_rank[far] if limits.at_ends else most
                spent += _send(groups, gathered, limits, now, slot, link, 0, holds, far)
            most = 0 if is_last else most
    return spent


def _hold_more(
    links: Links, groups: Groups, gathered: _Gathered, limits: Limits, now: float, rank: int
) -> float:
    """Something has come to a rank, or is near enough by now."""
    width, count = gathered.width, groups.held[rank]
    for slot in range(links.first_slot[rank], links.first_slot[rank + 1]):
        moment = now - links.lag_us[slot] + limits.close
        count += _at(gathered.came, slot * width, gathered.of_slot[slot], moment)
    nearest, coming = gathered.nearest, gathered.coming
    while coming[rank] < groups.first_come[rank + 1] and groups.come_us[coming[rank]] <= now + limits.close:
        coming[rank] += 1
    if coming[rank] > groups.first_come[rank]:
        count += groups.come[coming[rank] - 1]
    count = min(count, width - 1)
    if len(groups.near_us) > 0:
        while (
            nearest[rank] < groups.first_near[rank + 1]
            and groups.near_us[nearest[rank]] <= now + limits.close
        ):
            nearest[rank] += 1
        count = min(count, nearest[rank] - groups.first_near[rank])
    before, spent = gathered.of_rank[rank], _UNITS
    if count <= before:
        return spent
    _grow(gathered.held, gathered.of_rank, rank, width, count, now)
    for at in range(links.first_far[rank], links.first_far[rank + 1]):
        link = links.of_far[at]
        if groups.size[link] > 0:
            spent += _send(groups, gathered, limits, now, links.slot[link], link, before, count, -1)
            leave_us = groups.leave_us[groups.first_cost[groups.cost[link]]]
            if now + leave_us <= limits.horizon_us:
                heapq.heappush(gathered.todo, (now + leave_us, -1 - links.slot[link], 0))
    return spent


def _send(
    groups: Groups,
    gathered: _Gathered,
    limits: Limits,
    now: float,
    slot: int,
    link: int,
    before: int,
    most: int,
    sender: int,
) -> float:
    """Groups of more than `before` and up to `most` chunks may leave over a link, or others like it.

    They have come by now, or, where a sender is given, its port is free. One alone has all it sent before.
    """
    first, came, width = groups.first_cost[groups.cost[link]], gathered.of_slot[slot], gathered.width
    sent = came if groups.is_alone[slot] else 0
    largest = min(most - sent, groups.size[link], groups.through[slot] - came)
    smallest = max(before - sent, gathered.turns[slot] - came) + 1
    for count in range(smallest, largest + 1):
        leave_us = groups.leave_us[first + count - 1]
        if sender < 0:
            moment = now + leave_us
        else:
            moment = now + groups.busy_us[first + count - 1]
            if limits.at_ends:
                moment = max(moment, gathered.held[sender * width + sent + count] + leave_us)
        if moment >= limits.horizon_us:  # and larger groups take longer
            break
        if moment < gathered.soonest[slot * width + came + count]:
            gathered.soonest[slot * width + came + count] = moment
            heapq.heappush(gathered.todo, (moment, -1 - slot, came + count))
    spent: float = _PER_LOOK * max(1, largest + 1 - smallest)
    return spent


gather = Loop(_gather, (_at, _grow, _first_gathered, _bring, _hold_more, _send), eager=True)
