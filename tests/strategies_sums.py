"""Hypothesis strategies: valid schedules in which partial sums are named, with sums made anywhere."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from strategies import random_network

from taccl.model.collective import Collective
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends


@dataclass
class Play:
    """Sends one after another; what each rank holds of each chunk, and since when."""

    problem: Problem
    dice: random.Random
    held: dict[tuple[int, int], dict[int, float]] = field(default_factory=dict)
    sends: list[Send] = field(default_factory=list)

    def __post_init__(self) -> None:
        inputs = self.problem.collective.inputs
        for chunk, rank in zip(inputs.chunk.tolist(), inputs.rank.tolist(), strict=True):
            self.held.setdefault((rank, chunk), {})[1 << rank] = 0.0
        self.port_free = [0.0] * self.problem.topology.num_ports

    def some_sum(self, rank: int, chunk: int) -> tuple[int, float]:
        """A sum of some disjoint sets that a rank holds, and from when on it can make it; 0 for none."""
        made, ready = 0, 0.0
        held = sorted(self.held.get((rank, chunk), {}).items())
        for each, since in self.dice.sample(held, k=len(held)):
            if each & made == 0 and self.dice.random() < 0.7:
                made, ready = made | each, max(ready, since)
        return made, ready

    def send(self, link: int, carried: dict[int, tuple[int, float]]) -> None:
        """Send sets, by chunk, each with the time from which it is there."""
        topology = self.problem.topology
        dst = int(topology.dst[link])
        carried = {c: one for c, one in carried.items() if one[0] not in self.held.get((dst, c), {})}
        if not carried:
            return
        ports, at = topology.ports[link], np.array([link])
        size = np.float64(len(carried) * self.problem.chunk_mb)
        start = max([ready for _, ready in carried.values()] + [self.port_free[port] for port in ports])
        busy = topology.port_busy_us(topology.pairs_of(at)[1], size).tolist()
        for port, takes in zip(ports, busy, strict=True):
            self.port_free[port] = start + takes
        end = start + float(topology.duration_us(at, size)[0])
        for chunk, (contributions, _) in carried.items():
            self.held.setdefault((dst, chunk), {})[contributions] = end
        self.sends.append(Send(tuple(carried), link, start, sums=tuple(each for each, _ in carried.values())))


def random_sums(collective: Collective, topology: LogicalTopology, dice: random.Random) -> Schedule:
    """Some sends of some sums; then every contribution that a rank still lacks comes to it alone."""
    problem = Problem(topology, collective, chunk_mb=1.0)
    play = Play(problem, dice)
    for _ in range(dice.randrange(4 * collective.num_ranks) if topology.num_links else 0):
        link = dice.randrange(topology.num_links)
        sums = {
            chunk: play.some_sum(int(topology.src[link]), chunk) for chunk in range(collective.num_chunks)
        }
        play.send(link, {chunk: one for chunk, one in sums.items() if one[0] and dice.random() < 0.8})
    graph = nx.DiGraph(zip(topology.src.tolist(), topology.dst.tolist(), strict=True))
    outputs = zip(collective.outputs.rank.tolist(), collective.outputs.chunk.tolist(), strict=True)
    for rank, chunk in outputs:
        for source in np.flatnonzero(collective.pre[chunk]).tolist():
            if dice.random() < 0.5 and _is_whole(play, collective, rank, chunk):
                break
            path = nx.shortest_path(graph, source, rank) if source != rank else [rank]
            for a, b in itertools.pairwise(path):
                play.send(topology.link_index[a, b], {chunk: (1 << source, play.held[a, chunk][1 << source])})
    return schedule_from_sends(problem, play.sends)


def _is_whole(play: Play, collective: Collective, rank: int, chunk: int) -> bool:
    """Whether the sets of a rank make up the whole sum in the simplest way: one set, or two."""
    whole = sum(1 << int(r) for r in np.flatnonzero(collective.pre[chunk]))
    sets = play.held.get((rank, chunk), {})
    return whole in sets or any(whole & ~each in sets for each in sets if each & ~whole == 0)


@st.composite
def named_sums(draw: st.DrawFn, max_ranks: int = 5) -> Schedule:
    """Valid schedules of AllReduce, ReduceScatter and Reduce whose partial sums are named."""
    name = draw(st.sampled_from(["allreduce", "allreduce", "reducescatter", "reduce"]))
    ranks = draw(st.integers(2, max_ranks))
    dice = random.Random(draw(st.integers(0, 2**32 - 1)))
    return random_sums(
        make_collective(name, ranks, draw(st.integers(1, 2))), random_network(ranks, dice), dice
    )
