"""Pipelines of one problem: trees, how long they promise to take, and the schedule of their chunks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.scheduler import graph_of, pipelined, sends_of_rows
from taccl.encoding.core.sequence import in_sequence, of_columns
from taccl.encoding.engines.streams.periodic import Sends, placed
from taccl.encoding.engines.streams.trees import Net, annealed, grown
from taccl.encoding.engines.streams.tuning import (
    COLD,
    GOOD,
    HOT,
    LEAST_MOVES,
    LONGER,
    LOOK,
    MOVE,
    MOVES_EACH,
    PLACE,
    PLACED_EACH,
    ROW,
    WAVES,
    WAYS,
)
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def net_of(problem: Problem) -> Net:
    """The links of a problem for one of its chunks, times in microseconds."""
    topology, costs, ranks = problem.topology, costs_of(problem.topology), np.arange(problem.num_ranks + 1)
    usable = np.flatnonzero(problem.usable(0))
    out = usable[np.argsort(topology.src[usable], kind="stable")]
    into = usable[np.argsort(topology.dst[usable], kind="stable")]
    return Net(
        costs.first,
        costs.port,
        costs.busy_alpha_us + problem.chunk_mb * costs.busy_beta_us,
        topology.src,
        topology.dst,
        costs.alpha_us + problem.chunk_mb * costs.beta_us,
        np.searchsorted(topology.src[out], ranks),
        out,
        np.searchsorted(topology.dst[into], ranks),
        into,
    )


def trees_of(problem: Problem, num_trees: int, seed: int, budget: Budget) -> list[IntArray]:
    """Trees by the link into each rank, shape (num_trees, num_ranks), -1 at the root: grown, and annealed.

    None of them where some rank is out of reach; only one where annealing found none better.
    """
    net, periods = net_of(problem), problem.num_chunks / num_trees
    budget.spend(LOOK * num_trees * problem.num_ranks * len(net.src))
    into, order = grown(net, num_trees, int(problem.collective.source[0]))
    if not len(order):
        return []
    moves = max(LEAST_MOVES, MOVES_EACH * into.size)
    budget.spend(MOVE * moves)
    unit_us = max(float(net.busy_us.mean()), float(net.hop_us.mean()), 1e-6) * num_trees
    parts = net._replace(busy_us=net.busy_us / unit_us, hop_us=net.hop_us / unit_us)
    better = annealed(parts, into, order, seed, periods, WAYS, moves, HOT * periods, COLD * periods)
    return [into] if np.array_equal(into, better) else [into, better]


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Trees that carry the chunks of a problem by turns.

    Parameters
    ----------
    into : shape (num_trees, num_ranks); the link by which each tree reaches each rank, -1 at the root.
    """

    problem: Problem
    into: IntArray

    @cached_property
    def _hops(self) -> tuple[IntArray, IntArray]:
        """The tree and the link of each send in a period."""
        tree, rank = np.nonzero(self.into >= 0)
        return tree, self.into[tree, rank]

    @cached_property
    def sends(self) -> Sends:
        """The sends of a period."""
        problem, topology, net = self.problem, self.problem.topology, net_of(self.problem)
        tree, link = self._hops
        number = np.full(self.into.shape, -1)
        number[tree, topology.dst[link]] = np.arange(len(link))
        above, took_us = number[tree, topology.src[link]], net.hop_us[link]
        stays, pair = topology.pairs_of(link)
        rest_us = took_us.copy()
        for _ in range(problem.num_ranks):
            below = np.zeros(len(link))
            np.maximum.at(below, above[above >= 0], rest_us[above >= 0])
            longer = took_us + below
            if np.array_equal(longer, rest_us):
                break
            rest_us = longer
        first = np.searchsorted(stays, np.arange(len(link) + 1))
        return Sends(first, net.port[pair], net.busy_us[pair], stays, above, took_us, rest_us)

    @cached_property
    def load_us(self) -> float:
        """How long the busiest port is busy in a period."""
        return float(np.bincount(self.sends.port, self.sends.busy_us).max(initial=0.0))

    @cached_property
    def promised_us(self) -> float:
        """About how long it takes: all that the busiest port carries, and the longest way of a chunk."""
        sends, trees = self.sends, len(self.into)
        return self.problem.num_chunks / trees * self.load_us + float(sends.rest_us.max(initial=0.0))

    def schedule(self, seed: int, budget: Budget) -> Schedule:
        """The chunks on their trees: at equal intervals, or whatever can go goes, whichever ends first."""
        turn = np.arange(-(-self.problem.num_chunks // len(self.into)))[:, None]
        every_us = self.problem.num_chunks / len(self.into) * self.load_us
        made = list[Schedule]()
        start_us, period_us = self._placed(seed, budget)
        if len(start_us):
            made.append(self._in_sequence(turn * period_us + start_us))
        for wave in WAVES:
            if made and (made[0].makespan_us <= self.promised_us * GOOD or not budget.remaining_s()):
                break
            budget.spend(ROW * self.problem.num_chunks * self.problem.num_ranks)
            made.append(self._by_keys(wave * every_us * turn / len(turn) - self.sends.rest_us))
        return min(made, key=lambda each: each.makespan_us)

    def _placed(self, seed: int, budget: Budget) -> tuple[FloatArray, float]:
        """The moments of the first chunk of each tree, and the shortest period in which they found places."""
        tries = PLACED_EACH * len(self.sends.above)
        for longer in LONGER if self.load_us else ():  # links that take no time have no intervals
            budget.spend(PLACE * tries)
            start_us = placed(self.sends, self.load_us * longer, tries, seed)
            if len(start_us) or not budget.remaining_s():
                return start_us, self.load_us * longer
        return np.zeros(0), 0.0

    def _rows(self, key: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Chunks, links and keys of all periods in the order of the keys, of shape (periods, num_sends)."""
        tree, link = self._hops
        chunk = (np.arange(len(key))[:, None] * len(self.into) + tree).ravel()
        order = np.argsort(key.ravel(), kind="stable")
        order = order[chunk[order] < self.problem.num_chunks]
        return chunk[order], np.tile(link, len(key))[order], key.ravel()[order]

    def _in_sequence(self, key: FloatArray) -> Schedule:
        """Each send as early as it can be after those with smaller keys; parents have smaller ones."""
        chunk, link, _ = self._rows(key)
        return in_sequence(self.problem, chunk, link, np.zeros(len(chunk), np.bool_), np.arange(len(chunk)))

    def _by_keys(self, key: FloatArray) -> Schedule:
        """Whatever can go goes, the least key first."""
        chunk, link, key = self._rows(key)
        is_sum = np.zeros(len(chunk), dtype=np.bool_)
        sends, _ = sends_of_rows(self.problem, chunk, link, is_sum)
        timed = pipelined(graph_of(sends), costs_of(self.problem.topology), key)
        return of_columns(self.problem, chunk, link, timed.start_us, is_sum)
