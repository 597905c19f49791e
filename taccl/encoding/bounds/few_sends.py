r"""Few sends, long ways: a rank that sends to few others reaches the others over detours.

For collectives in which every chunk has one source and one destination, with occupancy serial. Prices y >= 0
of the ports have the sum 1, Y_l is their sum over the ports of link l, and B_l that of y_p beta_lp. Each
send over l costs Y_l alpha_l, each chunk in it s B_l, and all of it together is no more than T.

*Fixed charge.* The k chunks from u to v either all go round, or some go over the link u -> v itself, in a
send that no other pair can claim. With lengths s B_l, dist those of shortest routes and round those of
routes that begin with another link (of each chunk by the links that it may use), they cost no less than
k round(u, v), or Y_uv alpha_uv + k dist(u, v).

*Reach.* Let u send m times, and no rank more than D times. Then some chunk of u comes to no more than m
ranks over one link, to m D over two, m D^2 over three, and so on. So of the N ranks that it has chunks for,
all but R_j = m + m D + ... + m D^(j-1) get them over more than j links, and then k chunks cost at least
k (j + 1) b, with b the least s B_l. A send that is claimed by no pair costs at least c_u, the least charge
of a link out of u. So what u begins costs no less than

    F_u(D) = min over m of   sum over v of k round(u, v)
                           + the m least of min(c_u, Y_uv alpha_uv + k dist(u, v) - k round(u, v))
                           + sum over j >= 2 of max(0, N - R_j) (e_(j+1) - e_j),

where e_j, the least of max(0, k j b - k round(u, v)) over v, is what j links cost more; e_2 is 0, and m is
at least 1. Every send and every passage of a chunk is counted once, so T >= sum over u of F_u(D).

*How often a rank can send by T.* Let every link out of w count at one of its ports, P in all. They are busy
for P T together at most: with what w itself has to send, and with an alpha for each send. So
D(T) = max over w of (P T - what w has to send) / (least alpha out of w). The sum of F_u(D(T)) falls with T,
so the first T that it does not exceed is a bound.

Prices come from the program of the flow bound with an alpha for every chunk. Where many ports are equally
busy it may put the whole price on one of them, so even prices are looked at, too; where that program is too
large, these alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taccl.encoding.bounds.flow_prices import commodities, even_prices, lengths, port_prices
from taccl.encoding.bounds.tuning import FEW_SENDS_CLOSE, FEW_SENDS_MOST_LINKS
from taccl.encoding.core.distance import distances_us
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: Where a whole number fits but for rounding, it fits.
_ROUNDING = 1e-9


def few_sends_us(instance: Instance, budget: Budget) -> float:
    """What sends and detours cost, at the best of some prices, microseconds."""
    topology, chunk_mb = instance.problem.topology, instance.problem.chunk_mb
    cost = topology.pair_betas * chunk_mb
    alpha = topology.alpha_us[topology.incidence[0]] if topology.is_serial else np.zeros_like(cost)
    price = port_prices(instance, (alpha + cost) / chunk_mb, budget)
    most_sends, best_us = _MostSends.of(instance), 0.0
    for each in (price, *even_prices(topology)):
        if each is not None and budget.remaining_s():
            sources = list(_sources(instance, each, alpha, cost, budget))
            best_us = max(best_us, _least_us(sources, most_sends))
    return best_us


class _Source(NamedTuple):
    """What a rank has for others; an entry for each of these in `sends`.

    Parameters
    ----------
    around : what its chunks cost if all go round.
    sends : what the first, the second, ... send costs at least, less what it saves; ascending.
    further : what the chunks for a rank cost more in 3 links than around, in 4 than in 3, and so on.
    """

    around: float
    sends: FloatArray
    further: FloatArray

    def least(self, most_sends: float) -> float:
        """F_u, where no rank sends more often than this."""
        count = np.arange(1, len(self.sends) + 1)
        costs, reach, last = np.cumsum(self.sends), 1.0, 1.0
        for more in self.further.tolist():
            last *= most_sends
            reach += last
            costs = costs + np.maximum(0.0, len(count) - count * reach) * more
        return self.around + float(costs.min())


@dataclass(frozen=True, eq=False)
class _MostSends:
    """How often the rank sends that can send most often; columns of shape (num_ranks,).

    Parameters
    ----------
    ports : at how many ports its links count.
    own_us : how long these are busy with what it has to send.
    alpha_us : how long a send keeps a port busy at least; infinity: it has no links.
    """

    ports: IntArray
    own_us: FloatArray
    alpha_us: FloatArray

    @staticmethod
    def of(instance: Instance) -> _MostSends:
        problem, topology = instance.problem, instance.problem.topology
        link, port = topology.incidence
        users = np.unique(np.stack([port, topology.src[link]]), axis=1)[0]  # each source of a port once
        sources = np.bincount(users, minlength=topology.num_ports)
        links = np.bincount(port, minlength=topology.num_ports)
        # Of each link at the port that fewest ranks send through, by most links: so ports are few.
        pair = np.lexsort((-links[port], sources[port], link))[topology.first_pair[:-1]]
        counted = np.unique(np.stack([topology.src, port[pair]]), axis=1)[0]
        alpha_us, beta = np.full((2, topology.num_ranks), np.inf)
        np.minimum.at(alpha_us, topology.src, topology.alpha_us if topology.is_serial else 0.0)
        np.minimum.at(beta, topology.src, topology.pair_betas[pair])
        starts, wants = instance.demand.starts, instance.demand.wants
        own = np.bincount(starts.rank[starts.rank != wants.rank], minlength=topology.num_ranks)
        own_us = own * problem.chunk_mb * np.where(np.isfinite(beta), beta, 0.0)
        return _MostSends(np.bincount(counted, minlength=topology.num_ranks), own_us, alpha_us)

    def by(self, end_us: float) -> float:
        """D(T)."""
        free_us = np.maximum(0.0, self.ports * end_us - self.own_us)
        with np.errstate(divide="ignore", invalid="ignore"):
            many = np.where(free_us > 0, free_us * (1 + _ROUNDING) / self.alpha_us, 0.0)
        return float(np.floor(many).max(initial=0.0))


def _least_us(sources: Sequence[_Source], most_sends: _MostSends) -> float:
    """The first T that is no less than what all ranks begin costs with as many sends as fit by T."""
    keys = [(each.around, each.sends.tobytes(), each.further.tobytes()) for each in sources]
    one_of = dict(zip(keys, sources, strict=True))

    def cost(most: float) -> float:
        return sum(many * one_of[key].least(most) for key, many in Counter(keys).items())

    impossible = cost(np.inf) if sources else 0.0
    possible = cost(most_sends.by(impossible)) if sources else 0.0
    while possible - impossible > FEW_SENDS_CLOSE * possible:
        middle = (impossible + possible) / 2
        if cost(most_sends.by(middle)) > middle:
            impossible = middle
        else:
            possible = middle
    return impossible


def _sources(
    instance: Instance, price: FloatArray, alpha: FloatArray, cost: FloatArray, budget: Budget
) -> Iterator[_Source]:
    """The ranks that have something for others, those that the budget lets it come to: each adds to it."""
    topology = instance.problem.topology
    length, charge = lengths(instance, price, cost), lengths(instance, price, alpha)
    for rank, (round_us, directly, chunks) in _pairs(instance, length, charge, budget).items():
        out = np.array(topology.links_from[rank], dtype=np.int64)
        around = np.where(np.isfinite(round_us), round_us, directly)  # else there is no way round
        sends = np.sort(np.minimum(charge[out].min(initial=np.inf), directly - around))
        links = np.arange(2, 2 + FEW_SENDS_MOST_LINKS)
        beyond = np.outer(links, chunks) * length.min() - around
        further = np.maximum.accumulate(np.maximum(0.0, beyond).min(axis=1))
        yield _Source(float(around.sum()), sends, np.diff(further))


def _pairs(
    instance: Instance, length: FloatArray, charge: FloatArray, budget: Budget
) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
    """For each rank what its chunks cost for each rank that wants some: round, directly, and how many."""
    topology, ranks = instance.problem.topology, instance.problem.num_ranks
    pairs: dict[int, FloatArray] = {}
    usable_before = b"none"
    between: FloatArray = np.zeros((0, 0))
    for rank, target, usable in commodities(instance):
        if not budget.remaining_s():
            break
        key = b"" if usable is None else usable.tobytes()
        if key != usable_before:
            between, usable_before = distances_us(topology, length, usable), key
        # Chunks of different owners may share a send, so a pair is charged once.
        rows = pairs.setdefault(rank, np.array([[0.0], [0.0], [0.0], [np.inf]]).repeat(ranks, axis=1))
        for wanting, chunks in zip(*np.unique(target, return_counts=True), strict=True):
            direct = topology.link_index.get((rank, int(wanting)), -1)
            others = [l for l in topology.links_from[rank] if l != direct and (usable is None or usable[l])]
            first = np.array(others, dtype=np.int64)
            round_us = (length[first] + between[topology.dst[first], wanting]).min(initial=np.inf)
            rows[:3, wanting] += chunks * np.array([round_us, between[rank, wanting], 1.0])
            if direct >= 0 and (usable is None or usable[direct]):
                rows[3, wanting] = charge[direct]
    wanted = {rank: rows[:, (rows[2] > 0) & (np.arange(ranks) != rank)] for rank, rows in pairs.items()}
    return {rank: (rows[0], rows[1] + rows[3], rows[2]) for rank, rows in wanted.items() if rows.size}
