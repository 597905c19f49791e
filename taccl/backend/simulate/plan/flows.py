"""Bytes on their way: flows that share links and ports, and the clock.

All flows on a port get equal shares of it, and a flow is as fast as the most crowded of its link's ports lets
it be; flows of one thread block share what the block can move, where that is known. Flows that come and go at
one moment change the shares of the others once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.units import MB

Done = Callable[[], None]


@dataclass(eq=False, slots=True)
class LinkFlow:
    """Bytes on a link; `left` of them at `since_us`, and `version` tells old predictions of its end."""

    link: int
    mover: object | None
    left: float
    done: Done
    since_us: float = 0.0
    us_per_byte: float = 0.0
    version: int = 0


@dataclass(eq=False)
class FlowClock:
    """What happens when.

    Parameters
    ----------
    topology : links and ports.
    mover_us_per_byte : what a byte costs whoever moves it, such as a thread block.
    """

    topology: LogicalTopology
    mover_us_per_byte: float = 0.0
    now_us: float = 0.0
    port_bytes: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        topology = self.topology
        links, ports = topology.incidence
        self._pairs: list[list[tuple[int, float]]] = [[] for _ in range(topology.num_links)]
        for link, port, beta in zip(
            links.tolist(), ports.tolist(), topology.pair_betas.tolist(), strict=True
        ):
            self._pairs[link].append((port, beta / MB))
        self.port_bytes = np.zeros(topology.num_ports)
        self._on_port: dict[int, dict[LinkFlow, None]] = {}
        self._of_mover: dict[object, dict[LinkFlow, None]] = {}
        # Where flows came or went at this moment.
        self._changed_ports: dict[int, None] = {}
        self._changed_movers: dict[object, None] = {}
        self._events: list[tuple[float, int, LinkFlow | None, int, Done]] = []
        self._number = count()

    def at(self, when_us: float, done: Done) -> None:
        """Do something at a moment."""
        heapq.heappush(self._events, (when_us, next(self._number), None, 0, done))

    def move(self, link: int, size: float, mover: object | None, done: Done) -> None:
        """Put bytes on a link; `done` is called when the last of them has left."""
        if size <= 0:
            self.at(self.now_us, done)
            return
        flow = LinkFlow(link, mover, size, done, self.now_us)
        for port, _ in self._pairs[link]:
            self._on_port.setdefault(port, {})[flow] = None
            self.port_bytes[port] += size
        if mover is not None:
            self._of_mover.setdefault(mover, {})[flow] = None
        self._note(flow)

    def run(self) -> None:
        """Until nothing more happens."""
        while self._events or self._changed_ports:
            if self._changed_ports and not (self._events and self._events[0][0] <= self.now_us):
                self._share_anew()
                continue
            when_us, _, flow, version, done = heapq.heappop(self._events)
            if flow is not None:
                if flow.version != version:
                    continue
                self._leaves(flow, when_us)
            self.now_us = when_us
            done()

    def _leaves(self, flow: LinkFlow, when_us: float) -> None:
        self.now_us = when_us
        flow.version += 1
        for port, _ in self._pairs[flow.link]:
            self._on_port[port].pop(flow, None)
        if flow.mover is not None:
            self._of_mover[flow.mover].pop(flow, None)
        self._note(flow)

    def _note(self, flow: LinkFlow) -> None:
        for port, _ in self._pairs[flow.link]:
            self._changed_ports[port] = None
        if flow.mover is not None:
            self._changed_movers[flow.mover] = None

    def _share_anew(self) -> None:
        """New rates for all that share something with flows that came or went."""
        touched: dict[LinkFlow, None] = {}
        for port in self._changed_ports:
            touched |= self._on_port[port]
        for mover in self._changed_movers:
            touched |= self._of_mover[mover]
        self._changed_ports.clear()
        self._changed_movers.clear()
        for flow in touched:
            cost = max(
                (each * len(self._on_port[port]) for port, each in self._pairs[flow.link]), default=0.0
            )
            if flow.mover is not None:
                cost = max(cost, self.mover_us_per_byte * len(self._of_mover[flow.mover]))
            if flow.us_per_byte > 0:
                flow.left = max(0.0, flow.left - (self.now_us - flow.since_us) / flow.us_per_byte)
            flow.since_us, flow.us_per_byte = self.now_us, cost
            flow.version += 1
            heapq.heappush(
                self._events,
                (self.now_us + flow.left * cost, next(self._number), flow, flow.version, flow.done),
            )
