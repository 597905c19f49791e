"""Hypothesis strategies: random networks, and valid schedules on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from taccl.model.collective import Collective
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends


@dataclass
class Hop:
    """A chunk over a link, after other hops (by index)."""

    chunk: int
    link: int
    reduce: bool
    after: list[int]
    end_us: float = -1.0


def random_network(ranks: int, dice: random.Random) -> LogicalTopology:
    """A ring with some chords; some ranks send through one port, perhaps a fast one; small costs or none."""
    ring = [(r, (r + 1) % ranks) for r in range(ranks)]
    chords = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and dice.random() < 0.4]
    links = sorted(set(ring) | set(chords)) if ranks > 1 else []
    shared = {r: dice.random() < 0.5 for r in range(ranks)}
    names = [f"link {a}-{b}" for a, b in links] + [f"out {r}" for r in range(ranks)]
    beta = np.array([dice.choice([0.0, 1.0, 3.0]) for _ in links], dtype=np.float64)
    share = {r: dice.choice([1.0, 1.0, 0.5, 0.25]) for r in range(ranks)}
    return LogicalTopology(
        name="random",
        node_of=np.zeros(ranks, dtype=np.int64),
        src=np.array([a for a, _ in links], dtype=np.int64),
        dst=np.array([b for _, b in links], dtype=np.int64),
        alpha_us=np.array([dice.choice([0.0, 1.0, 2.0]) for _ in links], dtype=np.float64),
        beta_us_per_mb=beta,
        ports=tuple((i, len(links) + a) if shared[a] else (i,) for i, (a, _) in enumerate(links)),
        port_names=tuple(names),
        occupancy=dice.choice(["serial", "pipelined"]),
        port_betas=tuple(
            (float(each), float(each) * share[a]) if shared[a] else (float(each),)
            for each, (a, _) in zip(beta, links, strict=True)
        ),
    )


def random_schedule(collective: Collective, topology: LogicalTopology, dice: random.Random) -> Schedule:
    """A valid schedule: random trees, then a random list schedule that groups what is ready together."""
    problem = Problem(topology, collective, chunk_mb=1.0)
    hops: list[Hop] = []
    for chunk in range(collective.num_chunks):
        hops += _hops(problem, chunk, len(hops), dice)
    return schedule_from_sends(problem, _list_schedule(problem, hops, dice))


def _tree(topology: LogicalTopology, root: int, inward: bool, dice: random.Random) -> list[tuple[int, int]]:
    """A random spanning tree from (or, inward, into) the root: (link, rank it adds), root side first."""
    reached, tree = {root}, []
    while len(reached) < topology.num_ranks:
        near = topology.dst if inward else topology.src
        far = topology.src if inward else topology.dst
        crossing = [
            l for l in range(topology.num_links) if int(near[l]) in reached and int(far[l]) not in reached
        ]
        link = dice.choice(crossing)
        reached.add(int(far[link]))
        tree.append((link, int(far[link])))
    return tree


def _pruned(
    topology: LogicalTopology, tree: list[tuple[int, int]], needed: set[int], inward: bool
) -> list[tuple[int, int]]:
    """Without the branches that reach none of the needed ranks."""
    near = topology.dst if inward else topology.src
    kept, needed = [], set(needed)
    for link, rank in reversed(tree):
        if rank in needed:
            kept.append((link, rank))
            needed.add(int(near[link]))
    return kept[::-1]


def _hops(problem: Problem, chunk: int, base: int, dice: random.Random) -> list[Hop]:
    collective, topology = problem.collective, problem.topology
    holders = set(np.flatnonzero(collective.pre[chunk]).tolist())
    wanting = set(np.flatnonzero(collective.post[chunk]).tolist())
    hops: list[Hop] = []
    if collective.reduces[chunk]:
        root = dice.choice(sorted(wanting))
        inward = _pruned(topology, _tree(topology, root, True, dice), holders, True)
        into: dict[int, list[int]] = {}
        for link, rank in reversed(inward):
            into.setdefault(int(topology.dst[link]), []).append(base + len(hops))
            hops.append(Hop(chunk, link, True, into.get(rank, [])))
        arrived = {root: into.get(root, [])}
    else:
        root = dice.choice(sorted(holders))
        arrived = {root: []}
    wanting -= holders if not collective.reduces[chunk] else {root}
    for link, rank in _pruned(topology, _tree(topology, root, False, dice), wanting, False):
        arrived[rank] = [base + len(hops)]
        hops.append(Hop(chunk, link, False, arrived[int(topology.src[link])]))
    return hops


def _list_schedule(problem: Problem, hops: Sequence[Hop], dice: random.Random) -> list[Send]:
    topology = problem.topology
    port_free = [0.0] * topology.num_ports
    open_hops = set(range(len(hops)))
    sends = []
    while open_hops:
        ready = sorted(h for h in open_hops if all(hops[a].end_us >= 0 for a in hops[h].after))
        one = hops[dice.choice(ready)]
        equivalent = [h for h in ready if (hops[h].link, hops[h].reduce) == (one.link, one.reduce)]
        group = dice.sample(equivalent, dice.randint(1, min(len(equivalent), problem.max_group)))
        held = [hops[a].end_us for h in group for a in hops[h].after]
        ports = topology.ports[one.link]
        start = max([0.0, *held, *(port_free[p] for p in ports)])
        size = np.float64(len(group) * problem.chunk_mb)
        link = np.array([one.link])
        busy = topology.port_busy_us(topology.pairs_of(link)[1], size).tolist()
        for port, takes in zip(ports, busy, strict=True):
            port_free[port] = start + takes
        for h in group:
            hops[h].end_us = start + float(topology.duration_us(link, size)[0])
        open_hops -= set(group)
        sends.append(Send(tuple(hops[h].chunk for h in group), one.link, start, one.reduce))
    return sends


@st.composite
def schedules(draw: st.DrawFn, names: Sequence[str] = COLLECTIVES) -> Schedule:
    """Valid schedules of small collectives on small random networks."""
    name = draw(st.sampled_from(list(names)))
    ranks = draw(st.integers(2, 5))
    pieces = draw(st.integers(1, 3 if name != "alltoall" else 2))
    dice = random.Random(draw(st.integers(0, 2**32 - 1)))
    topology = random_network(ranks, dice)
    return random_schedule(make_collective(name, ranks, pieces), topology, dice)
