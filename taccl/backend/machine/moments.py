"""The order of a run whose blocks are many threads: they know of one another only what a meeting says.

The acts of a run are gone through once more, in the order in which they happened, and every meeting, signal,
transfer and packet becomes a moment (see `order`) with edges from what it comes after, whatever the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from taccl.backend.machine.acts import Acts, Flag, Kind, Machine, Role
from taccl.backend.machine.order import DATA, PACKETS, RELAXED, Edge, Order, OrderWriter
from taccl.backend.machine.run import Run
from taccl.backend.machine.semaphores import Later, Semaphores
from taccl.backend.machine.touches import PACKET_WIDTH, PLAIN_WIDTH, Touches, TouchWriter, When, Who
from taccl.model.collective import IntArray

_RELAXED, _PORT, _SIGNALS, _FLUSHES = (
    int(flag) for flag in (Flag.RELAXED, Flag.PORT, Flag.SIGNALS, Flag.FLUSHES)
)
_PACKETS, _TARGET = int(Role.PACKETS), int(Role.TARGET)
#: Operands as (first cell, whether packets are there).
_Operands = list[tuple[int, bool]]


@dataclass(eq=False)
class Lane:
    """What a lane has learned since its block met; `moment`, once made, knows it and what the block knows."""

    edges: list[Edge] = field(default_factory=list)
    moment: int | None = None


@dataclass(eq=False)
class BlockState:
    """What a block knows.

    Parameters
    ----------
    kernel, base : the moments at which its kernel began and it last met.
    column, met, segment : its column, how often it has met, and the number of this segment.
    lanes : what they know more than the block.
    threads : by its place in packets (bytes), the last moment of a thread that handles some in this segment.
    """

    number: int
    rank: int
    column: int
    kernel: int = 0
    base: int = 0
    met: int = 0
    segment: int = 0
    lanes: dict[int, Lane] = field(default_factory=dict)
    threads: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal to an end of a channel: the moment that it carries, and whether it is relaxed."""

    moment: int
    relaxed: bool


@dataclass(frozen=True, slots=True)
class Queued:
    """A transfer on a port channel: the moment of its end, and the segment in which a lane pushed it."""

    moment: int
    segment: int


def order_of_threads(machine: Machine, run: Run) -> tuple[Order, Touches]:
    """The moments of a run that ends, and what was touched when."""
    first = _Replay(machine, run, {})
    later = first.semaphores.found_later()
    replay = _Replay(machine, run, later) if later else first
    return replay.order.order(), replay.touches.touches()


def signals_in_no_order(acts: Acts) -> set[int]:
    """Signals of several lanes to one end with no meeting between."""
    found = set()
    sent: dict[tuple[int, int], list[int]] = {}
    meets, signal = (int(Kind.MEET), int(Kind.BARRIER)), int(Kind.SIGNAL)
    rows = zip(*(column.tolist() for column in (acts.kind, acts.block, acts.end, acts.flags)), strict=True)
    for act, (kind, block, end, flags) in enumerate(rows):
        if kind in meets:
            sent.clear()
        elif kind == signal or flags & _SIGNALS:
            some = sent.setdefault((block, end), [])
            some.append(act)
            if len({int(acts.lane[each]) for each in some}) > 1:
                found.update(some)
    return found


