"""What a plan takes at least, whichever host stands at which of its positions.

cut : a port that all traffic out of (or into) a set of hosts passes carries at least the plan's least cut
between as many positions and the others. For a single host that is what the position with the least traffic
sends; for more, with as much into as out of each position, half of the larger of the least cut of the
undirected traffic (Stoer and Wagner 1997) and of lambda_2 w (n - w) / n, where lambda_2 is the second
eigenvalue of its Laplacian (Fiedler 1973).

host : each host stands somewhere, so its fastest links carry what the position with the least traffic sends
to its neighbour.

chain : the longest chain of sends passes its pairs of positions whoever stands there, each as fast as its
sender's fastest link at best; which hosts those are is an assignment, the cheapest of which counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment

from taccl.analysis.ordering.traffic import Traffic
from taccl.analysis.ordering.tuning import MOST_CUT_EDGES
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray


@dataclass(frozen=True)
class PlanBound:
    """No order of hosts makes the plan faster than `value_us`; `witness` says why."""

    value_us: float
    witness: str


NOTHING = PlanBound(0.0, "nothing has to move")


def plan_bound(traffic: Traffic) -> PlanBound:
    """The largest of the bounds of one plan in any order."""
    if not len(traffic.sends.link):
        return NOTHING
    return max((*_cuts(traffic), _hosts(traffic), _chain(traffic)), key=lambda each: each.value_us)


def _host_traffic(traffic: Traffic, amount: FloatArray) -> FloatArray:
    """What goes from position to position, shape (hosts, hosts), none from a host to itself."""
    pairs, hosts = traffic.pairs, traffic.num_hosts
    host_of = traffic.host_of
    matrix = np.zeros((hosts, hosts))
    np.add.at(matrix, (host_of[pairs.src], host_of[pairs.dst]), amount)
    np.fill_diagonal(matrix, 0.0)
    return matrix


class _Cuts:
    """The least traffic out of w positions, for a plan's MB or its sends."""

    def __init__(self, matrix: FloatArray) -> None:
        out, into = matrix.sum(axis=1), matrix.sum(axis=0)
        self._hosts = len(matrix)
        self._least = float(out.min()), float(into.min())
        self._both = matrix + matrix.T if self._hosts > 2 and np.allclose(out, into) else None

    @cached_property
    def _lambda_2(self) -> float:
        """The second eigenvalue of the Laplacian; 0 where a cut may be crossed one way only."""
        if self._both is None:
            return 0.0
        laplacian = np.diag(self._both.sum(axis=1)) - self._both
        second = eigh(laplacian, eigvals_only=True, subset_by_index=(1, 1))
        return max(0.0, float(second[0]))

    @cached_property
    def _whole(self) -> float:
        """The least cut, of whatever size; 0 where it is not known."""
        if self._both is None:
            return 0.0
        graph = nx.from_numpy_array(self._both)
        if graph.number_of_edges() > MOST_CUT_EDGES or not nx.is_connected(graph):
            return 0.0
        return float(nx.stoer_wagner(graph)[0])

    def least(self, size: int, *, is_out: bool) -> float:
        """Out of (or into) any `size` positions."""
        if size in (1, self._hosts - 1):
            return self._least[0 if is_out == (size == 1) else 1]
        spectral = self._lambda_2 * size * (self._hosts - size) / self._hosts
        return max(self._whole, spectral) / 2


