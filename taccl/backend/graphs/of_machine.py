"""The fastest rings or trees of a machine: as many as help, so that its busiest port has least to do.

Each is the cheapest where a port is the dearer the more the others use it. Then one to three of them at a
time are taken out and chosen again, by prices with some noise, and stay if the loads are no worse.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.graphs.document import Graphs, Shape
from taccl.backend.graphs.loads import allreduce_gbps, links_of, port_loads
from taccl.backend.graphs.shapes import cheap_tree, cheapest_ring
from taccl.backend.graphs.tuning import AT_ONCE, NOISE, STEEP, TRIALS, TRIED, WORTH
from taccl.errors import CollectiveError
from taccl.model.network import FloatArray, LogicalTopology


def graphs_of_machine(network: LogicalTopology, shape: Shape) -> Graphs:
    """The fewest channels that are within `WORTH` of the fastest that were found.

    Raises
    ------
    CollectiveError : no ring or tree goes through all GPUs over links of the machine.
    """
    packing = _Packing(network, shape)
    found: list[Graphs] = []
    for count in TRIED:
        found.append(packing.packed(count))
        if found[-1].gbps >= packing.most_gbps * (1 - WORTH):
            break
    most = max(graphs.gbps for graphs in found)
    return next(graphs for graphs in found if graphs.gbps >= most * (1 - WORTH))


class _Packing:
    """Channels that are chosen one after another, and the load of each port."""

    def __init__(self, network: LogicalTopology, shape: Shape) -> None:
        self.network, self.shape = network, shape
        self._link, self._port = network.incidence
        self._cheapest = cheapest_ring if shape == "ring" else cheap_tree
        #: No more is possible as far as is known: whatever ports are priced at, all channels together cost at
        #: least as much as the cheapest, and ports are busy no longer than the call (linear programming).
        self.most_gbps = np.inf

    def packed(self, count: int) -> Graphs:
        """As many channels as `count`."""
        dice = np.random.default_rng(count)
        channels: list[tuple[int, ...]] = []
        loads = np.zeros((count, self.network.num_ports))
        for place in range(count):
            channel, loads[place] = self._next(loads.sum(axis=0), dice)
            channels.append(channel)
        kept = _key(loads.sum(axis=0))
        for trial in range(TRIALS):
            places = dice.permutation(count)[: 1 + trial % AT_ONCE].tolist()
            others = loads.copy()
            others[places] = 0.0
            chosen = {}
            for place in places:
                chosen[place], others[place] = self._next(others.sum(axis=0), dice)
            key = _key(others.sum(axis=0))
            if key <= kept:
                kept, loads = key, others
                for place, channel in chosen.items():
                    channels[place] = channel
        most = float(loads.sum(axis=0).max())
        self._bound(loads.sum(axis=0))
        ranks = self.network.num_ranks
        gbps = allreduce_gbps(self.shape, ranks, most, count) if most else np.inf
        return Graphs(self.shape, ranks, tuple(sorted(channels)), "of the machine's links", gbps)

    def _next(self, total: FloatArray, dice: np.random.Generator) -> tuple[tuple[int, ...], FloatArray]:
        """The cheapest channel next to others, and its loads."""
        dear = _dear(total, STEEP) * (1.0 + NOISE * dice.random(len(total)))
        return self._cheapest_by(dear)

    def _cheapest_by(self, dear: FloatArray) -> tuple[tuple[int, ...], FloatArray]:
        network, prices = self.network, np.full((self.network.num_ranks,) * 2, np.inf)
        of_link = np.bincount(self._link, network.pair_betas * dear[self._port], network.num_links)
        prices[network.src, network.dst] = of_link
        channel = self._cheapest(prices)
        links = None if channel is None else links_of(network, self.shape, channel)
        if channel is None or links is None:
            raise CollectiveError(
                f"no {self.shape} through all {network.num_ranks} GPUs was found on links of {network.name}",
                hint="another --target, which routes chunks one by one",
            )
        return channel, port_loads(network, links)

    def _bound(self, total: FloatArray) -> None:
        for steep in (0.0, STEEP, 4 * STEEP):
            dear = _dear(total, steep)
            _, load = self._cheapest_by(dear)
            least = float(load @ dear) / float(dear.sum())
            if least > 0:
                gbps = allreduce_gbps(self.shape, self.network.num_ranks, least, 1)
                self.most_gbps = min(self.most_gbps, gbps)


def _dear(total: FloatArray, steep: float) -> FloatArray:
    """The price of each port by its load."""
    most = total.max(initial=0.0)
    return np.exp(steep * (total / most - 1.0)) if most else np.ones_like(total)


def _key(total: FloatArray) -> tuple[float, float]:
    """Smaller is better: the largest load, then how much of the others is near it."""
    most = float(total.max())
    return round(most, 9), round(float(((total / most) ** 8).sum()), 9) if most else 0.0
