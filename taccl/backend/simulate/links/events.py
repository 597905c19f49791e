"""The events of a simulation, one after the other, as a loop over columns (the rules are in `simulator`)."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import Loop

#: Events closer than this, plus float error, are one moment (microseconds).
_MOMENT_US = 1e-9
_FLOAT_ERROR = 1e-13

#: Kinds of event: a send has left its ports, a receiver has it, a local step is done; a send has left a
#: port that is faster than its link (the event has the port in place of the step).
_SENT, _ARRIVED, _COMPUTED, _PASSED = range(4)

#: Moments of getting ready are compared in millionths of a microsecond.
_TICKS = 1e6


class Steps(NamedTuple):
    """Steps, thread block after thread block, and what each sends through.

    Parameters
    ----------
    first_of_block : the steps of thread block b are `first_of_block[b]` to `first_of_block[b + 1]`.
    block : of each step.
    source, target : the send that a receive takes and the receive that takes a send, or -1.
    receives_on, sends_on : connections, or -1.
    pieces : slots that a send takes.
    urgency_us : the larger, the sooner it gets a port.
    num_waits : how many steps each waits for.
    first_waiter, waiters : those that wait for step k begin at waiters[first_waiter[k]].
    first_port, end_port, ports, ports_us : what step k sends through, and how long it keeps each, stands at
        [first_port[k]] up to [end_port[k]] of the other two.
    """

    first_of_block: IntArray
    block: IntArray
    source: IntArray
    target: IntArray
    receives_on: IntArray
    sends_on: IntArray
    busy_us: FloatArray
    latency_us: FloatArray
    local_us: FloatArray
    pieces: IntArray
    urgency_us: FloatArray
    num_waits: IntArray
    first_waiter: IntArray
    waiters: IntArray
    first_port: IntArray
    end_port: IntArray
    ports: IntArray
    ports_us: FloatArray


class _Filled(NamedTuple):
    """When each step is ready, starts, ends and is done, and how long each port is busy; what was reached."""

    ready_us: list[float]
    start_us: list[float]
    end_us: list[float]
    done_us: list[float]
    port_busy_us: list[float]
    reached: list[bool]
    arrived: list[bool]
    queued: list[bool]
    missing: list[int]
    room: list[int]
    waiting_for_room: list[int]


class _Agenda(NamedTuple):
    """What comes next.

    Parameters
    ----------
    events : time, kind, and step or port.
    candidates : sends that want ports, the first in front: - urgency, when it got ready, block, step, and the
        free port that has let it in.
    port_queue : the same, without a port, of those that wait for each port.
    todo : steps that may be able to go on.
    leaving : sends that only their ports keep waiting from now on.
    freed : ports.
    """

    events: list[tuple[float, int, int]]
    candidates: list[tuple[float, int, int, int, int]]
    port_queue: list[list[tuple[float, int, int, int]]]
    port_taken: list[bool]
    todo: list[int]
    leaving: list[int]
    finished: list[int]
    freed: list[int]


def _run(
    steps: Steps, slots: int, num_connections: int, num_ports: int
) -> tuple[list[float], list[float], list[float], list[float], list[float]]:
    """When each step is ready, starts, ends and is done, and for how long each port is busy."""
    filled = _nothing_filled(steps, slots, num_connections, num_ports)
    agenda = _first_agenda(num_ports)
    for block in range(len(steps.first_of_block) - 1):
        first = steps.first_of_block[block]
        if first < steps.first_of_block[block + 1]:
            filled.reached[first] = True
            agenda.todo.append(first)
    now, until = 0.0, -1.0
    while True:
        # All that needs no time comes before all that does, and what follows from an event before the next.
        if len(agenda.leaving) > 0:
            _leave(steps, filled, agenda, now)
        elif len(agenda.finished) > 0:
            _finish(steps, filled, agenda, now)
        elif until >= 0 and len(agenda.events) > 0 and agenda.events[0][0] <= until:
            now = _happen(steps, filled, agenda)
        elif len(agenda.todo) > 0:
            until = -1.0  # what begins now is over in a later moment
            _go_on(steps, filled, agenda, now)
        elif len(agenda.freed) > 0 or len(agenda.candidates) > 0:
            until = -1.0
            _free_ports(agenda)
            while len(agenda.candidates) > 0:
                _let_in(steps, filled, agenda, now)
        elif len(agenda.events) > 0:
            until = agenda.events[0][0] + _MOMENT_US + _FLOAT_ERROR * agenda.events[0][0]
        else:
            return filled.ready_us, filled.start_us, filled.end_us, filled.done_us, filled.port_busy_us


def _nothing_filled(steps: Steps, slots: int, num_connections: int, num_ports: int) -> _Filled:
    num = len(steps.block)
    return _Filled(
        [0.0] * num,
        [-1.0] * num,
        [-1.0] * num,
        [-1.0] * num,
        [0.0] * num_ports,
        [False] * num,
        [False] * num,
        [False] * num,
        [steps.num_waits[step] for step in range(num)],
        [slots] * num_connections,
        [-1] * num_connections,
    )


def _first_agenda(num_ports: int) -> _Agenda:
    """Empty lists, each with one element cut off, from which numba sees what they will hold."""
    return _Agenda(
        [(0.0, 0, 0)][:0],
        [(0.0, 0, 0, 0, 0)][:0],
        [[(0.0, 0, 0, 0)][:0] for _ in range(num_ports)],
        [False] * num_ports,
        [0][:0],
        [0][:0],
        [0][:0],
        [0][:0],
    )


def _leave(steps: Steps, filled: _Filled, agenda: _Agenda, now: float) -> None:
    """A send takes its slots, and asks for its ports."""
    step = agenda.leaving.pop()
    connection = steps.sends_on[step]
    filled.queued[step] = True
    filled.waiting_for_room[connection] = -1
    filled.room[connection] -= steps.pieces[step]
    tick = int(now * _TICKS + 0.5)
    heapq.heappush(agenda.candidates, (-steps.urgency_us[step], tick, steps.block[step], step, -1))


def _finish(steps: Steps, filled: _Filled, agenda: _Agenda, now: float) -> None:
    """A step is done: its slots are free, who waited for it and the next of its thread block may go on."""
    step = agenda.finished.pop()
    filled.done_us[step] = now
    if steps.source[step] >= 0:
        connection = steps.receives_on[step]
        filled.room[connection] += steps.pieces[steps.source[step]]
        waiting = filled.waiting_for_room[connection]
        if waiting >= 0 and steps.pieces[waiting] <= filled.room[connection]:
            agenda.leaving.append(waiting)
    for entry in range(steps.first_waiter[step], steps.first_waiter[step + 1]):
        waiter = steps.waiters[entry]
        filled.missing[waiter] -= 1
        if filled.missing[waiter] == 0:
            agenda.todo.append(waiter)
    if step + 1 < len(steps.block) and steps.block[step + 1] == steps.block[step]:
        filled.reached[step + 1] = True
        filled.ready_us[step + 1] = now
        agenda.todo.append(step + 1)


def _happen(steps: Steps, filled: _Filled, agenda: _Agenda) -> float:
    """The next event; when it is."""
    now, kind, step = heapq.heappop(agenda.events)
    if kind == _PASSED:
        agenda.freed.append(step)  # a port
        return now
    if kind == _ARRIVED:
        filled.arrived[steps.target[step]] = True
        agenda.todo.append(steps.target[step])
        return now
    if kind == _SENT:
        for entry in range(steps.first_port[step], steps.end_port[step]):
            if steps.ports_us[entry] >= steps.busy_us[step]:
                agenda.freed.append(steps.ports[entry])
    agenda.finished.append(step)
    return now


def _go_on(steps: Steps, filled: _Filled, agenda: _Agenda, now: float) -> None:
    """A step that may be able to go on does, unless something is missing."""
    step = agenda.todo.pop()
    if filled.done_us[step] >= 0 or filled.queued[step] or not filled.reached[step]:
        return
    if filled.missing[step] > 0:
        return
    sent = steps.source[step]
    if sent >= 0:
        if filled.waiting_for_room[steps.receives_on[step]] == sent:
            agenda.leaving.append(sent)  # it is larger than its connection, and its receiver is here
        if not filled.arrived[step]:
            return
        filled.start_us[step] = max(filled.ready_us[step], filled.start_us[sent])
    if steps.sends_on[step] >= 0:
        _send(steps, filled, agenda, step)
    elif sent < 0 and steps.local_us[step] > 0:
        if filled.start_us[step] < 0:
            filled.start_us[step] = now
            filled.end_us[step] = now + steps.local_us[step]
            heapq.heappush(agenda.events, (filled.end_us[step], _COMPUTED, step))
    else:
        filled.end_us[step] = now
        if sent < 0:
            filled.start_us[step] = now
        agenda.finished.append(step)


def _send(steps: Steps, filled: _Filled, agenda: _Agenda, step: int) -> None:
    """A send leaves if its connection has room, or if the receiver is there to take it."""
    connection, taker = steps.sends_on[step], steps.target[step]
    is_awaited = filled.reached[taker] and filled.missing[taker] == 0
    if steps.pieces[step] <= filled.room[connection] or is_awaited:
        agenda.leaving.append(step)
    else:
        filled.waiting_for_room[connection] = step


def _free_ports(agenda: _Agenda) -> None:
    """The first send that waits for each port that came free wants its ports again."""
    for port in agenda.freed:
        agenda.port_taken[port] = False
    for port in agenda.freed:
        _ask_again(agenda, port)
    agenda.freed.clear()


def _ask_again(agenda: _Agenda, port: int) -> None:
    if len(agenda.port_queue[port]) > 0:
        way, tick, block, step = heapq.heappop(agenda.port_queue[port])
        heapq.heappush(agenda.candidates, (way, tick, block, step, port))


def _let_in(steps: Steps, filled: _Filled, agenda: _Agenda, now: float) -> None:
    """The first send that wants ports begins, or waits for the first of them that is taken."""
    way, tick, block, step, offered = heapq.heappop(agenda.candidates)
    taken = -1
    for entry in range(steps.first_port[step], steps.end_port[step]):
        if taken < 0 and agenda.port_taken[steps.ports[entry]]:
            taken = steps.ports[entry]
    if taken >= 0:
        heapq.heappush(agenda.port_queue[taken], (way, tick, block, step))
    else:
        for entry in range(steps.first_port[step], steps.end_port[step]):
            agenda.port_taken[steps.ports[entry]] = True
            filled.port_busy_us[steps.ports[entry]] += steps.ports_us[entry]
            if steps.ports_us[entry] < steps.busy_us[step]:
                heapq.heappush(agenda.events, (now + steps.ports_us[entry], _PASSED, steps.ports[entry]))
        filled.start_us[step] = now
        filled.end_us[step] = now + steps.busy_us[step] + steps.latency_us[step]
        heapq.heappush(agenda.events, (now + steps.busy_us[step], _SENT, step))
        heapq.heappush(agenda.events, (filled.end_us[step], _ARRIVED, step))
    if offered >= 0 and not agenda.port_taken[offered]:
        _ask_again(agenda, offered)


run_events = Loop(
    _run,
    (
        *(_nothing_filled, _first_agenda, _leave, _finish, _happen),
        *(_go_on, _send, _free_ports, _ask_again, _let_in),
    ),
)