class _Replay:
    """The state of everything."""

    def __init__(self, machine: Machine, run: Run, later: Later) -> None:
        self.machine = machine
        self.acts, self.moves, self.layout = machine.acts, machine.moves, machine.layout
        self.order, self.touches = OrderWriter(), TouchWriter()
        num_ranks = len(self.layout.chunks)
        self.host_column = [self.order.new_column() for _ in range(num_ranks)]
        self.blocks = [
            BlockState(number, rank, self.order.new_column())
            for number, rank in enumerate(self.acts.rank.tolist())
        ]
        self.of_rank: list[list[BlockState]] = [[] for _ in range(num_ranks)]
        for block in self.blocks:
            self.of_rank[block.rank].append(block)
        counters = self.acts.num_counters
        self.signals: list[list[Signal]] = [[] for _ in range(counters)]
        self.waited = [0] * counters
        self.unsettled: list[tuple[int, int]] = [(-1, 0)] * counters
        self.transfers: dict[int, dict[tuple[int, int], list[Queued]]] = {}
        self.transfer_column: dict[tuple[int, int, int], int] = {}
        self.semaphores = Semaphores(self.acts, later)
        self.in_no_order = signals_in_no_order(self.acts)
        self.at_barrier: dict[int, list[BlockState]] = {}
        self.meeting: dict[int, int] = {}
        self.segments = 0
        self.position = self.layout.position()
        self.flag = np.full(self.layout.num_cells, -1, dtype=np.int64)
        self.packet_moment = np.full(self.layout.num_cells, -1, dtype=np.int64)
        self.call = -1
        self._replay(run)

    def _replay(self, run: Run) -> None:
        does: dict[int, Callable[[BlockState, int], None]] = {
            Kind.MEET: self._meet,
            Kind.BARRIER: self._barrier,
            Kind.SIGNAL: self._signal,
            Kind.WAIT: self._wait,
            Kind.RELEASE: self._release,
            Kind.ACQUIRE: self._acquire,
            Kind.FLUSH: self._flush,
            Kind.MOVE: self._move,
            Kind.PUSH: self._push,
        }
        kind, block = self.acts.kind.tolist(), self.acts.block.tolist()
        for call, sequence in enumerate(run.sequence):
            self._hosts(call)
            for act in sequence.tolist():
                does[kind[act]](self.blocks[block[act]], act)
            for each in self.blocks:
                self._meet(each, -1)
        self._hosts(len(run.sequence))

    def _hosts(self, call: int) -> None:
        """Between two calls every host reads and writes its user's buffers, once its blocks have ended."""
        self.call = call
        for rank, blocks in enumerate(self.of_rank):
            edges = [(block.base, DATA) for block in blocks] if call else []
            kernel = self.order.moment(-1, edges, self.host_column[rank], call + 1)
            start, end = self.layout.user[rank].tolist()
            actor = self.touches.actor(Who.HOST, -1, rank, call)
            when = When(kernel, self.host_column[rank], call + 1, self._new_segment())
            self.touches.add(start, end - start, actor, when, writes=True)
            for block in blocks:
                block.kernel = block.base = kernel
                block.segment = self._new_segment()
        self.semaphores.end_call(self.order)

    def _new_segment(self) -> int:
        self.segments += 1
        return self.segments

    def _meet(self, block: BlockState, act: int) -> None:
        """All that its threads did and learned, they all know now."""
        edges: list[Edge] = [(block.base, DATA)]
        for lane in block.lanes.values():
            edges.extend(lane.edges)
        edges.extend((moment, DATA) for moment in block.threads.values())
        block.met += 1
        block.base = self.order.moment(block.kernel, edges, block.column, block.met)
        self.meeting[block.segment] = block.base
        block.segment = self._new_segment()
        block.lanes.clear()
        block.threads.clear()

    def _barrier(self, block: BlockState, act: int) -> None:
        """A block comes to it; with the last one, all go on."""
        there = self.at_barrier.setdefault(int(self.acts.gives[act]), [])
        self._meet(block, act)
        there.append(block)
        if len(there) == int(self.acts.amount[act]):
            together = self.order.moment(block.kernel, [(each.base, DATA) for each in there])
            for each in there:
                each.base = together
            there.clear()

    def _knowledge(self, block: BlockState, lane: int) -> int:
        """The moment that knows what a lane does."""
        known = block.lanes.get(lane)
        if known is None:
            return block.base
        if known.moment is None:
            known.moment = self.order.moment(block.kernel, [(block.base, DATA), *known.edges])
        return known.moment

    def _learn(self, block: BlockState, act: int, edges: Sequence[Edge]) -> None:
        known = block.lanes.setdefault(int(self.acts.lane[act]), Lane())
        known.edges.extend(edges)
        known.moment = None

    def _signal(self, block: BlockState, act: int) -> None:
        lane, flags = int(self.acts.lane[act]), int(self.acts.flags[act])
        moment = self._knowledge(block, lane)
        if flags & _PORT:
            done = self._transfers_before(block, act)
            if done:
                moment = self.order.moment(block.kernel, [(moment, DATA), *done])
        counter = int(self.acts.gives[act])
        if counter < 0:
            return
        if act in self.in_no_order:
            moment = block.base  # whichever signal comes first, it carries this
        self.signals[counter].append(Signal(moment, bool(flags & _RELAXED)))

    def _wait(self, block: BlockState, act: int) -> None:
        counter, relaxed = int(self.acts.takes[act]), bool(self.acts.flags[act] & _RELAXED)
        if self.unsettled[counter][0] != block.segment:
            self.unsettled[counter] = (block.segment, self.waited[counter])
        self.waited[counter] += 1
        heard = self.signals[counter][self.unsettled[counter][1] : self.waited[counter]]
        edges = [(each.moment, RELAXED if relaxed or each.relaxed else DATA) for each in heard]
        self._learn(block, act, edges)

    def _release(self, block: BlockState, act: int) -> None:
        moment = self._knowledge(block, int(self.acts.lane[act]))
        self.semaphores.release(int(self.acts.gives[act]), moment, block.number)

    def _acquire(self, block: BlockState, act: int) -> None:
        semaphore = int(self.acts.takes[act])
        edges = self.semaphores.acquire(semaphore)
        if self.semaphores.has_several(semaphore):
            edges.append((self._knowledge(block, int(self.acts.lane[act])), DATA))
            edges = [(self.order.moment(block.kernel, edges), DATA)]
            self.semaphores.note(semaphore, edges[0][0])
        self._learn(block, act, edges)

    def _transfers_before(self, block: BlockState, act: int) -> list[Edge]:
        """The transfers on a channel that were certainly queued before what a lane queues now.

        Each knows those that were queued before it.
        """
        found = []
        lane = int(self.acts.lane[act])
        for (pushing, its_lane), queued in self.transfers.get(int(self.acts.end[act]), {}).items():
            for each in reversed(queued):
                if pushing == block.number:
                    before = each.segment != block.segment or its_lane == lane
                else:
                    met = self.meeting.get(each.segment)
                    known = self._knowledge(block, lane)
                    before = met is not None and self.order.has_reached([known], met)
                if before:
                    found.append((each.moment, DATA))
                    break
        return found

    def _flush(self, block: BlockState, act: int) -> None:
        self._learn(block, act, self._transfers_before(block, act))

    def _operands(self, move: int) -> tuple[_Operands, _Operands, int]:
        """Sources and targets of a move in this call, and how many cells each has."""
        moves = self.moves
        cells = moves.upper if self.layout.has_halves and self.call % 2 else moves.cell
        sources: _Operands = []
        targets: _Operands = []
        for row in range(int(moves.first_operand[move]), int(moves.first_operand[move + 1])):
            role = int(moves.role[row])
            operand = int(cells[row]), bool(role & _PACKETS)
            (targets if role & _TARGET else sources).append(operand)
        return sources, targets, int(moves.count[move])

    def _moves_of(self, act: int) -> range:
        return range(int(self.moves.first_of_act[act]), int(self.moves.first_of_act[act + 1]))

    def _move(self, block: BlockState, act: int) -> None:
        actor = self.touches.actor(Who.BLOCK, act, block.rank, self.call)
        for move in self._moves_of(act):
            sources, targets, count = self._operands(move)
            moments = None
            if any(packets for _, packets in (*sources, *targets)):
                moments = self._thread_moments(block, sources, targets, count)
            tick, segment = block.met + 1, block.segment
            if moments is None:
                when = When(block.base, block.column, tick, segment, PLAIN_WIDTH)
            else:
                when = When(int(moments[0]), block.column, tick, segment, PACKET_WIDTH, True)
            self._touch(sources, targets, count, actor, when)
            self._put_packets(targets, count, moments)

    def _thread_moments(
        self, block: BlockState, sources: _Operands, targets: _Operands, count: int
    ) -> IntArray:
        """Per cell the moment of the thread that handles it: after what it did before, and what it reads."""
        read = [first for first, packets in sources if packets]
        some = (*sources, *targets)[0][0]
        places = (self.position[some : some + count] - self.position[some]).tolist()
        moments = []
        for k, place in enumerate(places):
            edges: list[Edge] = [(block.base, DATA)]
            if place in block.threads:
                edges.append((block.threads[place], DATA))
            for first in read:
                written = int(self.packet_moment[first + k])
                if written >= 0:
                    edges.append((written, PACKETS))
            block.threads[place] = self.order.moment(block.kernel, edges)
            moments.append(block.threads[place])
        return np.array(moments, dtype=np.int64)

    def _touch(
        self,
        sources: _Operands,
        targets: _Operands,
        count: int,
        actor: tuple[int, int, int, int, int],
        when: When,
    ) -> None:
        """Note all accesses; what is put where it is already is only read."""
        for first, packets in sources:
            self.touches.add(first, count, actor, when, packets=packets)
        for first, packets in targets:
            if [source for source, _ in sources] != [first]:
                self.touches.add(first, count, actor, when, writes=True, packets=packets)

    def _put_packets(self, targets: _Operands, count: int, moments: IntArray | None) -> None:
        """Note when packets are written. A reader of one that was there already may have seen either.

        So it knows what both know: what the first does, if this one comes after it; else nothing.
        """
        for first, packets in targets:
            if not packets or moments is None:
                continue
            last = first + count
            again = np.flatnonzero(self.flag[first:last] == self.call)
            before = self.packet_moment[first:last][again].copy()
            self.packet_moment[first:last] = moments
            self.flag[first:last] = self.call
            for k, earlier in zip(again.tolist(), before.tolist(), strict=True):
                comes_after = earlier >= 0 and self.order.has_reached([int(moments[k])], earlier)
                self.packet_moment[first + k] = earlier if comes_after else -1

    def _push(self, block: BlockState, act: int) -> None:
        for move in self._moves_of(act):
            self._transfer(block, act, move)
        flags = int(self.acts.flags[act])
        if flags & _SIGNALS:
            self._signal(block, act)
        if flags & _FLUSHES:
            self._flush(block, act)

    def _transfer(self, block: BlockState, act: int, move: int) -> None:
        lane, end = int(self.acts.lane[act]), int(self.acts.end[act])
        key = end, block.number, lane
        if key not in self.transfer_column:
            self.transfer_column[key] = self.order.new_column()
        column = self.transfer_column[key]
        edges: list[Edge] = [(self._knowledge(block, lane), DATA), *self._transfers_before(block, act)]
        queued = self.transfers.setdefault(end, {}).setdefault((block.number, lane), [])
        sources, targets, count = self._operands(move)
        moments = None
        if any(packets for _, packets in (*sources, *targets)):
            moments = np.array([self.order.moment(block.kernel, edges) for _ in range(count)])
            edges.extend((int(each), DATA) for each in moments)
        tick = len(queued) + 1
        moment = self.order.moment(block.kernel, edges, column, tick)
        queued.append(Queued(moment, block.segment))
        first = moment if moments is None else int(moments[0])
        when = When(first, column, tick, self._new_segment(), each=moments is not None)
        actor = self.touches.actor(Who.TRANSFER, act, block.rank, self.call)
        self._touch(sources, targets, count, actor, when)
        self._put_packets(targets, count, moments)
