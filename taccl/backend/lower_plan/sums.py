"""Sums of several operands: what is added to one place one after another is added in one pass, by the last.
Nobody may look at the place in between, and what is added has to stay until the last. Only what is there as
soon: sums whose bytes came over as many ranks, so that no sum is put off that could be done while bytes of
others are on their way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from taccl.backend.lower_plan.fits import MAX_OPERANDS
from taccl.backend.lower_plan.places import NO_SUMS, Aliases, Cell, Place, Sums, source, target, writes
from taccl.backend.lower_plan.steps import Known, Node, Steps, known_without_messages
from taccl.backend.program import Buffer, Op


def find_sums(
    steps: Steps,
    names: Aliases,
    touching: dict[Cell, list[int]],
    pulled: Collection[int] = (),
    packets: bool = False,
) -> Sums:
    """The sums that others can do; `touching` then says who names what.

    Parameters
    ----------
    pulled : sums that read what they add at its sender; they are left as they are.
    packets : whether messages are packets, which the last sum has to read all; of one operand alone there are
        none.
    """
    into: dict[tuple[int, Place], list[Node]] = {}
    for index in steps.order:
        node = steps.nodes[index]
        if node.step.op is Op.REDUCE and index not in pulled:
            into.setdefault((node.rank, target(node.step, node.rank, names)), []).append(node)
    several = {key: found for key, found in into.items() if len(found) > 1}
    if not several:
        return NO_SUMS
    search = _Search(steps, names, touching)
    knows = known_without_messages(steps) if packets else None
    put_off: dict[int, int] = {}
    also: dict[int, tuple[Place, ...]] = {}
    for (rank, place), found in several.items():
        for row in search.rows(place, found):
            if knows is not None and not search.comes_as_packets(place, row, knows):
                continue
            last = row[-1].index
            put_off |= {node.index: last for node in row[:-1]}
            also[last] = tuple(source(node.step, rank, names) for node in row[:-1])
            for node, added in zip(row, also[last], strict=False):
                for buffer, chunk in place.cells():
                    touching[rank, buffer, chunk].remove(node.index)
                for buffer, chunk in added.cells():
                    users = touching[rank, buffer, chunk]
                    users[:] = {*users, last} - {node.index}
    return Sums(put_off, also)


class _Search:
    def __init__(self, steps: Steps, names: Aliases, touching: dict[Cell, list[int]]) -> None:
        self.steps, self.names, self.touching = steps, names, touching
        self.hops = _hops(steps)

    def rows(self, place: Place, found: Sequence[Node]) -> Iterator[list[Node]]:
        """Sums into a place that become one, each after the one before; the last of each row does it."""
        row: list[Node] = []
        for node in found:
            if row and len(row) + 2 <= MAX_OPERANDS and self._goes_with(node, row, place):
                row.append(node)
                continue
            if len(row) > 1:
                yield row
            row = [node]
        if len(row) > 1:
            yield row

    def _goes_with(self, last: Node, row: Sequence[Node], place: Place) -> bool:
        """Whether a sum can do what those before it do."""
        steps, first = self.steps, row[0]
        if self.hops[first.index] != self.hops[last.index] or not steps.is_before(row[-1].index, last.index):
            return False
        mine = {last.index, *(node.index for node in row)}
        return all(
            user in mine or steps.is_before(user, first.index) or steps.is_before(last.index, user)
            for user in self._users(first.rank, place)
        ) and all(self._stays(node, last, place) for node in row)

    def _stays(self, node: Node, last: Node, place: Place) -> bool:
        """Whether what a sum adds is as it is until the last one has added it."""
        added = source(node.step, node.rank, self.names)
        return not added.overlaps(place) and all(
            not self._writes(self.steps.nodes[user], added)
            or self.steps.is_before(user, node.index)
            or self.steps.is_before(last.index, user)
            for user in self._users(node.rank, added)
        )

    def comes_as_packets(self, place: Place, row: Sequence[Node], knows: Known) -> bool:
        """Whether each sum but for one operand adds what just came, which nobody else looks at.

        Then nobody waits for it where it came. So nothing may be sent on that tells peers it has come, unless
        the last sum is known to be done by more than messages.
        """
        steps, last = self.steps, row[-1]
        mine = {node.index for node in row}
        came = []
        for node in row:
            received = steps.nodes[node.index - 1]
            if received.block != node.block or received.step.op is not Op.RECV:
                return False
            landed = target(received.step, received.rank, self.names)
            if landed != source(node.step, node.rank, self.names) and (landed != place or node is not row[0]):
                return False
            came.append(received)
            if not all(
                user in mine
                or user == received.index
                or steps.is_before(user, received.index)
                or (landed == place and steps.is_before(last.index, user))
                for user in self._users(node.rank, landed)
            ):
                return False
        return landed.buffer is Buffer.SCRATCH and not any(
            steps.is_before(received.index, send) and knows[send, last.block] <= last.at
            for received in came
            for send in steps.sent
            if steps.nodes[send].rank == last.rank
        )

    def _users(self, rank: int, place: Place) -> set[int]:
        return {user for cell in place.cells() for user in self.touching.get((rank, *cell), ())}

    def _writes(self, node: Node, place: Place) -> bool:
        return writes(node.step) and target(node.step, node.rank, self.names).overlaps(place)


def _hops(steps: Steps) -> list[int]:
    """By step, over how many ranks one after another came what it waits for."""
    hops = [0] * len(steps.nodes)
    nodes = steps.nodes
    for index in steps.order:
        rank, most = nodes[index].rank, 0
        for wait in steps.before[index]:
            most = max(most, hops[wait] + (nodes[wait].rank != rank))
        hops[index] = most
    return hops
