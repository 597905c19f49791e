"""The thread blocks of a plan of packets: messages land in scratch with the number of the call next to them.

Who reads packets waits for them, so that messages take no signals. They tell nothing but their data: what
else one thread block of a rank has to know of another takes a semaphore. Slots are used once in a call, and
calls use the two halves of scratch in turn; so a sender must have heard from each receiver before it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taccl.backend.lower_plan.blocks import Translation
from taccl.backend.lower_plan.emit import Emitter
from taccl.backend.lower_plan.places import NO_SUMS, Aliases, Landings, Place, Sums, source, target, writes
from taccl.backend.lower_plan.steps import Known, Message, Node, Steps, known_without_messages
from taccl.backend.plan import Channel, OpName
from taccl.backend.program import Op
from taccl.errors import CollectiveError

_MOVING = frozenset({Op.SEND, Op.RECV, Op.COPY, Op.REDUCE, Op.NOP})


class PacketTranslation(Translation):
    """As `Translation`, with packets."""

    def __init__(
        self,
        steps: Steps,
        names: Aliases,
        landings: Landings,
        node_of: Sequence[int],
        made_at: Mapping[int, Place],
        sums: Sums = NO_SUMS,
    ) -> None:
        """`made_at` : by send, where the packets are made that go through a port.

        Raises
        ------
        CollectiveError : a step that both receives and adds or sends.
        """
        for node in steps.nodes:
            if node.step.op not in _MOVING:
                raise CollectiveError(
                    f"a step {node.step.op.value} is not made of packets here", hint="protocol Simple"
                )
        self.made_at = made_at
        self.only_reported = _reported_by_messages_only(steps, landings)
        self.done_by = _done_by(sums)
        super().__init__(steps, names, landings, node_of, sums=sums)

    def _known_to_blocks(self) -> Known:
        return known_without_messages(self.steps)

    def _waits(self, node: Node) -> Sequence[int]:
        return (*self.steps.before[node.index], *self.only_reported.get(node.index, ()))

    def _find_handshakes(self) -> frozenset[int]:
        """The messages whose sender hears nothing from the receiver in a call."""
        requested: dict[tuple[int, int], int] = {}
        for message in self.steps.messages:
            last = self.last_knowledge[message.src]
            blocks = (at for at, block in enumerate(self.steps.blocks) if block.rank == message.dst)
            if not any(last[block] for block in blocks):
                requested.setdefault((message.src, message.dst), message.send)
        return frozenset(requested.values())

    def _put_together(self) -> None:
        """Packets are read as they come, each message's by itself."""

    def _run(self, mine: Sequence[Node], first: int) -> list[Node]:
        """A step, and those behind it that are done in one go: what is received is added, or sent on."""
        taken = [mine[first]]
        if mine[first].step.op is not Op.RECV or first + 1 == len(mine):
            return taken
        landed = target(mine[first].step, mine[first].rank, self.names)
        following = mine[first + 1]
        if following.index in self.sums.put_off:
            return [*taken, following]
        if following.index in self.acquires and following.index not in self.sums.also:
            return taken
        if following.step.op is Op.SEND and source(following.step, following.rank, self.names) == landed:
            return [*taken, following]
        if not self._adds_packets(following, mine[first], landed):
            return taken
        taken.append(following)
        stored = target(following.step, following.rank, self.names)
        for node in mine[first + 2 : first + 4]:
            if not self._takes_sum(node, taken, stored):
                break
            taken.append(node)
        return taken

    def _adds_packets(self, node: Node, received: Node, landed: Place) -> bool:
        """Whether a step adds something to what was received, which nothing else wants."""
        if node.step.op is not Op.REDUCE:
            return False
        stored, added = (at(node.step, node.rank, self.names) for at in (target, source))
        if landed not in (stored, added) or stored == added:
            return False
        return landed != added or self._is_wanted_here_only([received, node], landed)

    def _takes_sum(self, node: Node, taken: Sequence[Node], stored: Place) -> bool:
        """Whether a step sends or copies the sum of the steps before it, in the same pass."""
        last, op = taken[-1].step.op, node.step.op
        if op not in (Op.SEND, Op.COPY) or op is last or node.index in self.acquires:
            return False
        if source(node.step, node.rank, self.names) != stored:
            return False
        if op is Op.COPY:
            return self._is_wanted_here_only([*taken, node], stored)
        if last is Op.COPY or self._is_port(node):
            return False
        return taken[1].index not in self.sums.also or not self._is_waited_for(taken)

    def _kind(self, node: Node) -> Channel:
        return self._end(self.steps.sent[node.index], node)[0]

    def _nodes(self, taken: Sequence[Node], made: Emitter) -> None:
        for node in taken:
            self._acquire(node, made)
            if node.index in self.handshakes:
                made.wait(*self._end(self.steps.sent[node.index], node), relaxed=True)
        received = self.steps.received.get(taken[0].index)
        if taken[-1].index in self.sums.put_off:
            pass  # the packets are read by the sum that does what this one did
        elif received is not None:
            self._receive(taken, self.landings.at[received.send], made)
        elif taken[0].index in self.steps.sent:
            self._send(taken[0], self.steps.sent[taken[0].index], made)
        elif taken[0].step.op is Op.REDUCE:
            self._sum(taken, None, made)
        else:
            self._work(taken[0], None, None, made)
        self._release(taken, made)

    def _send(self, node: Node, message: Message, made: Emitter) -> None:
        taken = source(node.step, node.rank, self.names)
        if self._kind(node) is Channel.MEMORY:
            there = self._remote(node, message)
            made.packets(OpName.PUT_PACKETS, [taken], [], [], [there], kind=Channel.MEMORY)
            return
        here = self.made_at[message.send]
        made.packets(OpName.COPY_TO_PACKETS, [taken], [], [here])
        self._forward(node, message, here, made)

    def _forward(self, node: Node, message: Message, packets: Place, made: Emitter) -> None:
        """Send packets that are, or will be, in the rank's own scratch."""
        kind, channel = self._end(message, node)
        made.packets(
            OpName.READ_PUT_PACKETS,
            [],
            [packets],
            [],
            [self._remote(node, message)],
            kind=kind,
            channel=channel if kind is Channel.PORT else None,
        )

    def _receive(self, taken: Sequence[Node], landed: Place, made: Emitter) -> None:
        first, rank = taken[0], taken[0].rank
        wanted = target(first.step, rank, self.names)
        sending = next((node for node in taken if node.step.op is Op.SEND), None)
        if len(taken) == 1 or taken[1] is sending:
            if sending is not None:
                self._forward(sending, self.steps.sent[sending.index], landed, made)
            made.packets(OpName.COPY_FROM_PACKETS, [], [landed], [wanted])
            return
        adding = taken[1].step
        stored, added = target(adding, rank, self.names), source(adding, rank, self.names)
        mine = added if wanted == stored else stored
        packets = [landed]
        for other in self.done_by.get(taken[1].index, ()):
            message = self.steps.received[other - 1]
            packets.append(self.landings.at[message.send])
            step = self.steps.nodes[other].step
            if target(self.steps.nodes[other - 1].step, rank, self.names) == stored:
                mine = source(step, rank, self.names)
        if taken[-1].step.op is Op.COPY:
            stored = target(taken[-1].step, rank, self.names)
        if sending is None:
            made.packets(OpName.REDUCE_PACKETS, [mine], packets, [stored])
            return
        there = self._remote(sending, self.steps.sent[sending.index])
        name, kind = OpName.REDUCE_SEND_PACKETS, Channel.MEMORY
        made.packets(name, [mine], packets, [stored], [there], kind=kind)


def _done_by(sums: Sums) -> dict[int, list[int]]:
    """By sum, those that it does next to its own."""
    done: dict[int, list[int]] = {}
    for node, last in sums.put_off.items():
        done.setdefault(last, []).append(node)
    return done


def _reported_by_messages_only(steps: Steps, landings: Landings) -> dict[int, tuple[int, ...]]:
    """For each step, those of other thread blocks that touched what it touches, as only messages say to it.

    One of the two writes. Packets may order some of them element by element, as who sends on has read; that
    is not looked into.
    """
    known = known_without_messages(steps)
    last: dict[int, dict[int, int]] = {}
    for touching in landings.touching.values():
        for second in touching:
            for first in touching:
                one, other = steps.nodes[first], steps.nodes[second]
                if one.block == other.block or not (writes(one.step) or writes(other.step)):
                    continue
                if known[second, one.block] <= one.at and steps.is_before(first, second):
                    latest = last.setdefault(second, {})
                    latest[one.block] = max(first, latest.get(one.block, first))
    return {node: tuple(latest.values()) for node, latest in last.items()}
