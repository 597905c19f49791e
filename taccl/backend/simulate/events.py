"""The events of a simulation, one after the other, as a loop over columns (the rules are in `simulator`).

It knows steps, connections and ports by number, and times; it must not know programs and networks.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from taccl.support.jit import Loop

#: Events closer than this, plus float error, are one moment (microseconds).
_MOMENT_US = 1e-9
_FLOAT_ERROR = 1e-13

#: Kinds of event: a send has left its ports, a receiver has it, a local step is done; a send has left a
#: port that is faster than its link (the event has the port in place of the step).
_SENT, _ARRIVED, _COMPUTED, _PASSED = range(4)

#: Moments of getting ready are compared in millionths of a microsecond.
_TICKS = 1e6


def _run(
    first_of_block: Sequence[int],
    block: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    receives_on: Sequence[int],
    sends_on: Sequence[int],
    busy_us: Sequence[float],
    latency_us: Sequence[float],
    local_us: Sequence[float],
    pieces: Sequence[int],
    urgency_us: Sequence[float],
    num_waits: Sequence[int],
    first_waiter: Sequence[int],
    waiters: Sequence[int],
    first_port: Sequence[int],
    end_port: Sequence[int],
    ports: Sequence[int],
    ports_us: Sequence[float],
    slots: int,
    num_connections: int,
    num_ports: int,
) -> tuple[list[float], list[float], list[float], list[float], list[float]]:
    """When each step is ready, starts, ends and is done, and for how long each port is busy.

    Parameters
    ----------
    source, target : the send that a receive takes and the receive that takes a send, or -1.
    num_waits : how many steps each waits for.
    first_waiter, waiters : those that wait for step k begin at waiters[first_waiter[k]].
    first_port, end_port, ports, ports_us : what step k sends through, and how long it keeps each, stands at
        [first_port[k]] up to [end_port[k]] of the other two.
    """
    steps = len(block)
    room, waiting_for_room = [slots] * num_connections, [-1] * num_connections
    missing = [num_waits[row] for row in range(steps)]
    reached, arrived, queued = [False] * steps, [False] * steps, [False] * steps
    ready_us, start_us = [0.0] * steps, [-1.0] * steps
    end_us, done_us = [-1.0] * steps, [-1.0] * steps
    port_taken, port_busy_us = [False] * num_ports, [0.0] * num_ports
    # Empty lists, each with one element cut off, from which numba sees what they will hold.
    # Who waits for each port, the first in front: - urgency, when it got ready, block, step.
    port_queue = [[(0.0, 0, 0, 0)][:0] for _ in range(num_ports)]
    candidates = [(0.0, 0, 0, 0, 0)][:0]  # the same, and the free port that has let it in
    events = [(0.0, 0, 0)][:0]  # time, kind, step or port
    todo: list[int] = []  # steps that may be able to go on
    leaving: list[int] = []  # sends that only their ports keep waiting from now on
    finished: list[int] = []
    freed: list[int] = []  # ports
    for number in range(len(first_of_block) - 1):
        if first_of_block[number] < first_of_block[number + 1]:
            reached[first_of_block[number]] = True
            todo.append(first_of_block[number])
    now, until = 0.0, -1.0
    while True:
        # All that needs no time comes before all that does, and what follows from an event before the next.
        if len(leaving) > 0:
            row = leaving.pop()
            queued[row] = True
            waiting_for_room[sends_on[row]] = -1
            room[sends_on[row]] -= pieces[row]
            tick = int(now * _TICKS + 0.5)
            heapq.heappush(candidates, (-urgency_us[row], tick, block[row], row, -1))
        elif len(finished) > 0:
            row = finished.pop()
            done_us[row] = now
            if source[row] >= 0:
                connection = receives_on[row]
                room[connection] += pieces[source[row]]
                waiting = waiting_for_room[connection]
                if waiting >= 0 and pieces[waiting] <= room[connection]:
                    leaving.append(waiting)
            for place in range(first_waiter[row], first_waiter[row + 1]):
                waiter = waiters[place]
                missing[waiter] -= 1
                if missing[waiter] == 0:
                    todo.append(waiter)
            if row + 1 < steps and block[row + 1] == block[row]:
                reached[row + 1] = True
                ready_us[row + 1] = now
                todo.append(row + 1)
        elif until >= 0 and len(events) > 0 and events[0][0] <= until:
            now, kind, row = heapq.heappop(events)
            if kind == _SENT:
                for place in range(first_port[row], end_port[row]):
                    if ports_us[place] >= busy_us[row]:
                        freed.append(ports[place])
                finished.append(row)
            elif kind == _PASSED:
                freed.append(row)
            elif kind == _ARRIVED:
                arrived[target[row]] = True
                todo.append(target[row])
            else:
                finished.append(row)
        elif len(todo) > 0:
            until = -1.0  # what begins now is over in a later moment
            row = todo.pop()
            if done_us[row] >= 0 or queued[row] or not reached[row] or missing[row] > 0:
                continue
            sent, connection = source[row], sends_on[row]
            if sent >= 0:
                if waiting_for_room[receives_on[row]] == sent:
                    leaving.append(sent)  # it is larger than its connection, and its receiver is here
                if not arrived[row]:
                    continue
                start_us[row] = max(ready_us[row], start_us[sent])
            if connection >= 0:
                taker = target[row]
                if pieces[row] <= room[connection] or (reached[taker] and missing[taker] == 0):
                    leaving.append(row)
                else:
                    waiting_for_room[connection] = row
            elif sent < 0 and local_us[row] > 0:
                if start_us[row] < 0:
                    start_us[row] = now
                    end_us[row] = now + local_us[row]
                    heapq.heappush(events, (end_us[row], _COMPUTED, row))
            else:
                end_us[row] = now
                if sent < 0:
                    start_us[row] = now
                finished.append(row)
        elif len(freed) > 0 or len(candidates) > 0:
            until = -1.0
            for port in freed:
                port_taken[port] = False
            for port in freed:
                if len(port_queue[port]) > 0:
                    way, tick, who, row = heapq.heappop(port_queue[port])
                    heapq.heappush(candidates, (way, tick, who, row, port))
            freed.clear()
            while len(candidates) > 0:
                way, tick, who, row, offered = heapq.heappop(candidates)
                taken = -1
                for place in range(first_port[row], end_port[row]):
                    if taken < 0 and port_taken[ports[place]]:
                        taken = ports[place]
                if taken >= 0:
                    heapq.heappush(port_queue[taken], (way, tick, who, row))
                else:
                    for place in range(first_port[row], end_port[row]):
                        port_taken[ports[place]] = True
                        port_busy_us[ports[place]] += ports_us[place]
                        if ports_us[place] < busy_us[row]:
                            heapq.heappush(events, (now + ports_us[place], _PASSED, ports[place]))
                    start_us[row] = now
                    end_us[row] = now + busy_us[row] + latency_us[row]
                    heapq.heappush(events, (now + busy_us[row], _SENT, row))
                    heapq.heappush(events, (end_us[row], _ARRIVED, row))
                if offered >= 0 and not port_taken[offered] and len(port_queue[offered]) > 0:
                    way, tick, who, row = heapq.heappop(port_queue[offered])
                    heapq.heappush(candidates, (way, tick, who, row, offered))
        elif len(events) > 0:
            until = events[0][0] + _MOMENT_US + _FLOAT_ERROR * events[0][0]
        else:
            return ready_us, start_us, end_us, done_us, port_busy_us


run_events = Loop(_run)
