r"""What becomes of node 0's chunks: sends across nodes over all rails at once, and sends inside nodes.

Nodes are served in rounds. In a round of width w, the chunks of w GPUs in turn travel together over each
rail, so it serves  rails * w / GPUs  nodes, and every rail carries as much as every other. Wide rounds pay
alpha seldom; narrow ones begin early, as a GPU has its own chunks at once, and end early. What arrives at a
GPU spreads inside its node along a tree of shortest ways, at prices that rise with what ports carry already.
It knows rails, links and chunks; it must not know when anything is sent.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from taccl.collective import IntArray
from taccl.encoding.engines.hierarchical.cluster import Cluster
from taccl.encoding.engines.hierarchical.rails import Rails
from taccl.network import LogicalTopology

#: In `after`, of chunks that are where they start.
_AT_HOME = -1
_NOWHERE = -2


@dataclass
class Sends:
    """Sends by number, each of consecutive chunks of node 0.

    Parameters
    ----------
    link : of each send.
    first, last : its chunks are those from `first` to before `last`.
    after : the sends by which its chunks arrive at its source; none where they start there.
    own : which of its chunks start at its source.
    behind : the send over the same rail before it, if any: rails go round by round, so that what arrives at
        the GPUs of a node arrives together.
    """

    link: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    after: list[tuple[int, ...]] = field(default_factory=list)
    own: list[tuple[int, ...]] = field(default_factory=list)
    behind: list[tuple[int, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.link)


def widths(gpus: int, num_rails: int) -> list[int]:
    """The widths that rounds can have: each serves a whole number of nodes."""
    return [w for w in range(1, gpus + 1) if gpus % w == 0 and num_rails * w % gpus == 0]


def rounds(nodes: int, gpus: int, num_rails: int, widest: int, tapered: bool) -> list[int]:
    """The widths of rounds that serve so many nodes, none wider than `widest`, narrow ones at both ends.

    `tapered` : widths rise from the narrowest and fall to it, as far as there are nodes for that.
    """
    usable = [w for w in widths(gpus, num_rails) if w <= widest]
    served = {w: num_rails * w // gpus for w in usable}
    begins = [w for w in usable if w < widest] if tapered else usable[:1]
    while begins and 2 * sum(served[w] for w in begins) > nodes:
        begins.pop()
    left = nodes - 2 * sum(served[w] for w in begins)
    middle: list[int] = []
    for w in reversed(usable):
        middle += [w] * (left // served[w])
        left %= served[w]
    return [*begins, *middle, *reversed(begins)]


def sends_of(
    cluster: Cluster,
    topology: LogicalTopology,
    rails: Rails,
    in_rounds: Sequence[int],
    chunks_per_gpu: int,
    most: int,
) -> Sends:
    """All sends of node 0's chunks, in an order in which none comes before what it waits for.

    Parameters
    ----------
    most : chunks in one send.
    """
    return _Planned(cluster, topology, rails, chunks_per_gpu, most).all(in_rounds)


class _Planned:
    """Sends as they are planned, and where they bring which chunk."""

    def __init__(
        self, cluster: Cluster, topology: LogicalTopology, rails: Rails, chunks_per_gpu: int, most: int
    ) -> None:
        self.cluster, self.topology, self.rails = cluster, topology, rails
        self.each, self.most = chunks_per_gpu, most
        self.chunk_mb = cluster.problem.chunk_mb
        self.sends = Sends()
        gpus = cluster.gpus
        #: By which send each chunk arrives at each rank.
        self.arrived = np.full((topology.num_ranks, gpus * chunks_per_gpu), _NOWHERE, dtype=np.int64)
        for gpu in range(gpus):
            self.arrived[gpu, gpu * chunks_per_gpu : (gpu + 1) * chunks_per_gpu] = _AT_HOME
        self.load = np.zeros(topology.num_ports)
        self.last_on: dict[int, tuple[int, ...]] = {}
        self.inside = _links_inside(topology, gpus)

    def all(self, in_rounds: Sequence[int]) -> Sends:
        """The sends of rounds of these widths."""
        gpus, pairs = self.cluster.gpus, self.rails.pairs
        for gpu in range(gpus):
            self._spread(0, gpu, gpu * self.each, (gpu + 1) * self.each)
        served = 0
        for width in in_rounds:
            parts = gpus // width
            for number in range(len(pairs)):
                node, parent = (
                    each[served + number // parts] for each in (self.rails.order, self.rails.parent)
                )
                sender, receiver = pairs[number]
                first, last = (number % parts) * width * self.each, (number % parts + 1) * width * self.each
                link = self.topology.link_index[parent * gpus + sender, node * gpus + receiver]
                self._send(link, first, last, rail=number)
                self._spread(node, receiver, first, last)
            served += len(pairs) * width // gpus
        return self.sends

    def _spread(self, node: int, gpu: int, first: int, last: int) -> None:
        """Send chunks from a GPU of a node to all others of it."""
        mb = min(last - first, self.most) * self.chunk_mb
        for link in self._tree(gpu, mb):
            # The same link of this node.
            src, dst = (
                int(end[link]) + node * self.cluster.gpus for end in (self.topology.src, self.topology.dst)
            )
            self._send(self.topology.link_index[src, dst], first, last, load_of=link)

    def _send(
        self, link: int, first: int, last: int, load_of: int | None = None, rail: int | None = None
    ) -> None:
        src, dst = int(self.topology.src[link]), int(self.topology.dst[link])
        for begin in range(first, last, self.most):
            end = min(begin + self.most, last)
            before = self.arrived[src, begin:end]
            self.arrived[dst, begin:end] = len(self.sends)
            self.sends.link.append(link)
            self.sends.first.append(begin)
            self.sends.last.append(end)
            self.sends.after.append(tuple(number for number in np.unique(before).tolist() if number >= 0))
            self.sends.own.append(tuple((begin + np.flatnonzero(before == _AT_HOME)).tolist()))
            self.sends.behind.append(() if rail is None else self.last_on.get(rail, ()))
            if rail is not None:
                self.last_on[rail] = (len(self.sends) - 1,)
            if load_of is not None:
                pairs = slice(*self.topology.first_pair[load_of : load_of + 2])
                busy = self.topology.port_busy_us(
                    np.arange(pairs.start, pairs.stop), (end - begin) * self.chunk_mb
                )
                self.load[self.topology.incidence[1][pairs]] += busy

    def _tree(self, root: int, mb: float) -> list[int]:
        """Links of node 0 from a GPU to all others, parents first: shortest ways at prices."""
        topology = self.topology
        most = max(float(self.load.max()), 1e-9)
        depth: dict[int, int] = {}
        tree: list[tuple[int, int, int]] = []
        heap: list[tuple[float, int, int, int]] = [(0.0, -1, root, 0)]
        while heap:
            way, link, gpu, deep = heapq.heappop(heap)
            if gpu in depth:
                continue
            depth[gpu] = deep
            if link >= 0:
                # Roots that send to all begin with the next GPU each: none is in another's way.
                tree.append((deep, (gpu - root) % self.cluster.gpus, link))
            for other, end in self.inside[gpu]:
                if end not in depth:
                    ports = topology.ports[other]
                    price = 1.0 + max(float(self.load[port]) for port in ports) / most
                    takes = float(topology.alpha_us[other] + mb * topology.beta_us_per_mb[other])
                    heapq.heappush(heap, (way + takes * price, other, end, deep + 1))
        return [link for _, _, link in sorted(tree)]


def _links_inside(topology: LogicalTopology, gpus: int) -> list[list[tuple[int, int]]]:
    """The links from each GPU of node 0 to others of it, and where they end."""
    inside: list[list[tuple[int, int]]] = [[] for _ in range(gpus)]
    for link in np.flatnonzero((topology.src < gpus) & (topology.dst < gpus)).tolist():
        inside[int(topology.src[link])].append((link, int(topology.dst[link])))
    return inside


def spans_node(topology: LogicalTopology, gpus: int) -> bool:
    """Whether links of node 0 lead from each of its GPUs to all others."""
    inside = _links_inside(topology, gpus)
    for root in range(gpus):
        seen, front = {root}, [root]
        while front:
            for _, end in inside[front.pop()]:
                if end not in seen:
                    seen.add(end)
                    front.append(end)
        if len(seen) < gpus:
            return False
    return True


def chunks_of(sends: Sends) -> tuple[IntArray, IntArray]:
    """All chunks of all sends as two columns: the send, and the chunk."""
    many = np.array(sends.last) - np.array(sends.first)
    send = np.repeat(np.arange(len(many)), many)
    within = np.arange(len(send)) - np.repeat(np.cumsum(many) - many, many)
    return send, np.array(sends.first)[send] + within
