r"""Equivalent passages: classes of passages of chunks over links, for one variable each in a linear program.

A *passage* is a chunk and a link that it may pass. Passages, places (a chunk and a rank), turns (a chunk, a
port and the rank that sends), links and ports are parted into classes, ever more finely, until two of a class
have as many neighbours of each other class: the coarsest equitable partition (colour refinement; Grohe,
Kersting, Mladenov and Selman 2014, "Dimension reduction via colour refinement").

A linear program that has rows for places, turns, links and ports, and variables for passages and links, loses
nothing by one variable for each class. Take a solution x and a class of rows, and add these up. A variable
of class C has the same coefficients in that sum, all in all, as any other of C. So the sum is a row of the
means of classes; divided by the number of rows it is one row of the class with each variable replaced by its
mean. So the means are a solution, of the same value where the objective is the same in each class.

Every symmetry keeps this partition, so there are no more classes than orbits under all symmetries of the
problem together, and no symmetry has to be found or stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.colours import numbered, sums
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray


@dataclass(frozen=True, eq=False)
class Equivalence:
    """The classes of one instance.

    Parameters
    ----------
    instance : of copies.
    chunk, link : shape (num_passages,); the passages.
    starts : shape (num_chunks, num_ranks); where each chunk starts.
    wanted : shape (num_chunks, num_ranks); where it is wanted.
    """

    instance: Instance
    chunk: IntArray
    link: IntArray
    starts: BoolArray
    wanted: BoolArray

    @staticmethod
    def of(instance: Instance) -> Equivalence:
        """All passages of an instance; what starts at a rank never comes to it."""
        problem, demand = instance.problem, instance.demand
        shape = problem.num_chunks, problem.num_ranks
        starts, wanted = np.zeros((2, *shape), dtype=np.bool_)
        starts[demand.starts.chunk, demand.starts.rank] = True
        wanted[demand.wants.chunk, demand.wants.rank] = True
        limits = problem.limits.may_use
        may_use = ~starts[:, problem.topology.dst]
        if limits is not None:
            may_use &= limits[problem.collective.owner]
        chunk, link = np.nonzero(may_use)
        return Equivalence(instance, chunk, link, starts, wanted)

    @cached_property
    def sender(self) -> IntArray:
        """The rank that sends, shape (num_passages,)."""
        return self.instance.problem.topology.src[self.link]

    @cached_property
    def receiver(self) -> IntArray:
        """The rank that receives, shape (num_passages,)."""
        return self.instance.problem.topology.dst[self.link]

    @cached_property
    def turns(self) -> Turns:
        """What a chunk has to share with itself: a port, on its way out of a rank."""
        topology = self.instance.problem.topology
        first = topology.first_pair
        many = (first[1:] - first[:-1])[self.link]
        passage = np.repeat(np.arange(len(self.link)), many)
        pair = np.arange(len(passage)) - np.repeat(np.cumsum(many) - many, many) + first[self.link[passage]]
        port = topology.incidence[1][pair]
        key = (self.chunk[passage] * topology.num_ports + port) * topology.num_ranks + self.sender[passage]
        rows, turn = np.unique(key, return_inverse=True)
        rest, rank = np.divmod(rows, topology.num_ranks)
        return Turns(passage, pair, turn.ravel(), rest // topology.num_ports, rest % topology.num_ports, rank)

    @cached_property
    def crossings(self) -> Crossings:
        """For each place in a node to which its chunk has to come, the passages by which it comes there."""
        node = self.instance.problem.topology.node_of
        ranks = [np.flatnonzero(node == each) for each in range(int(node.max()) + 1)]
        from_there = np.stack([self.starts[:, each].any(axis=1) for each in ranks], axis=1)
        into = node[self.receiver]
        chosen = np.flatnonzero((node[self.sender] != into) & ~from_there[self.chunk, into])
        many = np.array([len(each) for each in ranks])[into[chosen]]
        passage = np.repeat(chosen, many)
        rank = np.concatenate([np.zeros(0, dtype=np.int64), *(ranks[each] for each in into[chosen])])
        return Crossings(passage, rank, self.instance.distances_us[self.receiver[passage], rank])

    @cached_property
    def classes(self) -> Classes:
        """The coarsest equitable partition."""
        return _refined(self)


@dataclass(frozen=True, eq=False)
class Turns:
    """Turns, and which passages take them: `passage`, `pair`, `turn` are columns, the others one a turn."""

    passage: IntArray
    pair: IntArray
    turn: IntArray
    chunk: IntArray
    port: IntArray
    rank: IntArray


@dataclass(frozen=True, eq=False)
class Crossings:
    """Passages into a node and ranks there; `further_us`: how far from where the chunk comes in."""

    passage: IntArray
    rank: IntArray
    further_us: FloatArray


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each passage, place (of shape (num_chunks, num_ranks)), turn, link and port."""

    passages: IntArray
    places: IntArray
    turns: IntArray
    links: IntArray
    ports: IntArray

    @property
    def many(self) -> int:
        """How many there are in all."""
        return sum(int(each.max(initial=-1)) + 1 for each in (self.passages, self.turns, self.links)) + sum(
            int(each.max(initial=-1)) + 1 for each in (self.places, self.ports)
        )


def _refined(equivalence: Equivalence) -> Classes:
    topology, turns, cross = equivalence.instance.problem.topology, equivalence.turns, equivalence.crossings
    pair_link, pair_port = topology.incidence
    rate, further = numbered(topology.pair_betas), numbered(cross.further_us)
    chunk, link = equivalence.chunk, equivalence.link
    start = numbered(equivalence.starts.ravel(), equivalence.wanted.ravel()).reshape(equivalence.starts.shape)
    of = Classes(
        np.zeros(len(link), dtype=np.int64),
        start,
        np.zeros(len(turns.chunk), dtype=np.int64),
        numbered(topology.alpha_us, topology.beta_us_per_mb),
        np.zeros(topology.num_ports, dtype=np.int64),
    )
    many = 0
    while of.many > many:
        many = of.many
        passages = numbered(
            *(
                of.passages,
                of.places[chunk, equivalence.sender],
                of.places[chunk, equivalence.receiver],
                of.links[link],
            )
        )
        passages = numbered(passages, sums(len(link), turns.passage, numbered(of.turns[turns.turn])))
        there = numbered(of.places[chunk[cross.passage], cross.rank], further)
        passages = numbered(passages, sums(len(link), cross.passage, there))
        through = sums(topology.num_links, pair_link, numbered(rate, of.ports[pair_port]))
        links = numbered(of.links, through, sums(topology.num_links, link, passages))
        ports = numbered(of.ports, sums(topology.num_ports, pair_port, numbered(rate, links[pair_link])))
        taken = sums(len(turns.chunk), turns.turn, numbered(passages[turns.passage], rate[turns.pair]))
        turn = numbered(of.turns, taken, ports[turns.port], of.places[turns.chunk, turns.rank])
        cells, ranks = of.places.size, topology.num_ranks
        coming = sums(cells, chunk * ranks + equivalence.receiver, passages)
        going = sums(cells, chunk * ranks + equivalence.sender, passages)
        leaving = sums(cells, turns.chunk * ranks + turns.rank, turn)
        crossing = sums(
            cells,
            chunk[cross.passage] * ranks + cross.rank,
            numbered(passages[cross.passage], further),
        )
        places = numbered(of.places.ravel(), coming, going, leaving, crossing).reshape(of.places.shape)
        of = Classes(passages, places, turn, links, ports)
    return of
