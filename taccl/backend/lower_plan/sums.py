"""Sums of several operands: what is added to one place one after another is added in one pass, by the last.

Nobody may look at the place in between, and what is added has to stay until the last. Only what is there as
soon: sums whose bytes came over as many ranks, so that no sum is put off that could be done while bytes of
others are on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from taccl.backend.lower_plan.graph import Action, Graph, Sums
from taccl.backend.lower_plan.places import Cell, Place
from taccl.backend.lower_plan.tuning import MAX_OPERANDS
from taccl.backend.program import Buffer, Op


def add_at_once(graph: Graph) -> Graph:
    """Sums that are there as soon are made by the last of them.

    Those that are pulled are left as they are. Of packets, the last sum has to read all; of one operand alone
    there are none.
    """
    return replace(graph, sums=find_sums(graph))


def find_sums(graph: Graph, hops: Sequence[int] | None = None) -> Sums:
    """The sums that others can make; `hops` : by action, where they are not those of the graph."""
    pulled = {*graph.pulls.values()} | {each for row in graph.rows.values() for each in row}
    into: dict[tuple[int, Place], list[Action]] = {}
    for index in graph.order:
        action = graph.actions[index]
        if action.op is Op.REDUCE and index not in pulled:
            into.setdefault((action.rank, action.target), []).append(action)
    several = {key: found for key, found in into.items() if len(found) > 1}
    sums = Sums({}, {})
    if not several:
        return sums
    search = _Search(graph, graph.hops if hops is None else hops)
    put_off: dict[int, int] = {}
    also: dict[int, tuple[Place, ...]] = {}
    for (_, place), found in several.items():
        for row in search.rows(place, found):
            if graph.packets and not search.comes_as_packets(place, row):
                continue
            last = row[-1].index
            put_off |= {action.index: last for action in row[:-1]}
            also[last] = tuple(action.source for action in row[:-1])
            search.put_off(row)
    return Sums(put_off, also)


class _Search:
    def __init__(self, graph: Graph, hops: Sequence[int]) -> None:
        self.graph, self.hops = graph, hops
        #: the users of each chunk, as sums found so far leave them
        self.touching: dict[Cell, set[int]] = {cell: {*users} for cell, users in graph.touching.items()}

    def rows(self, place: Place, found: Sequence[Action]) -> Iterator[list[Action]]:
        """Sums into a place that become one, each after the one before; the last of each row does it."""
        row: list[Action] = []
        for action in found:
            if row and len(row) + 2 <= MAX_OPERANDS and self._goes_with(action, row, place):
                row.append(action)
                continue
            if len(row) > 1:
                yield row
            row = [action]
        if len(row) > 1:
            yield row

    def put_off(self, row: Sequence[Action]) -> None:
        """Let the last sum touch all that the others touched."""
        last = row[-1]
        for action in row[:-1]:
            for cell in action.target.cells(action.rank):
                self.touching[cell].discard(action.index)
            for cell in action.source.cells(action.rank):
                self.touching[cell] = {*self.touching[cell], last.index} - {action.index}

    def _goes_with(self, last: Action, row: Sequence[Action], place: Place) -> bool:
        """Whether a sum can do what those before it do."""
        graph, first = self.graph, row[0]
        if self.hops[first.index] != self.hops[last.index] or not graph.is_before(row[-1].index, last.index):
            return False
        mine = {last.index, *(action.index for action in row)}
        return all(
            user in mine or graph.is_before(user, first.index) or graph.is_before(last.index, user)
            for user in self._users(first.rank, place)
        ) and all(self._stays(action, last, place) for action in row)

    def _stays(self, action: Action, last: Action, place: Place) -> bool:
        """Whether what a sum adds is as it is until the last one has added it."""
        graph, added = self.graph, action.source
        return not added.overlaps(place) and all(
            not graph.actions[user].may_write(added)
            or graph.is_before(user, action.index)
            or graph.is_before(last.index, user)
            for user in self._users(action.rank, added)
        )

    def comes_as_packets(self, place: Place, row: Sequence[Action]) -> bool:
        """Whether each sum but for one operand adds what just came, which nobody else looks at.

        Then nobody waits for it where it came. So nothing may be sent on that tells peers it has come, unless
        the last sum is known to be done by more than messages.
        """
        graph, last, knows = self.graph, row[-1], self.graph.known_without_messages
        mine = {action.index for action in row}
        came = []
        for action in row:
            received = graph.actions[action.index - 1]
            if received.block != action.block or received.op is not Op.RECV:
                return False
            landed = received.target
            if landed != action.source and (landed != place or action is not row[0]):
                return False
            came.append(received)
            if not all(
                user in mine
                or user == received.index
                or graph.is_before(user, received.index)
                or (landed == place and graph.is_before(last.index, user))
                for user in self._users(action.rank, landed)
            ):
                return False
        return landed.buffer is Buffer.SCRATCH and not any(
            graph.is_before(received.index, send) and knows[send, last.block] <= last.at
            for received in came
            for send in graph.sent
            if graph.actions[send].rank == last.rank
        )

    def _users(self, rank: int, place: Place) -> set[int]:
        return {user for cell in place.cells(rank) for user in self.touching.get(cell, ())}
