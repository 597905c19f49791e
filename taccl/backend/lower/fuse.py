"""Fused steps: a receive and the send of what it received become one step.

    r + s       rcs     receive, store, pass on
    rrc + s     rrcs    receive, add, store, pass on
    rrc + s     rrs     receive, add to the rank's own data, pass on; nothing is stored

The step runs where its send was. So it is made only if nothing in between needs what was received: no
other thread block waits for it, and the next message on its connection is sent later. Groups of several
chunks stay apart: a fused step of several pieces ties its two connections together, and the argument
of `order` for a single slot would no longer hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from taccl.backend.lower.actions import Place
from taccl.backend.lower.blocks import Block
from taccl.backend.lower.expand import RankActions
from taccl.backend.lower.hazards import hazards
from taccl.backend.program import Buffer, Op
from taccl.schedule import TOLERANCE_US

_FUSED = {Op.RECV: Op.RECV_COPY_SEND, Op.RECV_REDUCE_COPY: Op.RECV_REDUCE_COPY_SEND}


def fuse(rank: RankActions, blocks: Sequence[Block], next_send: Sequence[float]) -> None:
    """Fuse what can be fused, in `rank` and `blocks` themselves.

    Parameters
    ----------
    next_send : for each send, the position of the next send of its connection.
    """
    fusion = _Fusion(rank, next_send)
    for block in blocks:
        for at in range(len(block.actions)):
            fusion.try_receive(block.actions, at)
    fusion.apply(blocks)


class _Fusion:
    def __init__(self, rank: RankActions, next_send: Sequence[float]) -> None:
        self.rank, self.actions, self.next_send = rank, rank.actions, next_send
        self.followers: list[list[int]] = [[] for _ in rank.actions]
        for number, waits in enumerate(hazards(rank.actions, rank.input_shift)):
            for wait in waits:
                self.followers[wait].append(number)
        self.users: dict[Place, list[int]] = {}
        for number, action in enumerate(rank.actions):
            for place in {*action.reads(), *action.writes()}:
                self.users.setdefault(place, []).append(number)
        self.begins_with = {accumulator: own for own, accumulator in rank.early}
        self.gone: set[int] = set()

    def try_receive(self, numbers: Sequence[int], at: int) -> None:
        """Fuse the receive at a place of a thread block with the send that follows it, if they may be."""
        receive = numbers[at]
        send = self._partner(numbers, at)
        if send is None or not self._may_fuse(receive, send):
            return
        received, sent = self.actions[receive], self.actions[send]
        sent.known += received.known
        sent.held_back += received.held_back
        place = received.dst
        own = self.begins_with.get(place)
        adds = received.op is Op.RECV_REDUCE_COPY
        if adds and own is not None and self._nobody_else_uses(place, receive, send):
            sent.op, place = Op.RECV_REDUCE_SEND, own
            del self.begins_with[received.dst]
        else:
            sent.op = _FUSED[received.op]
        sent.src = sent.dst = place
        self.gone.add(receive)

    def apply(self, blocks: Sequence[Block]) -> None:
        """Take the receives out, and number the rest again."""
        order = [number for number in range(len(self.actions)) if number not in self.gone]
        renumbered = {number: new for new, number in enumerate(order)}
        self.rank.actions = [self.actions[number] for number in order]
        self.rank.early = [(own, place) for place, own in self.begins_with.items()]
        for action in self.rank.actions:
            action.known = tuple(renumbered[number] for number in action.known)
            action.held_back = tuple(renumbered[number] for number in action.held_back)
        for block in blocks:
            block.actions = [renumbered[n] for n in block.actions if n not in self.gone]

    def _nobody_else_uses(self, accumulator: Place, receive: int, send: int) -> bool:
        """Whether what the receive stores is only there for the send."""
        users = self.users[accumulator]
        if users[:2] != [receive, send]:
            return False
        if len(users) == 2:
            return accumulator.buffer is Buffer.SCRATCH
        return accumulator not in self.actions[users[2]].reads()

    def _partner(self, numbers: Sequence[int], at: int) -> int | None:
        """The send directly after a receive in its block, if it sends what was received."""
        received = self.actions[numbers[at]]
        if received.op not in _FUSED or received.count != 1 or at + 1 == len(numbers):
            return None
        action = self.actions[numbers[at + 1]]
        passes_on = action.op is Op.SEND and action.src == received.dst and action.count == 1
        return numbers[at + 1] if passes_on else None

    def _may_fuse(self, receive: int, send: int) -> bool:
        received, sent = self.actions[receive], self.actions[send]
        if self.next_send[received.send] < sent.position:
            return False
        for number in self.followers[receive]:
            action = self.actions[number]
            if number == send:
                continue
            if number < send or action.op not in (Op.SEND, Op.COPY):
                return False
            if action.ready_us < sent.done_us - TOLERANCE_US:
                return False
        return True
