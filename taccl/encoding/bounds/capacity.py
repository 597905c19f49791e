"""How many whole chunks a set of links can have let through by a moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from taccl.collectives import IntArray
from taccl.problem import Problem


def busiest_ports(problem: Problem, links: IntArray) -> dict[int, int]:
    """For each link, that one of its ports that most of the links share."""
    sharing: dict[int, int] = {}
    for link in links:
        for port in problem.topology.ports[link]:
            sharing[port] = sharing.get(port, 0) + 1
    return {int(l): max(problem.topology.ports[l], key=lambda port: (sharing[port], -port)) for l in links}


def port_rates(problem: Problem, links: IntArray) -> list[tuple[float, float]]:
    """(least alpha, least time per chunk) of each port that the links enter through."""
    topology = problem.topology
    rates: dict[int, tuple[float, float]] = {}
    for link, port in busiest_ports(problem, links).items():
        alpha, cost = topology.alpha_us[link], topology.beta_us_per_mb[link] * problem.chunk_mb
        old = rates.get(port, (math.inf, math.inf))
        rates[port] = (min(old[0], float(alpha)), min(old[1], float(cost)))
    return list(rates.values())


def least_time(count: int, ports: Sequence[tuple[float, float]]) -> float:
    """The least T with sum of floor((T - alpha) / cost) >= count over ports (alpha, cost).

    The answer is a moment at which some port finishes a chunk: alpha + k * cost.
    """
    if not count:
        return 0.0
    if any(cost == 0 for _, cost in ports):
        return min(alpha for alpha, cost in ports if cost == 0)
    low, high = 0.0, min(alpha + count * cost for alpha, cost in ports)
    for _ in range(100):
        middle = (low + high) / 2
        if sum(_finished(middle, alpha, cost) for alpha, cost in ports) >= count:
            high = middle
        else:
            low = middle
    # The interval now holds one finishing moment: the last one not after `high`.
    moments = [alpha + _finished(high, alpha, cost) * cost for alpha, cost in ports if high >= alpha]
    return min(max(moments), high)


def _finished(moment: float, alpha: float, cost: float) -> int:
    return max(0, math.floor((moment - alpha) / cost + 1e-9))
