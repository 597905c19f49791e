"""A window as a model of sends: what is inside is decided anew, by the side of all that stays.

Items (`encoding.sending_model`) are bundles of chunks that travel together, as copies or as partial sums, of
which the routes are open. A send of the known schedule in which anything stays takes place in every solution,
and open items may join it; they may also go alone, or share a send. Next to the rules of every such model,

    late[s]         whether s ends no earlier than the known schedule, at `last`

    minimise T, and among equal T the sum over s of late[s]

    one part        in[copy of b, s] + in[sum of b, s] <= 1
    received once   where r wants b, and where a row that stays takes it on from there
    presence        start[s] >= at[j, src(l)], or the end of a send that stays, for all that waits in s
    ports           start[s']  >=  start[s] + busy[s]     for s before s' there, if neither may move
    the end         T >= end[s];   late[s]  or  end[s] <= last - 1

The known schedule passes every rule, if no copy comes to a rank that has it: each of its sends stays, or is
one that open items have alone or share. So it is the hint, and a window has a solution from the beginning.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taccl.encoding.core.ticks import Ticks
from taccl.encoding.engines.lns.apart import Apart
from taccl.encoding.engines.lns.presence import what_is_sent_is_there_before
from taccl.encoding.engines.lns.rules import (
    copies_come_once_and_sums_leave_once,
    everything_ends_in_time,
    own_chunks_go_first,
    ports_serve_one_at_a_time,
)
from taccl.encoding.engines.lns.sends import KnownSend, sends_of
from taccl.encoding.engines.lns.window import Item, Neighbourhood, Window, neighbourhood_of, open_links
from taccl.encoding.sending_model.clock import clock_of
from taccl.encoding.sending_model.rules import a_sum_is_made_at_one_rank
from taccl.encoding.sending_model.sends import SendingModel, Weight

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, eq=False)
class WindowModel:
    """The model of a window, and the keys to read it by.

    Parameters
    ----------
    cp : what CP-SAT is given.
    around : the window in the known schedule.
    sends : all sends, those that stay first.
    """

    cp: cp_model.CpModel
    around: Neighbourhood
    sends: Sequence[KnownSend]


def build(
    apart: Apart,
    starts_us: list[float],
    window: Window,
    ticks: Ticks,
    last: int,
    allowed: Callable[[int, int], bool],
    most_sends: float = math.inf,
) -> WindowModel | None:
    """The model of all schedules in a window's neighbourhood that end within `last` ticks.

    `apart` is the known schedule, `starts_us` has the starts of its sends. A tick is at least one for every
    transfer (`ticks_of`); `allowed` says whether the chunks of a bundle may travel over a link. None where it
    would have more than `most_sends`, each of which takes time to be written down.
    """
    around, clock = neighbourhood_of(apart, window), clock_of(apart.problem, ticks, last)

    def weight(item: Item) -> Weight:
        bundle = apart.bundles[item[0]]
        return Weight(clock.size_of[bundle[0]], len(bundle), len(bundle))

    model: SendingModel[Item] = SendingModel(apart.problem, clock, weight)
    begins = ticks.of(np.array(starts_us)).tolist()
    links = open_links(around, allowed)
    if len(starts_us) + sum(map(len, links.values())) > most_sends:
        return None
    sends = sends_of(model, around, links, begins)
    add_moments(model, around, links, begins)
    model.cp.add_hint(model.finish, last)
    for bundle in sorted(window.opened):
        if around.is_reduced(bundle):
            roots = around.roots_of(bundle)
            a_sum_is_made_at_one_rank(model, bundle, (bundle, False), (bundle, True), roots)
    copies_come_once_and_sums_leave_once(model, around)
    what_is_sent_is_there_before(model, around, sends)
    ports_serve_one_at_a_time(model, around, sends, begins)
    own_chunks_go_first(model, around, sends)
    late = everything_ends_in_time(model, around, sends)
    model.cp.minimize(model.finish * (len(late) + 1) + sum(late))
    return WindowModel(model.cp, around, sends)


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
