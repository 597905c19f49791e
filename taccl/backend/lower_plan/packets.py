"""The thread blocks of a plan of packets: messages land in scratch with the number of the call next to them.

Who reads packets waits for them, so that messages take no signals. They tell nothing but their data: what
else one thread block of a rank has to know of another takes a semaphore. Slots are used once in a call, and
calls use the two halves of scratch in turn; so a sender must have heard from each receiver before it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from taccl.backend.lower_plan.blocks import Blocks
from taccl.backend.lower_plan.emit import Emitter, own
from taccl.backend.lower_plan.graph import Action, Graph
from taccl.backend.lower_plan.places import Place
from taccl.backend.lower_plan.resources import Semaphores, find_semaphores
from taccl.backend.plan import Channel, OpName
from taccl.backend.program import Op
from taccl.errors import CollectiveError

_MOVING = frozenset({Op.SEND, Op.RECV, Op.COPY, Op.REDUCE, Op.NOP})


class PacketBlocks(Blocks):
    """As `Blocks`, with packets."""

    def __init__(self, graph: Graph) -> None:
        """Raises
        ------
        CollectiveError : an action that both receives and adds or sends.
        """
        for action in graph.actions:
            if action.op not in _MOVING:
                raise CollectiveError(
                    f"a step {action.op.value} is not made of packets here", hint="protocol Simple"
                )
        #: by sum, those that it makes next to its own
        self.made_by: dict[int, list[int]] = {}
        for index, last in graph.sums.put_off.items():
            self.made_by.setdefault(last, []).append(index)
        super().__init__(graph)

    def _find_semaphores(self) -> Semaphores:
        graph, reported = self.graph, _reported_by_messages_only(self.graph)
        return find_semaphores(
            graph,
            graph.known_without_messages,
            lambda action: (*graph.before[action.index], *reported.get(action.index, ())),
        )

    def _find_handshakes(self) -> frozenset[int]:
        """The messages whose sender hears nothing from the receiver in a call."""
        graph = self.graph
        requested: dict[tuple[int, int], int] = {}
        for message in graph.messages:
            last = graph.known_at_end[message.src]
            blocks = (number for number, block in enumerate(graph.blocks) if block.rank == message.dst)
            if not any(last[number] for number in blocks):
                requested.setdefault((message.src, message.dst), message.send)
        return frozenset(requested.values())

    def _find_together(self) -> dict[int, tuple[int, ...]]:
        """None: packets are read as they come, each message's by itself."""
        return {}

    def _run(self, mine: Sequence[Action], first: int) -> list[Action]:
        """An action, and those behind it that are done in one go: what is received is added, or sent on."""
        taken, sums = [mine[first]], self.graph.sums
        if mine[first].op is not Op.RECV or first + 1 == len(mine):
            return taken
        landed, following = mine[first].target, mine[first + 1]
        if following.index in sums.put_off:
            return [*taken, following]
        if following.index in self.semaphores.acquires and following.index not in sums.also:
            return taken
        if following.op is Op.SEND and following.source == landed:
            return [*taken, following]
        if not self._adds_packets(following, mine[first], landed):
            return taken
        taken.append(following)
        for action in mine[first + 2 : first + 4]:
            if not self._takes_sum(action, taken, following.target):
                break
            taken.append(action)
        return taken

    def _adds_packets(self, action: Action, received: Action, landed: Place) -> bool:
        """Whether an action adds something to what was received, which nothing else wants."""
        if action.op is not Op.REDUCE:
            return False
        if landed not in (action.target, action.source) or action.target == action.source:
            return False
        return landed != action.source or self._is_wanted_here_only([received, action], landed)

    def _takes_sum(self, action: Action, taken: Sequence[Action], stored: Place) -> bool:
        """Whether an action sends or copies the sum of those before it, in the same pass."""
        last = taken[-1].op
        if action.op not in (Op.SEND, Op.COPY) or action.op is last:
            return False
        if action.source != stored or (
            action.index in self.semaphores.acquires and not self._is_soon(action)
        ):
            return False
        if action.op is Op.COPY:
            others = self.made_by.get(taken[1].index, ())  # their packets are read here, and land nowhere
            done = [self.graph.actions[at] for other in others for at in (other - 1, other)]
            return self._is_wanted_here_only([*taken, action, *done], stored)
        if last is Op.COPY or not self._is_near(action):
            return False
        return taken[1].index not in self.graph.sums.also or not self._is_waited_for(taken)

    def _is_soon(self, action: Action) -> bool:
        """Whether it waits for nobody, or copies and waits for what needs no message, so is over by then."""
        waits = self.semaphores.waits.get(action.index, ())
        return not waits or (action.op is Op.COPY and not any(self.graph.hops[wait] for wait in waits))

    def _emit(self, run: Sequence[Action], made: Emitter) -> None:
        self._acquire(run, made)
        for action in run:
            if action.index in self.handshakes:
                made.wait([self._end(self.graph.sent[action.index], action.block)], relaxed=True)
        first = run[0]
        received = self.graph.received.get(first.index)
        if run[-1].index in self.graph.sums.put_off:
            pass  # the packets are read by the sum that does what this one did
        elif received is not None:
            self._receive(run, self.landings.at[received.send], made)
        elif first.index in self.graph.sent:
            self._send(first, made)
        else:
            self._move(run, None, None, made)
        self._release(run, made)

    def _send(self, action: Action, made: Emitter) -> None:
        if self._is_near(action):
            there = self._remote(action)
            made.work(OpName.PUT_PACKETS, [action.source], [], [there], Channel.MEMORY)
            return
        here = self.landings.made[action.index]
        made.work(OpName.COPY_TO_PACKETS, [action.source], [here])
        self._forward(action, here, made)

    def _forward(self, action: Action, packets: Place, made: Emitter) -> None:
        """Send packets that are, or will be, in the rank's own scratch."""
        kind, channel = self._end(self.graph.sent[action.index], action.block)
        through = channel if kind is Channel.PORT else None
        there = [self._remote(action)]
        made.work(OpName.READ_PUT_PACKETS, [], [], there, kind, channel=through, behind=[own(packets)])

    def _receive(self, run: Sequence[Action], landed: Place, made: Emitter) -> None:
        graph, first = self.graph, run[0]
        sending = next((action for action in run if action.op is Op.SEND), None)
        if len(run) == 1 or run[1] is sending:
            if sending is not None:
                self._forward(sending, landed, made)
            made.work(OpName.COPY_FROM_PACKETS, [], [first.target], behind=[own(landed)])
            return
        adding = run[1]
        stored = adding.target
        mine = adding.source if first.target == stored else stored
        packets = [own(landed)]
        for other in self.made_by.get(adding.index, ()):
            packets.append(own(self.landings.at[graph.received[other - 1].send]))
            if graph.actions[other - 1].target == stored:
                mine = graph.actions[other].source
        if run[-1].op is Op.COPY:
            stored = run[-1].target
        if sending is None:
            made.work(OpName.REDUCE_PACKETS, [mine], [stored], behind=packets)
            return
        there = [self._remote(sending)]
        made.work(OpName.REDUCE_SEND_PACKETS, [mine], [stored], there, Channel.MEMORY, behind=packets)


def _reported_by_messages_only(graph: Graph) -> dict[int, tuple[int, ...]]:
    """For each action, those of other thread blocks that touched what it touches, as only messages say to it.

    One of the two writes. Packets may order some of them element by element, as who sends on has read; that
    is not looked into.
    """
    known = graph.known_without_messages
    last: dict[int, dict[int, int]] = {}
    for touching in graph.touching.values():
        for second in touching:
            for first in touching:
                one, other = graph.actions[first], graph.actions[second]
                if one.block == other.block or not (one.writes or other.writes):
                    continue
                if known[second, one.block] <= one.at and graph.is_before(first, second):
                    latest = last.setdefault(second, {})
                    latest[one.block] = max(first, latest.get(one.block, first))
    return {action: tuple(latest.values()) for action, latest in last.items()}
