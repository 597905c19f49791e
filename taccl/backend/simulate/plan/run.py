"""A call while it happens: who waits for what, signals and packets under way, and port channels in time.

One proxy for each rank takes pushes in turn; each port channel moves them in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from taccl.backend.faces import faces_of
from taccl.backend.plan import Channel, ChannelEnd, ExecutionPlan, ends_of
from taccl.backend.simulate.plan.flows import Done, FlowClock
from taccl.backend.simulate.plan.record import Record
from taccl.backend.simulate.plan.work import Packets
from taccl.errors import TopologyError
from taccl.model.executor import ProtocolCosts
from taccl.model.network import LogicalTopology

#: Whoever waits hands over what is to be called when it may go on.
Arrange = Callable[[Done], None]


class PlanRun:
    """What blocks and ports have in common."""

    def __init__(
        self,
        plan: ExecutionPlan,
        topology: LogicalTopology,
        chunk: float,
        costs: ProtocolCosts | None,
        proxy_us: float,
        copy_us_per_byte: float,
    ) -> None:
        self.plan, self.topology, self.chunk = plan, topology, chunk
        self.costs, self.proxy_us, self.copy_us_per_byte = costs, proxy_us, copy_us_per_byte
        self.executor = topology.executor if costs is not None else None
        self.clock = FlowClock(topology, 0.0 if costs is None else costs.block_us_per_byte)
        self.faces = faces_of(topology)
        self.ends = ends_of(plan)
        count = sum(map(len, self.ends.values()))
        self.come, self.awaited = [0] * count, [0] * count
        self.semaphores = [list(rank.semaphores) for rank in plan.ranks]
        self.barriers: dict[tuple[int, int], list[tuple[int, Done]]] = {}
        self.packets = [Packets() for _ in plan.ranks]
        self.ports = {
            end.number: Port(self, end)
            for (_, kind), ends in self.ends.items()
            if kind is Channel.PORT
            for end in ends
        }
        self.proxy_free_us = [0.0] * plan.num_ranks
        self.waiting: dict[object, list[tuple[int, Callable[[], bool], Done]]] = {}
        self.record = Record()

    def resume(self, acts: Iterator[Arrange]) -> None:
        """Go on with what a block does, until it has to wait."""
        arrange = next(acts, None)
        if arrange is not None:
            arrange(lambda: self.resume(acts))

    def alpha_us(self, *ranks: int) -> float:
        """From the end of what the first rank sends until the last sees it, by way of those in between."""
        links = self.topology.link_index
        if len(ranks) == 2 and ranks[0] == ranks[1]:
            return 0.0
        total_us = 0.0 if self.costs is None else self.costs.hop_us
        for source, target in pairwise(ranks):
            link = links.get((source, target), links.get((target, source)))
            if link is None:
                raise self.no_link(source, target)
            total_us += float(self.topology.alpha_us[link])
        return total_us

    def link(self, source: int, target: int) -> int:
        """The link from one rank to another."""
        link = self.topology.link_index.get((source, target))
        if link is None:
            raise self.no_link(source, target)
        return int(link)

    def no_link(self, source: int, target: int) -> TopologyError:
        """What is reported where ranks are not joined."""
        return TopologyError(
            f"the plan moves data from rank {source} to rank {target}, but {self.topology.name} has no link "
            "between them",
            hint="the topology that the plan was made for; without a sketch, all its links are there",
        )

    def wait_for(self, act: int, key: object, is_over: Callable[[], bool]) -> Arrange:
        """Until something is over, which changes of `key` may bring about."""

        def arrange(go_on: Done) -> None:
            if is_over():
                self.clock.at(self.clock.now_us, go_on)
            else:
                self.waiting.setdefault(key, []).append((act, is_over, go_on))

        return arrange

    def changed(self, key: object, by: int) -> None:
        """Let those go on whose waits are over."""
        for act, is_over, go_on in self.waiting.pop(key, []):
            if is_over():
                self.record.released(act, by)
                self.clock.at(self.clock.now_us, go_on)
            else:
                self.waiting.setdefault(key, []).append((act, is_over, go_on))

    def signal(self, end: ChannelEnd, by: int) -> None:
        """Send a signal to the other end."""
        other = end.other
        if other is None:
            return

        def arrives() -> None:
            self.come[other] += 1
            self.changed(("signal", other), by)

        self.clock.at(self.clock.now_us + self.alpha_us(end.rank, end.peer), arrives)

    def has_come(self, end: int, count: int) -> bool:
        """Whether this many signals have come to an end."""
        return self.come[end] >= count

    def store_packets(self, rank: int, first: float, size: float, delay_us: float, by: int) -> None:
        """Packets are there for whoever reads them, after a while."""

        def arrives() -> None:
            self.record.lands(by, self.clock.now_us)
            self.packets[rank].add(first, first + size)
            self.changed(("packets", rank), by)

        self.clock.at(self.clock.now_us + delay_us, arrives)

    def lands(self, by: int, delay_us: float) -> None:
        """The last byte of something comes after a while."""
        self.record.lands(by, self.clock.now_us + delay_us)


@dataclass(frozen=True, slots=True)
class _Pushed:
    """What a port channel does next, requested by an act: a transfer, or a signal (no size)."""

    by: int
    ready_us: float
    link: int | None = None
    size: float = 0.0
    packets: tuple[int, float, float] | None = None


class Port:
    """A port channel: transfers one after another, with signals in between."""

    def __init__(self, run: PlanRun, end: ChannelEnd) -> None:
        self.run, self.end = run, end
        self.queue: deque[_Pushed] = deque()
        self.pushed = self.done = 0
        self.is_busy = False

    def push(
        self, by: int, link: int | None, size: float, packets: tuple[int, float, float] | None = None
    ) -> None:
        """Ask for a transfer, or for a signal after all that was requested before."""
        run, rank = self.run, self.end.rank
        ready_us = max(run.clock.now_us, run.proxy_free_us[rank]) + run.proxy_us
        run.proxy_free_us[rank] = ready_us
        self.queue.append(_Pushed(by, ready_us, link, size, packets))
        self.pushed += 1
        self._next()

    def _next(self) -> None:
        if self.is_busy or not self.queue:
            return
        self.is_busy = True
        requested = self.queue.popleft()
        self.run.clock.at(max(self.run.clock.now_us, requested.ready_us), lambda: self._begin(requested))

    def _begin(self, requested: _Pushed) -> None:
        if requested.link is None:
            self.run.signal(self.end, requested.by)
            self._over(requested.by, 0.0)
        else:
            sent = partial(self._sent, requested, requested.link, self.run.clock.now_us)
            self.run.clock.move(requested.link, requested.size, None, sent)

    def _sent(self, requested: _Pushed, link: int, start_us: float) -> None:
        run = self.run
        alpha_us = run.alpha_us(self.end.rank, self.end.peer)
        run.record.moved(requested.by, link, requested.size, start_us, run.clock.now_us, self.end.number)
        run.lands(requested.by, alpha_us)
        if requested.packets is not None:
            run.store_packets(*requested.packets, alpha_us, requested.by)
        self._over(requested.by, alpha_us)

    def has_done(self, count: int) -> bool:
        """Whether so much of what was requested is over."""
        return self.done >= count

    def _over(self, by: int, reported_after_us: float) -> None:
        """The next may begin; who flushes is reported that this has arrived."""

        def reported() -> None:
            self.done += 1
            self.run.changed(("port", self.end.number), by)

        self.run.clock.at(self.run.clock.now_us + reported_after_us, reported)
        self.is_busy = False
        self._next()
