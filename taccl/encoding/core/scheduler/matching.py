"""An order that keeps the busiest ports busy.

At every moment, among the sends whose ports are free, the most urgent goes first: that with the longest
rest of the schedule behind it, be it what still has to pass one of its ports or what still has to
follow the chunk. Where a send passes two ports, in and out of a switch, the sends that go together
are a matching, made as large as possible by augmenting paths (Kuhn 1955).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.core.scheduler.clock import (
    PARTS,
    SAME_US,
    Progress,
    blocked_at,
    clock,
    enter,
    expect,
    leave,
    lines,
    next_event,
    progress,
    send,
)
from taccl.encoding.core.scheduler.graph import SendGraph
from taccl.encoding.core.scheduler.pipeline import Timed
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import Loop


class _State(NamedTuple):
    """`waiting` : the sends that wait for each link; `left_us` : what still has to pass each port."""

    waiting: Any
    clock: Any
    progress: Progress
    left_us: FloatArray


class _Match(NamedTuple):
    """A matching of ports, the first and last ones of links with two.

    Parameters
    ----------
    links, chosen : shape (num_links,); links with something to send and free ports, and what goes now.
    head, tail, behind : the former by their first ports, the most urgent first.
    firsts : the first ports, in that order.
    link_at : shape (num_ports,); the link that has each last port, -1: none.
    taken, seen : shape (num_ports,); the moment that took each last, and the last search that met it.
    stack, cursor : the first ports on an augmenting path, and the link of each that is tried.
    """

    links: IntArray
    chosen: IntArray
    behind: IntArray
    head: IntArray
    tail: IntArray
    firsts: IntArray
    link_at: IntArray
    taken: IntArray
    seen: IntArray
    stack: IntArray
    cursor: IntArray


def matched(graph: SendGraph, costs: Costs, tail_us: FloatArray) -> Timed:
    """When every send goes; `tail_us`, shape (num_sends,), is what still has to follow each, with itself."""
    sends, many = graph.sends, len(graph.sends.link)
    num_links, num_ports = len(costs.alpha_us), costs.num_ports
    first, last = costs.first[:-1], costs.first[1:]
    of_pair = np.repeat(np.arange(num_links), last - first)
    count = np.bincount(sends.link, minlength=num_links)
    mb = np.bincount(sends.link, sends.mb, num_links)
    busy = count[of_pair] * costs.busy_alpha_us + mb[of_pair] * costs.busy_beta_us
    state = _State(
        lines(count),
        clock(costs, 2 * many),
        progress(graph),
        np.asarray(np.bincount(costs.port, busy, num_ports), dtype=np.float64),
    )
    match = _Match(
        *(np.zeros(num_links, np.int64) for _ in range(3)), *(np.full(num_ports + 1, -1) for _ in range(8))
    )
    filled = _matching(many, graph=graph, costs=costs, tail_us=np.asarray(tail_us), state=state, match=match)
    return Timed(*(np.asarray(column) for column in filled))


def _run_matching(graph: Any, costs: Any, tail_us: Any, state: Any, match: Any) -> Any:
    """Fill the columns of progress, one moment after another."""
    many, now = len(graph.sends.link), state.progress
    for e in range(many):
        if now.missing[e] == 0:
            _come(graph, tail_us, state, e)
    moment = 0
    while True:
        for at in range(_choose(graph, costs, state, match, moment)):
            _send_first(graph, costs, state, match.chosen[at])
        moment += 1
        if state.clock.num_events[0] == 0:
            break
        until_us = state.clock.event_us[0] + SAME_US
        happens, event = next_event(state.clock, until_us)
        while happens:
            if event >= many:  # its sender's input is ready
                _wait(graph, tail_us, state, event - many)
            elif event >= 0:
                _arrive(graph, tail_us, state, event)
            happens, event = next_event(state.clock, until_us)
    return now.start_us, now.end_us, now.via, now.turn, now.leader


def _come(graph: Any, tail_us: Any, state: Any, e: int) -> None:
    """All cells that a send needs are complete."""
    ready_us = max(graph.sends.ready_us[e], state.clock.now_us[0]) + graph.sends.delay_us[e]
    if ready_us > state.clock.now_us[0]:
        expect(state.clock, ready_us, len(graph.sends.link) + e)
    else:
        _wait(graph, tail_us, state, e)


def _wait(graph: Any, tail_us: Any, state: Any, e: int) -> None:
    """A send waits for its ports alone."""
    enter(state.waiting, graph.sends.link[e], -tail_us[e], e)


def _arrive(graph: Any, tail_us: Any, state: Any, e: int) -> None:
    """A send has ended: who needs what it gives comes nearer."""
    now = state.progress
    for row in range(graph.sends.first_give[e], graph.sends.first_give[e + 1]):
        cell = graph.sends.give[row]
        now.pending[cell] -= 1
        if now.pending[cell] == 0:
            for at in range(graph.first_user[cell], graph.first_user[cell + 1]):
                now.missing[graph.user[at]] -= 1
                if now.missing[graph.user[at]] == 0:
                    _come(graph, tail_us, state, graph.user[at])


def _send_first(graph: Any, costs: Any, state: Any, link: int) -> None:
    """Send the most urgent of those that wait for a link."""
    _, e = leave(state.waiting, link)
    mb = graph.sends.mb[e]
    for pair in range(costs.first[link], costs.first[link + 1]):
        state.left_us[costs.port[pair]] -= costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
    state.progress.start_us[e], state.progress.turn[e] = state.clock.now_us[0], state.clock.num_started[0]
    state.clock.num_started[0] += 1
    state.progress.end_us[e] = send(state.clock, costs, link, mb, e)


def _choose(graph: Any, costs: Any, state: Any, match: Any, moment: int) -> int:
    """Fill `chosen` with links that go together now, no two with a port in common; how many."""
    free = _by_urgency(costs, state, match)
    chosen, pairs = 0, 0
    for at in range(free):
        link = match.links[at]
        if costs.first[link + 1] - costs.first[link] != 2 and _is_open(costs, match, link, moment):
            _take(costs, match, link, moment)
            match.chosen[chosen] = link
            chosen += 1
    for at in range(free):
        link = match.links[at]
        if costs.first[link + 1] - costs.first[link] == 2 and _is_open(costs, match, link, moment):
            match.links[pairs] = link
            pairs += 1
    for at in range(_pair_up(costs, match, pairs)):
        link = match.links[at]  # a port may be the first of one link and the last of another
        if _is_open(costs, match, link, moment):
            _take(costs, match, link, moment)
            match.chosen[chosen] = link
            chosen += 1
    return chosen


def _is_open(costs: Any, match: Any, link: int, moment: int) -> bool:
    for pair in range(costs.first[link], costs.first[link + 1]):
        if match.taken[costs.port[pair]] == moment:
            return False
    return True


def _take(costs: Any, match: Any, link: int, moment: int) -> None:
    for pair in range(costs.first[link], costs.first[link + 1]):
        match.taken[costs.port[pair]] = moment


def _by_urgency(costs: Any, state: Any, match: Any) -> int:
    """Fill `links` with those that have something to send and free ports, the most urgent first; how many."""
    free = 0
    for link in range(len(costs.alpha_us)):
        if state.waiting.size[link] > 0 and blocked_at(state.clock, costs, link) < 0:
            match.links[free] = link
            free += 1
    urgency, keys, items = np.zeros(free), np.zeros(free), np.zeros(free, np.int64)
    for at in range(free):
        link = match.links[at]
        tail = -state.waiting.keys[state.waiting.first[link]]
        total, urgency[at] = tail, tail
        for pair in range(costs.first[link], costs.first[link + 1]):
            left = state.left_us[costs.port[pair]]
            urgency[at], total = max(urgency[at], left), total + left
        push(keys, items, 0, at, -total, at)
    # Sorted on heaps, for NumPy's sort takes three seconds to compile: by total, and so within an urgency.
    order = np.zeros(free, np.int64)
    for at in range(free):
        order[at] = items[0]
        pop(keys, items, 0, free - at)
    for at in range(free):
        push(keys, items, 0, at, -urgency[order[at]], at)
    for at in range(free):
        match.chosen[at] = match.links[order[items[0]]]
        pop(keys, items, 0, free - at)
    for at in range(free):
        match.links[at] = match.chosen[at]
    return free


def _pair_up(costs: Any, match: Any, pairs: int) -> int:
    """Of the links in front, as many as can go together, the first ones first; how many are in front now."""
    firsts = 0
    for at in range(pairs):
        pair = costs.first[match.links[at]]
        match.head[costs.port[pair]] = -1
        match.link_at[costs.port[pair + 1]], match.seen[costs.port[pair + 1]] = -1, -1
    for at in range(pairs):
        link = match.links[at]
        first = costs.port[costs.first[link]]
        if match.head[first] < 0:
            match.head[first] = link
            match.firsts[firsts] = first
            firsts += 1
        else:
            match.behind[match.tail[first]] = link
        match.tail[first], match.behind[link] = link, -1
    for number in range(firsts):
        _augment(costs, match, number)
    paired = 0
    for at in range(pairs):
        link = match.links[at]
        if match.link_at[costs.port[costs.first[link] + 1]] == link:
            match.links[paired] = link
            paired += 1
    return paired


def _augment(costs: Any, match: Any, number: int) -> None:
    """Match a first port too, if links of others can make room: depth first along augmenting paths."""
    depth = 0
    match.stack[0], match.cursor[0] = match.firsts[number], match.head[match.firsts[number]]
    while depth >= 0:
        link = match.cursor[depth]
        if link < 0:
            depth -= 1
            if depth >= 0:
                match.cursor[depth] = match.behind[match.cursor[depth]]
            continue
        last = costs.port[costs.first[link] + 1]
        if match.seen[last] == number:
            match.cursor[depth] = match.behind[link]
            continue
        match.seen[last] = number
        if match.link_at[last] < 0:
            for at in range(depth + 1):
                used = match.cursor[at]
                match.link_at[costs.port[costs.first[used] + 1]] = used
            return
        depth += 1
        match.stack[depth] = costs.port[costs.first[match.link_at[last]]]
        match.cursor[depth] = match.head[match.stack[depth]]


_matching = Loop(
    _run_matching,
    (*PARTS, _come, _wait, _arrive, _send_first, _choose, _is_open, _take, _by_urgency, _pair_up, _augment),
    eager=True,
)
