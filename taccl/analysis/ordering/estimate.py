"""What an order costs, at a glance: the loads of ports and the length of chains, as one compiled function.

An estimate is a norm over the loads of all ports and the chain: the largest decides, and what is nearly as
large counts, so that a search sees which of two orders is nearer to a better one. The chain is the sum of all
sends, as large a part of it as it is where all links are equal. A move changes the loads of the pairs at the
positions that it touches, and no others are looked at. A missing link costs several times the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taccl.analysis.ordering.traffic import Order, Traffic
from taccl.analysis.ordering.tuning import LONGEST_MOVE, MISSING, POWER_LOG2
from taccl.encoding.core.costs import Costs
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled_in_place, is_at_hand


class TrafficColumns(NamedTuple):
    """The pairs of a plan by host and its GPU, with what goes between.

    Parameters
    ----------
    src, src_gpu, dst, dst_gpu : positions, and GPUs of the hosts there.
    sends, mb : how many and how much go from one to the other.
    first, at : the pairs at each position: those from `first[p]` on.
    """

    src: IntArray
    src_gpu: IntArray
    dst: IntArray
    dst_gpu: IntArray
    sends: FloatArray
    mb: FloatArray
    first: IntArray
    at: IntArray


class Weights(NamedTuple):
    """How loads and the chain make one number.

    Parameters
    ----------
    scale : a load of this many microseconds counts as 1.
    share : of the sum of all sends, the part that is the chain.
    log2_power : of the norm. missing : what a missing link multiplies.
    """

    scale: float
    share: float
    log2_power: int
    missing: float


class State(NamedTuple):
    """What an order comes to: kept up to date from move to move.

    Parameters
    ----------
    load : of each port, microseconds. link, fresh : of each pair, now and as proposed. seen : by which move.
    changed : pairs of a move. total : the power sum of loads, the sum of sends, and the missing links.
    """

    load: FloatArray
    link: IntArray
    fresh: IntArray
    seen: IntArray
    changed: IntArray
    total: FloatArray


def is_compiled() -> bool:
    """Whether the loop over moves is machine code already, here or on disk."""
    return is_at_hand(_anneal)


@dataclass(frozen=True, eq=False)
class Estimator:
    """Estimates orders of one traffic, and anneals them."""

    columns: TrafficColumns
    weights: Weights
    hosts: IntArray
    table: IntArray
    costs: Costs

    @staticmethod
    def of(traffic: Traffic) -> Estimator:
        """For the pairs of a plan."""
        pairs, (hosts, per) = traffic.pairs, traffic.hosts.shape
        host_of = traffic.host_of
        gpu_of = np.empty(hosts * per, dtype=np.int64)
        gpu_of[traffic.hosts] = np.arange(per)[None, :]
        total_us = float(traffic.even_us.sum())
        share = traffic.even_chain_us / total_us if total_us > 0 else 0.0
        ends = host_of[pairs.src], gpu_of[pairs.src], host_of[pairs.dst], gpu_of[pairs.dst]
        every = np.arange(len(pairs.src))
        position = np.concatenate([ends[0], ends[2][ends[2] != ends[0]]])
        order = np.argsort(position, kind="stable")
        at = np.concatenate([every, every[ends[2] != ends[0]]])[order]
        first = np.searchsorted(position[order], np.arange(hosts + 1))
        columns = TrafficColumns(*ends, pairs.count, pairs.mb, first, at)
        weights = Weights(max(traffic.even_chain_us, 1e-9), share, POWER_LOG2, MISSING)
        return Estimator(columns, weights, traffic.hosts, traffic.link_table, traffic.costs)

    @property
    def ports_of_a_look(self) -> int:
        """How many ports of pairs one move looks at, about."""
        pairs, hosts = len(self.columns.src), len(self.hosts)
        moved = min(hosts, (2 + LONGEST_MOVE) // 2)
        ports = max(1, len(self.costs.port) // max(1, len(self.costs.alpha_us)))
        return max(1, pairs * moved // hosts) * ports * 2

    def estimate_us(self, order: Order) -> float:
        """Microseconds, comparable among orders of one plan only."""
        nothing = np.zeros(0, dtype=np.int64)
        return self._annealed(order, nothing, nothing, nothing, np.zeros(0))[1]

    def annealed(
        self, order: Order, proposals: int, hottest: float, coldest: float, rng: np.random.Generator
    ) -> tuple[Order, float]:
        """The best order met from `order` on, and its estimate.

        Parameters
        ----------
        proposals : how many swaps, insertions and reversals are tried; the last two of neighbourhoods.
        hottest, coldest : the temperatures at both ends, as parts of the estimate of `order`.
        """
        begin = self.estimate_us(order)
        falls = (
            np.geomspace(hottest * begin, coldest * begin, proposals) if begin > 0 else np.zeros(proposals)
        )
        allowed_us = -np.log(1.0 - rng.random(proposals)) * falls
        kind = rng.integers(0, 3, proposals)
        a, b = rng.integers(0, len(order), (2, proposals))
        near = np.clip(a + rng.integers(-LONGEST_MOVE, LONGEST_MOVE + 1, proposals), 0, len(order) - 1)
        return self._annealed(order, kind, a, np.where(kind == 0, b, near), allowed_us)

    def _annealed(
        self, order: Order, kind: IntArray, a: IntArray, b: IntArray, allowed_us: FloatArray
    ) -> tuple[Order, float]:
        now, pairs = np.array(order, dtype=np.int64), len(self.columns.src)
        best = now.copy()
        best_us = _anneal(
            self.columns,
            self.weights,
            self.costs,
            self.hosts,
            self.table,
            now,
            best,
            State(
                np.zeros(self.costs.num_ports),
                np.full(pairs, -1, dtype=np.int64),
                np.zeros(pairs, dtype=np.int64),
                np.full(pairs, -1, dtype=np.int64),
                np.zeros(pairs, dtype=np.int64),
                np.zeros(3),
            ),
            kind,
            a,
            b,
            allowed_us,
        )
        return tuple(best.tolist()), float(best_us)


@compiled_in_place
def _power(value: Any, log2_power: Any) -> Any:
    for _ in range(log2_power):
        value *= value
    return value


@compiled_in_place
def _link_of(pairs: Any, hosts: Any, table: Any, order: Any, pair: Any) -> Any:
    src = hosts[order[pairs.src[pair]], pairs.src_gpu[pair]]
    return table[src, hosts[order[pairs.dst[pair]], pairs.dst_gpu[pair]]]


@compiled_in_place
def _put(pairs: Any, weights: Any, costs: Any, state: Any, pair: Any, link: Any, sign: Any) -> None:
    """Add a pair's traffic to a link (`sign` 1.0), or take it away (-1.0)."""
    if link < 0:
        state.total[2] += sign
        return
    sends, mb = sign * pairs.sends[pair], sign * pairs.mb[pair]
    state.total[1] += sends * costs.alpha_us[link] + mb * costs.beta_us[link]
    for row in range(costs.first[link], costs.first[link + 1]):
        port = costs.port[row]
        before = state.load[port]
        after = before + sends * costs.busy_alpha_us[row] + mb * costs.busy_beta_us[row]
        state.load[port] = after
        more = _power(after / weights.scale, weights.log2_power)
        state.total[0] += more - _power(before / weights.scale, weights.log2_power)


