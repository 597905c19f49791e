"""How many whole chunks a set of links can have let through by a moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from taccl.collectives import IntArray
from taccl.problem import Problem


def covering_ports(problem: Problem, links: IntArray) -> dict[int, int]:
    """For each link, one of its ports, such that few ports serve for all of the links.

    Ports are taken greedily by how many links they still cover. Any choice gives a valid bound; few
    ports give a good one.
    """
    ports = problem.topology.ports
    chosen = {int(link): ports[link][0] for link in links if len(ports[link]) == 1}
    left: dict[int, set[int]] = {}
    for link in links:
        for port in ports[link] if int(link) not in chosen else ():
            left.setdefault(port, set()).add(int(link))
    for port in set(chosen.values()) & set(left):
        chosen |= dict.fromkeys(left[port], port)
    while len(chosen) < len(links):
        port = max(left, key=lambda port: (len(left[port] - chosen.keys()), -port))
        chosen |= dict.fromkeys(left[port] - chosen.keys(), port)
    return chosen


def port_rates(problem: Problem, links: IntArray) -> list[tuple[float, float]]:
    """(least alpha, least time per chunk) of each port that the links enter through."""
    topology = problem.topology
    rates: dict[int, tuple[float, float]] = {}
    for link, port in covering_ports(problem, links).items():
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
    at_once = min((alpha for alpha, cost in ports if cost == 0), default=math.inf)
    ports = [(alpha, cost) for alpha, cost in ports if cost > 0]
    if not ports:
        return at_once
    low, high = 0.0, min(alpha + count * cost for alpha, cost in ports)
    for _ in range(100):
        middle = (low + high) / 2
        if sum(_finished(middle, alpha, cost) for alpha, cost in ports) >= count:
            high = middle
        else:
            low = middle
    # The interval now holds one finishing moment: the last one not after `high`.
    moments = [alpha + _finished(high, alpha, cost) * cost for alpha, cost in ports if high >= alpha]
    return min(at_once, max(moments))


def _finished(moment: float, alpha: float, cost: float) -> int:
    return max(0, math.floor((moment - alpha) / cost + 1e-9))
