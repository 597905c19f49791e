r"""Copies as trees at prices of port time: what all chunks need of it together, moment by moment.

Take a schedule that ends by T, in which all n ranks want every chunk, and the send that first brings a chunk
to a rank, for each rank but the one where it starts. These are a tree of each chunk. Give each moment of each
port a price, and let each chunk pay its part of every send of its tree: of a send of g chunks one g-th of
what its ports cost while they are busy. A port is busy with one send at a time, so

    sum over chunks of what its tree pays  <=  what all time of all ports up to T costs.

If no tree costs less than W, and chunks times W is more than that, no schedule ends by T. That holds for any
prices from 0 on, so good ones are searched for (`copying_prices`).

*The cheapest tree.* A tree is taken apart into what each rank hands on. Let a rank of a node of R ranks, of X
nodes, have the chunk from t on and see to m more ranks of its node and to k nodes that have nothing of it:

    served(t, m, k)  =  min over k' of  inside(t, m, k - k') + across(t, k')
    inside(t, m, k)  =  min over a start s >= t, g, m' + m'' = m - 1, k' + k'' = k  of
                          cost(s, g) + inside(s + turn(g), m', k') + served(s + lasts(g), m'', k''),
                        or of  entered(p, k') + inside(t, m - p, k - k')
    across(t, k)     =  min over s >= t, g, k' + k'' = k - 1  of
                          cost(s, g) + across(s + turn(g), k') + served(s + lasts(g), R - 1, k'')
    entered(p, k)    =  min over s >= soonest, g  of  cost(s, g) + served(s + lasts(g), p - 1, k)

cost(s, g) being what one chunk pays.

A rank serves one link after another, `turn` later each, where its links share a port; links in a node and
links between nodes are counted apart. Where a tree enters a node several times, what comes first (by arrival,
then by rank) counts as the entry of the node, and what is entered later is paid for by who came first,
whoever sends it, from when on somebody can have it to send (`entered`). So every rank and every node is
counted once, and whoever pays had the chunk before, so nothing is counted in circles. Where all chunks start
at one rank, it, its node and all others have tables of their own.

A group is no larger than what its sender can hold by then (`gathered` of `steps`).

*Time in cells.* t is the cell that a chunk is there in or after; a send starts anywhere in its cell, where it
is cheapest, and lasts whole cells, rounded down. So tables are never too large. Where links or groups of a
class differ, each is as short as the shortest; where ports are busy at the ends, one that is longer counts as
such a short one that starts later, which tables allow, as who has a chunk may wait.

*Any number of chunks.* Let each MB pay its part of the sends that it is in, and count data in pieces, what is
begun as a whole one. Then a send of g pieces lasts as long as one of g - 1, and each MB pays no less than one
g-th of a piece does: the same tables say what a MB pays at least, however data are cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.by_node import in_pieces
from taccl.encoding.bounds.cells import STRETCH, too_soon
from taccl.encoding.bounds.copying_horizon import Horizon, Sizes, cells_of
from taccl.encoding.bounds.copying_loop import serve
from taccl.encoding.bounds.copying_prices import Prices
from taccl.encoding.bounds.copying_setting import Setting
from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.direct import sizeless
from taccl.encoding.bounds.gather_time import pieces_of
from taccl.encoding.bounds.layer import Layer, held_at_start, nearest_us
from taccl.encoding.bounds.steps import OutOfBudget, gathered, is_too_large
from taccl.encoding.bounds.tuning import (
    COPYING_ANY_S,
    COPYING_ANY_SHARE,
    COPYING_CELLS,
    COPYING_COMPILING_S,
    COPYING_HELD,
    COPYING_MOST_ENTRIES,
    COPYING_MOST_S,
    COPYING_STEPS,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield COPYING.proof(0.0, "nothing has to move", any_chunks=True)
    if not known_us or view.requested is None or not _is_machine_code(budget):
        return
    setting = Setting.of(view)
    if setting is None:
        return
    # Where alphas keep no port busy, small pieces cost nothing more.
    if view.problem.topology.is_serial and budget.remaining_s() > COPYING_ANY_S:
        pieces = pieces_of(view, Layer.of(view.instance, np.arange(setting.chunks)))
        search = _Search.going_on(view, setting, pieces, budget.share(COPYING_ANY_SHARE))
        yield from search.better(view.requested.any_chunks_us, 1)
    search = _Search.going_on(view, setting, 0, budget.at_most(COPYING_MOST_S))
    yield from search.better(known_us, len(COPYING_CELLS))


class _Search:
    """Horizons that are looked at one after another, each from the prices that the last one ended with.

    Parameters
    ----------
    view, setting : what is looked at.
    pieces : in how many pieces each chunk is counted, where chunks may be cut anywhere; 0: they are not.

    Attributes
    ----------
    looks : how many numbers of cells it is done with.
    budget : for what is looked at next.
    """

    def __init__(self, view: View, setting: Setting, pieces: int, budget: Budget) -> None:
        self.pieces, self.looks, self.budget = pieces, 0, budget
        self._view = view
        self._setting = setting.in_pieces(max(1, pieces))
        largest = self._setting.chunks if pieces else min(setting.chunks, view.problem.max_group)
        self._sizes = Sizes.of(largest, pieces > 0)
        self._prices: FloatArray | None = None
        self._held: dict[int, Steps] = {}
        self._held_until_us = 0.0

    @property
    def witness(self) -> str:
        setting = self._setting
        ranks = f"{setting.nodes} nodes of " * (setting.nodes > 1) + f"{setting.ranks} ranks"
        return f"copies of {setting.size_mb:g} MB for {ranks} take more time of ports than there is"

    @staticmethod
    def going_on(view: View, setting: Setting, pieces: int, budget: Budget) -> _Search:
        """That of a view, where it stopped the last time."""
        assert view.requested is not None
        search = view.requested.once(_searches).setdefault(pieces, _Search(view, setting, pieces, budget))
        search.budget = budget
        return search

    def better(self, known_us: float, looks: int) -> Iterator[Proof]:
        """Later and later horizons than what is known, in more and more cells."""
        while known_us and self.looks < looks:
            for horizon_us in too_soon(known_us, self.is_too_soon, COPYING_STEPS[self.looks]):
                known_us = horizon_us
                yield COPYING.proof(horizon_us / (1 + 2 * STRETCH), self.witness, any_chunks=self.pieces > 0)
            if not self.budget.remaining_s():
                return
            self.looks += 1

    def is_too_soon(self, horizon_us: float) -> bool:
        """Whether it is shown that no schedule ends by then."""
        if not self.budget.remaining_s():
            return False
        width_us, cells, edges_us = cells_of(
            self._setting, self._sizes, horizon_us, *COPYING_CELLS[self.looks]
        )
        ends_us = np.arange(1, cells + 1) * width_us
        horizon = Horizon(self._setting, self._sizes, horizon_us, width_us, cells, edges_us)
        if horizon.is_too_coarse or horizon.entries > COPYING_MOST_ENTRIES:
            return False
        horizon = replace(horizon, held=self._most_held(horizon_us, ends_us))
        prices = Prices(horizon, self._prices)
        is_proved = prices.prove(self.budget)
        if is_proved:
            self._prices = prices.best
        return is_proved

    def _most_held(self, horizon_us: float, moments_us: FloatArray) -> IntArray:
        """What the root, its mates and others can have by some moments, shape (3, moments)."""
        held = np.full((3, len(moments_us)), self._setting.chunks)
        if is_too_large(self._view.problem):
            return held
        if self._held_until_us < horizon_us:
            self._held_until_us = horizon_us * COPYING_HELD
            self._held = self._counted(self._held_until_us)
        for who, steps in self._held.items():
            held[who] = [steps.at(moment) for moment in moments_us.tolist()]
        return held

    def _counted(self, horizon_us: float) -> dict[int, Steps]:
        """By who it is, the most that one of them can hold."""
        view, instance, who = self._view, self._view.instance, self._setting.who(self._view)
        layer = Layer.of(instance, np.arange(instance.problem.num_chunks))
        problem, layer = in_pieces(view.problem, layer, self.pieces)
        near = nearest_us(instance.once(sizeless) if self.pieces else instance, layer)
        try:
            counts = gathered(
                *(problem, layer, held_at_start(instance, layer), horizon_us, self.budget, near),
                at_ends=view.backwards,
                divisible=self.pieces > 0,
            )
        except OutOfBudget:
            self._held_until_us = 0.0  # with more time they may be known
            return {}
        ranks = {one: np.flatnonzero(who == one).tolist() for one in np.unique(who).tolist()}
        return {one: _most([counts[rank] for rank in each]) for one, each in ranks.items()}


def _searches(instance: Instance) -> dict[int, _Search]:
    """Searches of an instance, by the pieces of its chunks; `instance.once(_searches)`."""
    return {}


def _most(counts: list[Steps]) -> Steps:
    """The largest of some counts, at any moment."""
    most = Steps()
    for time_us in sorted({time_us for each in counts for time_us in each.times}):
        count = max(each.at(time_us) for each in counts)
        if count > most.last:
            most.grow(time_us, count)
    return most


def _is_machine_code(budget: Budget) -> bool:
    """Whether there is time for the loops, which as they stand take minutes."""
    return serve.runs_compiled(0) or budget.counts_work or budget.remaining_s() > COPYING_COMPILING_S


def _is_of_one_root(problem: Problem) -> bool:
    """Whether one rank has all that several nodes want, or wants it: `fan-out` often says as much, sooner."""
    collective = problem.collective
    ends = collective.outputs if collective.is_reduction else collective.inputs
    return problem.topology.num_nodes > 1 and len(np.unique(ends.rank)) == 1


COPYING = Bound(
    name="copying",
    about="every chunk is copied along a tree, in sends that are shared: at prices of port time, moment by "
    "moment, the cheapest trees of all chunks cost more than all time does",
    remedy="shorter alphas, or more or faster links where the time is short",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
    is_of_alphas=True,
    is_late=_is_of_one_root,
    goes_on=True,
)
