"""Groups of chunks that can cross a cut, and how they take turns on its ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.capacity import Covers
from taccl.encoding.bounds.ticks import MOST_COLUMNS, Earlier, ticks, together
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class GroupOptions:
    """All groups that can cross: a row for a number of chunks over links that cost the same, by port.

    Links of one port and one cost, their own and at the port, are one row: what one of them allows, all
    are allowed.

    Parameters
    ----------
    links : shape (num_links,), row after row; `first`, shape (num_kinds,), is where each kind of them begins.
    kind, count, slot : shape (num_rows,); which links, how many chunks, and which of `ports`.
    pair : shape (len(links),); each link with its port, of the topology's `incidence`.
    ports : shape (num_ports,).
    """

    links: IntArray
    first: IntArray
    kind: IntArray
    count: IntArray
    slot: IntArray
    ports: IntArray
    pair: IntArray

    @staticmethod
    def over(instance: Instance, links: IntArray, most: IntArray) -> GroupOptions | None:
        """Groups of up to `most` chunks, shape (len(links),), over each link; None if they are too many."""
        problem, topology = instance.problem, instance.problem.topology
        pair = instance.once(Covers).narrowest(links).pair
        port = topology.incidence[1][pair]
        betas = topology.beta_us_per_mb[links], topology.pair_betas[pair]
        costs = np.stack([port, topology.alpha_us[links], *betas])
        order = np.lexsort(costs[::-1])
        first = np.flatnonzero((np.diff(costs[:, order], prepend=-1) != 0).any(axis=0))
        many = np.minimum(np.maximum.reduceat(most[order], first), problem.max_group)
        if many.sum() > MOST_COLUMNS:
            return None
        kind = np.repeat(np.arange(len(first)), many)
        count = np.arange(len(kind)) - np.repeat(np.cumsum(many) - many, many) + 1
        ports, slot = np.unique(port[order][first][kind], return_inverse=True)
        return GroupOptions(links[order], first, kind, count, slot, ports, pair[order])

    def links_of(self, slot: int) -> IntArray:
        """The links that use a port."""
        kinds = np.unique(self.kind[self.slot == slot])
        ends = np.append(self.first, len(self.links))
        return np.concatenate([self.links[ends[kind] : ends[kind + 1]] for kind in kinds])

    def best_of(self, table: IntArray) -> IntArray:
        """The best of what a table, shape (..., num_links), has for the links of each row."""
        return np.asarray(np.maximum.reduceat(table, self.first, axis=-1)[..., self.kind])

    def ticks(self, problem: Problem, tick_us: float) -> tuple[IntArray, IntArray]:
        """How long each row takes, and how long it keeps its port busy, in ticks."""
        link, size_mb = self.links[self.first][self.kind], self.count * problem.chunk_mb
        topology, pair = problem.topology, self.pair[self.first][self.kind]
        return ticks(topology.duration_us(link, size_mb), tick_us), ticks(
            topology.port_busy_us(pair, size_mb), tick_us
        )


@dataclass(frozen=True, eq=False)
class Turns:
    """Groups that take turns on their ports.

    `busy` is how long each row of the options keeps its port busy, and `left` how long before the end of that
    it left, in ticks.
    """

    options: GroupOptions
    busy: IntArray
    left: IntArray

    def least_end(
        self,
        values: Callable[[int], FloatArray | IntArray],
        cap: FloatArray | IntArray,
        need: float,
        rows: int,
    ) -> int | None:
        """The least T, in ticks, at which groups that take turns can be worth `need`; None from `rows` on.

        `values(T)` has shape (T + 1, num_rows): what a group that leaves at x is worth. Groups through
        a port are worth no more than `cap`, shape (num_ports,). More time never makes anything worth less.
        """
        if self._worth(values(rows - 1), cap) < need - 1e-6:
            return None
        low, high = -1, rows - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._worth(values(middle), cap) >= need - 1e-6:
                high = middle
            else:
                low = middle
        return high

    def _worth(self, value: FloatArray | IntArray, cap: FloatArray | IntArray) -> float:
        """The sum of A(p, T) over ports; a port that some group keeps busy for no tick has no turns."""
        busy, slot = self.busy, self.options.slot
        starts = np.flatnonzero(np.diff(slot, prepend=-1))
        no_turns = np.minimum.reduceat(busy, starts) == 0
        before = int(max(busy.max(initial=1), self.left.max(initial=1)))
        rows, every = len(value), np.arange(len(busy))
        most = np.zeros((before + rows, len(starts)))
        earlier = Earlier.of(most, busy, slot)
        value = np.concatenate([np.zeros((before, len(busy))), value])
        left = value[np.arange(before, before + rows)[:, None] - self.left, every]
        for now in together(before, before + rows, len(busy), busy):
            last = np.maximum.reduceat(earlier.at(now) + left[now - before], starts, axis=1)
            last[0] = np.maximum(most[now[0] - 1], last[0])
            most[now] = np.minimum(cap, np.maximum.accumulate(last, axis=0))
        unlimited = np.where(np.maximum.reduceat(value.max(axis=0), starts) > 0, cap, 0)
        return float(np.where(no_turns, unlimited, most[-1]).sum())
