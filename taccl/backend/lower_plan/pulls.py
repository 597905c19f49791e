"""Which messages are pulled: the receiver reads what it adds where the sender has it, and nothing is put.
That saves scratch, and the pass over what has landed; but the sender's place has to stay as it is until the
receiver is done with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from taccl.backend.lower_plan.places import Aliases, Place, reads, source, target, writes
from taccl.backend.lower_plan.steps import Message, Node, Steps
from taccl.backend.program import Op


def own_part(adding: Node, received: Node, names: Aliases) -> Place:
    """What the rank itself has of a sum with what it received."""
    added, stored = source(adding.step, adding.rank, names), target(adding.step, adding.rank, names)
    return added if stored == target(received.step, received.rank, names) else stored


def find_pulls(
    steps: Steps,
    names: Aliases,
    node_of: Sequence[int],
    rows: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> dict[int, int]:
    """By send, the sum that reads what it would send, at the receiver.

    Next to the rows, those that wait for nothing but the message: a sum that waits for another one had better
    find its bytes there.

    Parameters
    ----------
    rows : sums that the last of them does, which pulls what all of them add.
    """
    search = PullSearch(steps, names, node_of)
    last = {each: row[-1] for row in rows.values() for each in row}
    pulls = {}
    for message in steps.messages:
        added = message.receive + 1
        if added in last:
            pulls[message.send] = last[added]
        elif (
            search.is_read_once(message)
            and steps.before[added] == (message.receive,)
            and search.stays(message, added)
        ):
            pulls[message.send] = added
    return pulls


class PullSearch:
    """What may be pulled.

    Parameters
    ----------
    node_of : by rank; ranks read the memory of their node.
    """

    def __init__(self, steps: Steps, names: Aliases, node_of: Sequence[int]) -> None:
        self.steps, self.names, self.node_of = steps, names, node_of
        self.by_rank: dict[int, list[Node]] = {}
        for node in steps.nodes:
            self.by_rank.setdefault(node.rank, []).append(node)

    def is_read_once(self, message: Message) -> bool:
        """Whether it comes from the node, the next step adds it, and nobody else ever reads it."""
        sent, received = self.steps.nodes[message.send], self.steps.nodes[message.receive]
        block = self.steps.blocks[received.block]
        if (
            sent.step.op is not Op.SEND
            or received.step.op is not Op.RECV
            or message.receive + 1 not in block.nodes
            or self.node_of[message.src] != self.node_of[message.dst]
        ):
            return False
        adding = self.steps.nodes[message.receive + 1]
        landed = target(received.step, received.rank, self.names)
        if adding.step.op is not Op.REDUCE:
            return False
        added, stored = (
            source(adding.step, adding.rank, self.names),
            target(adding.step, adding.rank, self.names),
        )
        if landed not in (added, stored) or added.overlaps(stored):
            return False
        return all(
            self.steps.is_before(node.index, received.index)
            or (landed == stored and self.steps.is_before(adding.index, node.index))
            or self._is_written_between(adding, node, landed)
            for node in self.by_rank[received.rank]
            if node.index not in (received.index, adding.index) and self._reads(node, landed)
        )

    def stays(self, message: Message, added: int) -> bool:
        """Whether all that writes what is sent is done before, or begins when it has been added."""
        sent = self.steps.nodes[message.send]
        place = source(sent.step, sent.rank, self.names)
        return all(
            self.steps.is_before(node.index, sent.index) or self.steps.is_before(added, node.index)
            for node in self.by_rank[sent.rank]
            if writes(node.step) and target(node.step, node.rank, self.names).overlaps(place)
        )

    def _is_written_between(self, first: Node, last: Node, place: Place) -> bool:
        return any(
            node.index == last.index or self.steps.is_before(node.index, last.index)
            for node in self.by_rank[first.rank]
            if node.step.op is not Op.REDUCE
            and writes(node.step)
            and target(node.step, node.rank, self.names) == place
            and self.steps.is_before(first.index, node.index)
        )

    def _reads(self, node: Node, place: Place) -> bool:
        places = [source(node.step, node.rank, self.names)] if reads(node.step) else []
        if node.step.op is Op.REDUCE:
            places.append(target(node.step, node.rank, self.names))
        return any(each.overlaps(place) for each in places)
