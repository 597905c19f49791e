"""When open items are where they may be, and at which ranks open sums are made: variables and their hints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taccl.encoding.engines.lns.apart import Cell
from taccl.encoding.engines.lns.clock import Clock
from taccl.encoding.engines.lns.window import Item, Neighbourhood

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, eq=False)
class Moments:
    """Where and when.

    Parameters
    ----------
    at : of each open item and rank, when it is there: 0 where it starts. A partial sum is there when all
        that comes there has come.
    root : of each opened bundle and rank, whether its sum is made there.
    """

    at: dict[tuple[Item, int], Any]
    root: dict[Cell, Any]


def moments_of(
    cp: cp_model.CpModel, around: Neighbourhood, links: Mapping[Item, frozenset[int]], clock: Clock
) -> Moments:
    """The variables, with the known schedule as a hint."""
    known = _known(around, clock)
    at: dict[tuple[Item, int], Any] = {}
    root: dict[Cell, Any] = {}
    for bundle in sorted(around.window.opened):
        is_reduced = around.is_reduced(bundle)
        items = [(bundle, False), (bundle, True)] if is_reduced else [(bundle, False)]
        ranks = {end for link in links[bundle, False] for end in (around.src[link], around.dst[link])}
        for rank in sorted(ranks | around.wanted_at[bundle] | around.starts_at[bundle]):
            for item in items:
                at[item, rank] = _moment(cp, around, item, rank, known, clock.last)
        if is_reduced:
            root.update(_roots(cp, around, bundle))
    cells = [((bundle, False), rank) for bundle, rank in sorted(around.copy_cells)]
    for bundle in sorted({bundle for bundle, _ in around.sum_cells}):
        ranks = {around.dst[link] for link in links[bundle, True]}
        cells += [((bundle, True), rank) for rank in sorted(ranks)]
    for item, rank in cells:
        at[item, rank] = _moment(cp, around, item, rank, known, clock.last)
    return Moments(at, root)


def _moment(
    cp: cp_model.CpModel,
    around: Neighbourhood,
    item: Item,
    rank: int,
    known: Mapping[tuple[Item, int], int],
    last: int,
) -> Any:
    bundle, is_sum = item
    if not is_sum and not around.is_reduced(bundle) and rank in around.starts_at[bundle]:
        return 0
    moment = cp.new_int_var(0, last, "at")
    cp.add_hint(moment, min(known.get((item, rank), 0), last))
    return moment


def _known(around: Neighbourhood, clock: Clock) -> dict[tuple[Item, int], int]:
    """When items come in the known schedule."""
    apart = around.apart
    known: dict[tuple[Item, int], int] = defaultdict(int)
    for row in apart.rows:
        end = clock.begins[row.send] + clock.duration(row.link, len(apart.decisions[row.send].chunks))
        cell = (row.bundle, row.is_sum), around.dst[row.link]
        known[cell] = max(known[cell], end)
    for bundle, root in apart.root.items():
        known[(bundle, False), root] = known[(bundle, True), root]
    return known


def _roots(cp: cp_model.CpModel, around: Neighbourhood, bundle: int) -> dict[Cell, Any]:
    now, roots = around.apart.root.get(bundle), {}
    for rank in sorted(around.root_candidates(bundle) & around.starts_at[bundle]):
        roots[bundle, rank] = literal = cp.new_bool_var("root")
        if now is not None:
            cp.add_hint(literal, int(rank == now))
    return roots
