r"""Which cut is the narrowest, for collectives where every rank wants every chunk.

With w(u) chunks starting at rank u and B(W) the bandwidth into a set W of ranks, throughput is limited
by the cut that maximises (chunks outside W) / B(W). COST_MODEL, lower bound c: from a trial ratio,
give a source node capacity proportional to w(u) towards every rank u and take a minimum cut for each
rank; a cut that is too narrow is a better W, and Newton's step takes its ratio as the next trial. The
steps are few because each strictly improves the ratio. Capacities are scaled to integers.

The cut is only *proposed* here; `cuts.cut_bound` turns it into a bound, so rounding cannot make a
bound wrong.
"""

from __future__ import annotations

import math

import numpy as np
from ortools.graph.python import max_flow

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bounds.cuts import Cut
from taccl.problem import FloatArray, LogicalTopology, Problem

#: The largest capacity: sums over thousands of links must stay below 2**63.
_SCALE = 2**40
#: Above this many ranks the minimum cuts take longer than they are worth.
_MAX_RANKS = 128


def tightest_cut(problem: Problem) -> Cut | None:
    """The set of ranks that is hardest to get all chunks into; None where the question is not asked.

    It is asked where each chunk is copied from one rank to all others, on links that all cost time.
    """
    collective, topology = problem.collective, problem.topology
    copies_to_all = ~collective.reduces & (collective.pre.sum(axis=1) == 1) & collective.post.all(axis=1)
    if not copies_to_all.all() or not topology.num_links or (topology.beta_us_per_mb <= 0).any():
        return None
    if not 1 < problem.num_ranks <= _MAX_RANKS:
        return None
    weight = collective.pre.sum(axis=0)
    network = _Network(problem)
    best = np.arange(problem.num_ranks) != int(weight.argmax())
    narrower: BoolArray | None = best
    while narrower is not None:
        best = narrower
        bandwidth = network.bandwidth_into(best)
        if not bandwidth:
            break  # too narrow, beside the fastest port, to tell from nothing
        narrower = network.narrower(weight, float(weight[~best].sum() / bandwidth))
    ranks = np.flatnonzero(best).tolist()
    return Cut(frozenset(ranks), f"into the set {{{', '.join(map(str, ranks))}}}")


def _port_rates(topology: LogicalTopology) -> FloatArray:
    """MB per microsecond through each port, over the link that it serves fastest; 0 if it has none."""
    rate = np.zeros(topology.num_ports)
    with np.errstate(divide="ignore"):
        np.maximum.at(rate, topology.incidence[1], 1.0 / topology.pair_betas)
    return rate


class _Network:
    """Ranks and ports as nodes; a link leads through its ports one after another."""

    def __init__(self, problem: Problem) -> None:
        topology = problem.topology
        self._ranks = topology.num_ranks
        port_rate = _port_rates(topology)
        self._unit = port_rate[np.isfinite(port_rate)].max() / _SCALE
        self._tail: list[int] = []
        self._head: list[int] = []
        self._rate: list[float] = []
        for port, of_port in enumerate(port_rate):
            self._add(self._enter(port), self._enter(port) + 1, float(of_port))
        for link, ports in enumerate(topology.ports):
            stops = [int(topology.src[link])]
            for port in ports:
                stops += [self._enter(port), self._enter(port) + 1]
            stops.append(int(topology.dst[link]))
            for tail, head in zip(stops[::2], stops[1::2], strict=True):
                self._add(tail, head, math.inf)
        self._source = self._ranks + 2 * len(port_rate)

    def _enter(self, port: int) -> int:
        return self._ranks + 2 * port

    def _add(self, tail: int, head: int, rate: float) -> None:
        self._tail.append(tail)
        self._head.append(head)
        self._rate.append(rate)

    def bandwidth_into(self, inside: BoolArray) -> float:
        """MB per microsecond that can enter a set of ranks, all senders and receivers being free."""
        outside = np.where(inside, 0.0, math.inf)
        return self._min_cut(outside, np.flatnonzero(inside))[0]

    def narrower(self, weight: IntArray, ratio: float) -> BoolArray | None:
        """A set of ranks with a larger (chunks outside) / bandwidth than `ratio`, or None."""
        need = weight.sum() / ratio
        for target in range(self._ranks):
            value, reached = self._min_cut(weight / ratio, np.array([target]))
            if value < need * (1 - 1e-7) and self._is_better(weight, ~reached, ratio):
                return ~reached
        return None

    def _is_better(self, weight: IntArray, inside: BoolArray, ratio: float) -> bool:
        """Whether a set's own ratio is larger, and the minimum cut no matter of rounding."""
        return bool(inside.any() and weight[~inside].sum() > ratio * self.bandwidth_into(inside))

    def _min_cut(self, supply: FloatArray, targets: IntArray) -> tuple[float, BoolArray]:
        """Value of the least cut between the source, with these capacities, and the targets."""
        flow = max_flow.SimpleMaxFlow()
        sink = self._source + 1
        infinite = 2**60
        for tail, head, rate in zip(self._tail, self._head, self._rate, strict=True):
            flow.add_arc_with_capacity(tail, head, self._integer(rate, infinite))
        for rank, capacity in enumerate(supply):
            flow.add_arc_with_capacity(self._source, rank, self._integer(float(capacity), infinite))
        for target in targets:
            flow.add_arc_with_capacity(int(target), sink, infinite)
        flow.solve(self._source, sink)
        reached = np.zeros(self._ranks, dtype=np.bool_)
        reached[[node for node in flow.get_source_side_min_cut() if node < self._ranks]] = True
        return flow.optimal_flow() * self._unit, reached

    def _integer(self, rate: float, infinite: int) -> int:
        return infinite if math.isinf(rate) else min(infinite, round(rate / self._unit))
