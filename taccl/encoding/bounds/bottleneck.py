r"""The bottleneck cut: the set of ranks that is hardest to get all chunks into, where all ranks want all.

With w(u) chunks starting at rank u and B(W) the bandwidth into a set W of ranks, throughput is limited
by the cut that maximises (chunks outside W) / B(W), a minimum ratio cut. COST_MODEL, lower bound c: from a
trial ratio, give a source node capacity proportional to w(u) towards every rank u and take a minimum cut for
each rank; a cut that is too narrow is a better W, and Newton's step takes its ratio as the next trial. The
steps are few because each strictly improves the ratio. Capacities are scaled to integers.

The cut is only *proposed* here; the arguments of `cut` and `volume` turn it into bounds, so
rounding cannot make a bound wrong, and a search that is cut short has proposed a cut all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from ortools.graph.python import max_flow

from taccl.encoding.bounds.bound import Proof
from taccl.encoding.bounds.cut import CUT, cut_bound, fluid_cut_bound
from taccl.encoding.bounds.cuts import Cut
from taccl.encoding.bounds.partitions import sides_of
from taccl.encoding.bounds.tuning import BOTTLENECK_MAX_RANKS, BOTTLENECK_UNITS_PER_ARC
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.volume import fluid_volume_bound, volume_bound
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.budget import Budget

#: The largest capacity: sums over thousands of links must stay below 2**63.
_SCALE = 2**40
_INFINITE = 2**60


def bottleneck_cut(instance: Instance, budget: Budget | None = None) -> Cut | None:
    """The set of ranks that is hardest to get all chunks into; None where the question is not requested.

    It is requested where each chunk is copied from one rank to all others, on links that all cost time. If
    the budget is over before it is answered, the narrowest set so far.
    """
    problem = instance.problem
    topology, ranks = problem.topology, problem.num_ranks
    if not instance.demand.broadcasts or not topology.num_links or (topology.beta_us_per_mb <= 0).any():
        return None
    if not 1 < ranks <= BOTTLENECK_MAX_RANKS or not problem.num_chunks:
        return None
    weight = np.bincount(problem.collective.inputs.rank, minlength=ranks)
    network = _Network(topology, budget)
    best = np.arange(ranks) != int(weight.argmax())
    narrower: BoolArray | None = best
    while narrower is not None:
        best = narrower
        bandwidth = network.bandwidth_into(best)
        if not bandwidth:
            break  # too narrow, next to the fastest port, to tell from nothing
        narrower = network.narrower(weight, float(weight[~best].sum() / bandwidth))
    inside = np.flatnonzero(best).tolist()
    return Cut(frozenset(inside), f"into the set {{{', '.join(map(str, inside))}}}")


def _fastest_use(topology: LogicalTopology) -> FloatArray:
    """MB per microsecond through each port, over the link that it serves fastest; 0 if it has none."""
    rate = np.zeros(topology.num_ports)
    with np.errstate(divide="ignore"):
        np.maximum.at(rate, topology.incidence[1], 1.0 / topology.pair_betas)
    return rate


class _Network:
    """Ranks and ports as nodes; a link leads through its ports one after another."""

    def __init__(self, topology: LogicalTopology, budget: Budget | None) -> None:
        self._ranks, self._budget = topology.num_ranks, budget
        port_rate = _fastest_use(topology)
        self._unit = port_rate[np.isfinite(port_rate)].max() / _SCALE
        enter = self._ranks + 2 * np.arange(topology.num_ports)
        self._source = self._ranks + 2 * topology.num_ports
        self._sink = self._source + 1
        every, link, port = np.arange(self._ranks), *topology.incidence
        first, last = topology.first_pair[:-1], topology.first_pair[1:] - 1
        follows = np.flatnonzero(link[1:] == link[:-1])  # a pair whose link has another port after it
        tail = [enter, topology.src, enter[port[follows]] + 1, enter[port[last]] + 1]
        head = [enter + 1, enter[port[first]], enter[port[follows + 1]], topology.dst]
        fixed = np.concatenate(
            [self._integers(port_rate), np.full(len(link) + topology.num_links, _INFINITE)]
        )
        self._flow = max_flow.SimpleMaxFlow()
        self._flow.add_arcs_with_capacity(np.concatenate(tail), np.concatenate(head), fixed)
        none = np.zeros(self._ranks, dtype=np.int64)
        self._supply = self._flow.add_arcs_with_capacity(none + self._source, every, none)
        self._demand = self._flow.add_arcs_with_capacity(every, none + self._sink, none)

    def bandwidth_into(self, inside: BoolArray) -> float:
        """MB per microsecond that can enter a set of ranks, all senders and receivers being free."""
        return self._min_cut(np.where(inside, 0.0, np.inf), inside)[0]

    def narrower(self, weight: IntArray, ratio: float) -> BoolArray | None:
        """A set of ranks with a larger (chunks outside) / bandwidth than `ratio`; None: none in time."""
        need = weight.sum() / ratio
        for target in range(self._ranks):
            if self._budget is not None and not self._budget.remaining_s():
                return None
            value, reached = self._min_cut(weight / ratio, np.arange(self._ranks) == target)
            if value < need * (1 - 1e-7) and self._is_better(weight, ~reached, ratio):
                return ~reached
        return None

    def _is_better(self, weight: IntArray, inside: BoolArray, ratio: float) -> bool:
        """Whether a set's own ratio is larger, and the minimum cut no matter of rounding."""
        return bool(inside.any() and weight[~inside].sum() > ratio * self.bandwidth_into(inside))

    def _min_cut(self, supply: FloatArray, targets: BoolArray) -> tuple[float, BoolArray]:
        """Value of the least cut between the source, with these capacities, and the targets."""
        if self._budget is not None:
            self._budget.spend(BOTTLENECK_UNITS_PER_ARC * self._flow.num_arcs())
        self._flow.set_arcs_capacity(self._supply, self._integers(supply))
        self._flow.set_arcs_capacity(self._demand, np.where(targets, _INFINITE, 0))
        self._flow.solve(self._source, self._sink)
        reached = np.zeros(self._ranks, dtype=np.bool_)
        reached[[node for node in self._flow.get_source_side_min_cut() if node < self._ranks]] = True
        return self._flow.optimal_flow() * self._unit, reached

    def _integers(self, rate: FloatArray) -> IntArray:
        """Rates as capacities, in whole units."""
        with np.errstate(over="ignore"):
            whole = np.minimum(np.rint(rate / self._unit), float(_INFINITE))
        return np.asarray(whole, dtype=np.int64)


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    cut = bottleneck_cut(view.instance, budget)
    if cut is not None:
        sides = [sides_of(view.problem, cut)]
        yield fluid_cut_bound(view, [cut])
        yield fluid_volume_bound(view.instance, sides)
        yield cut_bound(view.instance, [cut], moments=view.moments)
        yield volume_bound(view.instance, sides)


#: What it proves are proofs of `cut` and `volume`, at one more cut.
BOTTLENECK = replace(
    CUT,
    name="bottleneck",
    about="cut and volume again, at the set of ranks that is hardest to get all chunks into "
    "(where each is copied to all ranks)",
    prove=_prove,
    is_quick=False,
)
