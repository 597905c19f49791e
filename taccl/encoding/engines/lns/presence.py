"""What is sent is there before: what each send waits for, among what stays and what is open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taccl.encoding.engines.lns.apart import Cell, Row
from taccl.encoding.engines.lns.sends import KnownSend
from taccl.encoding.engines.lns.window import Item, Neighbourhood
from taccl.encoding.sending_model.rules import sends_start_when_their_items_are_there
from taccl.encoding.sending_model.sends import SendingModel


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """When what a send waits for has come.

    Parameters
    ----------
    model, around : the model, and the window in the known schedule.
    ends : of each row that stays, when its send ends.
    sums_into : the same of rows of a tree that stay, by where they bring their sums.
    """

    model: SendingModel[Item]
    around: Neighbourhood
    ends: Mapping[int, Any]
    sums_into: Mapping[Cell, list[Any]]

    def own_at(self, cell: Cell) -> list[Any]:
        """When a rank's own input is there, if that is late."""
        bundle, rank = cell
        moment = self.model.ready.get((self.around.apart.bundles[bundle][0], rank))
        return [] if moment is None else [moment]

    def sums_at(self, cell: Cell) -> list[Any]:
        """When each sum that flows into a rank of a tree, or into its sink, has come."""
        bundle, rank = cell
        open_ones = self.model.at.get(((bundle, True), rank))
        waits = self.own_at(cell) + self.sums_into.get(cell, [])
        return waits + ([] if open_ones is None else [open_ones])

    def copy_at(self, cell: Cell) -> list[Any]:
        """When a copy of a bundle that is not opened can leave a rank."""
        bundle, rank = cell
        if ((bundle, False), rank) in self.model.at:
            return [self.model.at[(bundle, False), rank]]
        if cell in self.around.apart.copy_into:
            return [self.ends[self.around.apart.copy_into[cell]]]
        return self.own_at(cell) + self.rows_at(self.around.apart.made.get(cell, ()))

    def rows_at(self, numbers: Iterable[int]) -> list[Any]:
        """When rows have come; of a tree, all that flows into the same rank."""
        moments: list[Any] = []
        trees: set[Cell] = set()
        for number in numbers:
            row = self.around.apart.rows[number]
            receiver = self.around.dst[row.link]
            if self.around.is_in_tree(row):
                trees.add((row.bundle, receiver))
            elif number in self.ends:
                moments.append(self.ends[number])
            else:
                moments.append(self.model.at[(row.bundle, row.is_sum), receiver])
        return moments + [moment for cell in sorted(trees) for moment in self.sums_at(cell)]

    def needed_by_row(self, row: Row) -> list[Any]:
        """What a row that stays waits for."""
        around, cell = self.around, (row.bundle, self.around.src[row.link])
        if around.is_in_tree(row):
            return self.sums_at(cell)
        if not row.is_sum and around.has_copies_at(*cell):
            return self.copy_at(cell)
        has_own = not row.carried or row.carried >> cell[1] & 1
        return self.rows_at(row.needs) + (self.own_at(cell) if has_own else [])

    def needed_by_item(self, item: Item, rank: int) -> list[Any]:
        """What an open item waits for that leaves a rank."""
        bundle, is_sum = item
        if bundle in self.around.window.opened:
            return [self.model.at[item, rank]]
        return self.sums_at((bundle, rank)) if is_sum else self.copy_at((bundle, rank))


def what_is_sent_is_there_before(
    model: SendingModel[Item], around: Neighbourhood, sends: Sequence[KnownSend]
) -> None:
    """Presence: sends start when all that they carry is there, and bring open items when they end."""
    arrivals = _arrivals(model, around, sends)
    for known in sends:
        for row in known.kept:
            for moment in arrivals.needed_by_row(row):
                model.cp.add(known.send.start >= moment)
    for item, link in model.options:
        needed = arrivals.needed_by_item(item, around.src[link])
        sends_start_when_their_items_are_there(model, item, link, needed)


def _arrivals(model: SendingModel[Item], around: Neighbourhood, sends: Sequence[KnownSend]) -> _Arrivals:
    staying = {known.was: known.send.end for known in sends if known.kept}
    sums_into: dict[Cell, list[Any]] = defaultdict(list)
    ends: dict[int, Any] = {}
    for number, row in enumerate(around.apart.rows):
        if not around.is_open(number):
            ends[number] = staying[row.send]
            if around.is_in_tree(row):
                sums_into[row.bundle, around.dst[row.link]].append(ends[number])
    return _Arrivals(model, around, ends, sums_into)
