"""Sequences of genes to begin the search with: of the known schedule, of doubling, of textbook rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.model.collective import BoolArray, IntArray
from taccl.model.collectives import allgather
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def as_genes(orbits: OrbitInstance, schedule: Schedule, with_chunks: bool = False) -> list[SendGene]:
    """The orbits of links that a schedule uses, in the order of its sends, once for each orbit of sends.

    `with_chunks` : each with the chunks that it carries there.
    """
    orbit_of, sends = orbit_of_links(orbits), schedule.sends
    is_first = np.zeros(len(orbit_of), dtype=np.bool_)
    is_first[orbits.links[:, 0]] = True
    order = sends.by_start
    order = order[is_first[sends.link[order]]]
    if not with_chunks:
        return [SendGene(orbit) for orbit in orbit_of[sends.link[order]].tolist()]
    by_send = np.argsort(sends.of_row, kind="stable")
    chunks = np.split(schedule.chunk[by_send], np.cumsum(sends.count)[:-1])
    back = orbits.group.chunk_map.argsort(axis=1)[:, orbits.chunks]
    return [
        SendGene(int(orbit_of[sends.link[send]]), without=~np.isin(back, chunks[send]))
        for send in order.tolist()
    ]


def as_genes_on(orbits: OrbitInstance, genes: Sequence[SendGene], other: OrbitInstance) -> list[SendGene]:
    """Genes of another orbit instance of the same links, which may have more symmetries, as genes of this."""
    orbit_of = orbit_of_links(orbits)
    return [
        SendGene(orbit, gene.waits)
        for gene in genes
        for orbit in dict.fromkeys(orbit_of[other.links[gene.orbit]].tolist())
    ]


def orbit_of_links(orbits: OrbitInstance) -> IntArray:
    """The orbit of each link, shape (num_links,)."""
    orbit_of = np.empty(orbits.problem.topology.num_links, dtype=np.int64)
    orbit_of[orbits.links] = np.arange(orbits.num_link_orbits)[:, None]
    return orbit_of


def doubling(orbits: OrbitInstance, random: np.random.Generator, few: bool = True) -> list[SendGene]:
    """Genes that spread every chunk to every rank: of those that can start first, the fullest.

    On a switch every rank so holds twice as much after each round. Now and then a slow link waits until
    it has more to carry, while others have something to do; and with `few`, most of the slow links are
    often left out, so that some chunks may not get everywhere.
    """
    free = np.zeros(orbits.num_ports)
    most_ports = max(map(len, orbits.ports))
    ports = np.array([own + own[:1] * (most_ports - len(own)) for own in orbits.ports])
    alpha, chunk = np.array(orbits.alpha_us), np.array(orbits.chunk_us)
    alone = alpha + chunk
    slow = alone > 2 * float(alone.min())
    hold = int(2 ** random.integers(0, 6))
    usable = orbits.usable & some_slow(slow, random)[:, None, None] if few else orbits.usable
    alone_first = [orbit for orbit, own in enumerate(orbits.own) if own is not None]
    arrive = np.where(orbits.held, 0.0, np.inf)
    genes: list[SendGene] = []
    while True:
        at, to = arrive[orbits.src], arrive[orbits.dst]
        useful = (at < np.inf) & (to == np.inf) & usable
        for orbit in alone_first:
            own = useful[orbit] & orbits.own[orbit]
            if own.any():
                useful[orbit] = own
        first = np.where(useful, at, np.inf).min(axis=(1, 2))
        if not np.isfinite(first).any():
            return genes
        start = np.maximum(free[ports].max(axis=1), first)
        count = (useful & (at <= start[:, None, None])).sum(axis=(1, 2))
        held_back = slow & (count < hold)
        if (~held_back & np.isfinite(start)).any():
            start[held_back] = np.inf
        value = count / alone * (1 + 0.3 * random.random(len(count)))
        orbit = int(np.where(start <= start.min() + 1e-9, value, -1.0).argmax())
        genes.append(SendGene(orbit, waits=False))
        end = orbits.place(orbit, int(count[orbit]), float(start[orbit]), free)
        goes = useful[orbit] & (at[orbit] <= start[orbit])
        arrive[orbits.dst[orbit]] = np.where(goes, end, to[orbit])


def some_slow(slow: BoolArray, random: np.random.Generator) -> BoolArray:
    """Orbits of links to use: all, or all fast ones and a few of the slow ones. Shape (num_link_orbits,)."""
    keep = np.ones(len(slow), dtype=np.bool_)
    if slow.any() and not slow.all() and random.random() < 0.7:
        keep[slow] = False
        few = min(int(2 ** random.integers(0, 4)), int(slow.sum()))
        keep[random.choice(np.flatnonzero(slow), few, replace=False)] = True
    return keep


def by_distance(orbits: OrbitInstance) -> list[SendGene]:
    """Every chunk over as few links as can be: for each number of links a send of each orbit that helps.

    Of several links that bring a chunk to a rank it takes one whose send is the shortest so far.
    """
    far, needed = _links_from_source(orbits), orbits.wanted.copy()
    orbit_of, image_of = np.indices(orbits.dst.shape).reshape(2, -1)
    order = np.argsort(orbits.dst, axis=None, kind="stable")
    into = np.split(order, np.cumsum(np.bincount(orbits.dst.ravel(), minlength=len(far)))[:-1])
    genes: list[SendGene] = []
    for links in range(int(far.max(initial=0)), 0, -1):
        carried = np.zeros(orbits.usable.shape, np.bool_)
        load = np.zeros(orbits.num_link_orbits)  # how long the chunks of each orbit's send take
        for rank, chunk in np.argwhere(needed & (far == links)).tolist():
            orbit, image = orbit_of[into[rank]], image_of[into[rank]]
            brings = (far[orbits.src[orbit, image], chunk] == links - 1) & orbits.usable[orbit, image, chunk]
            orbit, image = orbit[brings], image[brings]
            least = int(load[orbit].argmin())
            carried[orbit[least], image[least], chunk] = True
            load[orbit[least]] += orbits.chunk_us[int(orbit[least])]
            needed[orbits.src[orbit[least], image[least]], chunk] = True
        used = np.flatnonzero(carried.any(axis=(1, 2))).tolist()
        genes = [*(SendGene(each, without=~carried[each]) for each in used), *genes]
    return genes


def _links_from_source(orbits: OrbitInstance) -> IntArray:
    """Over how many links each chunk comes to each rank at least, shape (num_ranks, C); -1: over none."""
    far, links = np.where(orbits.held, 0, -1), 0
    while (goes := (far[orbits.src] == links) & (far[orbits.dst] < 0) & orbits.usable).any():
        orbit, image, chunk = np.nonzero(goes)
        links += 1
        far[orbits.dst[orbit, image], chunk] = links
    return far


def gossip(problem: Problem, weight: float) -> Problem:
    """What tells every rank something of every other: a chunk of `weight` times the size from each to all.

    A sequence that does so has a path from every rank to every other.
    """
    return replace(problem, collective=allgather(problem.num_ranks), chunk_mb=weight * problem.chunk_mb)


def rounds(orbits: OrbitInstance) -> Iterator[list[SendGene]]:
    """Rounds in which every rank sends all that it has to one other.

    Inside nodes first, across nodes first, or with no regard to nodes.
    """
    orbit_of = orbit_of_links(orbits)
    for partners in _partners(orbits.problem.topology):
        genes: list[SendGene] = []
        for partner in partners:
            pairs = zip(range(len(partner)), partner.tolist(), strict=True)
            links = [orbits.problem.topology.link_index.get(pair, -1) for pair in pairs if pair[0] != pair[1]]
            if -1 in links:
                break
            genes += [SendGene(orbit) for orbit in dict.fromkeys(orbit_of[links].tolist())]
        else:
            yield genes


def _partners(topology: LogicalTopology) -> Iterator[list[IntArray]]:
    """For each round, whom each rank sends to, shape (num_ranks,)."""
    for flip in (True, False):
        yield _alone(topology.num_ranks, flip)
    table = topology.equal_nodes
    if table is None:
        return
    nodes, size = table.shape
    place = np.argsort(table.ravel())
    for flip in (True, False):
        inside = [table[:, partner] for partner in _alone(size, flip)]
        across = [table[partner] for partner in _alone(nodes, flip)]
        for both in (inside + across, across + inside):
            yield [images.ravel()[place] for images in both]


def _alone(count: int, flip: bool) -> list[IntArray]:
    """The rounds of `count` ranks on their own, shape (count,) each.

    With `flip`, and for a power of two, pairs exchange across one bit after the other. Otherwise after each
    round a rank has the contributions of a window of w others before it next to its own, and w grows to 2w
    or, with the sender's own, to 2w + 1, as the binary digits of count - 1 say.
    """
    ranks = np.arange(count)
    digits = f"{count - 1:b}" if count > 1 else ""
    if flip and count & (count - 1) == 0:
        return [ranks ^ 1 << bit for bit in range(len(digits))]
    partners, window = [], 0
    for digit in digits:
        partners.append((ranks + window + int(digit)) % count)
        window = 2 * window + int(digit)
    return partners
