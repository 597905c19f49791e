"""A problem by its orbits, as the search for sequences of sends sees it.

A symmetry whose images of a link are all different makes a whole orbit of sends happen at once: it is
enough to follow one chunk of each orbit of chunks, over all images of a link, and one link of each
orbit of links, with all images of the chunks. A *transfer* of a gene is an image of its link and a
deciding chunk; as many chunks share one send as the gene has transfers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.timing import Decision
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem


class SendGene(NamedTuple):
    """One send over every image of a link.

    Parameters
    ----------
    orbit : which orbit of links, a row of `OrbitInstance.links`.
    waits : whether it waits for all that is on its way to its sender; else it leaves with what is
        there as soon as its ports are free and something is there.
    without : transfers that stay behind, shape (G, C); None: none.
    """

    orbit: int
    waits: bool = True
    without: BoolArray | None = None


@dataclass(frozen=True, eq=False)
class OrbitInstance:
    """What all sequences of one problem share. C deciding chunks, K orbits of links, G images of each.

    Parameters
    ----------
    problem : each chunk is copied from one rank.
    group : of the symmetries that sequences keep.
    chunks : shape (C,); the deciding chunks, one of each orbit.
    links, src, dst : shape (K, G); the images of each orbit's link, and their ends.
    usable : shape (K, G, C); which chunk may go where.
    own : per orbit, None or which chunks are their sender's own and leave before the others, shape (G, C).
    held, wanted : shape (num_ranks, C); where the deciding chunks are, and where they still have to go.
    alpha_us, chunk_us : per orbit, its alpha, and how long one chunk takes next to it.
    ports : per orbit, the ports of its first link, each by the least port of its orbit.
    one_by_one : per orbit, whether chunks go one by one, since a common send saves nothing.
    sharing : per orbit, how many images of a link use the same port, one after another.
    at_ports : per orbit and port, how many images of a link use it, and how long one chunk keeps it busy;
        None where no port is faster than its links.
    """

    problem: Problem
    group: SymmetryGroup
    chunks: IntArray
    links: IntArray
    src: IntArray
    dst: IntArray
    usable: BoolArray
    own: list[BoolArray | None]
    held: BoolArray
    wanted: BoolArray
    alpha_us: list[float]
    chunk_us: list[float]
    ports: list[tuple[int, ...]]
    one_by_one: list[bool]
    sharing: list[int]
    at_ports: list[list[tuple[int, float]]] | None

    @staticmethod
    def of(problem: Problem, group: SymmetryGroup) -> OrbitInstance:
        """The orbits of a problem under a group without elements that leave a rank in place."""
        topology, collective = problem.topology, problem.collective
        chunks = np.unique(group.chunk_representative)
        deciding = np.unique(group.link_representative)
        links = group.link_map[:, deciding].T.copy()
        limits = problem.limits.may_use
        usable = np.ones((len(deciding), len(group), len(chunks)), dtype=np.bool_)
        if limits is not None:
            usable = limits[collective.owner[chunks]][:, links].transpose(1, 2, 0).copy()
        own_first = problem.limits.own_first
        is_own = collective.owner[chunks] == topology.src[links][:, :, None]
        port_of = _port_orbits(problem, group)
        held = collective.pre[chunks].T.copy()
        return OrbitInstance(
            problem=problem,
            group=group,
            chunks=chunks,
            links=links,
            src=topology.src[links],
            dst=topology.dst[links],
            usable=usable,
            own=[
                own if own_first is not None and own_first[link] and own.any() else None
                for link, own in zip(deciding, is_own, strict=True)
            ],
            held=held,
            wanted=collective.post[chunks].T & ~held,
            alpha_us=topology.alpha_us[deciding].tolist(),
            chunk_us=(topology.beta_us_per_mb[deciding] * problem.chunk_mb).tolist(),
            ports=[tuple(port_of[port] for port in topology.ports[link]) for link in deciding],
            one_by_one=one_by_one(topology)[deciding].tolist(),
            sharing=[_sharing(problem, images) for images in links],
            at_ports=None
            if topology.port_betas is None
            else [_at_ports(problem, images) for images in links],
        )

    @cached_property
    def traits(self) -> tuple[IntArray, ...]:
        """What deciding chunks may share: source, target, target's node, both nodes. Shape (G, C) each."""
        node = self.problem.topology.node_of
        source, target = self.held.argmax(axis=0), self.wanted.argmax(axis=0)
        each = source, target, node[target], node[source] * len(node) + node[target]
        return tuple(np.broadcast_to(trait, (len(self.group), len(trait))) for trait in each)

    @cached_property
    def odds(self) -> FloatArray:
        """Cumulated odds of each orbit to be chosen by chance: the faster its links, the likelier."""
        speed = 1 / (np.array(self.alpha_us) + np.array(self.chunk_us))
        cumulated = np.cumsum(speed / speed.sum())
        cumulated[-1] = 1.0
        return np.asarray(cumulated)

    @property
    def num_link_orbits(self) -> int:
        return len(self.links)

    @property
    def num_ports(self) -> int:
        return self.problem.topology.num_ports

    def place(self, orbit: int, count: int, start_us: float, free_us: list[float] | FloatArray) -> float:
        """Start a gene of `count` transfers, note when its ports are free again, and return its end.

        Images that share a port use it one after another. Of those that share a port which is faster than
        their links, the last begins when the others have left it, and all of them overlap.
        """
        # Chunks that go one by one wait for no alpha but their own.
        sends = 1 if self.one_by_one[orbit] else -(-count // self.problem.max_group)
        alphas, body = sends * self.alpha_us[orbit], count * self.chunk_us[orbit]
        serial = self.problem.topology.is_serial
        if self.at_ports is None:
            busy = (body + alphas * serial) * self.sharing[orbit]
            for port in self.ports[orbit]:
                free_us[port] = start_us + busy
            return start_us + busy + (0.0 if serial else alphas)
        own = [(sharing, count * cost + alphas * serial) for sharing, cost in self.at_ports[orbit]]
        last = start_us + max([(sharing - 1) * busy for sharing, busy in own])
        for port, (_, busy) in zip(self.ports[orbit], own, strict=True):
            free_us[port] = max(free_us[port], last + busy)  # two ports of the same links count as one
        return last + alphas + body

    @property
    def routes_to_send(self) -> tuple[bool, ...]:
        """Whether to send apart what need not go together: as few sends as can be, then also that."""
        return (False, True) if any(self.one_by_one) else (False,)

    def decisions(self, orbit: int, transfers: BoolArray, arrival: IntArray, apart: bool) -> list[Decision]:
        """The sends of one gene: as few as can be; if `apart`, one for each chunk where that is no later.

        `arrival` says in which order the deciding chunks came to the ranks, shape (num_ranks, C).
        """
        image, chunk = np.nonzero(transfers)
        back = self.group.chunk_map.argsort(axis=1)
        together = back[image, self.chunks[chunk]]
        images = list(zip(self.group.chunk_map, self.links[orbit].tolist(), strict=True))
        if apart and self.one_by_one[orbit]:
            order = np.lexsort((together, arrival[self.src[orbit][image], chunk]))
            return [
                Decision((int(each),), link)
                for chunk_map, link in images
                for each in chunk_map[together[order]]
            ]
        together.sort()
        most = self.problem.max_group
        return [
            Decision(tuple(chunk_map[together[first : first + most]].tolist()), link)
            for first in range(0, len(together), most)
            for chunk_map, link in images
        ]


def _port_orbits(problem: Problem, group: SymmetryGroup) -> list[int]:
    """For each port, the least port that a symmetry takes its links to."""
    ports = [np.array(sorted(links), dtype=np.int64) for links in problem.topology.port_links]
    port_with: dict[bytes, int] = {}
    for port, links in enumerate(ports):
        port_with.setdefault(links.tobytes(), port)
    images = (np.sort(group.link_map[:, links].astype(np.int64), axis=1) for links in ports)
    return [min({port_with[links.tobytes()] for links in image}) for image in images]


def _sharing(problem: Problem, images: IntArray) -> int:
    """How many images of a link use the port that most of them share."""
    ports = [port for link in images for port in problem.topology.ports[link]]
    return int(np.bincount(ports).max())


def _at_ports(problem: Problem, images: IntArray) -> list[tuple[int, float]]:
    """For each port of the first image, how many images use it, and how long one chunk keeps it busy."""
    topology, link = problem.topology, int(images[0])
    users = np.bincount([port for image in images for port in topology.ports[image]])
    betas = topology.pair_betas[topology.first_pair[link] : topology.first_pair[link + 1]].tolist()
    return [
        (int(users[port]), beta * problem.chunk_mb)
        for port, beta in zip(topology.ports[link], betas, strict=True)
    ]
