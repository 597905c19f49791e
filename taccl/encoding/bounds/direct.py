r"""The direct-send bound: where a relay would take too long, every chunk is sent directly.

Let R[s, v] be the least time in which a chunk gets from s to v over two links or more. Ranks on the way store
the whole chunk before they forward it. In a schedule that ends before R[s, v], v receives every chunk of s,
and every contribution of s to a sum, over the link from s to v. Let N[s, v] be the number of these chunks.
For any time t let D(t) be the links (s, v) with R[s, v] > t, and let

    done(t)  =  max over ports p of   sum over links l in D(t) at p of busy_p(N_l)
                                      +  min over these links of (duration(1) - busy_p(1)).

The last term holds because the send over p that starts last takes longer than it keeps p busy. (Where ports
are busy at the end of a send, the send that ends first started earlier by as much.) Let t' be the least R
above t. A schedule that ends before t' sends all of D(t) directly, so for every t

    T  >=  min(t', done(t)).

Bisection finds the t at which the minimum changes from t' to done(t). That is the best t wherever done(t)
falls with t; any other t gives a valid bound, too. Only copies from one source are counted. For a sum, every
contribution is counted, because a rank that adds two contributions is a relay.

The bound for any number of chunks uses R for chunks of size zero, and counts the same MB on the ports.

The bound is strongest where alpha does not occupy ports. On such a fabric small messages are sent directly,
and they share the uplinks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import NO_LIMIT

#: Durations are sums, and are rounded by less than this part.
_ROUNDING = 1e-9


def direct_us(instance: Instance, *, any_chunks: bool) -> tuple[float, str]:
    """The bound in microseconds, and its witness; 0 where no chunk has one source or is a sum.

    `any_chunks` : the bound that holds for any number of equal chunks.
    """
    amount = _amounts(instance)
    if not amount.any():
        return 0.0, "nothing has to move"
    problem = instance.problem
    alone, max_group = instance, problem.max_group
    if any_chunks:
        alone, max_group = instance.once(sizeless), NO_LIMIT
    return _DirectSends(alone, amount, problem.chunk_mb, max_group).least_us


def sizeless(instance: Instance) -> Instance:
    """The problem with chunks of size zero: no path is shorter, however finely the data is cut."""
    return Instance(replace(instance.problem, chunk_mb=0.0))


def _amounts(instance: Instance) -> IntArray:
    """The number of chunks from rank to rank, shape (num_ranks, num_ranks), [source, destination]."""
    demand, ranks = instance.demand, instance.problem.num_ranks
    sets, set_of_chunk = demand.source_sets
    counts = demand.reduces | (demand.collective.num_sources == 1)
    wants = demand.wants.some(counts[demand.wants.chunk])
    wanted = np.bincount(set_of_chunk[wants.chunk] * ranks + wants.rank, minlength=len(sets) * ranks)
    amount = np.zeros((ranks, ranks), dtype=np.int64)
    for sources, row in zip(sets, wanted.reshape(-1, ranks), strict=True):
        amount[sources] += row
    np.fill_diagonal(amount, 0)
    return amount


@dataclass(frozen=True, eq=False)
class _DirectSends:
    """The chunks that must be sent directly, as a function of the time that a relay takes.

    Parameters
    ----------
    alone : the problem, with chunks of the size for which paths are timed.
    amount : shape (num_ranks, num_ranks); the number of chunks from rank to rank.
    chunk_mb : their size.
    max_group : the most chunks in one send.
    """

    alone: Instance
    amount: IntArray
    chunk_mb: float
    max_group: int

    @property
    def least_us(self) -> tuple[float, str]:
        """The bound min(t', done(t)) for the t found by bisection, and its witness."""
        relayed_us = self.relayed_us[(self.amount > 0) & np.isfinite(self.relayed_us)]
        times_us = np.concatenate(([0.0], np.unique(relayed_us)))
        first, last = 0, len(times_us) - 1
        while first < last:  # the first time t with done(t) <= t
            middle = (first + last) // 2
            if self.done(times_us[middle])[0] <= times_us[middle]:
                last = middle
            else:
                first = middle + 1
        done_us, port = self.done(times_us[max(0, first - 1)])
        witness = f"all sends are direct, through {port}"
        if first and times_us[first] < done_us:
            done_us, shared = max(times_us[first], self.done(times_us[first])[0]), "there is no direct link"
            if port:
                shared = f"direct sends share {port}"
            witness = f"a relay takes {times_us[first]:.4g} us, and {shared}"
            if done_us > times_us[first]:  # at the last of them: the others have no relay
                witness = f"no relay is soon enough, and direct sends share {self.done(times_us[first])[1]}"
        return float(done_us) * (1 - _ROUNDING), witness

    @cached_property
    def relayed_us(self) -> FloatArray:
        """The least time over two links or more, shape (num_ranks, num_ranks)."""
        topology = self.alone.problem.topology
        link_us = np.full((topology.num_ranks, topology.num_ranks), np.inf)
        link_us[topology.src, topology.dst] = self.alone.durations_us
        then_us = self.alone.distances_us.copy()
        np.fill_diagonal(then_us, np.inf)
        return np.stack([(first_us[:, None] + then_us).min(axis=0) for first_us in link_us])

    def done(self, by_us: float) -> tuple[float, str]:
        """When the direct sends of D(`by_us`) can be done, and the name of the port that decides it."""
        topology = self.alone.problem.topology
        pairs = (self.relayed_us > by_us) & (self.amount > 0)
        link = topology.incidence[0]
        is_direct = pairs[topology.src, topology.dst][link]
        if len(np.unique(link[is_direct])) < np.count_nonzero(pairs):
            return np.inf, ""
        costs, many = costs_of(topology), self.amount[topology.src, topology.dst][link]
        busy_us = -(-many // self.max_group) * costs.busy_alpha_us + many * self.chunk_mb * costs.busy_beta_us
        alone_us = costs.busy_alpha_us + self.alone.problem.chunk_mb * costs.busy_beta_us
        rest_us = np.full(topology.num_ports, np.inf)
        after_us = self.alone.durations_us[link] - alone_us
        np.minimum.at(rest_us, costs.port[is_direct], after_us[is_direct])
        load_us = np.bincount(costs.port, busy_us * is_direct, minlength=topology.num_ports)
        done_us = np.where(np.isfinite(rest_us), load_us + rest_us, 0.0)
        last = int(done_us.argmax())
        return float(done_us[last]), topology.port_names[last]
