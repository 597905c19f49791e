"""Event simulation of a program: thread blocks, waits, connections, ports.

- A thread block runs its steps in order; a step waits for what it depends on.
- A send starts when its connection has room for it (or, if it is larger than that, when its receiver is
  there to take it) and all ports of its link are free. It keeps each of these for as long as `occupancy`
  and its rate say, its thread block for as long as the slowest, and its receiver has the data at its end.
- A receive is done at the end of what it takes, and then gives the room back.
- A fused step receives, then sends, each as above: the cost model knows no cut-through between steps.
- A port goes to the most urgent send, the one with the longest way behind it to the end of the program;
  of equals, to the one that was ready first, then to the lower rank and thread block. A send that another
  port keeps waiting does not reserve this one. Instances that share a port are equals, so they take
  turns.
- Local steps and nops take no time, unless copies are given a cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from taccl.backend.program import Program, Protocol
from taccl.backend.simulate.costs import OVERHEAD, Costs, costs_of
from taccl.backend.simulate.matched import hang, matched
from taccl.backend.simulate.simulation import Simulation
from taccl.backend.simulate.urgency import DECIMALS, urgency_us
from taccl.backend.verify.connections import Connections
from taccl.backend.verify.executed_steps import ExecutedSteps
from taccl.backend.verify.execution import execute
from taccl.collective import IntArray
from taccl.collector import collector_at_rest
from taccl.errors import TacclError
from taccl.network import LogicalTopology

Arbitration = Literal["urgent", "first-come"]

#: Events closer than this, plus float error, are one moment (microseconds).
_MOMENT_US = 1e-9
_FLOAT_ERROR = 1e-13

#: Kinds of event: a send has left its ports, a receiver has it, a local step is done; a send has left a
#: port that is faster than its link (the event has the port in place of the step).
_SENT, _ARRIVED, _COMPUTED, _PASSED = range(4)

#: Which send a port serves first: (- urgency, moment at which it got ready, block row, step)
Turn = tuple[float, float, int, int]


@collector_at_rest()
def simulate_program(
    program: Program,
    topology: LogicalTopology,
    chunk_mb: float,
    *,
    protocol: Protocol | None = None,
    slots: int | None = None,
    arbitration: Arbitration = "urgent",
    copy_us_per_mb: float = 0.0,
) -> Simulation:
    """Run a program once under the cost model.

    Parameters
    ----------
    chunk_mb : MB of one chunk of the program.
    protocol : run it as if the file asked for this one, and let its flags take their share of every
        link's bandwidth. By default the protocol of the file, with no such share: so the time is that
        of the cost model, which schedules are made for.
    slots : pieces that a connection holds; by default what the protocol has.
    arbitration : whom a port serves first, the most `urgent` send or the `first-come`. A file cannot say
        in which order sends of several ranks share a port, so a schedule's order may be lost.
    copy_us_per_mb : what local copies and additions take. The cost model says nothing.

    Raises
    ------
    VerificationError : steps without another end or without chunks, or a hang (with the cycle).
    TopologyError : a send between ranks that no link joins, or another number of ranks.
    """
    if not chunk_mb > 0 or not copy_us_per_mb >= 0 or (slots is not None and slots < 1):
        raise TacclError("chunks must be larger than 0 MB, copies take 0 us/MB or more, slots be 1 or more")
    executed, connections = matched(program, topology)
    costs = costs_of(
        executed,
        connections,
        topology,
        chunk_mb,
        program.protocol if protocol is None else protocol,
        1.0 if protocol is None else OVERHEAD[protocol],
        slots,
        copy_us_per_mb,
    )
    order = _execute(executed, connections, costs)
    urgency = urgency_us(executed, connections, costs, order)
    if arbitration == "first-come":
        urgency = [0.0] * len(executed)
    run = _Run(executed, connections, topology, costs, urgency)
    run.all_events()
    return run.simulation(program, chunk_mb)


def _execute(executed: ExecutedSteps, connections: Connections, costs: Costs) -> IntArray:
    """Steps in an order in which they can be done; an error if there is none."""
    outcome = execute(executed, connections, costs.slots, costs.chunks_per_piece)
    if outcome.ends:
        return outcome.order
    raise hang(executed, connections, costs.slots, costs.chunks_per_piece)


class _Run:
    """Lists over steps, connections and ports; steps are executed ones, which do something."""

    def __init__(
        self,
        executed: ExecutedSteps,
        connections: Connections,
        topology: LogicalTopology,
        costs: Costs,
        urgency_us: list[float],
    ) -> None:
        self.executed, self.topology, self.costs = executed, topology, costs
        number = len(executed)
        self.block: list[int] = executed.block.tolist()
        self.last = [False] * number
        for end in executed.first_of_block[1:].tolist():
            if end:
                self.last[end - 1] = True
        self.source: list[int] = connections.source.tolist()
        self.target = [-1] * number
        for row, source in enumerate(self.source):
            if source >= 0:
                self.target[source] = row
        self.sends_on: list[int] = connections.sends_on.tolist()
        self.receives_on: list[int] = connections.receives_on.tolist()
        self.link: list[int] = costs.link.tolist()
        self.busy_us: list[float] = costs.busy_us.tolist()
        self.ports_us = costs.ports_us
        self.latency_us: list[float] = costs.latency_us.tolist()
        self.local_us: list[float] = costs.local_us.tolist()
        self.pieces: list[int] = costs.pieces.tolist()
        self.room = [costs.slots] * len(connections.keys)
        self.waiting_for_room = [-1] * len(connections.keys)
        self.missing = [len(set(waits)) for waits in executed.waits]
        self.waiters: dict[int, list[int]] = {}
        for row, waits in enumerate(executed.waits):
            for wait in set(waits):
                self.waiters.setdefault(wait, []).append(row)
        self.reached = [False] * number
        self.arrived = [False] * number
        self.queued = [False] * number  # for its ports
        self.ready_us = [0.0] * number
        self.start_us = [-1.0] * number
        self.end_us = [-1.0] * number
        self.done_us = [-1.0] * number
        self.urgency_us = urgency_us
        self.now = 0.0
        self.events: list[tuple[float, int, int]] = []
        self.todo: list[int] = []  # steps that may be able to go on
        self.port_taken = [False] * topology.num_ports
        self.port_busy_us = [0.0] * topology.num_ports
        self.port_queue: list[list[Turn]] = [[] for _ in range(topology.num_ports)]
        self.candidates: list[tuple[Turn, int]] = []  # with the free port that each was taken from

    def all_events(self) -> None:
        first = self.executed.first_of_block.tolist()
        for start, end in pairwise(first):
            if start < end:
                self._reach(start)
        self._settle()
        while self.events:
            self.now = self.events[0][0]
            until = self.now + _MOMENT_US + _FLOAT_ERROR * self.now
            freed: list[int] = []
            while self.events and self.events[0][0] <= until:
                self.now, kind, row = heapq.heappop(self.events)
                if kind == _SENT:
                    freed += self._slow_ports(row)
                    self._done(row)
                elif kind == _PASSED:
                    freed.append(row)
                elif kind == _ARRIVED:
                    self.arrived[self.target[row]] = True
                    self.todo.append(self.target[row])
                else:
                    self._done(row)
            for port in freed:
                self.port_taken[port] = False
            self._settle(freed)

    def _settle(self, freed: Sequence[int] = ()) -> None:
        """All that can happen at this moment without time passing; then ports go to who is first."""
        todo = self.todo
        while todo:
            self._try(todo.pop())
        for port in freed:
            self._offer(port)
        while self.candidates:
            turn, offered = heapq.heappop(self.candidates)
            row = turn[-1]
            ports = self.topology.ports[self.link[row]]
            taken = next((port for port in ports if self.port_taken[port]), None)
            if taken is None:
                self._start(row, ports)
            else:
                heapq.heappush(self.port_queue[taken], turn)
            if offered >= 0:
                self._offer(offered)

    def _offer(self, port: int) -> None:
        """A free port to the first that waits for it."""
        if not self.port_taken[port] and self.port_queue[port]:
            heapq.heappush(self.candidates, (heapq.heappop(self.port_queue[port]), port))

    def _start(self, row: int, ports: Sequence[int]) -> None:
        busy, now = self.busy_us[row], self.now
        ports_us = [busy] * len(ports) if self.ports_us is None else self.ports_us[row]
        for port, busy_us in zip(ports, ports_us, strict=True):
            self.port_taken[port] = True
            self.port_busy_us[port] += busy_us
            if busy_us < busy:
                heapq.heappush(self.events, (now + busy_us, _PASSED, port))
        self.start_us[row] = now
        self.end_us[row] = now + busy + self.latency_us[row]
        heapq.heappush(self.events, (now + busy, _SENT, row))
        heapq.heappush(self.events, (self.end_us[row], _ARRIVED, row))

    def _slow_ports(self, row: int) -> Sequence[int]:
        """The ports that a send keeps as long as its thread block."""
        ports, busy = self.topology.ports[self.link[row]], self.busy_us[row]
        if self.ports_us is None:
            return ports
        return [port for port, busy_us in zip(ports, self.ports_us[row], strict=True) if busy_us >= busy]

    def _reach(self, row: int) -> None:
        self.reached[row] = True
        self.ready_us[row] = self.now
        self.todo.append(row)

    def _try(self, row: int) -> None:
        """Go on with a step that its thread block has come to, as far as nothing keeps it."""
        if self.done_us[row] >= 0 or self.queued[row] or not self.reached[row] or self.missing[row]:
            return
        source = self.source[row]
        if source >= 0:
            waiting = self.waiting_for_room[self.receives_on[row]]
            if waiting == source:
                self._queue(waiting)  # it is larger than its connection, and its receiver is here
            if not self.arrived[row]:
                return
            self.start_us[row] = max(self.ready_us[row], self.start_us[source])
        connection = self.sends_on[row]
        if connection >= 0:
            target = self.target[row]
            if self.pieces[row] <= self.room[connection] or self._is_taken(target):
                self._queue(row)
            else:
                self.waiting_for_room[connection] = row
        elif source < 0 and self.local_us[row] > 0:
            if self.start_us[row] < 0:
                self.start_us[row] = self.now
                self.end_us[row] = self.now + self.local_us[row]
                heapq.heappush(self.events, (self.end_us[row], _COMPUTED, row))
        else:
            self.end_us[row] = self.now
            if source < 0:
                self.start_us[row] = self.now
            self._done(row)

    def _is_taken(self, target: int) -> bool:
        return self.reached[target] and not self.missing[target]

    def _queue(self, row: int) -> None:
        """A send that only its ports keep waiting."""
        connection = self.sends_on[row]
        self.queued[row] = True
        self.waiting_for_room[connection] = -1
        self.room[connection] -= self.pieces[row]
        turn = (-self.urgency_us[row], round(self.now, DECIMALS), self.block[row], row)
        heapq.heappush(self.candidates, (turn, -1))

    def _done(self, row: int) -> None:
        """A thread block is done with a step."""
        self.done_us[row] = self.now
        source = self.source[row]
        if source >= 0:
            connection = self.receives_on[row]
            self.room[connection] += self.pieces[source]
            waiting = self.waiting_for_room[connection]
            if waiting >= 0 and self.pieces[waiting] <= self.room[connection]:
                self._queue(waiting)
        for waiter in self.waiters.get(row, ()):
            self.missing[waiter] -= 1
            if not self.missing[waiter]:
                self.todo.append(waiter)
        if not self.last[row]:
            self._reach(row + 1)

    def simulation(self, program: Program, chunk_mb: float) -> Simulation:
        columns, rows = self.executed.columns, self.executed.step
        link, source = np.array(self.link, dtype=np.int64), np.array(self.source, dtype=np.int64)
        return Simulation(
            program=program,
            topology=self.topology,
            chunk_mb=chunk_mb,
            time_us=max(max(self.end_us, default=0.0), max(self.done_us, default=0.0)),
            rank=columns.block_rank[self.executed.block],
            thread_block=columns.block_id[self.executed.block],
            step=columns.position[rows],
            link=np.where((link < 0) & (source >= 0), link[source], link),
            ready_us=np.array(self.ready_us),
            start_us=np.array(self.start_us),
            end_us=np.array(self.end_us),
            done_us=np.array(self.done_us),
            source=source,
            port_busy_us=np.array(self.port_busy_us),
        )
