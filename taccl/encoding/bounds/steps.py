r"""Broadcast and gossip in a postal model: how fast a chunk can multiply, and how fast what a rank holds can.

Both are counts that only grow, by whole steps, and seldom: up to the ranks that want a chunk, or to the
chunks of a set. So what is kept is when each count is first reached, and what follows from each such moment
(one transfer later something else may grow) is worked through in the order of time. That is exact.

*Informed.* Let w(u, t) be the most wanting ranks that a chunk can serve within t after it is at rank u, over
the links out of u and onwards. Links of u that share a port take turns, and each serves once:

    w(u, t)    =  [u wants] + sum over ports p of u of V(u, p, t)
    V(u, p, t) =  max over links l of p of  w(dst(l), t - d_l) + V(u, p, t - b_l),
                  and no more than the sum over links l of p of w(dst(l), t - d_l)

where one chunk takes d_l on link l and keeps the port busy for b_l; and no more than there are wanting
ranks within t over shortest paths. With one port and equal links this is the doubling of one-port
broadcast; with alpha as pure latency, the postal model (Bar-Noy and Kipnis 1994).

*Gathered.* Let K(r, t) be the most chunks of a set S that rank r can hold at t. A group of n chunks
cannot leave a rank that holds fewer:

    K(r, t)    =  [start at r] + sum over ports p into r of G(r, p, t - a_p)
    G(r, p, t) =  max over links l of p and n  of  G(r, p, t - b_ln) + min(n, K(src(l), t - b_ln)),
                  and no more than the sum over links l of p of K(src(l), t - b_l1),
                  and with one link l of p alone, that is no more than K(src(l), t - b_ln)

where n chunks over link l keep p busy for b_ln, and a_p is the least time, over the links of p, from when
a group leaves p to its end: 0, or alpha if that is not in b_ln (pipelined occupancy), and for a port that is
faster than its link, what one chunk takes longer on the link than on the port. What came over one link is
at its sender when the last group begins, as the groups before began sooner: along a chain K is about that of
the best pipeline. No more come through p than chunks of S may use it, and no more are at r than could have
come by then over shortest paths.

*Backwards.* Where time runs backwards (a problem that sums, as copies on the reversed links), a port is
busy at the end of a send and not at its beginning: the last b of its d. Arrivals through a port are then b
apart, and none is there before d. With a_p as above, for the links of p at u,

    w(u, t)       =  [u wants] + sum over ports p of u of  V'(u, p, t - a_p),
                     and no more than the sum over links l of p of w(dst(l), t - d_l)
    V'(u, p, y)   =  max over links l of p of  w(dst(l), y - b_l) + V'(u, p, y - b_l),
    G(r, p, t)    =  max over links l of p and n  of  G(r, p, t - b_ln) + min(n, K(src(l), t - d_ln)),
                     and with one link l of p alone, as slow as p, that is no more than K(src(l), t - d_ln),

K being the sum of G(r, p, t) then. (The groups before were there by t - b_ln, and took at least alpha, which
is no less than d - b there: so they began sooner.) Where d - b is the same for all sends through a port, this
is the same as forwards (`LogicalTopology.reads_backwards`).

*Any number of chunks.* However finely data is cut, w is no more than for chunks of no size. And let K count
data, in units of a chunk rounded up: more than n - 1 and up to n chunks are n. As sums of what was rounded
up are no less than what is rounded up of a sum, the recurrence of K holds with b_ln and d_ln of n - 1 chunks,
for any group that counts as n, and with a_p = 0.

*A coarser grid.* On large machines durations are rounded down to multiples of a step, so that many moments
are the same. What the counts allow is then never less than what a schedule can do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.layer import Layer
from taccl.encoding.bounds.step_classes import Alike, linked, same_rows
from taccl.encoding.bounds.step_loops import Chunk, Groups, Limits, Links, gather, inform
from taccl.encoding.bounds.tuning import (
    STEPS_COMPILING_S,
    STEPS_LARGE_PAIRS,
    STEPS_MOST_LINKS,
    STEPS_MOST_PAIRS,
    STEPS_ON_A_GRID,
    STEPS_SLOWER,
    STEPS_UNITS_PER_LINK,
)
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import UNITS_PER_S, Budget
from taccl.support.jit import Loop

#: Moments this close, as a part of the horizon, are the same: far above float error, far below what counts.
CLOSE = 1e-12


class OutOfBudget(Exception):
    """What was left of the budget did not do."""


class TooManyRoutes(OutOfBudget):
    """There are more routes than are ever looked at, whatever the budget is."""


def is_too_large(problem: Problem) -> bool:
    """Whether there are more links, or pairs of a chunk and a rank, than anybody should work through."""
    pairs = problem.num_chunks * problem.num_ranks
    return problem.topology.num_links > STEPS_MOST_LINKS or pairs > STEPS_MOST_PAIRS


def informed(
    problem: Problem,
    layer: Layer,
    distance_us: FloatArray,
    horizon_us: float,
    budget: Budget,
    at_ends: bool = False,
    near: Sequence[FloatArray] | None = None,
) -> list[Steps]:
    """How many wanting ranks a chunk can have informed so long after it came to each rank: w.

    Parameters
    ----------
    distance_us : shape (num_ranks, num_ranks), between ranks over the links of the layer.
    horizon_us : later steps are not looked for.
    near : for each rank the moments, in order, at which it can have informed another; None: shortest paths.
    at_ends : ports are busy at the ends of sends.

    Raises
    ------
    OutOfBudget : before all steps up to the horizon are known.
    """
    topology, chunk_mb = problem.topology, problem.chunk_mb
    most, grid = int(layer.wanted.sum()), _Grid.of(problem, horizon_us)
    links, link, pair = _slots(problem, layer, grid, outgoing=True)
    near = [np.sort(row) for row in distance_us[:, layer.wanted]] if near is None else near
    near = [grid.down(row[row <= horizon_us]) for row in near]
    takes_us = grid.down(topology.duration_us(link, chunk_mb))
    busy_us = grid.down(topology.port_busy_us(pair, chunk_mb))
    alike = Alike.of(links, (takes_us, busy_us), (links.lag_us,), (layer.wanted, same_rows(near)))
    chunk = Chunk(
        *(takes_us[alike.link], busy_us[alike.link], layer.wanted[alike.rank].astype(np.int64)),
        *_in_rows([near[rank] for rank in alike.rank]),
    )
    limits = _limits(at_ends, horizon_us, budget, len(link), inform)
    rows = 4 * len(alike.link) * len(alike.rank)
    first, units = inform(rows, links=alike.links(links), chunk=chunk, most=most, limits=limits)
    return alike.for_all(_steps(first, units, most, limits, budget))


def gathered(
    problem: Problem,
    layer: Layer,
    held: IntArray,
    horizon_us: float,
    budget: Budget,
    near: Sequence[FloatArray] | None = None,
    enough: IntArray | None = None,
    arrivals: Sequence[Steps] | None = None,
    at_ends: bool = False,
    divisible: bool = False,
) -> list[Steps]:
    """How many chunks of the layer each rank can hold by a moment: K.

    Parameters
    ----------
    held : shape (num_ranks,), how many of them each rank holds at 0.
    near : for each rank the moments, in order, at which another chunk can be there by a shortest path; None:
        they say nothing beyond what the recurrence does. Where there are too many pairs of a chunk and a link
        to work through, these moments are all that is known.
    horizon_us : later steps are not looked for.
    enough : shape (num_ranks,); once each rank holds this many, no later steps are looked for; None: never.
    arrivals : how many come to each rank next to those that the links of the layer bring; None: none.
    at_ends : ports are busy at the ends of sends.
    divisible : data may be cut anywhere, and counts are rounded up to chunks; `near` is then about data of no
        size.

    Raises
    ------
    OutOfBudget : before all these steps are known.
    """
    gathering = Gathering(problem, layer, horizon_us, at_ends, divisible)
    return gathering.counts(held, budget, near, enough, arrivals)


class Gathering:
    """What `gathered` works out before it is known who holds what, so that it is asked for several `held`."""

    def __init__(
        self, problem: Problem, layer: Layer, horizon_us: float, at_ends: bool, divisible: bool = False
    ) -> None:
        self._problem, self._layer, self._horizon_us = problem, layer, horizon_us
        self._at_ends, self._divisible, self._grid = at_ends, divisible, _Grid.of(problem, horizon_us)
        self._links, self._link, self._pair = _slots(problem, layer, self._grid, outgoing=False)
        if at_ends or divisible:
            self._links = self._links._replace(lag_us=np.zeros(len(self._links.lag_us)))

    @cached_property
    def _costs(self) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, FloatArray]:
        many = self._layer.many_on()[self._link]
        largest = many if self._divisible else np.minimum(many, self._problem.max_group)
        ends = self._link, self._pair, largest, many
        return _costs_of_groups(self._problem, self._grid, *ends, self._at_ends, self._divisible)

    def counts(
        self,
        held: IntArray,
        budget: Budget,
        near: Sequence[FloatArray] | None = None,
        enough: IntArray | None = None,
        arrivals: Sequence[Steps] | None = None,
    ) -> list[Steps]:
        """As `gathered` has it."""
        most, links, link = len(self._layer.chunks), self._links, self._link
        if near is not None and most * len(link) > STEPS_MOST_PAIRS:
            return [_by_shortest_paths(row) for row in near]
        ranks = self._problem.num_ranks
        come = [Steps() for _ in range(ranks)] if arrivals is None else arrivals
        enough = np.full(ranks, most) if enough is None else enough
        near = [np.empty(0)] * ranks if near is None else [self._grid.down(row) for row in near]
        costs, through = self._costs, _most_through(self._layer, links, link, held)
        is_alone = np.diff(links.first_in_slot) == 1
        if self._at_ends and self._problem.topology.port_betas is not None:
            is_alone[:] = False  # a small group may begin after a large one that ends after it
        begin_with = same_rows(near), same_rows([np.array([*each.times, *each.counts]) for each in come])
        alike = Alike.of(links, costs[:3], (links.lag_us, through, is_alone), (held, enough, *begin_with))
        come = [come[rank] for rank in alike.rank]
        groups = Groups(
            *(costs[0][alike.link], costs[1][alike.link], costs[2][alike.link], *costs[3:]),
            *(through[alike.slot], is_alone[alike.slot]),
            *(held[alike.rank].astype(np.int64), enough[alike.rank].astype(np.int64)),
            *_in_rows([near[rank] for rank in alike.rank]),
            *_in_rows([np.array(steps.times) for steps in come]),
            np.concatenate([np.array(steps.counts, dtype=np.int64) for steps in come]),
        )
        limits = _limits(self._at_ends, self._horizon_us, budget, len(link), gather)
        rows = _rows(gather, len(alike.link) * most, budget)
        first, units = gather(rows, links=alike.links(links), groups=groups, most=most, limits=limits)
        return alike.for_all(_steps(first, units, most, limits, budget))


@dataclass(frozen=True)
class _Grid:
    """Durations are rounded down to multiples of this; 0: they are not rounded."""

    step_us: float

    @staticmethod
    def of(problem: Problem, horizon_us: float) -> _Grid:
        if problem.num_chunks * problem.topology.num_links <= STEPS_LARGE_PAIRS:
            return _Grid(0.0)
        # A power of two, of which sums of multiples are exact.
        return _Grid(2.0 ** math.floor(math.log2(horizon_us / STEPS_ON_A_GRID)))

    def down(self, time_us: FloatArray) -> FloatArray:
        if not self.step_us:
            return time_us
        return np.asarray(np.floor(time_us / self.step_us * (1 + CLOSE)) * self.step_us)


def _by_shortest_paths(moments_us: FloatArray) -> Steps:
    times, last = np.unique(moments_us[::-1], return_index=True)
    return Steps(times.tolist(), (len(moments_us) - last).tolist())


def _limits(at_ends: bool, horizon_us: float, budget: Budget, links: int, loop: Loop) -> Limits:
    budget.spend(STEPS_UNITS_PER_LINK * links)
    units = budget.remaining_s() * UNITS_PER_S
    if not budget.counts_work and not loop.is_compiled:
        units /= STEPS_SLOWER
    return Limits(at_ends, horizon_us, CLOSE * horizon_us, units)


def _rows(loop: Loop, looks: int, budget: Budget) -> int:
    """Rows that are worth machine code for this many looks; none where making it would take too long."""
    return 4 * looks if loop.is_compiled or budget.remaining_s() >= STEPS_COMPILING_S else 0


def _steps(first: list[float], units: float, most: int, limits: Limits, budget: Budget) -> list[Steps]:
    """The steps of each rank, from when each count first is 1, 2, ... and `most`."""
    budget.spend(units)
    if units > limits.units:
        raise OutOfBudget
    found = []
    for begin in range(0, len(first), most + 1):
        steps = Steps()
        for count, time_us in enumerate(first[begin + 1 : begin + most + 1], 1):
            if math.isinf(time_us):
                break
            if steps.times and steps.times[-1] == time_us:
                steps.counts[-1] = count
            else:
                steps.grow(time_us, count)
        found.append(steps)
    return found


def _slots(problem: Problem, layer: Layer, grid: _Grid, outgoing: bool) -> tuple[Links, IntArray, IntArray]:
    """The links of a layer by the slots that they lead out of, or into; their numbers and their pairs."""
    topology, link = problem.topology, np.flatnonzero(layer.uses())
    near, far = (topology.src, topology.dst) if outgoing else (topology.dst, topology.src)
    at_end = port_at_end(problem, near)
    key = near[link] * topology.num_ports + topology.incidence[1][at_end[link]]
    costs = topology.alpha_us[link], topology.beta_us_per_mb[link], topology.pair_betas[at_end[link]]
    order = np.lexsort((*costs, layer.many_on()[link], key))
    link, key = link[order], key[order]
    pair, keys = at_end[link], np.unique(key)
    slot = np.searchsorted(keys, key)
    lag_us = np.full(len(keys), np.inf)
    np.minimum.at(lag_us, slot, after_port_us(problem, link, pair))
    ends, rank_of_slot = (near[link], far[link]), keys // topology.num_ports
    return linked(slot, *ends, rank_of_slot, grid.down(lag_us), topology.num_ranks), link, pair


def port_at_end(problem: Problem, rank: IntArray) -> IntArray:
    """For each link the port that it shares with most others of its end, as a pair, shape (num_links,).

    `rank` is the rank at that end of each link. Where ports have rates of their own, it is the one that one
    chunk over each of those links keeps busy longest.
    """
    topology = problem.topology
    link, port = topology.incidence
    key = rank[link] * topology.num_ports + port
    inverse = np.unique(key, return_inverse=True)[1].ravel()
    shared = np.bincount(inverse)
    if topology.port_betas is not None:
        shared = np.bincount(inverse, topology.port_busy_us(np.arange(topology.num_pairs), problem.chunk_mb))
    order = np.lexsort((port, -shared[inverse], link))
    first = np.flatnonzero(np.diff(link[order], prepend=-1))
    return np.asarray(order[first])


def after_port_us(problem: Problem, link: IntArray, pair: IntArray) -> FloatArray:
    """The least time from when a group leaves its port to its end, for each pair: that of one chunk."""
    topology = problem.topology
    later = topology.beta_us_per_mb[link] - topology.pair_betas[pair]
    alpha = 0.0 if topology.is_serial else topology.alpha_us[link]
    return np.asarray(alpha + later * problem.chunk_mb)


def _costs_of_groups(
    problem: Problem,
    grid: _Grid,
    link: IntArray,
    pair: IntArray,
    size: IntArray,
    many: IntArray,
    at_ends: bool,
    divisible: bool,
) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, FloatArray]:
    """The columns of `Groups` up to `leave_us`; links that cost the same share theirs."""
    topology = problem.topology
    betas = topology.beta_us_per_mb[link], topology.pair_betas[pair]
    columns = np.stack([topology.alpha_us[link], *betas, size])
    _, one, cost = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    first_cost = np.cumsum(size[one]) - size[one]
    count = np.arange(int(size[one].sum())) - np.repeat(first_cost, size[one]) + 1
    size_mb = (count - divisible) * problem.chunk_mb  # what counts as n chunks is more than n - 1
    of_row = np.repeat(one, size[one])
    busy_us = grid.down(topology.port_busy_us(pair[of_row], size_mb))
    takes_us = topology.duration_us(link[of_row], size_mb)
    return cost.ravel(), size, many, first_cost, busy_us, grid.down(takes_us) if at_ends else busy_us


def _most_through(layer: Layer, links: Links, link: IntArray, held: IntArray) -> IntArray:
    """How many chunks may come through each slot: those that may use its links and are not there."""
    if not len(link):
        return np.zeros(0, dtype=np.int64)
    usable = np.logical_or.reduceat(layer.may_use[:, link], links.first_in_slot[:-1], axis=1)
    many = layer.sizes() @ usable.astype(np.int64)
    return np.asarray(np.minimum(many, len(layer.chunks) - held[links.rank_of_slot]))


def _in_rows(rows: Sequence[FloatArray]) -> tuple[IntArray, FloatArray]:
    """Where each row begins, and the last one ends, in one column of all."""
    first = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=first[1:])
    return first, np.concatenate([np.asarray(row, dtype=np.float64) for row in rows])
