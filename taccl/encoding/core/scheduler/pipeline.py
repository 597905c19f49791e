r"""List scheduling: whatever can go goes, and of several the one with the least key.

A send starts as soon as all ports of its link are free; of those that wait for a port, the one with the least
key goes first. It is in one line at a time: of those that are ready, or of those that wait at one port.

Chunks that wait in the same line (`Joins`) as the one that goes, go with it, at most `most` at a time: so
alpha is paid less often, and nothing waits for company.

Links that have nothing to do may take copies from others (`Detours`): whoever has a chunk may send it to a
neighbour that waits for it, whatever its route says. So the last chunks of a pipeline fill all links.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.costs import Costs
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
from taccl.encoding.core.tuning import PIPELINE_LOOKS
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import Loop

#: How much less urgent a copy next to the routes is than any on them, microseconds.
_LATER_US = 1e12


@dataclass(frozen=True, eq=False)
class Timed:
    """What became of each send; columns of shape (num_sends,).

    Parameters
    ----------
    via : the link that it took.
    turn : how many started before it: what tells apart sends that take no time.
    leader : what those have in common that went as one.
    """

    start_us: FloatArray
    end_us: FloatArray
    via: IntArray
    turn: IntArray
    leader: IntArray


class Joins(NamedTuple):
    """Which sends may go as one: those of a line, all over one link, at most `most`.

    `head`, `tail` : of each line, in the order in which its sends came; `behind` : of each send.
    """

    most: int
    line: IntArray
    head: IntArray
    tail: IntArray
    behind: IntArray


class Detours(NamedTuple):
    """Copies that may leave their routes, of some chunks: those with a row in the tables.

    Parameters
    ----------
    row_of_cell : shape (num_cells,); of the chunk whose copies a cell lets go, -1: of none.
    rank_of_cell : where.
    ready_us : shape (num_cells,); when the input is ready there: what comes before leaves by its route.
    row_of_send : shape (num_sends,); of the chunk that each copies, -1: of none.
    into : shape (rows, num_ranks); the send that brings each chunk to each rank, -1: none does.
    there : shape (rows, num_ranks); whether a rank may copy a chunk from the beginning.
    following : shape (rows,); the row of the next chunk that may share sends with it, -1: none.
    kind : shape (rows,); and `allowed`, shape (kinds, num_links): where each chunk may go.
    first_out, out : the links that leave each rank; `src`, `dst` : where each link begins and ends.
    """

    row_of_cell: IntArray
    rank_of_cell: IntArray
    ready_us: FloatArray
    row_of_send: IntArray
    into: IntArray
    there: BoolArray
    following: IntArray
    kind: IntArray
    allowed: BoolArray
    first_out: IntArray
    out: IntArray
    src: IntArray
    dst: IntArray


def joins(most: int, line: IntArray | None, many: int) -> Joins:
    """Joins of at most `most` sends of one line, shape (num_sends,); without lines each goes alone."""
    none = np.zeros(0, np.int64)
    if line is None or most == 1:
        return Joins(1, none, none, none, none)
    number = np.unique(line, return_inverse=True)[1].ravel()
    ends = np.full((2, int(number.max(initial=-1)) + 1), -1)
    return Joins(most, number, ends[0], ends[1], np.full(many, -1))


_NONE = np.zeros(0, np.int64)
_NO_ROWS = np.zeros((0, 0), np.int64)
_NO = np.zeros((0, 0), np.bool_)
_NOWHERE = Detours(_NONE, _NONE, np.zeros(0), _NONE, _NO_ROWS, _NO, _NONE, _NONE, _NO, *[_NONE] * 4)


def pipelined(
    graph: SendGraph,
    costs: Costs,
    key: FloatArray,
    *,
    most: int = 1,
    line: IntArray | None = None,
    detours: Detours | None = None,
    keeps: bool = False,
    look: Callable[[], None] = lambda: None,
) -> Timed:
    """When every send goes.

    Parameters
    ----------
    key : shape (num_sends,); of those that wait the least goes first.
    most, line : the most sends that go as one, of those with the same number and link.
    detours : copies that may leave their routes: each chunk over each link, which may be a minute's work.
    keeps : whether free ports of a link wait for its others, where these are free within alpha: else what
        needs several ports, such as a sum that its receiver contributes to, waits while others take each.
    look : is called now and then where that takes long; it ends the work by an exception.
    """
    sends, many = graph.sends, len(graph.sends.link)
    detours = _NOWHERE if detours is None else detours
    uses = np.bincount(sends.link, minlength=len(costs.alpha_us))
    if len(detours.kind):
        uses += np.bincount(detours.kind, minlength=len(detours.allowed)) @ detours.allowed
    of_port = np.bincount(costs.port, np.repeat(uses, np.diff(costs.first)), costs.num_ports)
    state = _State(
        lines(np.array([many + int(len(detours.kind) * len(detours.dst))])),
        lines(of_port),
        clock(costs, 2 * many),
        progress(graph),
    )
    key, joined = key.astype(np.float64, copy=False), joins(most, line, many)
    looks = np.array([0])
    while True:
        ended, *filled = _pipeline(
            many,
            graph=graph,
            costs=costs,
            key=key,
            joins=joined,
            detours=detours,
            state=state,
            looks=looks,
            keeps=keeps,
            until=int(looks[0]) + PIPELINE_LOOKS if _pipeline.runs_compiled(many) else sys.maxsize,
        )
        if ended:
            return Timed(*(np.asarray(column) for column in filled))
        look()


def is_compiled() -> bool:
    """Whether the loop is machine code already."""
    return _pipeline.is_compiled


class _State(NamedTuple):
    """`ready` : the line of those that may go now; `waiting` : at each port."""

    ready: Any
    waiting: Any
    clock: Any
    progress: Progress


def _run_pipeline(
    graph: Any,
    costs: Any,
    key: Any,
    joins: Any,
    detours: Any,
    state: Any,
    looks: Any,
    until: int,
    keeps: bool,
) -> Any:
    """Fill the columns of progress: what can go goes, until nothing moves any more, and whether that is now.

    A copy next to the routes has a number after those of all sends, by chunk and link. `looks` counts what
    was taken up, `until` is when it stops; called again with the same state, it goes on from there.
    """
    many, now = len(graph.sends.link), state.progress
    if looks[0] == 0:
        for e in range(many):
            if now.missing[e] == 0:
                _come(graph, key, joins, state, e)
    while True:
        while state.ready.size[0] > 0:
            if looks[0] == until:
                return False, now.start_us, now.end_us, now.via, now.turn, now.leader
            looks[0] += 1
            urgency, item = leave(state.ready, 0)
            e, link = item, 0
            if item < many:
                link = graph.sends.link[e]
            else:
                row, link = (item - many) // len(detours.dst), (item - many) % len(detours.dst)
                e = detours.into[row, detours.dst[link]]
            gone = now.start_us[e] >= 0.0  # with others of its line, or over another link
            if _may_start(costs, state, link, urgency, item, gone, keeps and item < many):
                _start(graph, costs, key, joins, detours, state, e, link)
        if state.clock.num_events[0] == 0:
            break
        until_us = state.clock.event_us[0] + SAME_US
        happens, event = next_event(state.clock, until_us)
        while happens:
            if event < 0:
                _wake(state, -1 - event)
            elif event >= many:  # its sender's input is ready
                _offer(graph, key, joins, state, event - many)
            while 0 <= event < many:
                for row in range(graph.sends.first_give[event], graph.sends.first_give[event + 1]):
                    _give(graph, key, joins, detours, state, graph.sends.give[row])
                event = now.mate[event]
            happens, event = next_event(state.clock, until_us)
    return True, now.start_us, now.end_us, now.via, now.turn, now.leader


def _come(graph: Any, key: Any, joins: Any, state: Any, e: int) -> None:
    """All cells that a send needs are complete."""
    ready_us = max(graph.sends.ready_us[e], state.clock.now_us[0]) + graph.sends.delay_us[e]
    if ready_us > state.clock.now_us[0]:
        expect(state.clock, ready_us, len(graph.sends.link) + e)
    else:
        _offer(graph, key, joins, state, e)


def _offer(graph: Any, key: Any, joins: Any, state: Any, e: int) -> None:
    """A send may go."""
    enter(state.ready, 0, key[e], e)
    if joins.most > 1:
        line = joins.line[e]
        if joins.head[line] < 0:
            joins.head[line] = e
        else:
            joins.behind[joins.tail[line]] = e
        joins.tail[line] = e


def _wake(state: Any, port: int) -> None:
    """Offer the most urgent of those that wait for a port, if it is free."""
    if state.waiting.size[port] > 0 and state.clock.free_us[port] <= state.clock.now_us[0]:
        urgency, item = leave(state.waiting, port)
        enter(state.ready, 0, urgency, item)


def _may_start(costs: Any, state: Any, link: int, urgency: float, item: int, gone: bool, keeps: bool) -> bool:
    """Whether a send that was taken may start now; if not, and it is not gone, it waits at a busy port."""
    if not gone:
        port = blocked_at(state.clock, costs, link)
        if port < 0:
            return True
        enter(state.waiting, port, urgency, item)
        if keeps:
            _keep(costs, state, link)
    # A port that was kept for this one is for the next.
    for pair in range(costs.first[link], costs.first[link + 1]):
        _wake(state, costs.port[pair])
    return False


def _keep(costs: Any, state: Any, link: int) -> None:
    """Keep free ports of a link for a send that the others let go within alpha."""
    first, last, now_us = costs.first[link], costs.first[link + 1], state.clock.now_us[0]
    until_us = now_us
    for pair in range(first, last):
        until_us = max(until_us, state.clock.free_us[costs.port[pair]])
    if until_us > now_us + costs.alpha_us[link]:
        return
    for pair in range(first, last):
        port = costs.port[pair]
        if state.clock.free_us[port] <= now_us < until_us:  # so a port has one event at most
            state.clock.free_us[port] = until_us
            expect(state.clock, until_us, -1 - port)


def _start(graph: Any, costs: Any, key: Any, joins: Any, detours: Any, state: Any, e: int, link: int) -> None:
    """Send a chunk over a link, with those of its line that wait, too."""
    now = state.progress
    now.start_us[e], now.via[e] = state.clock.now_us[0], link
    mb = graph.sends.mb[e]
    if joins.most > 1:
        if len(detours.kind) > 0 and detours.row_of_send[e] >= 0:
            mb += _join_next(graph, joins, detours, now, e, link)
        else:
            mb += _join_line(graph, joins, now, e)
    end_us = send(state.clock, costs, link, mb, e)
    for pair in range(costs.first[link], costs.first[link + 1]):
        _wake(state, costs.port[pair])
    while e >= 0:
        now.end_us[e], now.turn[e] = end_us, state.clock.num_started[0]
        state.clock.num_started[0] += 1
        for row in range(graph.first_signal[e], graph.first_signal[e + 1]):
            _give(graph, key, joins, detours, state, graph.signal[row])
        e = now.mate[e]


def _join_line(graph: Any, joins: Any, now: Any, e: int) -> float:
    """Let those of its line go with a send, in the order in which they came; their MB."""
    mb, latest, together = 0.0, e, 1
    other = joins.head[joins.line[e]]
    while other >= 0 and together < joins.most:
        if now.start_us[other] < 0.0:
            now.start_us[other], now.leader[other] = now.start_us[e], e
            now.mate[latest] = other
            latest = other
            together += 1
            mb += graph.sends.mb[other]
        other = joins.behind[other]
    joins.head[joins.line[e]] = other
    return mb


def _join_next(graph: Any, joins: Any, detours: Any, now: Any, e: int, link: int) -> float:
    """Let the next chunks go with a copy that are where it starts and lack where it ends; their MB."""
    mb, latest, together = 0.0, e, 1
    row = detours.following[detours.row_of_send[e]]
    while row >= 0 and together < joins.most:
        other = detours.into[row, detours.dst[link]]
        if other < 0 or now.start_us[other] >= 0.0 or not detours.there[row, detours.src[link]]:
            break
        now.start_us[other], now.leader[other], now.via[other] = now.start_us[e], e, link
        now.mate[latest] = other
        latest = other
        together += 1
        mb += graph.sends.mb[other]
        row = detours.following[row]
    return mb


def _give(graph: Any, key: Any, joins: Any, detours: Any, state: Any, cell: int) -> None:
    """One of the sends that give a cell has done so: once all have, who needs the cell comes nearer."""
    now = state.progress
    now.pending[cell] -= 1
    if now.pending[cell] > 0:
        return
    for at in range(graph.first_user[cell], graph.first_user[cell + 1]):
        e = graph.user[at]
        now.missing[e] -= 1
        if now.missing[e] == 0 and now.start_us[e] < 0.0:
            _come(graph, key, joins, state, e)
    if len(detours.kind) > 0 and detours.row_of_cell[cell] >= 0:
        row, rank = detours.row_of_cell[cell], detours.rank_of_cell[cell]
        if detours.ready_us[cell] > state.clock.now_us[0]:
            return
        detours.there[row, rank] = True
        for at in range(detours.first_out[rank], detours.first_out[rank + 1]):
            link = detours.out[at]
            e = detours.into[row, detours.dst[link]]
            if e < 0 or now.start_us[e] >= 0.0 or not detours.allowed[detours.kind[row], link]:
                continue
            if graph.sends.link[e] != link:
                item = len(graph.sends.link) + row * len(detours.dst) + link
                enter(state.ready, 0, _LATER_US + key[e], item)


_pipeline = Loop(
    _run_pipeline,
    (*PARTS, _come, _offer, _wake, _keep, _may_start, _start, _join_line, _join_next, _give),
    eager=True,
)
