"""Durations of sends in whole ticks, for chunks of all sizes of a problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.encoding.core.ticks import Ticks
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US

#: How many chunks of each size a send has, by the number of the size: whole numbers or variables.
Counts = Mapping[int, Any]


@dataclass(frozen=True, eq=False)
class TickClock:
    """Durations in ticks, rounded down.

    Parameters
    ----------
    ticks, last : how long a tick is; no solution takes more than `last`.
    size_of : the number of each chunk's size.
    alpha : of each link.
    cost : cost[size][link] is what a chunk of that size takes, next to alpha.
    port_cost : port_cost[size][pair] is for how long it keeps the port of a pair (link, port) busy.
    link_of : the link of each pair.
    is_serial : whether alpha keeps ports busy, too.
    counts_on : whether a send keeps the port of each pair busy long enough to be in another's way.
    """

    ticks: Ticks
    last: int
    size_of: Sequence[int]
    alpha: Sequence[int]
    cost: Sequence[Sequence[int]]
    port_cost: Sequence[Sequence[int]]
    link_of: Sequence[int]
    is_serial: bool
    counts_on: Sequence[bool]

    def counts_of(self, chunks: Iterable[int]) -> dict[int, int]:
        """How many chunks of each size there are."""
        return Counter(self.size_of[chunk] for chunk in chunks)

    def duration(self, link: int, counts: Counts) -> Any:
        """From start to end of a send."""
        return self.alpha[link] + sum(self.cost[size][link] * count for size, count in counts.items())

    def busy(self, pair: int, counts: Counts) -> Any:
        """For how long a send keeps the port of a pair busy."""
        alpha = self.alpha[self.link_of[pair]] if self.is_serial else 0
        return alpha + sum(self.port_cost[size][pair] * count for size, count in counts.items())

    def moments(self, us: Mapping[tuple[int, int], float]) -> dict[tuple[int, int], int]:
        """Moments of a problem, by chunk and rank, in ticks."""
        return dict(zip(us, self.ticks.of(np.array(list(us.values()))).tolist(), strict=True))

    def costs_of(self, pair: int, counts: Counts) -> tuple[int, ...]:
        """What makes two uses of a port by one send the same: alpha, and the cost of each size in it."""
        return (
            self.alpha[self.link_of[pair]] if self.is_serial else 0,
            *(self.port_cost[size][pair] for size in counts),
        )

    def is_as_slow_as_its_link(self, pair: int, counts: Counts) -> bool:
        """Whether the port of a pair is busy with a send as long as its link is."""
        link = self.link_of[pair]
        return all(self.port_cost[size][pair] == self.cost[size][link] for size in counts)


def clock_of(problem: Problem, ticks: Ticks, last: int) -> TickClock:
    """The clock of a model of a problem."""
    topology = problem.topology
    sizes, size_of = np.unique(problem.size_mb, return_inverse=True)
    pairs = np.arange(topology.num_pairs)
    return TickClock(
        ticks,
        last,
        size_of.ravel().tolist(),
        ticks.of(topology.alpha_us).tolist(),
        [ticks.of(topology.beta_us_per_mb * size_mb).tolist() for size_mb in sizes.tolist()],
        [ticks.of(topology.pair_betas * size_mb).tolist() for size_mb in sizes.tolist()],
        topology.incidence[0].tolist(),
        topology.is_serial,
        (topology.port_busy_us(pairs, float(sizes.min(initial=np.inf))) > TOLERANCE_US).tolist(),
    )
