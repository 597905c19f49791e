"""Random tiny problems, small enough for an exhaustive search, from a random generator of Python's own."""

from __future__ import annotations

import random

import numpy as np
from small_problems import custom, machine

from taccl.collective import Collective
from taccl.collectives import make_collective
from taccl.network import LogicalTopology
from taccl.problem import Problem, RoutingLimits

#: Costs that meet in ties, measured ones with many decimals, and links that take no time at all.
_ALPHAS = (0.0, 1.0, 2.0, 0.7318529411764706)
_BETAS = (1.0, 2.0, 3.0, 1.0489130434782609)
_FREE = (0.0, *_BETAS)
#: How long a shared port is busy, as a part of its links' time: trunks are faster than what uses them.
_RATES = (1.0, 0.5, 0.25)
_SUMS = ("allreduce", "allreduce", "reducescatter", "reduce")
_COPIES = ("allgather", "allgather", "alltoall", "broadcast", "gather", "scatter")
#: Collectives with more transfers than this are searched too seldom to the end to be worth a try.
_MOST_TRANSFERS, _MOST_OF_SUMS = 12, 8


def random_problem(draw: random.Random, sums: bool) -> Problem:
    """A problem with sums, or one that only copies: 2 to 4 ranks, up to 12 transfers that must be."""
    topology = random_network(draw)
    collective = _collective(draw, topology.num_ranks, sums)
    return Problem(
        topology,
        collective,
        draw.choice([1.0, 0.5, 0.3125]),
        limits=_limits(draw, topology),
        max_group=draw.choice([1, 2, 71]),
    )


def random_network(draw: random.Random) -> LogicalTopology:
    """A ring with chords, shared ports, fast or not, one or two nodes, either occupancy, any mix of costs."""
    ranks = draw.choice([2, 3, 3, 4, 4])
    chords = draw.random()
    pairs = {(a, b) for a in range(ranks) for b in range(ranks) if a != b and draw.random() < chords}
    pairs |= {(r, (r + 1) % ranks) for r in range(ranks)}
    alphas, betas = list(_ALPHAS), list(_FREE if draw.random() < 0.3 else _BETAS)
    if draw.random() < 0.3:
        alphas, betas = [draw.choice(alphas)], [draw.choice(_BETAS)]
    links = [(a, b, draw.choice(alphas), draw.choice(betas)) for a, b in sorted(pairs)]
    if draw.random() < 0.3:  # each rank one way out and one way in
        ends = [[i for i, link in enumerate(links) if link[end] == r] for end in (0, 1) for r in range(ranks)]
        shared = [users for users in ends if len(users) > 1]
    else:
        some = range(draw.randint(0, 2))
        shared = [draw.sample(range(len(links)), min(len(links), draw.randint(2, 3))) for _ in some]
    rates = [draw.choice(_RATES) for _ in shared] if draw.random() < 0.4 else []
    nodes = draw.choice([[0] * ranks, [int(r >= ranks / 2) for r in range(ranks)]])
    return machine(ranks, links, draw.choice(["serial", "pipelined"]), shared, nodes, rates)


def _collective(draw: random.Random, ranks: int, sums: bool) -> Collective:
    """A named one, or chunks that are copied or summed from some ranks to some ranks."""
    while True:
        if draw.random() < 0.5:
            name = draw.choice(_SUMS if sums else _COPIES)
            collective = make_collective(name, ranks, draw.randint(1, 2))
        else:
            collective = custom(ranks, _chunks(draw, ranks, sums))
        transfers = _least_transfers(collective)
        if collective.is_reduction == sums and transfers <= (_MOST_OF_SUMS if sums else _MOST_TRANSFERS):
            return collective


def _chunks(draw: random.Random, ranks: int, sums: bool) -> list[tuple[list[int], list[int], bool]]:
    everyone, many, form = list(range(ranks)), range(draw.randint(1, 3)), draw.random()
    if sums and form < 0.5:
        return [(everyone, everyone, True) for _ in many]
    if sums and form < 0.7:
        return [(everyone, [draw.randrange(ranks)], True) for _ in many]
    some = [[draw.sample(everyone, draw.randint(1, ranks)) for _ in range(2)] for _ in many]
    return [(pre, post, sums and draw.random() < 0.75) for pre, post in some]


def _least_transfers(collective: Collective) -> int:
    copied = (collective.post & ~collective.pre).sum(axis=1)
    summed = collective.pre.sum(axis=1) + collective.post.sum(axis=1) - 2
    return int(np.where(collective.reduces, summed, copied).sum())


def _limits(draw: random.Random, topology: LogicalTopology) -> RoutingLimits:
    """Now and then: the ring for everyone, each other link for some owners only."""
    if draw.random() < 0.75:
        return RoutingLimits()
    ranks, links = topology.num_ranks, topology.num_links
    on_ring = (topology.src + 1) % ranks == topology.dst
    allowed = np.array([[draw.random() < 0.5 for _ in range(links)] for _ in range(ranks)])
    return RoutingLimits(may_use=np.asarray(allowed | on_ring))
