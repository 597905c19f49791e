"""Sums of several operands: what is added to one place one after another is added in one pass, by the last.

It knows steps and the memory of ranks; operations it must not know. Nobody may look at the place in between,
and what is added has to stay until the last. Only what is there as soon: sums whose bytes came over as many
ranks, so that no sum is put off that could be done while bytes of others are on their way.
"""

from __future__ import annotations

from collections.abc import Collection

from taccl.backend.lower_plan.places import NO_SUMS, Aliases, Place, Sums, reads, source, target, writes
from taccl.backend.lower_plan.steps import Node, Steps
from taccl.backend.program import Op

#: Sources of an operation, whatever the release; one is what the place has, one the last sum's.
MAX_SOURCES = 8


def find_sums(steps: Steps, names: Aliases, pulled: Collection[int] = ()) -> Sums:
    """The sums that others can do.

    `pulled` : sums that read what they add at its sender; they are left as they are.
    """
    at: dict[tuple[int, Place], list[Node]] = {}
    for index in steps.order:
        node = steps.nodes[index]
        if node.step.op is Op.REDUCE and index not in pulled:
            at.setdefault((node.rank, target(node.step, node.rank, names)), []).append(node)
    several = {key: found for key, found in at.items() if len(found) > 1}
    if not several:
        return NO_SUMS
    search = _Search(steps, names)
    put_off: dict[int, int] = {}
    also: dict[int, tuple[Place, ...]] = {}
    for (_, place), found in several.items():
        for row in search.rows(place, found):
            put_off |= {node.index: row[-1].index for node in row[:-1]}
            also[row[-1].index] = tuple(source(node.step, node.rank, names) for node in row[:-1])
    return Sums(put_off, also)


class _Search:
    def __init__(self, steps: Steps, names: Aliases) -> None:
        self.steps, self.names = steps, names
        self.hops = _hops(steps)
        #: by rank and chunk, the steps that touch it, and whether they write it
        self.touching: dict[tuple[int, object, int], list[tuple[int, bool]]] = {}
        for node in steps.nodes:
            touched: dict[tuple[object, int], bool] = {}
            if reads(node.step):
                touched |= dict.fromkeys(source(node.step, node.rank, names).cells(), False)
            if writes(node.step):
                touched |= dict.fromkeys(target(node.step, node.rank, names).cells(), True)
            for (buffer, chunk), is_written in touched.items():
                self.touching.setdefault((node.rank, buffer, chunk), []).append((node.index, is_written))

    def rows(self, place: Place, found: list[Node]) -> list[list[Node]]:
        """Sums into a place that become one, each after the one before; the last of each row does it."""
        rows: list[list[Node]] = [[found[0]]]
        for node in found[1:]:
            row = [*rows[-1], node]
            if len(row) + 1 <= MAX_SOURCES and self._is_one(place, row):
                rows[-1] = row
            else:
                rows.append([node])
        return [row for row in rows if len(row) > 1]

    def _is_one(self, place: Place, row: list[Node]) -> bool:
        first, last, steps = row[0], row[-1], self.steps
        mine = {node.index for node in row}
        if self.hops[first.index] != self.hops[last.index]:
            return False
        if not all(steps.is_before(one.index, other.index) for one, other in zip(row, row[1:], strict=False)):
            return False
        if not all(
            index in mine or steps.is_before(index, first.index) or steps.is_before(last.index, index)
            for index, _ in self._users(first.rank, place)
        ):
            return False
        return all(self._stays(node, last, place) for node in row[:-1])

    def _stays(self, node: Node, last: Node, place: Place) -> bool:
        """Whether what a sum adds is as it is until the last one has added it."""
        added = source(node.step, node.rank, self.names)
        return not added.overlaps(place) and all(
            not is_written
            or self.steps.is_before(index, node.index)
            or self.steps.is_before(last.index, index)
            for index, is_written in self._users(node.rank, added)
        )

    def _users(self, rank: int, place: Place) -> set[tuple[int, bool]]:
        return {user for cell in place.cells() for user in self.touching.get((rank, *cell), ())}


def _hops(steps: Steps) -> list[int]:
    """By step, over how many ranks one after another came what it waits for."""
    hops = [0] * len(steps.nodes)
    for index in steps.order:
        rank = steps.nodes[index].rank
        hops[index] = max(
            (hops[wait] + (steps.nodes[wait].rank != rank) for wait in steps.before[index]), default=0
        )
    return hops
