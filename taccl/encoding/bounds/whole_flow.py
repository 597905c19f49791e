r"""Flows of whole chunks: what the flow bound says again once chunks cannot be divided and sends cost alphas.

For collectives in which every chunk has one source and one destination. Both bounds hold for any prices
y >= 0 of the ports; with Y_l the sum of y over the ports of link l, and B_l the sum of y_p beta_lp:

*Counted.* By T, at most N_p(T) = floor((T - alpha_p) / (s beta_p)) chunks have passed port p, with alpha_p
and beta_p as in `capacity`. Chunk c passes links of at least dist_Y(u_c, v_c) in all, so

    sum over p of y_p N_p(T)  >=  sum over chunks of dist_Y(u_c, v_c).

*Paid.* Let sum of y be 1, and occupancy serial. The k chunks from u to v either all go round, or some go
over the link u -> v itself, in a group that no other pair can claim. With lengths s B_l, dist those of
shortest ways and round those of ways that begin with another link,

    T  >=  sum over pairs (u, v) of min(k round(u, v), Y_uv alpha_uv + k dist(u, v)).

Prices come from the program of the flow bound, with ports as fast as they are in chunks by some T, and with
an alpha for every chunk.
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.flow import commodities, lengths, port_prices
from taccl.encoding.core.budget import Budget
from taccl.encoding.core.distance import distances_from, distances_us
from taccl.encoding.core.flow import moves_pairwise
from taccl.problem import FloatArray, Problem

#: Beyond this many chunks through a port, one more or less says little.
_MOST_COUNTED = 100


def whole_flow_bound(problem: Problem, known_us: float, time_limit_s: float = 10.0) -> Bound:
    """The larger of the two; `known_us` is another bound, from which on times are tried."""
    budget = Budget(time_limit_s)
    nothing = Bound(0.0, "no flow bound", "whole-flow")
    if not known_us or not moves_pairwise(problem):
        return nothing
    paid_us = _paid_us(problem, budget.share(0.3))
    paid = Bound(paid_us, "a detour or an alpha for each pair of ranks", "whole-flow")
    counted_us = _counted_us(problem, max(known_us, paid_us), budget)
    counted = Bound(counted_us, "flow of whole chunks over all links", "whole-flow")
    return max(nothing, paid, counted, key=lambda bound: bound.value_us)


def _paid_us(problem: Problem, budget: Budget) -> float:
    topology, chunk_mb = problem.topology, problem.chunk_mb
    cost = topology.pair_betas * chunk_mb
    alpha = topology.alpha_us[topology.incidence[0]] if topology.is_serial else np.zeros_like(cost)
    price = port_prices(problem, (alpha + cost) / chunk_mb, budget.remaining_s())
    # Where many ports are as busy as each other, the program may price one of them alone.
    even = np.full(topology.num_ports, 1.0 / topology.num_ports)
    return max(_paid_at(problem, each, alpha, cost) for each in (price, even) if each is not None)


def _paid_at(problem: Problem, price: FloatArray, alpha: FloatArray, cost: FloatArray) -> float:
    topology = problem.topology
    length, fee = lengths(problem, price, cost), lengths(problem, price, alpha)
    total = 0.0
    for rank, target, usable in commodities(problem):
        between = distances_us(topology, length, usable)
        for wanting, chunks in zip(*np.unique(target, return_counts=True), strict=True):
            straight = topology.link_index.get((rank, int(wanting)), -1)
            others = [link for link in topology.links_from[rank] if usable[link] and link != straight]
            first = np.array(others, dtype=np.int64)
            round_us = (length[first] + between[topology.dst[first], wanting]).min(initial=np.inf)
            paid = chunks * between[rank, wanting]
            if straight >= 0 and usable[straight]:
                paid += fee[straight]
            total += float(min(chunks * round_us, paid))
    return total


def _counted_us(problem: Problem, known_us: float, budget: Budget) -> float:
    """The first moment, from `known_us` on, at which no prices show that too few chunks are through."""
    alpha, cost = _least_of_ports(problem)
    used_ports = np.isfinite(alpha)
    if not (cost > 0).all() or (known_us / cost[used_ports]).min() > _MOST_COUNTED:
        return 0.0
    counts = np.arange(1, 2 + int(2 * known_us / cost[used_ports].min()))
    moments = np.unique(alpha[used_ports, None] + counts * cost[used_ports, None])
    moments = np.concatenate([[known_us], moments[(moments > known_us) & (moments < 2 * known_us)]])

    def too_few(moment: float) -> bool:
        through = np.zeros(len(alpha))
        through[used_ports] = np.floor((moment - alpha[used_ports]) / cost[used_ports] + 1e-9)
        return _shows_too_few(problem, np.maximum(through, 0.0), budget)

    proved, possible = -1, len(moments)
    while possible - proved > 1 and budget.remaining_s():
        # Each moment is proved too early by a program of its own; most are not far from the first.
        middle = min((proved + possible) // 2, 2 * proved + 3)
        if too_few(float(moments[middle])):
            proved = middle
        else:
            possible = middle
    return float(moments[proved + 1]) if 0 <= proved < len(moments) - 1 else 0.0


def _least_of_ports(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """alpha_p and s beta_p, as in `capacity`, each of shape (num_ports,); inf for a port without links."""
    topology, chunk_mb = problem.topology, problem.chunk_mb
    link, port = topology.incidence
    alpha, cost = np.full((2, topology.num_ports), np.inf)
    later = topology.beta_us_per_mb[link] - topology.pair_betas
    np.minimum.at(alpha, port, topology.alpha_us[link] + later * chunk_mb)
    np.minimum.at(cost, port, topology.pair_betas * chunk_mb)
    return alpha, cost


def _shows_too_few(problem: Problem, through: FloatArray, budget: Budget) -> bool:
    """Whether some prices show that not all chunks can pass, with so many through each port."""
    topology = problem.topology
    link, port = topology.incidence
    slowest = np.full(topology.num_links, np.inf)
    np.minimum.at(slowest, link, through[port])
    each = 1.0 / np.maximum(slowest, 0.5) / problem.chunk_mb
    price = port_prices(problem, each[link], budget.remaining_s())
    if price is None:
        return False
    price = price / np.maximum(through, 0.5)  # of a chunk, and not of all that fit
    length = lengths(problem, price, np.ones(topology.num_pairs))
    needed = sum(
        distances_from(topology, length, rank, usable)[target].sum()
        for rank, target, usable in commodities(problem)
    )
    return bool(needed > (price @ through) * (1 + 1e-7))
