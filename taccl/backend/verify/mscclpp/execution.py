"""Run a plan once, call after call, and write down what happened: moments, accesses, contents, who got stuck.

Counters only grow, each end of a channel has one waiter and each semaphore one that acquires. So what can go
on in one order can go on in every order, and a single greedy run decides whether a plan ends; if no accesses
race, it also decides what every cell holds. A wait holds up the whole block, which is stricter than a GPU.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.backend.machine.order import DATA, PACKETS, RELAXED, Edge, Order
from taccl.backend.verify.mscclpp.accesses import (
    PACKET_WIDTH,
    PLAIN_WIDTH,
    Actor,
    Record,
    When,
    Who,
)
from taccl.backend.verify.mscclpp.acts import Act, Kind, Move, Push, Unfolded, signals_in_no_order
from taccl.backend.verify.mscclpp.agents import BlockState, Lane, Queued, Signal
from taccl.backend.verify.mscclpp.contents import Contents
from taccl.backend.verify.mscclpp.semaphores import Later, Semaphores
from taccl.model.collective import IntArray


@dataclass(frozen=True, slots=True)
class Stuck:
    """A block that never goes on: at which act and lane, and of packets the cell that lacks one."""

    block: int
    act: Act
    lane: int
    cell: int | None


@dataclass(frozen=True, eq=False)
class Trace:
    """What one run left behind.

    Parameters
    ----------
    outputs : per finished call and rank the values of the output's cells, and the actors that wrote them.
    stuck : the blocks that never went on, in call `stuck_call`; none: it ends.
    """

    order: Order
    record: Record
    contents: Contents
    outputs: list[list[tuple[IntArray, IntArray]]]
    stuck: tuple[Stuck, ...]
    stuck_call: int | None


def run(unfolded: Unfolded, calls: int) -> Trace:
    """Run some calls, each begun when the one before has ended everywhere."""
    first = _Run(unfolded, calls, {})
    trace = first.run(calls)
    later = first.semaphores.found_later()
    return _Run(unfolded, calls, later).run(calls) if later else trace


class _Run:
    """The state of everything."""

    def __init__(self, unfolded: Unfolded, calls: int, later: Later) -> None:
        self.unfolded = unfolded
        self.order, self.record = Order(), Record()
        self.contents = Contents.of(unfolded.layout, calls)
        num_ranks = len(unfolded.plan.ranks)
        self.host_column = [self.order.new_column() for _ in range(num_ranks)]
        self.blocks = [
            BlockState(number, rank, self.order.new_column())
            for number, (rank, _) in enumerate(unfolded.blocks)
        ]
        self.of_rank: list[list[BlockState]] = [[] for _ in range(num_ranks)]
        for block in self.blocks:
            self.of_rank[block.rank].append(block)
        num_ends = len(unfolded.ends.partner)
        self.signals: list[list[Signal]] = [[] for _ in range(num_ends)]
        self.waited = [0] * num_ends
        self.unsettled: list[tuple[int, int]] = [(-1, 0)] * num_ends
        self.transfers: list[dict[tuple[int, int], list[Queued]]] = [{} for _ in range(num_ends)]
        self.transfer_column: dict[tuple[int, int, int], int] = {}
        self.semaphores = Semaphores(unfolded, later)
        self.in_no_order = signals_in_no_order(unfolded)
        self.at_barrier: dict[tuple[int, int], list[BlockState]] = {}
        self.meeting: dict[int, int] = {}
        self.segments = 0
        self.waiting_for_end: dict[int, BlockState] = {}
        self.waiting_for_semaphore: dict[int, BlockState] = {}
        self.waiting_for_packets: list[list[BlockState]] = [[] for _ in range(num_ranks)]
        self.queue: deque[BlockState] = deque()
        layout = unfolded.layout
        chunk, piece = np.divmod(np.arange(layout.num_cells), len(layout.cuts))
        self.position: IntArray = chunk * layout.chunk_bytes + layout.cuts[piece]
        self.does: dict[Kind, Callable[[BlockState, Act], bool]] = {
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

    def run(self, calls: int) -> Trace:
        outputs: list[list[tuple[IntArray, IntArray]]] = []
        for call in range(calls):
            self._hosts(call)
            self.contents.begin_call(call)
            self.queue.extend(self.blocks)
            while self.queue:
                self._advance(self.queue.popleft())
            stuck = tuple(
                Stuck(block.number, self._acts(block)[block.at], block.lane, block.lacks)
                for block in self.blocks
                if block.at < len(self._acts(block))
            )
            if stuck:
                return self._trace(outputs, stuck, call)
            outputs.append([self.contents.outputs(rank) for rank in range(len(self.of_rank))])
        self._hosts(calls)
        return self._trace(outputs, (), None)

    def _trace(
        self, outputs: list[list[tuple[IntArray, IntArray]]], stuck: tuple[Stuck, ...], call: int | None
    ) -> Trace:
        return Trace(self.order, self.record, self.contents, outputs, stuck, call)

    def _acts(self, block: BlockState) -> tuple[Act, ...]:
        return self.unfolded.acts[block.number]

    def _hosts(self, call: int) -> None:
        """Between two calls every host reads and writes its user's buffers, once its blocks have ended."""
        for rank, blocks in enumerate(self.of_rank):
            edges = [(block.base, DATA) for block in blocks] if call else []
            kernel = self.order.moment(-1, edges, self.host_column[rank], call + 1)
            start, end = self.unfolded.layout.user[rank].tolist()
            actor = self.record.new_actor(Actor(Who.HOST, rank, -1, None, call))
            when = When(kernel, self.host_column[rank], call + 1, self._new_segment())
            self.record.add(start, end - start, actor, when, writes=True)
            for block in blocks:
                block.at, block.lane, block.ended = 0, 0, False
                block.kernel = block.base = kernel
                block.segment = self._new_segment()
        self.semaphores.end_call(self.order)

    def _new_segment(self) -> int:
        self.segments += 1
        return self.segments

    def _advance(self, block: BlockState) -> None:
        acts = self._acts(block)
        while block.at < len(acts):
            act = acts[block.at]
            if not self.does[act.kind](block, act):
                return
            block.at += 1
            block.lane = 0
        if not block.ended:
            block.ended = self._meet(block, None)

    def _meet(self, block: BlockState, act: Act | None) -> bool:
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
        return True

    def _barrier(self, block: BlockState, act: Act) -> bool:
        number, members = act.barrier
        there = self.at_barrier.setdefault((block.rank, number), [])
        if not block.arrived:
            self._meet(block, act)
            block.arrived = True
            there.append(block)
        if len(there) < members:
            return False
        together = self.order.moment(block.kernel, [(each.base, DATA) for each in there])
        for each in there:
            each.base, each.arrived = together, False
            if each is not block:
                each.at += 1
                self.queue.append(each)
        there.clear()
        return True

    def _knowledge(self, block: BlockState, lane: int) -> int:
        """The moment that knows what a lane does."""
        known = block.lanes.get(lane)
        if known is None:
            return block.base
        if known.moment is None:
            known.moment = self.order.moment(block.kernel, [(block.base, DATA), *known.edges])
        return known.moment

    def _learn(self, block: BlockState, lane: int, edges: Sequence[Edge]) -> None:
        known = block.lanes.setdefault(lane, Lane())
        known.edges.extend(edges)
        known.moment = None

    def _signal(self, block: BlockState, act: Act) -> bool:
        for lane, end in enumerate(act.ends):
            self._send_signal(block, lane, end, act.relaxed, act.port)
        return True

    def _send_signal(self, block: BlockState, lane: int, end: int, relaxed: bool, port: bool) -> None:
        moment = self._knowledge(block, lane)
        if port:
            done = self._transfers_before(block, lane, end)
            if done:
                moment = self.order.moment(block.kernel, [(moment, DATA), *done])
        partner = self.unfolded.ends.partner[end]
        if partner < 0:
            return
        sent = self.signals[partner]
        if (block.number, block.at, lane) in self.in_no_order:
            moment = block.base  # whichever signal comes first, it carries this
        sent.append(Signal(moment, relaxed))
        self._wake(self.waiting_for_end.pop(partner, None))

    def _wake(self, block: BlockState | None) -> None:
        if block is not None:
            self.queue.append(block)

    def _wait(self, block: BlockState, act: Act) -> bool:
        while block.lane < len(act.ends):
            end = act.ends[block.lane]
            if len(self.signals[end]) <= self.waited[end]:
                self.waiting_for_end[end] = block
                return False
            if self.unsettled[end][0] != block.segment:
                self.unsettled[end] = (block.segment, self.waited[end])
            self.waited[end] += 1
            heard = self.signals[end][self.unsettled[end][1] : self.waited[end]]
            edges = [(each.moment, RELAXED if act.relaxed or each.relaxed else DATA) for each in heard]
            self._learn(block, block.lane, edges)
            block.lane += 1
        return True

    def _release(self, block: BlockState, act: Act) -> bool:
        for lane, semaphore in enumerate(act.semaphores):
            self.semaphores.release(semaphore, self._knowledge(block, lane), block.number)
            self._wake(self.waiting_for_semaphore.pop(semaphore, None))
        return True

    def _acquire(self, block: BlockState, act: Act) -> bool:
        while block.lane < len(act.semaphores):
            semaphore = act.semaphores[block.lane]
            if not self.semaphores.is_free(semaphore):
                self.waiting_for_semaphore[semaphore] = block
                return False
            edges = self.semaphores.acquire(semaphore)
            if self.semaphores.has_several(semaphore):
                edges.append((self._knowledge(block, block.lane), DATA))
                edges = [(self.order.moment(block.kernel, edges), DATA)]
                self.semaphores.note(semaphore, edges[0][0])
            self._learn(block, block.lane, edges)
            block.lane += 1
        return True

    def _transfers_before(self, block: BlockState, lane: int, end: int) -> list[Edge]:
        """The transfers on a channel that were certainly queued before what a lane queues now.

        Each knows those that were queued before it.
        """
        found = []
        for (pushing, its_lane), queued in self.transfers[end].items():
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

    def _flush(self, block: BlockState, act: Act) -> bool:
        for lane, end in enumerate(act.ends):
            self._learn(block, lane, self._transfers_before(block, lane, end))
        return True

    def _move(self, block: BlockState, act: Act) -> bool:
        for move in act.moves:
            block.lacks = self.contents.missing_packet(move)
            if block.lacks is not None:
                self.waiting_for_packets[block.rank].append(block)
                return False
        actor = self.record.new_actor(Actor(Who.BLOCK, block.rank, block.number, act, self.contents.call))
        for move in act.moves:
            moments = self._thread_moments(block, move) if _has_packets(move) else None
            tick, segment = block.met + 1, block.segment
            if moments is None:
                when = When(block.base, block.column, tick, segment, PLAIN_WIDTH)
            else:
                when = When(int(moments[0]), block.column, tick, segment, PACKET_WIDTH, True)
            self._touch(move, actor, when)
            if move.targets:
                self._carry_out(move, actor, moments)
        return True

    def _thread_moments(self, block: BlockState, move: Move) -> IntArray:
        """Per cell the moment of the thread that handles it: after what it did before, and what it reads."""
        read = [self.contents.place(source) for source in move.sources if source.packets]
        some = self.contents.place((*move.sources, *move.targets)[0])
        places = (self.position[some : some + move.count] - self.position[some]).tolist()
        moments = []
        for k, place in enumerate(places):
            edges: list[Edge] = [(block.base, DATA)]
            if place in block.threads:
                edges.append((block.threads[place], DATA))
            for first in read:
                written = int(self.contents.packet_moment[first + k])
                if written >= 0:
                    edges.append((written, PACKETS))
            block.threads[place] = self.order.moment(block.kernel, edges)
            moments.append(block.threads[place])
        return np.array(moments, dtype=np.int64)

    def _touch(self, move: Move, actor: int, when: When) -> None:
        """Record all accesses; what is put where it is already is only read."""
        read = [self.contents.place(source) for source in move.sources]
        for first, cells in zip(read, move.sources, strict=True):
            self.record.add(first, move.count, actor, when, packets=cells.packets)
        for cells in move.targets:
            first = self.contents.place(cells)
            if read != [first]:
                self.record.add(first, move.count, actor, when, writes=True, packets=cells.packets)

    def _carry_out(self, move: Move, actor: int, moments: IntArray | None) -> None:
        """Read and write. A reader of a packet that was there already may have seen the first or this one.

        So it knows what both know: what the first does, if this one comes after it; else nothing.
        """
        for cell, before, now in self.contents.carry_out(move, actor, moments):
            comes_after = before >= 0 and self.order.has_reached([now], before)
            self.contents.packet_moment[cell] = before if comes_after else -1
        self._tell_readers(move)

    def _tell_readers(self, move: Move) -> None:
        for target in move.targets:
            if target.packets:
                owner = self.unfolded.layout.owner(target.first)
                self.queue.extend(self.waiting_for_packets[owner])
                self.waiting_for_packets[owner].clear()

    def _push(self, block: BlockState, act: Act) -> bool:
        for lane, push in enumerate(act.pushes):
            if push.move is not None:
                self._transfer(block, act, lane, push, push.move)
            if push.signals:
                self._send_signal(block, lane, push.end, False, True)
            if push.flushes:
                self._learn(block, lane, self._transfers_before(block, lane, push.end))
        return True

    def _transfer(self, block: BlockState, act: Act, lane: int, push: Push, move: Move) -> None:
        key = push.end, block.number, lane
        if key not in self.transfer_column:
            self.transfer_column[key] = self.order.new_column()
        column = self.transfer_column[key]
        queued = self.transfers[push.end].setdefault((block.number, lane), [])
        edges: list[Edge] = [
            (self._knowledge(block, lane), DATA),
            *self._transfers_before(block, lane, push.end),
        ]
        moments = None
        if _has_packets(move):
            moments = np.array([self.order.moment(block.kernel, edges) for _ in range(move.count)])
            edges.extend((int(each), DATA) for each in moments)
        tick = len(queued) + 1
        moment = self.order.moment(block.kernel, edges, column, tick)
        queued.append(Queued(moment, block.segment))
        actor = self.record.new_actor(Actor(Who.TRANSFER, block.rank, block.number, act, self.contents.call))
        first = moment if moments is None else int(moments[0])
        when = When(first, column, tick, self._new_segment(), each=moments is not None)
        self._touch(move, actor, when)
        self._carry_out(move, actor, moments)


def _has_packets(move: Move) -> bool:
    return any(each.packets for each in (*move.sources, *move.targets))