@compiled_in_place
def _value_us(weights: Any, state: Any) -> Any:
    chain = _power(state.total[1] * weights.share / weights.scale, weights.log2_power)
    norm = weights.scale * max(0.0, state.total[0] + chain) ** (1.0 / 2**weights.log2_power)
    return norm * (1.0 + weights.missing * state.total[2])


@compiled_in_place
def _moved(order: Any, kind: Any, a: Any, b: Any) -> None:
    """A swap (0), an insertion of position a at b (1) or a reversal (2), in place."""
    low, high = min(a, b), max(a, b)
    if kind == 0:
        order[a], order[b] = order[b], order[a]
    elif kind == 1:
        moving, step = order[a], 1 if a < b else -1
        for place in range(a, b, step):
            order[place] = order[place + step]
        order[b] = moving
    else:
        while low < high:
            order[low], order[high] = order[high], order[low]
            low += 1
            high -= 1


@compiled_in_place
def _touched(pairs: Any, state: Any, kind: Any, a: Any, b: Any, turn: Any) -> Any:
    """The pairs at positions that a move changes, in `state.changed`; how many they are."""
    many, low, high = 0, min(a, b), max(a, b)
    for place in range(low, high + 1):
        if kind == 0 and low < place < high:
            continue
        for row in range(pairs.first[place], pairs.first[place + 1]):
            pair = pairs.at[row]
            if state.seen[pair] != turn:
                state.seen[pair] = turn
                state.changed[many] = pair
                many += 1
    return many


@compiled_in_place
def _anneal(
    pairs: Any,
    weights: Any,
    costs: Any,
    hosts: Any,
    table: Any,
    now: Any,
    best: Any,
    state: Any,
    kind: Any,
    a: Any,
    b: Any,
    allowed_us: Any,
) -> Any:
    """Change `now` move by move, and keep the best in `best`; its estimate."""
    for pair in range(len(pairs.src)):
        state.link[pair] = _link_of(pairs, hosts, table, now, pair)
        _put(pairs, weights, costs, state, pair, state.link[pair], 1.0)
    now_us = _value_us(weights, state)
    best_us = now_us
    for turn in range(len(kind)):
        if a[turn] == b[turn]:
            continue
        _moved(now, kind[turn], a[turn], b[turn])
        many = _touched(pairs, state, kind[turn], a[turn], b[turn], turn)
        for index in range(many):
            pair = state.changed[index]
            state.fresh[pair] = _link_of(pairs, hosts, table, now, pair)
            _put(pairs, weights, costs, state, pair, state.link[pair], -1.0)
            _put(pairs, weights, costs, state, pair, state.fresh[pair], 1.0)
        next_us = _value_us(weights, state)
        if next_us <= now_us + allowed_us[turn]:
            for index in range(many):
                state.link[state.changed[index]] = state.fresh[state.changed[index]]
            now_us = next_us
            if now_us < best_us:
                best_us = now_us
                for place in range(len(now)):
                    best[place] = now[place]
        else:
            _moved(now, kind[turn], b[turn], a[turn])
            for index in range(many):
                pair = state.changed[index]
                _put(pairs, weights, costs, state, pair, state.fresh[pair], -1.0)
                _put(pairs, weights, costs, state, pair, state.link[pair], 1.0)
    return best_us
