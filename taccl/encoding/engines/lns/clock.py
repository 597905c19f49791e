"""Times in whole ticks: what transfers take on the machine, and when sends of the known schedule start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.encoding.core.ticks import Ticks
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Clock:
    """Ticks.

    Parameters
    ----------
    alpha, cost : alpha of each link, and what a chunk takes over it.
    port_cost : how long a chunk keeps a port busy, for each pair of a link and a port.
    is_serial : whether alpha keeps ports busy, too.
    begins : when each send of the known schedule starts.
    last : no solution takes longer.
    """

    alpha: list[int]
    cost: list[int]
    port_cost: list[int]
    is_serial: bool
    begins: list[int]
    last: int

    def duration(self, link: int, chunks: Any) -> Any:
        """How long a send of this many chunks takes over a link; `chunks` may be an expression."""
        return self.alpha[link] + self.cost[link] * chunks

    def busy(self, link: int, pair: int, chunks: Any) -> Any:
        """How long it keeps busy the port of a pair of this link and a port."""
        return (self.alpha[link] if self.is_serial else 0) + self.port_cost[pair] * chunks


def clock_of(problem: Problem, ticks: Ticks, starts_us: list[float], last: int) -> Clock:
    """The clock of a model; `starts_us` has the starts of the known schedule's sends."""
    topology = problem.topology
    return Clock(
        ticks.of(topology.alpha_us).tolist(),
        ticks.of(topology.beta_us_per_mb * problem.chunk_mb).tolist(),
        ticks.of(topology.pair_betas * problem.chunk_mb).tolist(),
        topology.is_serial,
        ticks.of(np.array(starts_us)).tolist(),
        last,
    )
