r"""How many whole chunks a set of links can have let through by a moment.

Let a group of n chunks take alpha_l + n s beta_l over link l, and keep port p busy for n s beta_lp of it, and
for alpha_l with serial occupancy. Groups through p take turns, so k chunks keep it busy for k s beta_p at
least, beta_p being the least beta_lp. The group whose turn is last ends no sooner than alpha_l + s (beta_l -
beta_lp) after it would if it only had to pass the port: that is its alpha, which its turn may or may not
have in it, and what its first chunk takes on slower ports. With alpha_p the least of these over the links,

    k chunks are not through before  alpha_p + k s beta_p.

Read backwards the first group begins so much before its turn, so this holds for sums, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from taccl.collectives import IntArray
from taccl.problem import Problem


def port_rates(problem: Problem, links: IntArray) -> dict[int, tuple[float, float]]:
    """The ports of `port_cover`: port -> (alpha_p, least time per chunk), in microseconds."""
    return _rates(problem, port_cover(problem, links))


def rates_of_covers(problem: Problem, links: IntArray) -> list[dict[int, tuple[float, float]]]:
    """The rates of several covers, each of which gives a valid bound; the first are `port_rates`.

    A trunk that four GPUs fill has the bandwidth of all four, but lets their chunks through one by one. So
    where ports have rates of their own, covers of equal bandwidth give different bounds.
    """
    if problem.topology.port_betas is None:
        return [port_rates(problem, links)]
    return sorted((_rates(problem, choice) for choice in _covers(problem, links)), key=chunks_per_us)


def port_cover(problem: Problem, links: IntArray) -> dict[int, int]:
    """For each of the links one of its ports, so that the ports have little bandwidth."""
    return min(_covers(problem, links), key=lambda choice: chunks_per_us(_rates(problem, choice)))


def _covers(problem: Problem, links: IntArray) -> list[dict[int, int]]:
    """For each of the links one of its ports, in several ways.

    Any such choice gives a valid bound, and the one with the least bandwidth a good one. Tried are
    each link's first port, each one's last (the sender's and the receiver's side of a switch),
    a greedy cover, and where ports have rates of their own each link's slowest.
    """
    ports, betas = problem.topology.ports, problem.topology.port_betas
    choices = [
        {int(link): ports[link][0] for link in links},
        {int(link): ports[link][-1] for link in links},
        _greedy_cover(problem, links),
    ]
    if betas is not None:
        choices.append({int(link): ports[link][int(np.argmax(betas[link]))] for link in links})
    return choices


def _greedy_cover(problem: Problem, links: IntArray) -> dict[int, int]:
    """For each link one of its ports, taking ports by how many links they still cover."""
    ports = problem.topology.ports
    users: dict[int, list[int]] = {}
    for link in links.tolist():
        for port in ports[link]:
            users.setdefault(port, []).append(link)
    alone = sorted({ports[link][0] for link in links.tolist() if len(ports[link]) == 1})
    uncovered = {port: len(over) for port, over in users.items()}
    chosen: dict[int, int] = {}
    while len(chosen) < len(links):
        port = alone.pop() if alone else max(uncovered, key=lambda port: (uncovered[port], -port))
        for link in users[port]:
            if link not in chosen:
                chosen[link] = port
                for other in ports[link]:
                    uncovered[other] -= 1
    return chosen


def _rates(problem: Problem, port_of: dict[int, int]) -> dict[int, tuple[float, float]]:
    topology = problem.topology
    rates: dict[int, tuple[float, float]] = {}
    for link, port in port_of.items():
        pair = topology.first_pair[link] + topology.ports[link].index(port)
        beta, slowest = topology.pair_betas[pair], topology.beta_us_per_mb[link]
        alpha, cost = topology.alpha_us[link], beta * problem.chunk_mb
        if beta < slowest:
            alpha += (slowest - beta) * problem.chunk_mb
        old = rates.get(port, (math.inf, math.inf))
        rates[port] = (min(old[0], float(alpha)), min(old[1], float(cost)))
    return rates


def chunks_per_us(rates: dict[int, tuple[float, float]]) -> float:
    """How many chunks all the ports together let through, alphas and whole chunks apart."""
    return sum(math.inf if cost == 0 else 1 / cost for _, cost in rates.values())


def least_time(count: int, ports: Collection[tuple[float, float]]) -> float:
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
