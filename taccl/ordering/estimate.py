"""What an order costs, at a glance: the loads of ports and the length of chains, as one compiled function.

An estimate is a norm over the loads of all ports and the chain: the largest decides, and what is nearly as
large counts, so that a search sees which of two orders is nearer to a better one. The chain is the sum of all
sends, as large a part of it as it is where all links are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.ordering.traffic import Order, Traffic
from taccl.ordering.tuning import POWER_LOG2
from taccl.support.jit import Loop


class Columns(NamedTuple):
    """The pairs of a plan by host and its GPU, with what goes between; `share` : of the chain."""

    src: IntArray
    src_gpu: IntArray
    dst: IntArray
    dst_gpu: IntArray
    sends: FloatArray
    mb: FloatArray
    share: float
    log2_power: int


@dataclass(frozen=True, eq=False)
class Estimator:
    """Estimates orders of one traffic, and anneals them."""

    columns: Columns
    hosts: IntArray
    table: IntArray
    costs: Costs

    @staticmethod
    def of(traffic: Traffic) -> Estimator:
        """For the pairs of a plan."""
        pairs, (hosts, per) = traffic.pairs, traffic.hosts.shape
        host_of = np.empty(hosts * per, dtype=np.int64)
        gpu_of = np.empty(hosts * per, dtype=np.int64)
        host_of[traffic.hosts] = np.arange(hosts)[:, None]
        gpu_of[traffic.hosts] = np.arange(per)[None, :]
        total_us = float(traffic.even_us.sum())
        share = traffic.even_chain_us / total_us if total_us > 0 else 0.0
        ends = host_of[pairs.src], gpu_of[pairs.src], host_of[pairs.dst], gpu_of[pairs.dst]
        columns = Columns(*ends, pairs.count, pairs.mb, share, POWER_LOG2)
        return Estimator(columns, traffic.hosts, traffic.link_table, traffic.costs)

    @property
    def ports_of_a_look(self) -> int:
        """How many ports of pairs one estimate looks at, about."""
        return len(self.columns.src) * max(1, len(self.costs.port) // max(1, len(self.costs.alpha_us)))

    def estimate_us(self, order: Order) -> float:
        """Microseconds, comparable among orders of one plan only; inf where a link is missing."""
        nothing = np.zeros(0, dtype=np.int64)
        return self._annealed(order, nothing, nothing, nothing, np.zeros(0))[1]

    def annealed(
        self, order: Order, proposals: int, hottest: float, coldest: float, rng: np.random.Generator
    ) -> tuple[Order, float]:
        """The best order met from `order` on, and its estimate.

        Parameters
        ----------
        proposals : how many swaps, insertions and reversals are tried.
        hottest, coldest : the temperatures at both ends, as parts of the estimate of `order`.
        """
        first_us = self.estimate_us(order)
        begin = first_us if np.isfinite(first_us) else 1.0
        falls = np.geomspace(hottest * begin, coldest * begin, proposals) if proposals else np.zeros(0)
        allowed_us = -np.log(1.0 - rng.random(proposals)) * falls
        kind = rng.integers(0, 3, proposals)
        a, b = rng.integers(0, len(order), (2, proposals))
        return self._annealed(order, kind, a, b, allowed_us)

    def _annealed(
        self, order: Order, kind: IntArray, a: IntArray, b: IntArray, allowed_us: FloatArray
    ) -> tuple[Order, float]:
        now, best = np.array(order, dtype=np.int64), np.array(order, dtype=np.int64)
        best_us = _anneal(
            max(1, len(kind)) * len(self.columns.src),
            pairs=self.columns,
            costs=self.costs,
            hosts=self.hosts,
            table=self.table,
            orders=np.stack([now, best, now]),
            loads=np.zeros((1, self.costs.num_ports)),
            scratch=np.zeros((1, len(self.columns.src)), dtype=np.int64),
            kind=kind,
            a=a,
            b=b,
            allowed_us=allowed_us,
        )
        return tuple(best_us[0].tolist()), float(best_us[1])


def _estimate(pairs: Any, costs: Any, hosts: Any, table: Any, order: Any, load: Any, links: Any) -> Any:
    """The norm of loads and chain of one order; `load` is all zeros before and after, `links` is scratch."""
    chain_us, largest = 0.0, 0.0
    for pair in range(len(pairs.src)):
        src = hosts[order[pairs.src[pair]], pairs.src_gpu[pair]]
        link = table[src, hosts[order[pairs.dst[pair]], pairs.dst_gpu[pair]]]
        links[pair] = link
        count, mb = pairs.sends[pair], pairs.mb[pair]
        if link < 0:
            largest = np.inf
            continue
        chain_us += count * costs.alpha_us[link] + mb * costs.beta_us[link]
        for row in range(costs.first[link], costs.first[link + 1]):
            port = costs.port[row]
            load[port] += count * costs.busy_alpha_us[row] + mb * costs.busy_beta_us[row]
            largest = max(largest, load[port])
    chain_us *= pairs.share
    largest = max(largest, chain_us)
    scale = 1.0 / largest if largest > 0 else 0.0
    total = _power(chain_us * scale, pairs.log2_power)
    for pair in range(len(pairs.src)):
        link = links[pair]
        if link >= 0:
            for row in range(costs.first[link], costs.first[link + 1]):
                port = costs.port[row]
                if load[port] > 0.0:
                    total += _power(load[port] * scale, pairs.log2_power)
                    load[port] = 0.0
    return largest * total ** (1.0 / 2**pairs.log2_power) if largest > 0 else 0.0


def _power(value: Any, log2_power: Any) -> Any:
    for _ in range(log2_power):
        value *= value
    return value


def _moved(order: Any, to: Any, kind: Any, a: Any, b: Any) -> None:
    """`order` with a swap (0), an insertion (1) or a reversal (2) between two positions, in `to`."""
    for place in range(len(order)):
        to[place] = order[place]
    if kind == 0:
        to[a], to[b] = order[b], order[a]
    elif kind == 1:
        step = 1 if a < b else -1
        for place in range(a, b, step):
            to[place] = order[place + step]
        to[b] = order[a]
    else:
        low, high = min(a, b), max(a, b)
        for place in range(low, high + 1):
            to[place] = order[low + high - place]


def _run_anneal(
    pairs: Any,
    costs: Any,
    hosts: Any,
    table: Any,
    orders: Any,
    loads: Any,
    scratch: Any,
    kind: Any,
    a: Any,
    b: Any,
    allowed_us: Any,
) -> Any:
    """Rows of `orders`: the order now, the best, and the one that is proposed."""
    now, best, next_, load, links = orders[0], orders[1], orders[2], loads[0], scratch[0]
    now_us = _estimate(pairs, costs, hosts, table, now, load, links)
    best_us = now_us
    for turn in range(len(kind)):
        if a[turn] == b[turn]:
            continue
        _moved(now, next_, kind[turn], a[turn], b[turn])
        next_us = _estimate(pairs, costs, hosts, table, next_, load, links)
        if next_us <= now_us + allowed_us[turn]:
            for place in range(len(now)):
                now[place] = next_[place]
            now_us = next_us
            if now_us < best_us:
                best_us = now_us
                for place in range(len(now)):
                    best[place] = now[place]
    return best, best_us


_anneal = Loop(_run_anneal, (_power, _estimate, _moved), eager=True)
