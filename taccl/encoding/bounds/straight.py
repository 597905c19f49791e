r"""The straight bound: where every way round takes too long, all goes over the link from end to end.

Let D[s, v] be the least time of a chunk from s to v over two links or more, each of which takes it whole. In
a schedule that ends before D[s, v], what v gets of a chunk or a contribution of s came straight from s: by
anybody else it would have come too late. So with N[s, v] such chunks and S = {(s, v) : D[s, v] > T},

    T  >=  max over ports p of   sum over links (s, v) in S at p of busy_p(N[s, v])
                                 +  min over these links of (duration(1) - busy_p(1)),

as the send over p that starts last is under way for longer than it keeps p busy; where ports are busy at the
end of a send, the one that ends first began earlier. S changes only at lengths of ways round. With t' the
next one after t, who ends before t' takes at least the right side for S = {D > t}; so T is at least the
lesser of both, for any t. Of copies it counts those from one rank; of sums all contributions, as whoever adds
two of them up is a way round.

For any number of chunks D is that of a chunk of no size, and N[s, v] chunks are as many MB.

It says most where alphas keep no port busy: on a fabric nobody waits for others' alphas, so few chunks go
round, and they meet on the same uplinks.
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


def straight_us(instance: Instance, *, any_chunks: bool) -> tuple[float, str]:
    """The bound in microseconds, and why; 0 where chunks start at several ranks and are no sums.

    `any_chunks` : what holds for any number of equal chunks.
    """
    amount = _amounts(instance)
    if not amount.any():
        return 0.0, "nothing has to move"
    problem = instance.problem
    small, max_group = instance, problem.max_group
    if any_chunks:
        small, max_group = instance.once(sizeless), NO_LIMIT
    return _Ways(small, amount, problem.chunk_mb, max_group).least_us


def sizeless(instance: Instance) -> Instance:
    """The problem with chunks of no size: no way is shorter, however finely the same is cut."""
    return Instance(replace(instance.problem, chunk_mb=0.0))


def _amounts(instance: Instance) -> IntArray:
    """How many chunks each rank gets of each other one, shape (num_ranks, num_ranks), [from, to]."""
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
class _Ways:
    """What goes straight, by how long the ways round are.

    Parameters
    ----------
    small : the problem with chunks of the size at which they travel alone.
    amount : shape (num_ranks, num_ranks); chunks from rank to rank.
    chunk_mb : their size.
    max_group : the most of them in a send.
    """

    small: Instance
    amount: IntArray
    chunk_mb: float
    max_group: int

    @property
    def least_us(self) -> tuple[float, str]:
        """The lesser of a length and what those that are longer than the one before it take; and why."""
        needed_us = self.round_us[(self.amount > 0) & np.isfinite(self.round_us)]
        by_us = np.concatenate(([0.0], np.unique(needed_us)))
        first, last = 0, len(by_us) - 1
        while first < last:  # to the first by which ports are done
            middle = (first + last) // 2
            if self.done(by_us[middle])[0] <= by_us[middle]:
                last = middle
            else:
                first = middle + 1
        done_us, witness = self.done(by_us[max(0, first - 1)])
        if first and by_us[first] < done_us:
            done_us = max(by_us[first], self.done(by_us[first])[0])
            witness = f"{by_us[first]:.4g} us over more than one link, or all straight, {witness}"
        return float(done_us) * (1 - _ROUNDING), witness

    @cached_property
    def round_us(self) -> FloatArray:
        """The least time over two links or more, shape (num_ranks, num_ranks)."""
        topology = self.small.problem.topology
        straight_us = np.full((topology.num_ranks, topology.num_ranks), np.inf)
        straight_us[topology.src, topology.dst] = self.small.durations_us
        then_us = self.small.distances_us.copy()
        np.fill_diagonal(then_us, np.inf)
        return np.stack([(first_us[:, None] + then_us).min(axis=0) for first_us in straight_us])

    def done(self, by_us: float) -> tuple[float, str]:
        """When ports are done at best with all whose ways round take longer than this, and which is last."""
        topology = self.small.problem.topology
        goes = (self.round_us > by_us) & (self.amount > 0)
        link = topology.incidence[0]
        is_straight = goes[topology.src, topology.dst][link]
        if len(np.unique(link[is_straight])) < np.count_nonzero(goes):
            return np.inf, "where there is no link"
        costs, many = costs_of(topology), self.amount[topology.src, topology.dst][link]
        busy_us = -(-many // self.max_group) * costs.busy_alpha_us + many * self.chunk_mb * costs.busy_beta_us
        alone_us = costs.busy_alpha_us + self.small.problem.chunk_mb * costs.busy_beta_us
        rest_us = np.full(topology.num_ports, np.inf)
        np.minimum.at(
            rest_us, costs.port[is_straight], (self.small.durations_us[link] - alone_us)[is_straight]
        )
        load_us = np.bincount(costs.port, busy_us * is_straight, minlength=topology.num_ports)
        done_us = np.where(np.isfinite(rest_us), load_us + rest_us, 0.0)
        last = int(done_us.argmax())
        return float(done_us[last]), f"through {topology.port_names[last]}"
