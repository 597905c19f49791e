"""One call of a plan, event by event: blocks, signals, packets, proxies. The model is in docs/simulate.md.

A thread block does one operation after another, and a wait blocks all of it. What is right about a plan it
must not know; one that hangs has no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from taccl.backend.execute_plan.memory import End, ends_of
from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName
from taccl.backend.simulate_plan.flows import Clock, Done
from taccl.backend.simulate_plan.ports import Port
from taccl.backend.simulate_plan.work import Packets, Work, work_of
from taccl.backend.verify_plan.signatures import PUTTING
from taccl.backend.verify_plan.subject import At
from taccl.collective import IntArray
from taccl.errors import TopologyError, VerificationError
from taccl.executor import ProtocolCosts
from taccl.network import FloatArray, LogicalTopology
from taccl.units import MB

#: Whoever waits hands over what is to be called when it may go on.
_Arrange = Callable[[Done], None]
_SIGNALS = (OpName.SIGNAL, OpName.RELAXED_SIGNAL)
_WAITS = (OpName.WAIT, OpName.RELAXED_WAIT)
_PUSHES = PUTTING | {OpName.PUT_PACKETS, OpName.READ_PUT_PACKETS}
_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class PlanSimulation:
    """One row per operation, by rank, thread block and place in the block; arrays of equal length.

    Parameters
    ----------
    plan, topology, chunk_mb : what ran where, with chunks of so many MB.
    time_us : from the call until the last block has ended and the last byte has come.
    launch_us : what of it passes before anything moves; None where the machine does not say what executing
        costs.
    rank, thread_block, step : which operation; a pipeline is one.
    start_us, end_us : when its block came to it, and when it went on.
    port_bytes : shape (num_ports,); what went through each port of `topology`.
    """

    plan: ExecutionPlan
    topology: LogicalTopology
    chunk_mb: float
    time_us: float
    launch_us: float | None
    rank: IntArray
    thread_block: IntArray
    step: IntArray
    start_us: FloatArray
    end_us: FloatArray
    port_bytes: FloatArray

    def __repr__(self) -> str:
        return f"PlanSimulation({self.plan.name}, {len(self.rank)} operations, {self.time_us:.2f} us)"


def simulate_plan(
    plan: ExecutionPlan,
    topology: LogicalTopology,
    chunk_mb: float,
    *,
    proxy_us: float = 0.0,
    links_only: bool = False,
) -> PlanSimulation:
    """Run one call of a plan on a network.

    Parameters
    ----------
    plan : one in which every number leads somewhere (`execute_plan.run.check_executable`).
    chunk_mb : MB of a chunk of the plan.
    proxy_us : what the proxy of a rank takes for each push into a port channel, one after another.
    links_only : whether to leave out what the machine says of its executor.

    Raises
    ------
    TopologyError : no link joins two ranks, or the executor says nothing about the plan's protocol.
    VerificationError : it hangs.
    """
    executor = None if links_only else topology.executor
    protocol = "LL" if plan.moves_packets else "Simple"
    costs = None if executor is None else executor.costs_of(protocol)
    if executor is not None:
        _check_blocks(plan, executor.thread_blocks)
    run = Run(plan, topology, chunk_mb * MB, costs, proxy_us)
    run.start()
    run.clock.run()
    stuck = [block for block in run.blocks if block.ended_us is None]
    if stuck:
        told = [f"{block.where()} waits for ever" for block in stuck]
        more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
        raise VerificationError(
            "the plan hangs, so it has no time",
            findings=[*told[:_SHOWN], *more],
            hint="taccl run tells what each waits for, taccl verify why",
        )
    rows = sorted((*block.key, *row) for block in run.blocks for row in block.rows)
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    launch_us = None if costs is None else costs.launch_us
    before_us = launch_us or 0.0
    return PlanSimulation(
        plan,
        topology,
        chunk_mb,
        run.last_us if costs is None else costs.call_us(run.last_us),
        launch_us,
        rank=np.array(columns[0], dtype=np.int64),
        thread_block=np.array(columns[1], dtype=np.int64),
        step=np.array(columns[2], dtype=np.int64),
        start_us=np.array(columns[3], dtype=np.float64) + before_us,
        end_us=np.array(columns[4], dtype=np.float64) + before_us,
        port_bytes=run.clock.port_bytes,
    )


def _check_blocks(plan: ExecutionPlan, available: int | None) -> None:
    """All thread blocks of a GPU wait for each other, so they have to run at once."""
    for rank in plan.ranks:
        if available is not None and len(rank.blocks) > available:
            raise VerificationError(
                f"rank {rank.rank} has {len(rank.blocks)} thread blocks, but a GPU of the machine runs "
                f"{available} at once: the plan would hang, so it has no time",
                hint="a plan with fewer thread blocks",
            )


class Run:
    """All that happens in a call, and what blocks and ports tell each other."""

    def __init__(
        self,
        plan: ExecutionPlan,
        topology: LogicalTopology,
        chunk: float,
        costs: ProtocolCosts | None,
        proxy_us: float,
    ) -> None:
        self.plan, self.topology, self.chunk = plan, topology, chunk
        self.costs, self.proxy_us = costs, proxy_us
        self.executor = topology.executor if costs is not None else None
        self.clock = Clock(topology, 0.0 if costs is None else costs.block_us_per_byte)
        self.ends = ends_of(plan)
        count = sum(map(len, self.ends.values()))
        self.come, self.awaited = [0] * count, [0] * count
        self.semaphores = [list(rank.semaphores) for rank in plan.ranks]
        self.barriers: dict[tuple[int, int], list[Done]] = {}
        self.packets = [Packets() for _ in plan.ranks]
        self.ports = {
            end.number: Port(self, end)
            for (_, kind), ends in self.ends.items()
            if kind is Channel.PORT
            for end in ends
        }
        self.proxy_free_us = [0.0] * plan.num_ranks
        self.waiting: dict[object, list[tuple[Callable[[], bool], Done]]] = {}
        self.last_us = 0.0
        self.blocks = [
            _Block(self, rank, number)
            for rank, each in enumerate(plan.ranks)
            for number in range(len(each.blocks))
        ]

    def start(self) -> None:
        for block in self.blocks:
            self.resume(block.run())

    def resume(self, acts: Iterator[_Arrange]) -> None:
        arrange = next(acts, None)
        if arrange is not None:
            arrange(lambda: self.resume(acts))

    def alpha_us(self, source: int, target: int) -> float:
        """From the end of what one rank sends until another sees it."""
        links = self.topology.link_index
        link = links.get((source, target), links.get((target, source)))
        if source == target:
            return 0.0
        if link is None:
            raise self.no_link(source, target)
        hop_us = 0.0 if self.costs is None else self.costs.hop_us
        return float(self.topology.alpha_us[link]) + hop_us

    def link(self, source: int, target: int) -> int:
        link = self.topology.link_index.get((source, target))
        if link is None:
            raise self.no_link(source, target)
        return int(link)

    def no_link(self, source: int, target: int) -> TopologyError:
        return TopologyError(
            f"the plan moves data from rank {source} to rank {target}, but {self.topology.name} has no link "
            "between them",
            hint="the topology that the plan was made for; without a sketch, all its links are there",
        )

    def wait_for(self, key: object, is_over: Callable[[], bool]) -> _Arrange:
        def arrange(go_on: Done) -> None:
            if is_over():
                self.clock.at(self.clock.now_us, go_on)
            else:
                self.waiting.setdefault(key, []).append((is_over, go_on))

        return arrange

    def changed(self, key: object) -> None:
        """Let those go on whose waits are over."""
        waiting = self.waiting.pop(key, [])
        for is_over, go_on in waiting:
            if is_over():
                self.clock.at(self.clock.now_us, go_on)
            else:
                self.waiting.setdefault(key, []).append((is_over, go_on))

    def signal(self, end: End) -> None:
        """Send a signal to the other end."""
        other = end.other
        if other is None:
            return

        def arrives() -> None:
            self.come[other] += 1
            self.changed(("signal", other))

        self.clock.at(self.clock.now_us + self.alpha_us(end.rank, end.peer), arrives)

    def store_packets(self, rank: int, first: float, size: float, delay_us: float) -> None:
        """Packets are there for whoever reads them, after a while."""

        def arrives() -> None:
            self.last_us = max(self.last_us, self.clock.now_us)
            self.packets[rank].add(first, first + size)
            self.changed(("packets", rank))

        self.clock.at(self.clock.now_us + delay_us, arrives)

    def lands(self, delay_us: float) -> None:
        """The last byte of something comes after a while."""
        self.last_us = max(self.last_us, self.clock.now_us + delay_us)


class _Block:
    """A thread block; `rows` holds place, start and end of each operation that is over."""

    def __init__(self, run: Run, rank: int, number: int) -> None:
        self.sim, self.rank, self.number = run, rank, number
        self.block = run.plan.ranks[rank].blocks[number]
        self.key = (rank, self.block.id)
        self.rows: list[tuple[int, float, float]] = []
        self.step = 0
        self.ended_us: float | None = None
        self.ends = {
            kind: [run.ends[rank, kind][each] for each in self.block.channels_of(kind)]
            for kind in (Channel.MEMORY, Channel.PORT)
        }

    def where(self) -> str:
        name = self.block.operations[self.step].name.value
        return f"rank {self.rank}, thread block {self.block.id}, operation {self.step} ({name})"

    def run(self) -> Iterator[_Arrange]:
        """All operations."""
        clock = self.sim.clock
        for step, operation in enumerate(self.block.operations):
            self.step = step
            start_us = clock.now_us
            if operation.name is OpName.PIPELINE and operation.turns is not None:
                unit = operation.turns.unit_bytes
                turns = -(-operation.turns.num_chunks * self.sim.chunk // unit)
                for turn in range(int(turns)):
                    for inner, each in enumerate(operation.inner):
                        yield from self._do(At(self.rank, self.number, step, inner, each), turn, unit)
            else:
                yield from self._do(At(self.rank, self.number, step, None, operation), 0, None)
            self.rows.append((step, start_us, clock.now_us))
        self.ended_us = clock.now_us
        self.sim.lands(0.0)

    def _do(self, at: At, turn: int, unit: int | None) -> Iterator[_Arrange]:
        operation, name = at.operation, at.operation.name
        if name in _SIGNALS:
            for number, end in self._ends(operation):
                if operation.channel is Channel.PORT:
                    self.sim.ports[number].push(None, 0.0)
                else:
                    self.sim.signal(end)
        elif name in _WAITS:
            for number, _ in self._ends(operation):
                self.sim.awaited[number] += 1
                mine = self.sim.awaited[number]
                yield self.sim.wait_for(
                    ("signal", number),
                    lambda n=number, m=mine: self.sim.come[n] >= m,  # type: ignore[misc]
                )
        elif name is OpName.BARRIER:
            yield from self._barrier(operation)
        elif name is OpName.RELEASE or name is OpName.ACQUIRE:
            yield from self._semaphores(operation)
        elif name is OpName.FLUSH:
            yield from self._flush(operation, min(len(operation.targets), len(operation.channels)))
        elif name is not OpName.NOP:
            yield from self._move(at, work_of(self.sim.plan, at, self.sim.chunk, turn, unit))

    def _ends(self, operation: Operation) -> list[tuple[int, End]]:
        if operation.channel not in (Channel.MEMORY, Channel.PORT):
            return []
        ends = self.ends[operation.channel]
        return [(ends[each].number, ends[each]) for each in operation.channels]

    def _barrier(self, operation: Operation) -> Iterator[_Arrange]:
        barrier = operation.barrier
        if barrier is None or barrier.num_blocks <= 1:
            return
        there = self.sim.barriers.setdefault((self.rank, barrier.id), [])

        def arrange(go_on: Done) -> None:
            there.append(go_on)
            if len(there) >= barrier.num_blocks:
                for each in there:
                    self.sim.clock.at(self.sim.clock.now_us, each)
                there.clear()

        yield arrange

    def _semaphores(self, operation: Operation) -> Iterator[_Arrange]:
        values = self.sim.semaphores[self.rank]
        for number in operation.semaphores:
            key = ("semaphore", self.rank, number)
            if operation.name is OpName.RELEASE:
                values[number] += 1
                self.sim.changed(key)
                continue
            before = values[number]
            values[number] -= 1
            if before <= 0:
                yield self.sim.wait_for(key, lambda n=number, b=before: values[n] >= b)  # type: ignore[misc]

    def _flush(self, operation: Operation, lanes: int) -> Iterator[_Arrange]:
        if operation.channel is not Channel.PORT:
            return
        for number, _ in self._ends(operation)[:lanes]:
            port = self.sim.ports[number]
            asked = port.pushed
            yield self.sim.wait_for(
                ("port", number),
                lambda p=port, a=asked: p.done >= a,  # type: ignore[misc]
            )

    def _move(self, at: At, work: Work) -> Iterator[_Arrange]:
        operation, sim = at.operation, self.sim
        for first, size in work.awaits:
            packets = sim.packets[self.rank]
            yield sim.wait_for(
                ("packets", self.rank),
                lambda p=packets, f=first, s=size: p.cover(f, f + s),  # type: ignore[misc]
            )
        if operation.channel is Channel.PORT and operation.name in _PUSHES:
            for (number, _), sent in zip(self._ends(operation), work.sends, strict=False):
                packets_to = (sent.rank, sent.first, sent.size) if sent.packets else None
                sim.ports[number].push(sim.link(self.rank, sent.rank), sent.wire, packets_to)
                if operation.name is not OpName.PUT and operation.name in PUTTING:
                    sim.ports[number].push(None, 0.0)
            if operation.name is OpName.PUT_SIGNAL_FLUSH:
                yield from self._flush(operation, len(operation.channels))
            return
        yield lambda go_on: self._all_at_once(work, go_on)
        for first, size in work.keeps:
            sim.store_packets(self.rank, first, size, 0.0)

    def _all_at_once(self, work: Work, go_on: Done) -> None:
        """Bytes that go and come, and the work at home, beside each other."""
        sim, clock = self.sim, self.sim.clock
        left = 1 + len(work.sends) + len(work.reads)

        def one_is_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                go_on()

        for sent in work.sends:

            def has_left(sent=sent) -> None:  # type: ignore[no-untyped-def]
                alpha_us = sim.alpha_us(self.rank, sent.rank)
                sim.lands(alpha_us)
                if sent.packets:
                    sim.store_packets(sent.rank, sent.first, sent.size, alpha_us)
                one_is_done()

            clock.move(sim.link(self.rank, sent.rank), sent.wire, self, has_left)
        for read in work.reads:

            def has_come(read=read) -> None:  # type: ignore[no-untyped-def]
                clock.at(clock.now_us + sim.alpha_us(read.rank, self.rank), one_is_done)

            clock.move(sim.link(read.rank, self.rank), read.wire, self, has_come)
        clock.at(clock.now_us + work.home_us(sim.executor), one_is_done)