def _cuts(traffic: Traffic) -> list[PlanBound]:
    """One for each port that is on all paths out of, or into, a set of hosts."""
    topology, costs, hosts = traffic.problem.topology, traffic.costs, traffic.num_hosts
    pairs = traffic.pairs
    mb, per_mb = _Cuts(_host_traffic(traffic, pairs.mb)), pairs.count / pairs.mb
    if np.allclose(per_mb, per_mb[0], rtol=1e-12):  # sends of one size: what is cut is in proportion
        count, times = mb, float(per_mb.min())
    else:
        count, times = _Cuts(_host_traffic(traffic, pairs.count)), 1.0
    src, dst = traffic.host_of[topology.src], traffic.host_of[topology.dst]
    links_between = np.zeros((hosts, hosts))
    np.add.at(links_between, (src, dst), 1)
    np.fill_diagonal(links_between, 0)
    found = []
    of_host = links_between.sum(axis=1), links_between.sum(axis=0)
    for port, links in enumerate(topology.port_links):
        if len(links) < hosts - 1:  # fewer than leave a single host
            continue
        used = np.array(links, dtype=np.int64)
        for side, other, is_out in ((src, dst, True), (dst, src, False)):
            is_inside = np.zeros(hosts, dtype=np.bool_)
            is_inside[side[used]] = True
            if is_inside.all():
                continue
            among = links_between[np.ix_(is_inside, is_inside)].sum()
            across = of_host[0 if is_out else 1][is_inside].sum() - among
            if (~is_inside[other[used]]).sum() != across:
                continue  # there are other paths out
            pair = np.flatnonzero(costs.port == port)
            beta, alpha = float(costs.busy_beta_us[pair].min()), float(costs.busy_alpha_us[pair].min())
            size = int(is_inside.sum())
            value_us = beta * mb.least(size, is_out=is_out) + alpha * times * count.least(size, is_out=is_out)
            what = "a host" if size == 1 else f"{size} hosts"
            name = topology.port_names[port]
            found.append(PlanBound(value_us, f"what {what} must pass through {name}"))
    return found


def _hosts(traffic: Traffic) -> PlanBound:
    """The slowest host at the position with the least traffic to a neighbour, over its fastest links."""
    pairs, costs, topology = traffic.pairs, traffic.costs, traffic.problem.topology
    if traffic.hosts.shape[1] > 1:
        return NOTHING
    value_us, slowest = 0.0, 0
    for column, ends in ((topology.src, pairs.src), (topology.dst, pairs.dst)):
        if len(np.unique(ends)) < traffic.num_hosts:
            continue  # a host may stand where nothing is sent
        busiest_us = np.maximum.reduceat(
            costs.busy_alpha_us * pairs.count.min() + costs.busy_beta_us * pairs.mb.min(), costs.first[:-1]
        )
        fastest = np.full(traffic.num_hosts, np.inf)
        np.minimum.at(fastest, column, busiest_us)
        if fastest.max() > value_us:
            value_us, slowest = float(fastest.max()), int(fastest.argmax())
    return PlanBound(value_us, f"the fastest link of host {slowest}")


def _chain(traffic: Traffic) -> PlanBound:
    """The longest chain with the cheapest hosts at its positions."""
    if traffic.hosts.shape[1] > 1:
        return NOTHING
    chain, topology, costs = _longest_chain(traffic), traffic.problem.topology, traffic.costs
    hosts = traffic.num_hosts
    src = traffic.src[chain]
    mb = traffic.sends.mb[chain]
    count_of, mb_of = np.bincount(src, minlength=hosts), np.bincount(src, mb, hosts)
    alpha, beta = np.full(hosts, np.inf), np.full(hosts, np.inf)
    np.minimum.at(alpha, topology.src, costs.alpha_us)
    np.minimum.at(beta, topology.src, costs.beta_us)
    cost = count_of[:, None] * alpha[None, :] + mb_of[:, None] * beta[None, :]
    cost = np.where(count_of[:, None] > 0, cost, 0.0)
    if not np.isfinite(cost).all():
        return NOTHING
    rows, columns = linear_sum_assignment(cost)
    return PlanBound(float(cost[rows, columns].sum()), f"a chain of {len(chain)} sends")


def _longest_chain(traffic: Traffic) -> IntArray:
    """Sends of which each waits for the one before, the longest such where all links are equal."""
    graph, tail_us = traffic.waiting, traffic.even_tails_us
    chain = [int(np.argmax(tail_us))]
    while True:
        send = chain[-1]
        cells = graph.sends.give[graph.sends.first_give[send] : graph.sends.first_give[send + 1]].tolist()
        users = [graph.user[graph.first_user[cell] : graph.first_user[cell + 1]] for cell in cells]
        after = np.concatenate(users) if users else np.zeros(0, dtype=np.int64)
        if not len(after):
            return np.array(chain)
        chain.append(int(after[np.argmax(tail_us[after])]))
