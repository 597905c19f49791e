"""Random tiny problems, small enough for an exhaustive search, from a random generator of Python's own."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from small_problems import custom, helped_switch, machine

from taccl.model.collective import Collective
from taccl.model.collectives import make_collective
from taccl.model.demand import Demand, Part, together
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.windows import Windows

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


def random_pairs_problem(draw: random.Random, sums: bool = False) -> Problem:
    """Some pairs of 3 to 5 ranks have a chunk for each other, or two; some links are slower, or share ports.

    Alphas are large next to chunks, so that detours save time. There are never sums.
    """
    ranks = draw.choice([3, 3, 4, 4, 5])
    every = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    alpha_us, beta = draw.choice([1.0, 3.0, 6.0]), draw.choice([0.5, 1.0, 2.0])
    links = [
        (a, b, alpha_us * draw.choice([1, 1, 1, 2]), beta * draw.choice([1, 1, 1, 2]))
        for a, b in every
        if draw.random() < 0.85 or b == (a + 1) % ranks
    ]
    ends = [end for end in (0, 1) if draw.random() < 0.7]
    shared = [[i for i, link in enumerate(links) if link[end] == r] for end in ends for r in range(ranks)]
    occupancy = draw.choice(["serial", "serial", "serial", "pipelined"])
    topology = machine(ranks, links, occupancy, shared=[users for users in shared if len(users) > 1])
    pairs = draw.sample(every, draw.choice([2, 3, 4, 5, 6])) * draw.choice([1, 1, 2])
    return Problem(topology, custom(ranks, [((a,), (b,), False) for a, b in pairs[:6]]), 1.0)


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


def random_featured_problem(draw: random.Random, sums: bool) -> Problem:
    """A random problem, a third of them clusters, with unequal chunks, late inputs, tails or helpers.

    A helper is a rank without data next to those that have some. Now and then some ranks may not sum, or not
    copy where nothing is summed.
    """
    plain = (random_cluster_problem if draw.random() < 1 / 3 else random_problem)(draw, sums)
    topology, collective, ranks = plain.topology, plain.collective, plain.num_ranks
    may: dict[str, np.ndarray] = {}
    if draw.random() < 0.35 and ranks > 2:
        helper = np.arange(ranks) == ranks - 1
        topology = replace(topology, is_helper=helper)
        collective = _collective(draw, ranks - 1, sums).with_helpers(1)
    if draw.random() < 0.35:
        able = np.array([draw.random() < 0.7 for _ in range(ranks)])
        may["may_sum" if sums or draw.random() < 0.5 else "may_copy"] = able
    columns = {
        "sizes": (collective.num_chunks, (0.5, 1.0, 2.0, 3.7)),
        "ready_us": (len(collective.inputs), (0.0, 0.5, 2.0, 5.0)),
        "tail_us": (len(collective.outputs), (0.0, 0.5, 2.0, 5.0)),
    }
    used = {
        name: np.array([draw.choice(values) for _ in range(length)])
        for name, (length, values) in columns.items()
        if draw.random() < 0.5
    }
    return replace(plain, topology=replace(topology, **may), collective=collective, **used)


#: Sizes of chunks in MB, when parts and chunks are ready, and computing, us or us per MB.
_CHUNKS_MB, _MOMENTS, _COMPUTING = (0.25, 0.5, 1.0, 1.0, 1.85), (0.0, 0.0, 0.25, 1.0), (0.0, 0.5, 2.0)


def random_joint_problem(draw: random.Random, sums: bool) -> Problem:
    """Two or three collectives at once, each among some ranks, with its own chunks, moments and computing.

    A third of the networks are clusters. A collective is ready as a whole, or input by input, and what
    follows it is the same for all outputs, or each one's own; now and then all are made and used at the
    rates of kernels.
    """
    topology = (random_cluster if draw.random() < 1 / 3 else random_network)(draw)
    ranks = topology.num_ranks
    most = _MOST_OF_SUMS if sums else _MOST_TRANSFERS
    while True:
        many = draw.choice([2, 2, 3])
        with_sums = [sums and (part == 0 or draw.random() < 0.6) for part in range(many)]
        parts = [_random_part(draw, ranks, summed) for summed in with_sums]
        demand = together("joint", ranks, parts)
        if _least_transfers(demand.collective) <= most:
            break
    chunk_mb = demand.chunk_bytes / 2**20
    if draw.random() < 0.3:
        made, then = draw.choice(_COMPUTING), draw.choice(_COMPUTING)
        demand = Windows(ready_us_per_mb=made, then_us_per_mb=then).applied(demand, chunk_mb)
    plain = Problem(
        topology,
        demand.collective,
        chunk_mb,
        limits=_limits(draw, topology) if not topology.node_of.any() else RoutingLimits(),
        max_group=draw.choice([1, 2, 71]),
    )
    return demand.stated(plain)


def _random_part(draw: random.Random, ranks: int, sums: bool) -> Part:
    members = draw.sample(range(ranks), draw.randint(2, ranks))
    if draw.random() < 0.75:
        names = _SUMS if sums else _COPIES
        collective = make_collective(draw.choice(names), len(members), draw.choice([1, 1, 2]))
    else:
        chunks = _chunks(draw, len(members), sums)[:2]
        collective = custom(len(members), [(*places, sums) for *places, _ in chunks])

    def moments(rows: int) -> np.ndarray | None:
        if draw.random() < 0.6:
            return None
        each = [draw.choice(_MOMENTS) for _ in range(rows if draw.random() < 0.5 else 1)]
        return np.resize(np.array(each), rows)

    ready_us, tail_us = moments(len(collective.inputs)), moments(len(collective.outputs))
    size = draw.choice(_CHUNKS_MB) * 2**20
    demand = Demand(collective, ready_us=ready_us, tail_us=tail_us, chunk_bytes=size)
    return Part(demand, np.array(members, dtype=np.int64))


#: Nodes of clusters, by how many ranks they have.
_SHAPES = ((1, 2), (2, 1), (1, 2), (2, 2), (2, 2), (1, 3), (3, 1), (1, 1, 2))
#: Alphas and betas inside nodes that are hardly faster than between them, or slower, and those between them.
_ALPHAS_INSIDE, _BETAS_INSIDE = (0.0, 0.01, 0.25, 1.0, 2.0), (0.3, 0.5, 1.0, 2.5, 3.0)
_ALPHAS_ACROSS, _BETAS_ACROSS = (0.0, 0.01, 0.1, 0.5, 1.0, 3.0), (0.5, 1.0, 2.0)


def random_cluster_problem(draw: random.Random, sums: bool) -> Problem:
    """Small nodes behind one port each way, or a few, and several chunks that must go in or out."""
    while True:
        topology = random_cluster(draw)
        collective = _of_a_cluster(draw, topology, sums)
        transfers = _least_transfers(collective)
        if collective.is_reduction == sums and transfers <= (_MOST_OF_SUMS if sums else _MOST_TRANSFERS):
            return Problem(
                topology,
                collective,
                draw.choice([1.0, 1.0, 0.3125]),
                limits=_limits_of_a_cluster(draw, topology),
                max_group=draw.choice([1, 2, 3, 71, 71]),
            )


def random_cluster(draw: random.Random) -> LogicalTopology:
    """Links may lack or be one-way; those between nodes share ports of nodes, or of ranks, or none."""
    while True:
        sizes = draw.choice(_SHAPES)
        node_of = [node for node, size in enumerate(sizes) for _ in range(size)]
        ranks = len(node_of)
        costs = [
            [draw.choice(each) for _ in range(draw.choice([1, 1, 3]))]
            for each in (_ALPHAS_INSIDE, _BETAS_INSIDE, _ALPHAS_ACROSS, _BETAS_ACROSS)
        ]
        lacks = draw.choice([0.0, 0.0, 0.2, 0.5])
        links = []
        for a in range(ranks):
            for b in range(ranks):
                if a != b and draw.random() >= lacks:
                    alpha, beta = costs[:2] if node_of[a] == node_of[b] else costs[2:]
                    links.append((a, b, draw.choice(alpha), draw.choice(beta)))
        if _all_reach_all(ranks, [link[:2] for link in links]):
            break
    across = [i for i, (a, b, *_) in enumerate(links) if node_of[a] != node_of[b]]
    nodes, form = range(len(sizes)), draw.random()
    into = [[i for i in across if node_of[links[i][1]] == node] for node in nodes]
    out_of = [[i for i in across if node_of[links[i][0]] == node] for node in nodes]
    shared = into if form < 0.3 else out_of if form < 0.4 else [*into, *out_of] if form < 0.8 else []
    if draw.random() < 0.3:  # each rank takes turns, too
        shared = [*shared, *([i for i, link in enumerate(links) if link[0] == r] for r in range(ranks))]
    shared = [users for users in shared if users]
    rates = [draw.choice(_RATES) for _ in shared] if draw.random() < 0.15 else []
    occupancy = draw.choice(["serial", "serial", "serial", "pipelined"])
    return machine(ranks, links, occupancy, shared, node_of, rates)


def _all_reach_all(ranks: int, links: list[tuple[int, int]]) -> bool:
    reached = np.eye(ranks, dtype=np.int64)
    for a, b in links:
        reached[a, b] = 1
    return bool((np.linalg.matrix_power(reached, ranks) > 0).all())


def _of_a_cluster(draw: random.Random, topology: LogicalTopology, sums: bool) -> Collective:
    """A named one, or chunks that are copied into a node, or summed there, from some to some or all there."""
    ranks, form = topology.num_ranks, draw.random()
    if form < 0.4:
        name = draw.choice(_SUMS if sums else _COPIES)
        return make_collective(name, ranks, draw.randint(1, 4))
    inside = np.flatnonzero(topology.node_of == draw.choice(topology.node_of.tolist())).tolist()
    outside = sorted(set(range(ranks)) - set(inside))
    chunks, everyone = [], draw.random() < 0.6
    for _ in range(draw.randint(2, 5)):
        start = [draw.choice(outside)]
        ends = inside if everyone else draw.sample(inside, draw.randint(1, len(inside)))
        if sums and draw.random() < 0.85:
            more = draw.sample(range(ranks), draw.randint(1, 2))
            start, ends = draw.choice([(ends, start), (sorted({*start, *more}), ends)])
            chunks.append((start, ends, True))
        else:
            chunks.append((start, ends, False))
    return custom(ranks, chunks)


def _limits_of_a_cluster(draw: random.Random, topology: LogicalTopology) -> RoutingLimits:
    """Now and then: between nodes the links of one, the same for all or each owner's own."""
    if draw.random() < 0.8:
        return RoutingLimits()
    ranks, links = topology.num_ranks, topology.num_links
    inside = topology.node_of[topology.src] == topology.node_of[topology.dst]
    rows = [[draw.random() < 0.6 for _ in range(links)] for _ in range(ranks)]
    allowed = np.array(rows if draw.random() < 0.5 else rows[:1] * ranks) | inside
    return RoutingLimits(may_use=_with_routes(topology, np.asarray(allowed)))


