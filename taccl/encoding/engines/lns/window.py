"""What a window is, and which schedules are near: what is open, over which links it may go, what stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from taccl.encoding.engines.lns.apart import Apart, Cell, Row
from taccl.model.collective import Placement

#: A bundle, and whether as a partial sum.
Item = tuple[int, bool]


@dataclass(frozen=True)
class Window:
    """What is decided anew.

    Parameters
    ----------
    opened : bundles of which every way is open, and where their sums are made.
    rows : rows of which the routes are open, of other bundles.
    movable : sends that leave their places in the orders of their ports.
    """

    opened: frozenset[int]
    rows: frozenset[int]
    movable: frozenset[int]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The known schedule with a window in it.

    Parameters
    ----------
    apart, window : the known schedule, and what of it is decided anew.
    src, dst : where each link begins and ends.
    starts_at, wanted_at : the ranks where each bundle starts, and where it is wanted.
    copy_cells : where copies of open rows come.
    sum_cells : where sums of open rows leave.
    taken_on : from where rows that stay take copies on.
    """

    apart: Apart
    window: Window
    src: list[int]
    dst: list[int]
    starts_at: dict[int, set[int]]
    wanted_at: dict[int, set[int]]
    copy_cells: frozenset[Cell]
    sum_cells: frozenset[Cell]
    taken_on: frozenset[Cell]

    def is_open(self, number: int) -> bool:
        """Whether the way of a row is decided anew."""
        return number in self.window.rows or self.apart.rows[number].bundle in self.window.opened

    def is_reduced(self, bundle: int) -> bool:
        """Whether its chunks are sums."""
        return bool(self.apart.problem.collective.reduces[self.apart.bundles[bundle][0]])

    def is_in_tree(self, row: Row) -> bool:
        """Whether a row passes on a partial sum with all that comes to its sender."""
        return row.is_sum and (row.bundle, self.src[row.link]) in self.apart.sink

    def width(self, item: Item) -> int:
        """The chunks of an item."""
        return len(self.apart.bundles[item[0]])

    def roots_of(self, bundle: int) -> list[int]:
        """Where its sum may be made: where a part of it starts, and it is wanted or made now."""
        now = self.apart.root.get(bundle)
        wanted = self.wanted_at[bundle] | (set() if now is None else {now})
        return sorted(wanted & self.starts_at[bundle])

    def has_copies_at(self, bundle: int, rank: int) -> bool:
        """Whether copies of a bundle that is not opened come to a rank in a known way or an open one."""
        if not self.is_reduced(bundle) and rank in self.starts_at[bundle]:
            return True
        cell = bundle, rank
        return cell in self.copy_cells or cell in self.apart.copy_into or cell in self.apart.made


def neighbourhood_of(apart: Apart, window: Window) -> Neighbourhood:
    """All that the rules of a model ask about a window of a schedule."""
    topology, collective = apart.problem.topology, apart.problem.collective
    src, dst = topology.src.tolist(), topology.dst.tolist()
    open_rows = [apart.rows[number] for number in window.rows]
    staying = (
        row
        for number, row in enumerate(apart.rows)
        if number not in window.rows and row.bundle not in window.opened
    )
    return Neighbourhood(
        apart,
        window,
        src,
        dst,
        _ranks_of(apart, collective.inputs),
        _ranks_of(apart, collective.outputs),
        frozenset((row.bundle, dst[row.link]) for row in open_rows if not row.is_sum),
        frozenset((row.bundle, src[row.link]) for row in open_rows if row.is_sum),
        frozenset((row.bundle, src[row.link]) for row in staying if not row.is_sum),
    )


def _ranks_of(apart: Apart, placement: Placement) -> dict[int, set[int]]:
    first = {chunks[0]: bundle for bundle, chunks in enumerate(apart.bundles)}
    ranks: dict[int, set[int]] = defaultdict(set)
    for chunk, rank in zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True):
        if chunk in first:
            ranks[first[chunk]].add(rank)
    return ranks


def open_links(around: Neighbourhood, allowed: Callable[[int, int], bool]) -> dict[Item, frozenset[int]]:
    """The links that each open item may use; `allowed` says which ones the chunks of a bundle may."""
    links: dict[Item, set[int]] = defaultdict(set)
    for bundle in around.window.opened:
        for is_sum in (False, True) if around.is_reduced(bundle) else (False,):
            every = range(around.apart.problem.topology.num_links)
            links[bundle, is_sum] = {link for link in every if allowed(bundle, link)}
    for number in around.window.rows:
        row = around.apart.rows[number]
        others = {link for link in _instead_of(around, row) if allowed(row.bundle, link)}
        links[row.bundle, row.is_sum] |= others | {row.link}
    return {
        item: frozenset(link for link in each if _serves(around, item, link)) for item, each in links.items()
    }


def _instead_of(around: Neighbourhood, row: Row) -> Iterable[int]:
    """A copy may come to its receiver from elsewhere; a sum goes to any rank of its tree."""
    topology, sink_of = around.apart.problem.topology, around.apart.sink
    if not row.is_sum:
        return topology.links_into[around.dst[row.link]]
    sender = around.src[row.link]
    sink = sink_of[row.bundle, sender]
    return [
        link
        for link in topology.links_from[sender]
        if sink in (around.dst[link], sink_of.get((row.bundle, around.dst[link])))
    ]


def _serves(around: Neighbourhood, item: Item, link: int) -> bool:
    """Whether an item can be where a link begins, and is of use where it ends."""
    bundle, is_sum = item
    sender, receiver = around.src[link], around.dst[link]
    is_opened, starts_at = bundle in around.window.opened, around.starts_at[bundle]
    if is_sum:
        return not is_opened or (sender in starts_at and receiver in starts_at)
    if not around.is_reduced(bundle) and receiver in starts_at:
        return False
    return is_opened or around.has_copies_at(bundle, sender)
