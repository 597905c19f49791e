"""How long a pipeline will take, by a few trees: what sends of several chunks save, and what they cost.

Large sends pay alpha less often, and fill and drain the pipeline more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.encoding.engines.routes.arcs import NO_LINK, Arcs
from taccl.encoding.engines.routes.spanning import Forest
from taccl.encoding.engines.routes.tuning import PROMISE_ENDS


@dataclass(frozen=True)
class Promise:
    """What the trees of all chunks keep the busiest port busy, and how long the way of one chunk takes.

    Parameters
    ----------
    alpha_us, us_per_mb : of the port, by the number of sends and by what every chunk has of MB.
    way_alpha_us, way_us_per_mb : of the longest way of a chunk, up and down.
    """

    alpha_us: float
    us_per_mb: float
    way_alpha_us: float
    way_us_per_mb: float

    def time_us(self, chunk_mb: float, together: int) -> float:
        """The time that this many chunks in a send promise."""
        return self.busy_us(chunk_mb, together) + PROMISE_ENDS * self.way_us(chunk_mb, together)

    def busy_us(self, chunk_mb: float, together: int = 1) -> float:
        """How long the busiest port is busy."""
        return self.alpha_us / together + chunk_mb * self.us_per_mb

    def way_us(self, chunk_mb: float, together: int = 1) -> float:
        """How long the longest way of a send takes."""
        return self.way_alpha_us + together * chunk_mb * self.way_us_per_mb


def promise_of(trees: Forest, arcs: Arcs, costs: Costs, chunk_mb: float, num_chunks: int) -> Promise:
    """What all chunks promise, if the trees of a few are like those of all."""
    used = trees.arc[trees.arc >= 0]
    links = np.concatenate([arcs.up[used], arcs.down[used]])
    sends = np.bincount(links[links != NO_LINK], minlength=len(costs.alpha_us))
    scale = num_chunks / len(trees.root)
    of_pair = np.repeat(sends, np.diff(costs.first)) * scale
    alpha_us = np.bincount(costs.port, of_pair * costs.busy_alpha_us, costs.num_ports)
    us_per_mb = np.bincount(costs.port, of_pair * costs.busy_beta_us, costs.num_ports)
    busiest = int(np.argmax(alpha_us + chunk_mb * us_per_mb))
    phases = int(arcs.up[0] != NO_LINK) + int(arcs.down[0] != NO_LINK)
    hops = phases * _mean_depth(trees, arcs)
    return Promise(
        float(alpha_us[busiest]),
        float(us_per_mb[busiest]),
        hops * float(np.average(costs.alpha_us, weights=sends)),
        hops * float(np.average(costs.beta_us, weights=sends)),
    )


def _mean_depth(trees: Forest, arcs: Arcs) -> float:
    """How many arcs the longest way of a tree has, on average."""
    number = np.arange(len(trees.root))[:, None]
    at = np.broadcast_to(np.arange(trees.arc.shape[1]), trees.arc.shape)
    depth = np.zeros(trees.arc.shape, dtype=np.int64)
    while True:
        arc = trees.arc[number, at]
        if (arc < 0).all():
            return float(depth.max(axis=1).mean())
        depth += arc >= 0
        at = np.where(arc >= 0, arcs.parent[arc], at)
