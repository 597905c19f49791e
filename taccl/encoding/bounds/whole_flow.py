r"""Flows of whole chunks: what the flow bound says again once chunks cannot be divided and sends cost alphas.

For collectives in which every chunk has one source and one destination. Both bounds hold for any prices
y >= 0 of the ports; with Y_l the sum of y over the ports of link l, and B_l the sum of y_p beta_lp:

*Integer capacity.* By T, at most N_p(T) = floor((T - alpha_p) / (s beta_p)) chunks have passed port p, with
alpha_p and beta_p as in `capacity`. Chunk c passes links of at least dist_Y(u_c, v_c) in all, so

    sum over p of y_p N_p(T)  >=  sum over chunks of dist_Y(u_c, v_c).

*Fixed charge.* Let sum of y be 1, and occupancy serial. The k chunks from u to v either all go round, or some
go over the link u -> v itself, in a group that no other pair can claim. With lengths s B_l, dist those of
shortest ways and round those of ways that begin with another link,

    T  >=  sum over pairs (u, v) of min(k round(u, v), Y_uv alpha_uv + k dist(u, v)).

Prices come from the program of the flow bound, with ports as fast as they are in chunks by some T, and with
an alpha for every chunk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.flow import commodities, has_flow, lengths, port_prices
from taccl.encoding.bounds.views import View
from taccl.encoding.core.budget import Budget
from taccl.encoding.core.distance import distances_from, distances_us
from taccl.encoding.instance import Instance
from taccl.network import FloatArray
from taccl.problem import Problem

#: With more chunks than this through a port, rounding down to whole ones gains next to nothing.
_MOST_COUNTED = 100
#: The part of the time for the fixed charge, before the integer capacities.
_FIXED_CHARGE = 0.3


def _both(instance: Instance, known_us: float, budget: Budget) -> Iterator[Proof]:
    if not known_us or not has_flow(instance):
        return
    charge_us = _fixed_charge_us(instance, budget.share(_FIXED_CHARGE))
    yield WHOLE_FLOW.proof(charge_us, "a detour or an alpha for each pair of ranks")
    capacity_us = _integer_capacity_us(instance, max(known_us, charge_us), budget)
    yield WHOLE_FLOW.proof(capacity_us, "flow of whole chunks over all links")


def _fixed_charge_us(instance: Instance, budget: Budget) -> float:
    topology, chunk_mb = instance.problem.topology, instance.problem.chunk_mb
    cost = topology.pair_betas * chunk_mb
    alpha = topology.alpha_us[topology.incidence[0]] if topology.is_serial else np.zeros_like(cost)
    price = port_prices(instance, (alpha + cost) / chunk_mb, budget)
    # Where many ports are equally busy, the program may put the whole price on one of them.
    even = np.full(topology.num_ports, 1.0 / topology.num_ports)
    return max(
        _fixed_charge_at(instance, each, alpha, cost, budget) for each in (price, even) if each is not None
    )


def _fixed_charge_at(
    instance: Instance, price: FloatArray, alpha: FloatArray, cost: FloatArray, budget: Budget
) -> float:
    """The sum of the formula, for the pairs that the budget lets it come to: each adds something."""
    topology = instance.problem.topology
    length, charge = lengths(instance, price, cost), lengths(instance, price, alpha)
    total, usable_before = 0.0, b"none"
    between: FloatArray = np.zeros((0, 0))
    for rank, target, usable in commodities(instance):
        if not budget.remaining_s():
            break
        key = b"" if usable is None else usable.tobytes()
        if key != usable_before:
            between, usable_before = distances_us(topology, length, usable), key
        for wanting, chunks in zip(*np.unique(target, return_counts=True), strict=True):
            direct = topology.link_index.get((rank, int(wanting)), -1)
            others = [l for l in topology.links_from[rank] if l != direct and (usable is None or usable[l])]
            first = np.array(others, dtype=np.int64)
            round_us = (length[first] + between[topology.dst[first], wanting]).min(initial=np.inf)
            charged = chunks * between[rank, wanting]
            if direct >= 0 and (usable is None or usable[direct]):
                charged += charge[direct]
            total += float(min(chunks * round_us, charged))
    return total


def _integer_capacity_us(instance: Instance, known_us: float, budget: Budget) -> float:
    """The first moment, from `known_us` on, at which no prices show that too few chunks are through."""
    alpha, cost = _least_of_ports(instance.problem)
    used_ports = np.isfinite(alpha)
    if not (cost > 0).all() or (known_us / cost[used_ports]).min() > _MOST_COUNTED:
        return 0.0
    counts = np.arange(1, 2 + int(2 * known_us / cost[used_ports].min()))
    moments = np.unique(alpha[used_ports, None] + counts * cost[used_ports, None])
    moments = np.concatenate([[known_us], moments[(moments > known_us) & (moments < 2 * known_us)]])

    def too_few(moment: float) -> bool:
        through = np.zeros(len(alpha))
        through[used_ports] = np.floor((moment - alpha[used_ports]) / cost[used_ports] + 1e-9)
        return _shows_too_few(instance, np.maximum(through, 0.0), budget)

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


def _least_of_ports(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """alpha_p and s beta_p, as in `capacity`, each of shape (num_ports,); inf for a port without links."""
    topology, chunk_mb = problem.topology, problem.chunk_mb
    link, port = topology.incidence
    alpha, cost = np.full((2, topology.num_ports), np.inf)
    later = topology.beta_us_per_mb[link] - topology.pair_betas
    np.minimum.at(alpha, port, topology.alpha_us[link] + later * chunk_mb)
    np.minimum.at(cost, port, topology.pair_betas * chunk_mb)
    return alpha, cost


def _shows_too_few(instance: Instance, through: FloatArray, budget: Budget) -> bool:
    """Whether some prices show that not all chunks can pass, with so many through each port."""
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
    needed = sum(
        distances_from(topology, length, rank, usable)[target].sum()
        for rank, target, usable in commodities(instance)
    )
    return bool(needed > (price @ through) * (1 + 1e-7))


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield WHOLE_FLOW.proof(0.0, "no flow bound")
    yield from _both(view.instance, known_us, budget)


WHOLE_FLOW = Bound(
    name="whole-flow",
    about="flow for whole chunks: by some moment a port has let through only so many (integer capacity); and "
    "each pair of ranks takes a way round or pays an alpha of its own (fixed charge)",
    remedy="more or faster links on the busiest ways, shorter alphas, or more --chunks",
    prove=_prove,
    features=RELAXED,
)
