"""What `copying` looks at: who has a chunk, by where it starts, which links it takes, and what they use."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.bounds.copying_loop import ACROSS, BACK, CLASSES, MATE, OTHER, ROOT
from taccl.encoding.bounds.tuning import COPYING_MOST_LINKS
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology


@dataclass(frozen=True, eq=False)
class Ports:
    """Ports that are used alike.

    Parameters
    ----------
    many : how many there are.
    used : shape (CLASSES,); how many of them a send over a link of each class uses at least.
    alpha_us, us_per_mb : shape (CLASSES,); how long at least, by what it carries.
    """

    many: int
    used: IntArray
    alpha_us: FloatArray
    us_per_mb: FloatArray

    def says_no_more_than(self, other: Ports) -> bool:
        """Whether whatever takes time of these takes as much of others, of which there are no more."""
        uses = self.used > 0
        return bool(
            (self.used * other.many <= other.used * self.many).all()
            and (self.alpha_us[uses] <= other.alpha_us[uses]).all()
            and (self.us_per_mb[uses] <= other.us_per_mb[uses]).all()
        )


@dataclass(frozen=True, eq=False)
class Setting:
    """Equal nodes, of which all ranks want every chunk, and what sends from rank to rank take.

    Parameters
    ----------
    ranks, nodes : of a node, and how many nodes.
    first : ROOT where all chunks start at one rank; OTHER where as many start at each.
    at_ends : ports are busy at the ends of sends.
    chunks, chunk_mb : how many there are, and their size.
    alpha_us, us_per_mb : shape (CLASSES,); what a send takes at least; inf where there are no such links.
    turn_alpha_us, turn_us_per_mb : shape (CLASSES,); after how long its sender may begin the next one of the
        class at the soonest; 0 where links of a rank share no port, or ports are busy at the ends.
    ports : what sends keep busy.
    """

    ranks: int
    nodes: int
    first: int
    at_ends: bool
    chunks: int
    chunk_mb: float
    alpha_us: FloatArray
    us_per_mb: FloatArray
    turn_alpha_us: FloatArray
    turn_us_per_mb: FloatArray
    ports: tuple[Ports, ...]

    @staticmethod
    def of(view: View) -> Setting | None:
        """That of a view.

        None: nodes differ, not all ranks want all chunks, chunks start otherwise, or links share no ports.
        """
        demand, topology = view.instance.demand, view.problem.topology
        first = _first(view.instance)
        if first is None or not 0 < topology.num_links <= COPYING_MOST_LINKS or not view.problem.chunk_mb:
            return None
        _, sizes = np.unique(topology.node_of, return_counts=True)
        if (sizes != sizes[0]).any() or topology.num_ranks < 2:
            return None
        root = int(demand.starts.rank[0]) if first == ROOT else -1
        kind = _classes(topology, root)
        ports = _needed(_ports(topology, kind))
        if not ports:
            return None
        alpha_us, us_per_mb = (
            _least(kind, np.arange(len(kind)), each) for each in (topology.alpha_us, topology.beta_us_per_mb)
        )
        return Setting(
            *(int(sizes[0]), len(sizes), first, view.backwards, demand.num_chunks, view.problem.chunk_mb),
            *(alpha_us, us_per_mb, *_turns(topology, kind, view.backwards), ports),
        )

    @property
    def num_ranks(self) -> int:
        return self.ranks * self.nodes

    @property
    def size_mb(self) -> float:
        """Of all chunks together."""
        return self.chunks * self.chunk_mb

    def in_pieces(self, pieces: int) -> Setting:
        """The same with each chunk in so many pieces."""
        return replace(self, chunks=self.chunks * pieces, chunk_mb=self.chunk_mb / pieces)

    def who(self, view: View) -> IntArray:
        """Of a view of copies: ROOT, MATE or OTHER for each rank, shape (num_ranks,)."""
        node = view.problem.topology.node_of
        if self.first == OTHER:
            return np.full(len(node), OTHER)
        root = int(view.instance.demand.starts.rank[0])
        who = np.where(node == node[root], MATE, OTHER)
        who[root] = ROOT
        return np.asarray(who)


def _first(instance: Instance) -> int | None:
    """ROOT or OTHER, as in `Setting`; None where chunks start in another way, or not all want them."""
    demand, ranks = instance.demand, instance.problem.num_ranks
    if not demand.copies_from_one:
        return None
    if (np.bincount(demand.lacking.chunk, minlength=demand.num_chunks) != ranks - 1).any():
        return None
    at = np.bincount(demand.starts.rank, minlength=ranks)
    if at.max() == demand.num_chunks:
        return ROOT
    return OTHER if (at == at[0]).all() else None


def _classes(topology: LogicalTopology, root: int) -> IntArray:
    """The class of each link, shape (num_links,); -1 of those that nobody needs."""
    node, src, dst = topology.node_of, topology.src, topology.dst
    is_inside = node[src] == node[dst]
    if root < 0:
        return np.where(is_inside, OTHER, ACROSS + OTHER)
    who = np.where(src == root, ROOT, np.where(node[src] == node[root], MATE, OTHER))
    kind = np.where(is_inside, who, ACROSS + who)
    kind[~is_inside & (node[dst] == node[root])] = BACK
    kind[dst == root] = -1
    return np.asarray(kind)


def _least(kind: IntArray, link: IntArray, values: FloatArray) -> FloatArray:
    """The least value of each class, shape (CLASSES,); `link` : of each value."""
    least, there = np.full(CLASSES, np.inf), kind[link] >= 0
    np.minimum.at(least, kind[link[there]], values[there])
    return least


def _turns(topology: LogicalTopology, kind: IntArray, at_ends: bool) -> tuple[FloatArray, FloatArray]:
    """How long a port that all links of a rank and a class share is busy at least, of each class.

    0 where ports are busy at the ends of sends: one may then start before a shorter one that ends before it.
    """
    link, port = topology.incidence
    alpha_us, us_per_mb = np.zeros(CLASSES), np.zeros(CLASSES)
    if at_ends:
        return alpha_us, us_per_mb
    for number in np.unique(kind[kind >= 0]).tolist():
        of_class = kind == number
        pairs = np.flatnonzero(of_class[link])
        senders, degree = np.unique(topology.src[of_class], return_counts=True)
        at, many = np.unique(topology.src[link[pairs]] * topology.num_ports + port[pairs], return_counts=True)
        sender = at // topology.num_ports
        shared = at[many == degree[np.searchsorted(senders, sender)]]
        if len(np.unique(shared // topology.num_ports)) == len(senders):
            on_shared = np.isin(topology.src[link[pairs]] * topology.num_ports + port[pairs], shared)
            us_per_mb[number] = topology.pair_betas[pairs[on_shared]].min()
            alpha_us[number] = topology.alpha_us[of_class].min() if topology.is_serial else 0.0
    return alpha_us, us_per_mb


def _ports(topology: LogicalTopology, kind: IntArray) -> list[Ports]:
    """The ports, those with as many links of each class, at the same costs, together."""
    link, port = topology.incidence
    there = np.flatnonzero(kind[link] >= 0)
    users, beta = np.zeros((topology.num_ports, CLASSES)), np.full((topology.num_ports, CLASSES), np.inf)
    np.add.at(users, (port[there], kind[link[there]]), 1)
    np.minimum.at(beta, (port[there], kind[link[there]]), topology.pair_betas[there])
    alike = np.concatenate([users, beta], axis=1)
    _, group, many = np.unique(alike, axis=0, return_inverse=True, return_counts=True)
    alpha_us = _least(kind, np.arange(len(kind)), topology.alpha_us * topology.is_serial)
    found = []
    for number in range(len(many)):
        pairs = there[group.ravel()[port[there]] == number]
        of_link = np.bincount(link[pairs], minlength=topology.num_links)
        used = np.zeros(CLASSES, dtype=np.int64)
        for each in np.unique(kind[kind >= 0]).tolist():
            used[each] = of_link[kind == each].min()
        if used.any():
            us_per_mb = _least(kind, link[pairs], topology.pair_betas[pairs])
            found.append(Ports(int(many[number]), used, alpha_us, us_per_mb))
    return found


def _needed(ports: list[Ports]) -> tuple[Ports, ...]:
    """Those that say more than others."""
    needed: list[Ports] = []
    for each in sorted(ports, key=lambda one: one.many):
        if not any(each.says_no_more_than(other) for other in needed):
            needed.append(each)
    return tuple(needed)
