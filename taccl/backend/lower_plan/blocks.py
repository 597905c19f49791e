"""The thread blocks of a plan: steps as operations, with all that tells peers and each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType

from taccl.backend.lower_plan.emit import Emitter
from taccl.backend.lower_plan.fits import MAX_OPERANDS
from taccl.backend.lower_plan.places import (
    ADDING,
    NO_SUMS,
    Aliases,
    Landings,
    Place,
    Sums,
    source,
    target,
    writes,
)
from taccl.backend.lower_plan.pulls import own_part
from taccl.backend.lower_plan.resources import Resources
from taccl.backend.lower_plan.starts import find_starts, known_at_end
from taccl.backend.lower_plan.steps import Block, Known, Message, Node, Steps
from taccl.backend.lower_plan.together import find_puts_together
from taccl.backend.lower_plan.turns import find_awaited
from taccl.backend.plan import Channel, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer, Op


class Translation:
    """One translation; `ends` has for each thread block how many operations there are after each step."""

    def __init__(
        self,
        steps: Steps,
        names: Aliases,
        landings: Landings,
        node_of: Sequence[int],
        pulls: Mapping[int, int] = MappingProxyType({}),
        sums: Sums = NO_SUMS,
        apart: frozenset[int] = frozenset(),
    ) -> None:
        """`pulls` : by send, the sum at the receiver that reads what it would send.

        `apart` : sends of what lands where nobody else ever writes.
        """
        self.steps, self.names, self.landings = steps, names, landings
        self.pulls, self.sums, self.apart = pulls, sums, apart
        first_of: dict[int, int] = {}
        for message in steps.messages:
            if message.send in pulls:
                last = pulls[message.send]
                first_of[last] = min(message.receive, first_of.get(last, message.receive))
        #: by first receive, the sum that adds what is pulled there and until itself
        self.rows = {first: last for last, first in first_of.items()}
        self.resources = Resources(steps, node_of)
        self.semaphores = [0] * steps.program.num_ranks
        self.acquires: dict[int, list[int]] = {}
        self.releases: dict[int, list[int]] = {}
        self.known_to_blocks = self._known_to_blocks()
        self._pair_blocks()
        self.last_knowledge = known_at_end(steps)
        self.landing_in: dict[tuple[int, Place], list[int]] = {}
        self.last_on: dict[tuple[int, int], int] = {}  # by connection, its last send
        #: puts through ports that others take their turns after
        self.awaited = find_awaited(steps, [*filter(self._is_through_port, steps.messages)])
        for message in steps.messages:
            self.last_on[message.connection] = max(message.send, self.last_on.get(message.connection, -1))
            if message.send in pulls:
                continue
            self.landing_in.setdefault((message.dst, landings.at[message.send]), []).append(message.receive)
        #: by first send, those that are one put; the last of them is reported, and heard
        self.together: dict[int, tuple[int, ...]] = {}
        self.untold: frozenset[int] = frozenset()
        self._find_runs()
        self.handshakes = self._find_handshakes()
        self._put_together()
        #: pulled messages whose senders would not hear that they have been read, and the last of each
        #: connection that land apart
        self.requested_back = frozenset(
            message.send
            for message in steps.messages
            if message.send in pulls
            and not self._is_done_at_end(message.src, steps.nodes[pulls[message.send]])
        ) | frozenset(
            {message.connection: message.send for message in steps.messages if message.send in apart}.values()
        )
        self.ends: list[list[int]] = []

    def _find_runs(self) -> None:
        self.runs = [self._runs(block) for block in self.steps.blocks]
        self.done_with = {node.index: run[0] for runs in self.runs for run in runs for node in run}

    def _put_together(self) -> None:
        """Make one put of several where nobody hears of it later than it goes on anyway."""
        self.together = find_puts_together(
            self.steps,
            self.names,
            self.landings,
            [
                message
                for message in self.steps.messages
                if message.send not in self.pulls
                and self.resources.kind(message.src, message.dst) is Channel.MEMORY
            ],
            {*self.handshakes, *self.acquires},
            self.releases,
        )
        self.untold = frozenset(send for row in self.together.values() for send in row[:-1])
        if self.together:
            self._find_runs()

    def run(self) -> list[RankPlan]:
        blocks: list[list[PlanBlock]] = [[] for _ in self.semaphores]
        for number, block in enumerate(self.steps.blocks):
            made = self._block(block)
            if made.operations:
                blocks[block.rank].append(self._plan_block(number, len(blocks[block.rank]), made))
        return [
            RankPlan(
                rank=rank,
                input_chunks=0,
                output_chunks=0,
                scratch_chunks=self.landings.scratch[rank],
                blocks=tuple(mine) or (PlanBlock(0, ()),),
                channels=self.resources.rank_channels(rank),
                remote_buffers=self.resources.remote_buffers(rank),
                semaphores=(0,) * self.semaphores[rank],
            )
            for rank, mine in enumerate(blocks)
        ]

    def _plan_block(self, number: int, block_id: int, made: Emitter) -> PlanBlock:
        names = self.resources.blocks[number]
        return PlanBlock(block_id, tuple(made.operations), names.block_channels(), names.block_remotes())

    def _known_to_blocks(self) -> Known:
        """What each step knows to be done with data and all, as in `Steps.known`."""
        return self.steps.known

    def _waits(self, node: Node) -> Sequence[int]:
        """The steps that one has to wait for, and if only by its message."""
        return self.steps.before[node.index]

    def _pair_blocks(self) -> None:
        """A semaphore for each wait for another thread block of the rank that nothing else keeps."""
        nodes, known = self.steps.nodes, self.known_to_blocks
        for node in nodes:
            waits = self._waits(node)
            for wait in waits:
                other = nodes[wait]
                is_implied = any(known[each, other.block] > other.at for each in waits if each != wait)
                if other.block == node.block or other.rank != node.rank or is_implied:
                    continue
                self.releases.setdefault(wait, []).append(self.semaphores[node.rank])
                self.acquires.setdefault(node.index, []).append(self.semaphores[node.rank])
                self.semaphores[node.rank] += 1

    def _find_handshakes(self) -> frozenset[int]:
        """The messages whose sender must be informed first that the receiver's kernel has begun."""
        return find_starts(self.steps, self._may_come, lambda message: message.send in self.apart)[0]

    def find_apart(self) -> frozenset[int]:
        """Messages through ports that would wait for the receiver's start, and could land apart instead."""

        def could(message: Message) -> bool:
            is_kept = self.steps.nodes[message.receive].step.op is Op.RECV
            return is_kept and message.send in self.landings.direct and self._is_through_port(message)

        return find_starts(self.steps, self._may_come, could)[1]

    def _may_come(self, message: Message) -> bool:
        return message.send in self.pulls or self._is_left(message)

    def _is_through_port(self, message: Message) -> bool:
        return self.resources.kind(message.src, message.dst) is Channel.PORT

    def _is_left(self, message: Message) -> bool:
        """Whether the sender ends each call knowing that the receiver is done with where a message lands.

        That is in scratch, which no caller touches between calls.
        """
        place = self.landings.at[message.send]
        if place.buffer is not Buffer.SCRATCH:
            return False
        users = {*self.landings.users(message.dst, place), *self.landing_in.get((message.dst, place), ())}
        users |= {self.pulls[user] for user in users if user in self.pulls}
        return all(
            self._is_done_at_end(message.src, self.steps.nodes[user]) and self._has_left(message.src, user)
            for user in users
        )

    def _has_left(self, rank: int, step: int) -> bool:
        """Whether a rank that knows at the end of a call that a step is done knows that its bytes have left.

        A push is done before, if it does not wait until it is complete. The last one of a channel does, and
        who has received has it all.
        """
        node, sent = self.steps.nodes[step], self.steps.sent.get(step)
        if sent is None or not self._is_through_port(sent):
            return True
        if node.step.op is Op.SEND and not self._stays(node, sent, source(node.step, node.rank, self.names)):
            return True
        later = (self.last_on[sent.connection], sent.receive)
        return any(self._is_done_at_end(rank, self.steps.nodes[each]) for each in later)

    def _is_done_at_end(self, rank: int, node: Node) -> bool:
        """Whether a rank surely knows when it ends a call that a step is done."""
        done = self.done_with[node.index]
        return bool(self.last_knowledge[rank][done.block] > done.at)

    def _block(self, block: Block) -> Emitter:
        made = Emitter()
        mine = [self.steps.nodes[index] for index in block.nodes]
        heard = [
            (self.steps.received[node.index], node) for node in mine if node.index in self.steps.received
        ]
        made.tell_started([self._end(each, node) for each, node in heard if each.send in self.handshakes])
        ends: list[int] = []
        for run in self.runs[mine[0].block] if mine else ():
            self._nodes(run, made)
            ends += [len(made.operations)] * len(run)
        requested = [
            (self.steps.sent[node.index], node) for node in mine if node.index in self.requested_back
        ]
        made.wait_for_all([self._end(each, node) for each, node in requested])
        made.finish()
        self.ends.append(ends)
        return made

    def _end(self, message: Message, node: Node) -> tuple[Channel, int]:
        """Its thread block's end of the channel of a message."""
        kind = self.resources.kind(message.src, message.dst)
        return kind, self.resources.channel(node.block, message.connection)

    def _runs(self, block: Block) -> list[list[Node]]:
        """A block's steps, together where they become one operation."""
        mine = [self.steps.nodes[index] for index in block.nodes]
        runs: list[list[Node]] = []
        at = 0
        while at < len(mine):
            last = at + self.rows.get(mine[at].index, mine[at].index) - mine[at].index
            runs.append([*mine[at:last], *self._run(mine, last)])
            at += len(runs[-1])
        return runs

    def _run(self, mine: Sequence[Node], first: int) -> list[Node]:
        """A step, and those behind it that become one operation with it.

        A sum is stored where it is copied, if nobody else wants it, and sent on in one pass; but not where
        another thread block waits for the sum, which would have to wait for its way, too.
        """
        taken = [mine[first]]
        if mine[first].index in self.together:
            return list(mine[first : first + len(self.together[mine[first].index])])
        if mine[first].index in self.pulls:
            return [*taken, *takewhile(self._is_reported_with_others, mine[first + 1 :])]
        if mine[first].step.op is not Op.REDUCE or mine[first].index in self.sums.put_off:
            return taken
        place = target(mine[first].step, mine[first].rank, self.names)
        wanted = [Op.SEND, Op.COPY]
        if mine[first].index in self.pulls.values():  # of what is pulled, any number is sent on
            wanted = [Op.SEND] * (MAX_OPERANDS - 1) + [Op.COPY]
        for node in mine[first + 1 : first + 1 + len(wanted)]:
            is_next = node.step.op in wanted and source(node.step, node.rank, self.names) == place
            if not is_next or node.index in self.acquires:
                break
            if node.step.op is Op.SEND and (self._is_port(node) or self._is_waited_for(taken)):
                break
            if node.index in self.pulls:
                break
            if node.step.op is Op.COPY and not self._is_wanted_here_only([*taken, node], place):
                break
            wanted = wanted[wanted.index(node.step.op) + 1 :]
            taken.append(node)
        return taken

    def _is_reported_with_others(self, node: Node) -> bool:
        """Whether a step tells that something may be pulled, and nothing is waited for by it, or for it."""
        return (
            node.index in self.pulls and node.index not in self.acquires and node.index not in self.releases
        )

    def _is_port(self, send: Node) -> bool:
        return self._is_through_port(self.steps.sent[send.index])

    def _is_waited_for(self, run: Sequence[Node]) -> bool:
        return any(node.index in self.releases for node in run)

    def _is_wanted_here_only(self, run: Sequence[Node], place: Place) -> bool:
        """Whether nothing but these steps, and what is done before them, reads or writes a place."""
        mine = {node.index for node in run}
        return place.buffer is Buffer.SCRATCH and all(
            user in mine or self.steps.is_before(user, run[0].index)
            for user in self.landings.users(run[0].rank, place)
        )

    def _nodes(self, taken: Sequence[Node], made: Emitter) -> None:
        """A step, or several that become one operation."""
        first = taken[0]
        for node in taken:
            self._acquire(node, made)
        received = self.steps.received.get(first.index)
        sending = next((node for node in taken if node.index in self.steps.sent), None)
        if first.index in self.rows:
            self._pull(taken, made)
        else:
            if received is not None and received.send not in self.untold:
                made.wait(*self._end(received, first))
            if sending is not None and sending.index in self.handshakes:
                made.wait(*self._end(self.steps.sent[sending.index], sending), relaxed=True)
            self._move(taken, received, sending, made)
        if received is not None and received.send in self.requested_back and received.send in self.apart:
            made.signal(*self._end(received, first))
        self._release(taken, made)

    def _acquire(self, node: Node, made: Emitter) -> None:
        for semaphore in self.acquires.get(node.index, ()):
            made.acquire(semaphore)

    def _release(self, taken: Sequence[Node], made: Emitter) -> None:
        releases = [semaphore for node in taken for semaphore in self.releases.get(node.index, ())]
        if releases:
            made.release(releases)

    def _move(
        self, taken: Sequence[Node], received: Message | None, sending: Node | None, made: Emitter
    ) -> None:
        """What steps do with data, once there is nothing to wait for; none of it is pulled here."""
        first = taken[0]
        if first.index in self.pulls:
            made.signal_all([self._end(self.steps.sent[node.index], node) for node in taken])
        elif first.step.op is Op.REDUCE:
            self._sum(taken, sending, made)
        elif first.index in self.together:
            sources = [source(node.step, node.rank, self.names) for node in taken]
            targets = [self._remote(node, self.steps.sent[node.index]) for node in taken]
            made.work(OpName.PUT, sources, [], targets, Channel.MEMORY)
            made.signal(*self._end(self.steps.sent[taken[-1].index], taken[-1]))
        else:
            self._work(first, received, self.steps.sent.get(first.index), made)

    def _pull(self, taken: Sequence[Node], made: Emitter) -> None:
        """A sum of what the rank has and what senders have, and what becomes of it."""
        heard = [(self.steps.received[node.index], node) for node in taken if node.step.op is Op.RECV]
        sends = [(self.steps.sent[node.index], node) for node in taken if node.step.op is Op.SEND]
        made.wait_for_all([self._end(*each) for each in heard])
        for message, node in sends:
            if message.send in self.handshakes:
                made.wait(*self._end(message, node), relaxed=True)
        first, last = taken[1], taken[-1]
        pulled = []
        for message, node in heard:
            sent = self.steps.nodes[message.send]
            there = source(sent.step, sent.rank, self.names)
            number = self.resources.remote(node.rank, node.block, message.src, there.buffer)
            pulled.append(Range(there.index, there.size, remote=number))
        mine = own_part(first, taken[0], self.names)
        stored = target(last.step if last.step.op is Op.COPY else first.step, first.rank, self.names)
        name = OpName.READ_REDUCE_SEND if sends else OpName.READ_REDUCE
        to = [self._remote(node, message) for message, node in sends]
        made.work(name, [mine], [stored], to, Channel.MEMORY, pulled=pulled)
        reported = [each for each in heard if each[0].send in self.requested_back]
        made.signal_all([self._end(*each) for each in (*sends, *reported)])

    def _sum(self, taken: Sequence[Node], sending: Node | None, made: Emitter) -> None:
        """A sum, and what becomes of it, in one operation; nothing, if another one does it."""
        first, last = taken[0], taken[-1]
        if first.index in self.sums.put_off:
            return
        stored, added = (at(first.step, first.rank, self.names) for at in (target, source))
        reads = [stored, *self.sums.also.get(first.index, ()), added]
        stored = target(last.step if last.step.op is Op.COPY else first.step, first.rank, self.names)
        if sending is None:
            made.work(OpName.REDUCE, reads, [stored])
            return
        message = self.steps.sent[sending.index]
        made.work(OpName.REDUCE_SEND, reads, [stored], [self._remote(sending, message)], Channel.MEMORY)
        made.signal(*self._end(message, sending))

    def _work(self, node: Node, received: Message | None, sent: Message | None, made: Emitter) -> None:
        op, step = node.step.op, node.step
        wanted = target(step, node.rank, self.names)
        if op is Op.COPY:
            taken = source(step, node.rank, self.names)
            if taken != wanted:
                made.work(OpName.COPY, [taken], [wanted], alone=self._is_alone(node, taken, wanted))
        elif op is Op.SEND and sent is not None:
            self._put(node, sent, source(step, node.rank, self.names), made)
        elif received is not None and op in ADDING:
            self._add(node, received, sent, made)
        elif received is not None:
            landed = self.landings.at[received.send]
            if sent is not None:
                self._put(node, sent, landed, made)
            if received.send not in self.landings.direct:
                made.work(OpName.COPY, [landed], [wanted])

    def _is_alone(self, copy: Node, taken: Place, wanted: Place) -> bool:
        """Whether nothing else touches what is copied, but to read it, and where it goes."""
        readers = self.landings.users(copy.rank, taken) - {copy.index}
        written = (target(self.steps.nodes[reader].step, copy.rank, self.names) for reader in readers)
        return (
            taken.buffer is not Buffer.SCRATCH
            and self.landings.users(copy.rank, wanted) == {copy.index}
            and all(
                self.steps.nodes[each].step.op is Op.SEND or not place.overlaps(taken)
                for each, place in zip(readers, written, strict=True)
            )
        )

    def _add(self, node: Node, received: Message, sent: Message | None, made: Emitter) -> None:
        landed = self.landings.at[received.send]
        stored = target(node.step, node.rank, self.names) if writes(node.step) else landed
        reads = [source(node.step, node.rank, self.names), landed]
        if sent is None:
            made.work(OpName.REDUCE, reads, [stored])
            return
        kind, channel = self._end(sent, node)
        if kind is Channel.MEMORY:
            made.work(OpName.REDUCE_SEND, reads, [stored], [self._remote(node, sent)], kind)
            made.signal(kind, channel)
        else:
            made.work(OpName.REDUCE, reads, [stored])
            self._put(node, sent, stored, made)

    def _put(self, node: Node, message: Message, taken: Place, made: Emitter) -> None:
        kind, channel = self._end(message, node)
        there = self._remote(node, message)
        if kind is Channel.MEMORY:
            made.work(OpName.PUT, [taken], [], [there], kind)
            made.signal(kind, channel)
        else:
            stays = self._stays(node, message, taken)
            made.push(OpName.PUT_SIGNAL if stays else OpName.PUT_SIGNAL_FLUSH, channel, [taken], [there])

    def _stays(self, node: Node, message: Message, taken: Place) -> bool:
        """Whether what goes through a port is left as it is until a later put of the channel is complete."""
        own_scratch = self.steps.program.ranks[node.rank].scratch_chunks
        if message.send == self.last_on[message.connection] or message.send in self.awaited:
            return False
        if taken.buffer is Buffer.SCRATCH and taken.index >= own_scratch:
            return False
        return all(
            user == node.index or self.steps.is_before(user, node.index)
            for user in self.landings.users(node.rank, taken)
            if writes(self.steps.nodes[user].step)
            and target(self.steps.nodes[user].step, node.rank, self.names).overlaps(taken)
        )

    def _remote(self, node: Node, message: Message) -> Range:
        place = self.landings.at[message.send]
        number = self.resources.remote(node.rank, node.block, message.dst, place.buffer)
        return Range(place.index, place.size, remote=number)
