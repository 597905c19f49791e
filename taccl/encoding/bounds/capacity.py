r"""How many whole chunks a set of links can have let through by a moment.

Let a group of n chunks take alpha_l + n s beta_l over link l, and keep port p busy for n s beta_lp of it, and
for alpha_l with serial occupancy. Groups through p take turns, so k chunks keep it busy for k s beta_p at
least, beta_p being the least beta_lp. The group whose turn is last ends no sooner than alpha_l + s (beta_l -
beta_lp) after it would if it only had to pass the port: that is its alpha, which its turn may or may not
have in it, and what its first chunk takes on slower ports. With alpha_p the least of these over the links,

    k chunks are not through before  alpha_p + k s beta_p.

However finely the same size is cut, a port lets at most T / beta_p MB through by T, so what must pass some
ports takes no less than its MB over the sum of 1 / beta_p: alphas and the rounding to whole chunks vanish
next to a large size (COST_MODEL, lower bound c).

Read backwards the first group begins so much before its turn, so this holds for sums, too.

Any choice of one port for each link (a *cover*) gives a valid bound, and the one with the least bandwidth a
good one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem

#: Taken off what holds for any chunks, so that float error never puts it above what whole chunks take.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Cover:
    """Ports that all of some links pass, with what they let through.

    Parameters
    ----------
    pair : shape (num_links,); for each of the links its port, as a pair of the topology's `incidence`.
    ports : shape (num_ports,); the ports that were chosen.
    place : shape (num_links,); where in `ports` each link's is.
    alpha_us, chunk_us : shape (num_ports,); alpha_p and s beta_p.
    """

    pair: IntArray
    ports: IntArray
    place: IntArray
    alpha_us: FloatArray
    chunk_us: FloatArray

    @cached_property
    def rates(self) -> Counter[tuple[float, float]]:
        """How many of the ports have each (alpha_p, s beta_p)."""
        return Counter(zip(self.alpha_us.tolist(), self.chunk_us.tolist(), strict=True))

    @cached_property
    def chunks_per_us(self) -> float:
        """How many chunks all the ports together let through, alphas and whole chunks apart."""
        return sum(math.inf if cost == 0 else many / cost for (_, cost), many in self.rates.items())

    def fluid_us(self, chunks: float) -> float:
        """How long the ports take for this much, however finely it is cut."""
        return chunks / self.chunks_per_us * (1 - _ROUNDING)


class Covers:
    """Covers of sets of links, each found once; `instance.once(Covers)`."""

    def __init__(self, instance: Instance) -> None:
        self._problem = instance.problem
        self._of: dict[bytes, list[Cover]] = {}

    def of(self, links: IntArray) -> list[Cover]:
        """Several covers, the one with the least bandwidth first; there is at least one link.

        A trunk that four GPUs fill has the bandwidth of all four, but lets their chunks through one by one.
        So where ports have rates of their own, covers of equal bandwidth give different bounds; elsewhere the
        first is enough.
        """
        covers = self._all(links)
        return covers if self._problem.topology.port_betas is not None else covers[:1]

    def equally_narrow(self, links: IntArray) -> list[Cover]:
        """The covers of the least bandwidth: at the senders' side of a line, say, and at the receivers'."""
        covers = self._all(links)
        return [cover for cover in covers if cover.chunks_per_us <= covers[0].chunks_per_us * (1 + _ROUNDING)]

    def _all(self, links: IntArray) -> list[Cover]:
        key = links.tobytes()
        if key not in self._of:
            covers = [_with_rates(self._problem, links, pair) for pair in _choices(self._problem, links)]
            self._of[key] = sorted(covers, key=lambda cover: cover.chunks_per_us)
        return self._of[key]

    def narrowest(self, links: IntArray) -> Cover:
        """The cover with the least bandwidth."""
        return self.of(links)[0]


def name_ports(problem: Problem, ports: IntArray) -> str:
    """One port by its name, several by their number."""
    return problem.topology.port_names[int(ports[0])] if len(ports) == 1 else f"{len(ports)} ports"


def _choices(problem: Problem, links: IntArray) -> list[IntArray]:
    """For each of the links one of its pairs, in several forms.

    Each link's first port, each one's last (the sender's and the receiver's side of a switch), a greedy
    cover, and where ports have rates of their own each link's slowest.
    """
    topology = problem.topology
    if topology.num_pairs == topology.num_links:
        return [topology.first_pair[links]]  # each link has one port
    choices = [
        topology.first_pair[links],
        topology.first_pair[links + 1] - 1,
        _greedy_cover(topology, links),
    ]
    if topology.port_betas is not None:
        position, pair = topology.pairs_of(links)
        order = np.lexsort((pair, -topology.pair_betas[pair], position))
        choices.append(pair[order][np.flatnonzero(np.diff(position[order], prepend=-1))])
    return choices


def _greedy_cover(topology: LogicalTopology, links: IntArray) -> IntArray:
    """For each link one of its pairs, greedily.

    First the ports that are some link's only one, then others by how many links they still cover.
    """
    position, pair = topology.pairs_of(links)
    port = topology.incidence[1][pair]
    chosen = np.full(len(links), -1, dtype=np.int64)
    is_only = np.zeros(topology.num_ports, dtype=np.bool_)
    is_only[port[np.bincount(position, minlength=len(links))[position] == 1]] = True
    chosen[position[is_only[port]]] = pair[is_only[port]]
    uncovered = np.bincount(port[chosen[position] < 0], minlength=topology.num_ports)
    place = np.full(topology.num_links, -1, dtype=np.int64)
    place[links] = np.arange(len(links))
    while uncovered.any():
        most = int(uncovered.argmax())
        pairs = topology.port_pairs[most]
        at = place[topology.incidence[0][pairs]]
        newly = (at >= 0) & (chosen[at] < 0)
        chosen[at[newly]] = pairs[newly]
        _, covered = topology.pairs_of(links[at[newly]])
        np.subtract.at(uncovered, topology.incidence[1][covered], 1)
    return chosen


def _with_rates(problem: Problem, links: IntArray, pair: IntArray) -> Cover:
    topology = problem.topology
    beta = topology.pair_betas[pair]
    alpha_us = topology.alpha_us[links] + (topology.beta_us_per_mb[links] - beta) * problem.chunk_mb
    ports, place = np.unique(topology.incidence[1][pair], return_inverse=True)
    least_alpha, least_cost = np.full((2, len(ports)), np.inf)
    np.minimum.at(least_alpha, place, alpha_us)
    np.minimum.at(least_cost, place, beta * problem.chunk_mb)
    return Cover(pair, ports, np.asarray(place), least_alpha, least_cost)


def least_time(count: int, ports: Iterable[tuple[float, float]]) -> float:
    """The least T with sum of floor((T - alpha) / cost) >= count over ports (alpha, cost).

    `ports` may be a `Counter` of them. The answer is a moment at which some port finishes a chunk:
    alpha + k * cost.
    """
    if not count:
        return 0.0
    many_of = Counter(ports)
    at_once = min((alpha for alpha, cost in many_of if cost == 0), default=math.inf)
    slow = [(alpha, cost, many) for (alpha, cost), many in many_of.items() if cost > 0]
    if not slow:
        return at_once
    low, high = 0.0, min(alpha + -(-count // many) * cost for alpha, cost, many in slow)
    before, after = ([_finished(end, alpha, cost) for alpha, cost, _ in slow] for end in (low, high))
    for _ in range(100):
        middle = (low + high) / 2
        # Between the two is one finishing moment, or there are several that are equal.
        if sum(after) - sum(before) <= 1 or not low < middle < high:
            break
        done = [_finished(middle, alpha, cost) for alpha, cost, _ in slow]
        if sum(many * each for (_, _, many), each in zip(slow, done, strict=True)) >= count:
            high, after = middle, done
        else:
            low, before = middle, done
    # The last finishing moment that is not after `high`; none where it is within rounding of an alpha.
    moments = (alpha + each * cost for (alpha, cost, _), each in zip(slow, after, strict=True) if each)
    return min(at_once, max(moments, default=high))


def _finished(moment: float, alpha: float, cost: float) -> int:
    return max(0, math.floor((moment - alpha) / cost + 1e-9))
