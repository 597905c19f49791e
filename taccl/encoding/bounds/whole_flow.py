r"""Flows of whole chunks: what the flow bound says again once chunks cannot be divided and sends cost alphas.

For collectives in which every chunk has one source and one destination. Both bounds hold for any prices
y >= 0 of the ports; with Y_l the sum of y over the ports of link l, and B_l the sum of y_p beta_lp:

*Integer capacity.* By T, at most N_p(T) chunks have passed port p. Chunk c passes links of at least
dist_Y(u_c, v_c) in all, so

    sum over p of y_p N_p(T)  >=  sum over chunks of dist_Y(u_c, v_c).

N_p(T) is the largest n with alpha_p + n s beta_p + extra_p(n) <= T, with alpha_p and beta_p as in
`capacity`. The extra is what more than one group, or a group that is not there from the beginning to the
end, adds: of the transfers keep one path of each chunk. G groups through the port keep it busy for G - 1
alphas more (none where occupancy is pipelined), and n chunks are no fewer than n / max_group groups. If all
n are one group over a link u -> v, but fewer than n start at u and end at v, then one of the group has come
to u over another link, or still goes on from v: so long nothing of the group is on the link, before it or
after it. So with a_p the least alpha of a link of the port, d_p the least time over a link into u or out of
v, and k_p the most chunks from u to v, each over the links u -> v of the port,

    extra_p(n) = max((ceil(n / max_group) - 1) a_p,  min(a_p, d_p) if n > k_p).

Prices come from the program of the flow bound, with ports as fast as they are in chunks by some T. What
sends themselves cost is said by `few_sends`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.few_sends import few_sends_us
from taccl.encoding.bounds.flow_prices import has_flow, lengths, port_prices, routes_us
from taccl.encoding.bounds.tuning import (
    WHOLE_FLOW_FIXED_CHARGE,
    WHOLE_FLOW_MOST_CELLS,
    WHOLE_FLOW_MOST_COUNTED,
    WHOLE_FLOW_MOST_S,
)
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: Moments that are closer than this part of them are the same.
_ROUNDING = 1e-12


def whole_flow(instance: Instance, known_us: float, budget: Budget) -> Iterator[tuple[float, str]]:
    """What both arguments prove, in microseconds, and why."""
    if not known_us or not instance.problem.num_chunks or not instance.demand.moves_pairwise:
        return
    charge_us = few_sends_us(instance, budget.share(WHOLE_FLOW_FIXED_CHARGE))
    yield charge_us, "a detour or an alpha for each pair of ranks"
    if not has_flow(instance):
        return
    capacity_us = _integer_capacity_us(instance, max(known_us, charge_us), budget.at_most(WHOLE_FLOW_MOST_S))
    yield capacity_us, "flow of whole chunks over all links"


def _integer_capacity_us(instance: Instance, known_us: float, budget: Budget) -> float:
    """The first moment, from `known_us` on, at which no prices show that too few chunks are through."""
    least_us = _passed_us(instance, 2 * known_us)
    if least_us is None:
        return 0.0
    moments = np.unique(least_us[np.isfinite(least_us)])
    moments = np.concatenate([[known_us], moments[(moments > known_us) & (moments < 2 * known_us)]])

    def too_few(moment: float) -> bool:
        through = (least_us <= moment * (1 + _ROUNDING)).sum(axis=1).astype(np.float64)
        return _shows_too_few(instance, through, budget)

    proved, possible = -1, len(moments)
    while possible - proved > 1 and budget.remaining_s():
        # Each step solves a program. The answer is most often near the first moment, so the steps grow from
        # there.
        middle = min((proved + possible) // 2, 2 * proved + 3)
        if too_few(float(moments[middle])):
            proved = middle
        else:
            possible = middle
    return float(moments[proved + 1]) if 0 <= proved < len(moments) - 1 else 0.0


def _passed_us(instance: Instance, horizon_us: float) -> FloatArray | None:
    """The least time by which n chunks can have passed each port, shape (num_ports, most): n = 1, 2, ..

    Some n more than pass by the horizon; infinity for ports without links. None where nothing that counts
    whole chunks would say more than the flow, or where so many pass the fastest port that there is no room.
    """
    problem, topology = instance.problem, instance.problem.topology
    link, port = topology.incidence
    alpha, cost, busy, between = np.full((4, topology.num_ports), np.inf)
    later = topology.beta_us_per_mb[link] - topology.pair_betas
    np.minimum.at(alpha, port, topology.alpha_us[link] + later * problem.chunk_mb)
    np.minimum.at(cost, port, topology.pair_betas * problem.chunk_mb)
    if not (cost > 0).all() or (horizon_us / 2 / cost[port]).min() > WHOLE_FLOW_MOST_COUNTED:
        return None
    np.minimum.at(busy, port, topology.alpha_us[link] if topology.is_serial else 0.0)
    np.minimum.at(between, port, _before_or_after_us(instance)[link])
    direct = np.zeros(topology.num_ports)
    np.maximum.at(direct, port, _from_end_to_end(instance)[link])
    most = 1 + int(horizon_us / cost[port].min())
    if most * topology.num_ports > WHOLE_FLOW_MOST_CELLS:
        return None
    counts = np.arange(1, 1 + most)
    groups = -(-counts // problem.max_group)
    extra = np.where(counts > direct[:, None], np.minimum(busy, between)[:, None], 0.0)
    unused = ~np.isfinite(alpha)
    busy[unused] = cost[unused] = 0.0
    extra = np.maximum(extra, (groups - 1) * busy[:, None])
    return np.asarray(alpha[:, None] + counts * cost[:, None] + extra)


def _before_or_after_us(instance: Instance) -> FloatArray:
    """The least time of a chunk over a link into where each link begins, or out of where it ends."""
    topology, takes = instance.problem.topology, instance.durations_us
    into, out_of = np.full((2, topology.num_ranks), np.inf)
    np.minimum.at(into, topology.dst, takes)
    np.minimum.at(out_of, topology.src, takes)
    return np.asarray(np.minimum(into[topology.src], out_of[topology.dst]))


def _from_end_to_end(instance: Instance) -> IntArray:
    """How many chunks go from where each link begins to where it ends, shape (num_links,)."""
    topology, demand = instance.problem.topology, instance.demand
    pairs = np.zeros((topology.num_ranks, topology.num_ranks), dtype=np.int64)
    np.add.at(pairs, (demand.starts.rank, demand.wants.rank), 1)
    return np.asarray(pairs[topology.src, topology.dst])


def _shows_too_few(instance: Instance, through: FloatArray, budget: Budget) -> bool:
    """Whether some prices show that not all chunks can pass, with this many through each port."""
    topology = instance.problem.topology
    link, port = topology.incidence
    slowest = np.full(topology.num_links, np.inf)
    np.minimum.at(slowest, link, through[port])
    each = 1.0 / np.maximum(slowest, 0.5) / instance.problem.chunk_mb
    price = port_prices(instance, each[link], budget)
    if price is None:
        return False
    price = price / np.maximum(through, 0.5)  # of a chunk, and not of all that fit
    length = lengths(instance, price, np.ones(topology.num_pairs))
    return bool(routes_us(instance, length).sum() > (price @ through) * (1 + 1e-7))
