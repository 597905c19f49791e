"""What is sent is there before: what each send waits for, among what stays and what is open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from taccl.encoding.engines.lns.apart import Cell, Row
from taccl.encoding.engines.lns.variables import Variables
from taccl.encoding.engines.lns.window import Item


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """When what a send waits for has come.

    Parameters
    ----------
    variables : of the model.
    ends : of each row that stays, when its send ends.
    sums_into : the same of rows of a tree that stay, by where they bring their sums.
    """

    variables: Variables
    ends: Mapping[int, Any]
    sums_into: Mapping[Cell, list[Any]]

    def sums_at(self, cell: Cell) -> list[Any]:
        """When each sum that flows into a rank of a tree, or into its sink, has come."""
        bundle, rank = cell
        open_ones = self.variables.moments.at.get(((bundle, True), rank))
        return self.sums_into.get(cell, []) + ([] if open_ones is None else [open_ones])

    def copy_at(self, cell: Cell) -> list[Any]:
        """When a copy of a bundle that is not opened can leave a rank: nothing where it starts."""
        bundle, rank = cell
        around, at = self.variables.around, self.variables.moments.at
        if ((bundle, False), rank) in at:
            return [at[(bundle, False), rank]]
        if cell in around.apart.copy_into:
            return [self.ends[around.apart.copy_into[cell]]]
        return self.rows_at(around.apart.made.get(cell, ()))

    def rows_at(self, numbers: Iterable[int]) -> list[Any]:
        """When rows have come; of a tree, all that flows into the same rank."""
        around, at = self.variables.around, self.variables.moments.at
        moments: list[Any] = []
        trees: set[Cell] = set()
        for number in numbers:
            row = around.apart.rows[number]
            receiver = around.dst[row.link]
            if around.is_in_tree(row):
                trees.add((row.bundle, receiver))
            elif number in self.ends:
                moments.append(self.ends[number])
            else:
                moments.append(at[(row.bundle, row.is_sum), receiver])
        return moments + [moment for cell in sorted(trees) for moment in self.sums_at(cell)]

    def needed_by_row(self, row: Row) -> list[Any]:
        """What a row that stays waits for."""
        around, cell = self.variables.around, (row.bundle, self.variables.around.src[row.link])
        if around.is_in_tree(row):
            return self.sums_at(cell)
        if not row.is_sum and around.has_copies_at(*cell):
            return self.copy_at(cell)
        return self.rows_at(row.needs)

    def needed_by_item(self, item: Item, rank: int) -> list[Any]:
        """What an open item waits for that leaves a rank."""
        bundle, is_sum = item
        if bundle in self.variables.around.window.opened:
            return [self.variables.moments.at[item, rank]]
        return self.sums_at((bundle, rank)) if is_sum else self.copy_at((bundle, rank))


def what_is_sent_is_there_before(variables: Variables) -> None:
    """Presence: sends start when all that they carry is there, and bring open items when they end."""
    cp, around, arrivals = variables.cp, variables.around, _arrivals(variables)
    for sending in variables.sends.staying.values():
        for row in sending.kept:
            for moment in arrivals.needed_by_row(row):
                cp.add(sending.start >= moment)
    for (item, link), options in variables.sends.options.items():
        needed = arrivals.needed_by_item(item, around.src[link])
        brought = variables.moments.at.get((item, around.dst[link]))
        for literal, sending in options:
            for moment in needed:
                cp.add(sending.start >= moment).only_enforce_if(literal)
            if brought is not None:
                cp.add(brought >= sending.end).only_enforce_if(literal)


def _arrivals(variables: Variables) -> _Arrivals:
    around, staying = variables.around, variables.sends.staying
    sums_into: dict[Cell, list[Any]] = defaultdict(list)
    ends: dict[int, Any] = {}
    for number, row in enumerate(around.apart.rows):
        if not around.is_open(number):
            ends[number] = staying[row.send].end
            if around.is_in_tree(row):
                sums_into[row.bundle, around.dst[row.link]].append(ends[number])
    return _Arrivals(variables, ends, sums_into)