def _with_routes(topology: LogicalTopology, allowed: np.ndarray) -> np.ndarray:
    """Owners that do not reach all ranks over their links may use all links."""
    ends = np.stack([topology.src, topology.dst], axis=1)
    for row in allowed:
        if not _all_reach_all(topology.num_ranks, [(a, b) for a, b in ends[row].tolist()]):
            row[:] = True
    return allowed


def random_helped_problem(draw: random.Random, sums: bool) -> Problem:
    """Two or three ranks below a switch, or linked to each other, and a helper or two that all or some reach.

    A helper sums, copies, both or neither, on ports of its own or those of the ranks, at a speed of its own.
    What a sum face sends may pass the way out of the rank that gets it, too, and what a copy face gets the
    way in of the rank that sends it.
    """
    members, helpers = draw.choice([(2, 1), (2, 2), (3, 1), (3, 1), (3, 2)])
    able = [(True, True), (True, False), (False, True), (False, False)]
    if helpers == 2 and draw.random() < 0.5:
        can = [(True, False), (False, True)]
    else:
        can = [draw.choice(able[:3] if sums else able) for _ in range(helpers)]
    topology = helped_switch(
        members,
        can,
        draw.choice(_BETAS),
        draw.choice(_BETAS),
        own_ports=draw.random() < 0.5,
        reads_itself=draw.random() < 0.5,
    )
    kept = np.ones(topology.num_links, dtype=np.bool_)
    inside = (topology.src < members) & (topology.dst < members)
    if draw.random() < 0.4:  # past the helpers there is no way, or hardly one
        kept &= ~inside if draw.random() < 0.5 and can[0] == (True, True) else kept
    if draw.random() < 0.3:
        kept &= inside | np.array([draw.random() < 0.8 for _ in range(topology.num_links)])
    alphas = [draw.choice(_ALPHAS) for _ in range(draw.choice([1, 3]))]
    topology = _with_links(topology, kept, np.array([draw.choice(alphas) for _ in range(kept.sum())]))
    if draw.random() < 0.2:
        able_members = np.array([draw.random() < 0.7 for _ in range(members)] + [True] * helpers)
        name = draw.choice(["may_sum", "may_copy"])
        topology = replace(
            topology, **{name: able_members & _all_or(getattr(topology, name), members + helpers)}
        )
    while True:
        collective = _collective(draw, members, sums)
        if draw.random() < 0.5 and sums:
            collective = make_collective(draw.choice(["allreduce", "reducescatter"]), members, 1)
        if _least_transfers(collective) <= (_MOST_OF_SUMS if sums else _MOST_TRANSFERS):
            break
    return Problem(
        replace(topology, occupancy=draw.choice(["serial", "pipelined"])),
        collective.with_helpers(helpers),
        draw.choice([1.0, 0.5, 0.3125]),
        max_group=draw.choice([1, 2, 71]),
    )


def _all_or(may: np.ndarray | None, ranks: int) -> np.ndarray:
    return np.ones(ranks, dtype=np.bool_) if may is None else may


def _with_links(topology: LogicalTopology, kept: np.ndarray, alpha_us: np.ndarray) -> LogicalTopology:
    """Some of the links, at other alphas."""
    number = np.flatnonzero(kept)
    betas = topology.port_betas or [
        (beta,) * len(p) for beta, p in zip(topology.beta_us_per_mb, topology.ports, strict=True)
    ]
    return replace(
        topology,
        src=topology.src[number],
        dst=topology.dst[number],
        alpha_us=alpha_us,
        beta_us_per_mb=topology.beta_us_per_mb[number],
        ports=tuple(topology.ports[link] for link in number),
        port_betas=tuple(tuple(betas[link]) for link in number),
    )
