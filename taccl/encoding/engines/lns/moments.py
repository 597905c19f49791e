"""When open items are where they may be, and at which ranks open sums are made: variables and their hints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from taccl.encoding.engines.lns.window import Item, Neighbourhood
from taccl.encoding.sending_model.sends import SendingModel


def add_moments(
    model: SendingModel[Item],
    around: Neighbourhood,
    links: Mapping[Item, frozenset[int]],
    begins: Sequence[int],
) -> None:
    """The variables `at` and `root`, with the known schedule as a hint.

    A copy is there from the beginning where it starts. A partial sum is there when all that comes there has
    come.
    """
    known = _known(model, around, begins)
    for item, rank in _cells(around, links):
        bundle, is_sum = item
        ready = model.ready.get((around.apart.bundles[bundle][0], rank), 0)
        starts = rank in around.starts_at[bundle]
        if starts and not is_sum and not around.is_reduced(bundle):
            model.at[item, rank] = ready
            continue
        moment = model.cp.new_int_var(ready if starts else 0, model.clock.last, "at")
        model.cp.add_hint(moment, min(max(known.get((item, rank), 0), ready), model.clock.last))
        model.at[item, rank] = moment
    for bundle in sorted(around.window.opened):
        if around.is_reduced(bundle):
            now = around.apart.root.get(bundle)
            for rank in around.roots_of(bundle):
                model.root[bundle, rank] = literal = model.cp.new_bool_var("root")
                if now is not None:
                    model.cp.add_hint(literal, int(rank == now))


def _cells(around: Neighbourhood, links: Mapping[Item, frozenset[int]]) -> list[tuple[Item, int]]:
    """Where open items may be."""
    cells: list[tuple[Item, int]] = []
    for bundle in sorted(around.window.opened):
        items = [(bundle, False), (bundle, True)] if around.is_reduced(bundle) else [(bundle, False)]
        ranks = {end for link in links[bundle, False] for end in (around.src[link], around.dst[link])}
        for rank in sorted(ranks | around.wanted_at[bundle] | around.starts_at[bundle]):
            cells += [(item, rank) for item in items]
    cells += [((bundle, False), rank) for bundle, rank in sorted(around.copy_cells)]
    for bundle in sorted({bundle for bundle, _ in around.sum_cells}):
        ranks = {around.dst[link] for link in links[bundle, True]}
        cells += [((bundle, True), rank) for rank in sorted(ranks)]
    return cells


def _known(
    model: SendingModel[Item], around: Neighbourhood, begins: Sequence[int]
) -> dict[tuple[Item, int], int]:
    """When items come in the known schedule."""
    apart, clock = around.apart, model.clock
    ends = [
        begin + clock.duration(decision.link, clock.counts_of(decision.chunks))
        for begin, decision in zip(begins, apart.decisions, strict=True)
    ]
    known: dict[tuple[Item, int], int] = defaultdict(int)
    for row in apart.rows:
        cell = (row.bundle, row.is_sum), around.dst[row.link]
        known[cell] = max(known[cell], ends[row.send])
    for bundle, root in apart.root.items():
        known[(bundle, False), root] = known[(bundle, True), root]
    return known
