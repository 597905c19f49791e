"""What becomes of node 0's chunks: sends across nodes over all rails at once, and sends inside nodes.

Nodes are served in rounds. What arrives at a GPU spreads inside its node along a tree of shortest routes, at
prices that rise with what ports carry already.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.hierarchical.cluster import Cluster
from taccl.encoding.engines.hierarchical.rails import Rails
from taccl.encoding.engines.hierarchical.rounds import Piece, Round, RoundCosts
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology

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


def sends_of(
    cluster: Cluster,
    topology: LogicalTopology,
    rails: Rails,
    in_rounds: Sequence[Round],
    chunks_per_gpu: int,
    most: int,
) -> Sends:
    """All sends of node 0's chunks, in an order in which none comes before what it waits for.

    Parameters
    ----------
    most : chunks in one send.
    """
    return _Planned(cluster, topology, rails, chunks_per_gpu, most).all(in_rounds)


class _Block(NamedTuple):
    """Chunks that are at a GPU of a node, from `first` to before `last`."""

    node: int
    gpu: int
    first: int
    last: int


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
        self.inside = _links_inside(topology, gpus, gpus // cluster.together)
        self.is_switch = _is_switch(topology, self.inside)
        receivers = [receiver for _, receiver in rails.pairs]
        #: All GPUs, those that rails lead to first, and the place of each.
        self.gpus = [*receivers, *(gpu for gpu in range(gpus) if gpu not in receivers)]
        self.place = {gpu: place for place, gpu in enumerate(self.gpus)}

    def all(self, in_rounds: Sequence[Round]) -> Sends:
        """The sends of these rounds."""
        gpus = self.cluster.gpus
        self._spread([_Block(0, gpu, gpu * self.each, (gpu + 1) * self.each) for gpu in range(gpus)])
        waiting: list[tuple[int, Piece]] = []
        for pieces in in_rounds:
            waiting = self._round([*waiting, *enumerate(pieces)])
        while waiting:
            waiting = self._round(waiting)
        return self.sends

    def _round(self, pieces: Sequence[tuple[int, Piece]]) -> list[tuple[int, Piece]]:
        """Send pieces over their rails and spread them; what is not yet where it leaves is returned."""
        gpus, rails = self.cluster.gpus, self.rails
        waiting, came = [], []
        for number, piece in pieces:
            node, (sender, receiver) = rails.order[piece.node], rails.pairs[number]
            source = rails.parent[piece.node] * gpus + sender
            if (self.arrived[source, piece.first : piece.last] == _NOWHERE).any():
                waiting.append((number, piece))
                continue
            self._send(
                self.topology.link_index[source, node * gpus + receiver], piece.first, piece.last, number
            )
            came.append(_Block(node, receiver, piece.first, piece.last))
        self._spread(came)
        return waiting

    def inside_us(self, chunks: int, team: int) -> float:
        """How long a round of this many chunks, over teams of rails, keeps the busiest port inside busy."""
        receivers = [receiver for _, receiver in self.rails.pairs]
        for begin in range(0, len(receivers), team):
            self._spread(
                [
                    _Block(0, receiver, part * chunks, (part + 1) * chunks)
                    for part, receiver in enumerate(receivers[begin : begin + team])
                ]
            )
        return float(self.load.max())

    def _spread(self, blocks: Sequence[_Block]) -> None:
        """Send blocks that come together to all other GPUs of their nodes, step by step of all."""
        steps: list[list[tuple[int, _Block]]] = []
        for team in self._teams(blocks):
            in_turn = self._exchanged(team) if len(team) > 1 else self._along_tree(team[0])
            for step, sends in enumerate(in_turn):
                if step == len(steps):
                    steps.append([])
                steps[step] += sends
        for link, block in (each for step in steps for each in step):
            # The same link of the block's node.
            ends = (
                int(end[link]) + block.node * self.cluster.gpus
                for end in (self.topology.src, self.topology.dst)
            )
            src, dst = ends
            self._send(self.topology.link_index[src, dst], block.first, block.last)

    def _teams(self, blocks: Sequence[_Block]) -> list[list[_Block]]:
        """Blocks that can be exchanged with each other, and all others one by one.

        Behind a switch, adjacent blocks of equal size at as many of a node's GPUs as a power of two.
        """
        teams: dict[int, list[_Block]] = {}
        for block in blocks:
            teams.setdefault(block.node, []).append(block)
        found = []
        for team in teams.values():
            sizes = {block.last - block.first for block in team}
            is_adjacent = all(one.last == other.first for one, other in pairwise(team))
            places = {self.place.get(block.gpu, -1) // len(team) for block in team}
            is_power = len(team) & (len(team) - 1) == 0 and self.cluster.gpus % len(team) == 0
            if self.is_switch and is_power and is_adjacent and len(sizes) == len(places) == 1:
                found.append(team)
            else:
                found += [[block] for block in team]
        return found

    def _exchanged(self, team: list[_Block]) -> Iterator[list[tuple[int, _Block]]]:
        """Sends of blocks that double with each step, until all have all; then each serves GPUs outside."""
        many, gpus = len(team), [block.gpu for block in team]
        node = team[0].node
        reach = 1
        while reach < many:
            step = []
            for number in range(many):
                begin = number // reach * reach
                block = _Block(node, gpus[number], team[begin].first, team[begin + reach - 1].last)
                step.append((self._link_inside(gpus[number], gpus[number ^ reach], block), block))
            yield step
            reach *= 2
        own = self.place[gpus[0]] // many
        for turn in range(1, len(self.gpus) // many):
            begin = (own + turn) * many % len(self.gpus)
            step = []
            for number, gpu in enumerate(gpus):
                block = _Block(node, gpu, team[0].first, team[-1].last)
                step.append((self._link_inside(gpu, self.gpus[begin + number], block), block))
            yield step

    def _along_tree(self, block: _Block) -> Iterator[list[tuple[int, _Block]]]:
        for link in self._tree(block.gpu, block.last - block.first):
            yield [(link, block)]

    def _link_inside(self, gpu: int, other: int, block: _Block) -> int:
        """The link of node 0 between two GPUs, over which a block is sent."""
        link = self.topology.link_index[gpu, other]
        self._carry([link], block.last - block.first)
        return link

    def _send(self, link: int, first: int, last: int, rail: int | None = None) -> None:
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

    def _tree(self, root: int, chunks: int) -> list[int]:
        """Links of node 0 from a GPU to all others, parents first: inside nodes of the machine as in one of
        them, and among several that are planned together from each that has it to one more.
        """
        inside, topology, together = self._tree_inside(root, chunks), self.topology, self.cluster.together
        if together == 1:
            return inside
        part = self.cluster.gpus // together
        node, gpu = divmod(root, part)
        firsts = [(node + step) % together * part for step in range(together)]
        links = [
            topology.link_index[firsts[to - reach] + gpu, firsts[to] + gpu]
            for reach in (1 << bit for bit in range(together.bit_length()))
            for to in range(reach, min(2 * reach, together))
        ]
        ends = [(int(topology.src[link]) % part, int(topology.dst[link]) % part) for link in inside]
        links += [topology.link_index[first + src, first + dst] for first in firsts for src, dst in ends]
        self._carry([link for link in links if link not in inside], chunks)
        return links

    def _tree_inside(self, root: int, chunks: int) -> list[int]:
        """Links from a GPU to all others of its node of the machine: shortest routes at rising prices."""
        topology = self.topology
        mb = min(chunks, self.most) * self.chunk_mb
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
        links = [link for _, _, link in sorted(tree)]
        self._carry(links, chunks)
        return links

    def _carry(self, links: list[int], chunks: int) -> None:
        """Add what this many chunks over each of some links keep ports busy."""
        topology = self.topology
        _, pair = topology.pairs_of(np.array(links))
        sends, rest = divmod(chunks, self.most)
        for many, size in ((sends, self.most), (1, rest)):
            if many and size:
                busy = topology.port_busy_us(pair, np.full(len(pair), size * self.chunk_mb))
                np.add.at(self.load, topology.incidence[1][pair], many * busy)


def costs_of(
    cluster: Cluster, topology: LogicalTopology, rails: Rails, chunks_per_gpu: int, most: int, team: int = 1
) -> RoundCosts:
    """What rounds of teams of rails keep busy; of all that goes over one rail, `most` chunks in a send."""
    widest = max(1, min(most, cluster.gpus * chunks_per_gpu // team))
    ends = [
        topology.link_index[rails.parent[0] * cluster.gpus + sender, rails.order[0] * cluster.gpus + receiver]
        for sender, receiver in rails.pairs
    ]
    _, pair = topology.pairs_of(np.array(ends))
    port = cluster.orbit_of_port[topology.incidence[1][pair]]
    across, inside = [], []
    for chunks in (1, widest):
        mb = np.full(len(pair), chunks * cluster.problem.chunk_mb)
        across.append(float(np.bincount(port, topology.port_busy_us(pair, mb)).max()))
        planned = _Planned(cluster, topology, rails, chunks_per_gpu, most)
        inside.append(planned.inside_us(chunks, team))
    slopes = [(last - first) / max(1, widest - 1) for first, last in (across, inside)]
    return RoundCosts(across[0] - slopes[0], slopes[0], inside[0] - slopes[1], slopes[1])


def _links_inside(topology: LogicalTopology, gpus: int, part: int) -> list[list[tuple[int, int]]]:
    """The links from each GPU of node 0 to others of the same `part` of it, and where they end."""
    inside: list[list[tuple[int, int]]] = [[] for _ in range(gpus)]
    is_inside = (topology.src < gpus) & (topology.dst < gpus) & (topology.src // part == topology.dst // part)
    for link in np.flatnonzero(is_inside).tolist():
        inside[int(topology.src[link])].append((link, int(topology.dst[link])))
    return inside


def _is_switch(topology: LogicalTopology, inside: list[list[tuple[int, int]]]) -> bool:
    """Whether all GPUs of node 0 are linked with each other equivalent, each through one port out and one
    in.
    """
    links = [link for out in inside for link, _ in out]
    if len(links) != len(inside) * (len(inside) - 1):
        return False
    into: dict[int, list[int]] = {}
    for link in links:
        into.setdefault(int(topology.dst[link]), []).append(link)
    shared = (
        set.intersection(*(set(topology.ports[link]) for link in some))
        for some in (*([link for link, _ in out] for out in inside), *into.values())
    )
    costs = (topology.alpha_us[links], topology.beta_us_per_mb[links])
    return all(shared) and all(float(np.ptp(cost)) == 0 for cost in costs)


def spans_node(topology: LogicalTopology, gpus: int) -> bool:
    """Whether links of node 0 lead from each of its GPUs to all others."""
    inside = _links_inside(topology, gpus, gpus)
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
