"""What may be sent in a call before the receiver's kernel is known to have begun.

What lands where the receiver was done with at the end of the call before may come at any time. Any other
message waits until its sender hears of the start, or it lands apart: where nobody else ever writes, so that
it can be sent at once, if the sender does not end a call before it hears that the last one has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taccl.backend.lower_plan.graph import Action, Graph, Message
from taccl.backend.lower_plan.landings import Landings
from taccl.backend.lower_plan.places import Place
from taccl.backend.lower_plan.turns import find_awaited
from taccl.backend.program import Buffer, Op


class Starts:
    """What senders know of receivers at the end of a call, and of bytes on their way through ports.

    Parameters
    ----------
    done_with : by action, the first of those that become one operation with it.
    """

    def __init__(self, graph: Graph, landings: Landings, done_with: Mapping[int, Action]) -> None:
        self.graph, self.landings, self.done_with = graph, landings, done_with
        #: puts through ports that others take their turns after
        self.awaited = find_awaited(graph)
        self.last_on: dict[tuple[int, int], int] = {}  # by connection, its last send
        self.landing_in: dict[tuple[int, Place], list[int]] = {}
        for message in graph.messages:
            self.last_on[message.connection] = max(message.send, self.last_on.get(message.connection, -1))
            if message.send not in graph.pulls:
                self.landing_in.setdefault((message.dst, landings.at[message.send]), []).append(
                    message.receive
                )

    def waiting(self) -> frozenset[int]:
        """The sends that wait for the start of the receiver."""
        return self._find(lambda message: message.send in self.graph.apart)[0]

    def could_land_apart(self) -> frozenset[int]:
        """Sends through ports that would wait for the receiver's start, and could land apart instead."""

        def could(message: Message) -> bool:
            is_kept = self.graph.actions[message.receive].op is Op.RECV
            return is_kept and message.send in self.landings.direct and not self.graph.is_near(message)

        return self._find(could)[1]

    def reported_back(self) -> frozenset[int]:
        """Messages whose senders are signalled that they have been read, which they would not hear otherwise.

        Pulled ones, and of those that land apart the last of each connection.
        """
        graph = self.graph
        pulled = {
            message.send
            for message in graph.messages
            if message.send in graph.pulls
            and not self.is_done_at_end(message.src, graph.actions[graph.pulls[message.send]])
        }
        apart = {
            message.connection: message.send for message in graph.messages if message.send in graph.apart
        }
        return frozenset({*pulled, *apart.values()})

    def _find(self, lands_apart: Callable[[Message], bool]) -> tuple[frozenset[int], frozenset[int]]:
        """The sends that wait, and those that would, but land apart: of those the sender hears no more."""
        graph = self.graph
        begun = [0] * len(graph.actions)
        waiting, apart = set(), set()
        for index in graph.order:
            begun[index] = 1 << graph.actions[index].rank
            for wait in graph.before[index]:
                begun[index] |= begun[wait]
            message = graph.sent.get(index)
            if message is None or begun[index] >> message.dst & 1:
                continue
            if message.send in graph.pulls or self._is_left(message):
                continue
            if lands_apart(message):
                apart.add(index)
                continue
            waiting.add(index)
            begun[index] |= 1 << message.dst
        return frozenset(waiting), frozenset(apart)

    def _is_left(self, message: Message) -> bool:
        """Whether the sender ends each call knowing that the receiver is done with where a message lands.

        That is in scratch, which no caller touches between calls.
        """
        place, pulls = self.landings.at[message.send], self.graph.pulls
        if place.buffer is not Buffer.SCRATCH:
            return False
        users = self.graph.users(message.dst, place) | {*self.landing_in.get((message.dst, place), ())}
        users |= {pulls[user] for user in users if user in pulls}
        return all(
            self.is_done_at_end(message.src, self.graph.actions[user]) and self._has_left(message.src, user)
            for user in users
        )

    def _has_left(self, rank: int, action: int) -> bool:
        """Whether a rank that knows at the end of a call that an action is done knows that it is sent.

        A push is done before, if it does not wait until it is complete. The last one of a channel does, and
        who has received has it all.
        """
        sent = self.graph.sent.get(action)
        if sent is None or self.graph.is_near(sent):
            return True
        sender = self.graph.actions[action]
        if sender.op is Op.SEND and not self.stays(sent, sender.source):
            return True
        later = (self.last_on[sent.connection], sent.receive)
        return any(self.is_done_at_end(rank, self.graph.actions[each]) for each in later)

    def is_done_at_end(self, rank: int, action: Action) -> bool:
        """Whether a rank surely knows when it ends a call that an action is done."""
        done = self.done_with[action.index]
        return bool(self.graph.known_at_end[rank][done.block] > done.at)

    def stays(self, message: Message, taken: Place) -> bool:
        """Whether what goes through a port is left as it is until a later put of the channel is complete."""
        graph, rank = self.graph, message.src
        if message.send == self.last_on[message.connection] or message.send in self.awaited:
            return False
        if taken.buffer is Buffer.SCRATCH and taken.index >= graph.scratch[rank]:
            return False
        return all(
            user == message.send or graph.is_before(user, message.send)
            for user in graph.users(rank, taken)
            if graph.actions[user].may_write(taken)
        )
