r"""Quotients: a machine that looks the same from many ranks is scheduled once, for one of them.

Let G be a group of permutations of the ranks, each an automorphism of the problem, and let only the
identity keep a rank or a port in its place. Take schedules in which, whenever chunk c passes link l,
every g in G makes chunk g(c) pass link g(l) at the same time. The |G| images of a transfer then use |G|
different ports, and two orbits of transfers are in each other's way if and only if their links use
ports of one orbit. So

    the same ranks and links,  one chunk of each orbit,  one port for each orbit of ports

is again an ordinary problem, |G| times smaller. Any engine may answer it, and the images of its answer
are a schedule of the whole with the same times. Where all ranks are alike (a torus, a switch, nodes of
such), one rank's chunks are left. The fastest of these schedules need not be the fastest of all, so a
bound on them says nothing of the whole; but where chunks are divisible nothing is lost, because the
average over G of any flow is as good as the flow.

Without a symmetry in the problem, a group is sought among the renamings by which machines are
numbered: a digit of the rank, in any mixed radix, goes round; or bits of it are flipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from taccl.collectives import BoolArray, Collective, IntArray, Placement
from taccl.encoding.symmetry.group import symmetry_group
from taccl.problem import LogicalTopology, Problem
from taccl.schedule import Schedule

#: Larger tables of images than this are not worth their memory.
_MOST_IMAGES = 20_000_000


@dataclass(frozen=True, eq=False)
class Quotient:
    """A problem, its part that decides the rest, and the images.

    Parameters
    ----------
    whole : what is asked.
    problem : one chunk of each orbit, one port for each orbit of ports; no symmetry left.
    chunk_map : shape (num_elements, chunks of `problem`); images, as chunks of `whole`.
    link_map : shape (num_elements, num_links).
    """

    whole: Problem
    problem: Problem
    chunk_map: IntArray
    link_map: IntArray

    def lifted(self, schedule: Schedule) -> Schedule:
        """The schedule of the whole that a schedule of the quotient stands for."""
        images = len(self.link_map)
        first = np.arange(images)[:, None] * (schedule.group.max(initial=0) + 1)
        return Schedule(
            problem=self.whole,
            chunk=self.chunk_map[:, schedule.chunk].ravel(),
            link=self.link_map[:, schedule.link].ravel(),
            start_us=np.tile(schedule.start_us, images),
            end_us=np.tile(schedule.end_us, images),
            reduce=np.tile(schedule.reduce, images),
            group=(first + schedule.group).ravel(),
        ).sorted()


def quotient(problem: Problem) -> Quotient | None:
    """The quotient by the problem's own symmetry, if it has one, else by the largest group that is found.

    None if there is no such group but the identity's.
    """
    if problem.limits.own_first is not None:
        return None  # which chunks wait for which is not the same question for one chunk of an orbit
    group = _given(problem) if problem.symmetry else _found(problem)
    return None if group is None or len(group) < 2 else _quotient(problem, group)


def one_of_each_kind(problem: Problem) -> IntArray:
    """Ranks such that every other is like one of them, by the problem's symmetry or one that is found."""
    alike = quotient(problem)
    every = np.arange(problem.num_ranks)
    if alike is None:
        return every
    topology = problem.topology
    ranks = np.zeros((len(alike.link_map), problem.num_ranks), dtype=np.int64) + every
    ranks[:, topology.src] = topology.src[alike.link_map]
    ranks[:, topology.dst] = topology.dst[alike.link_map]
    return np.unique(ranks.min(axis=0))


@dataclass(frozen=True, eq=False)
class _Parts:
    """Where ranks, links, ports and chunks stand in one long permutation of them all."""

    ranks: slice
    links: slice
    ports: slice
    chunks: slice

    @staticmethod
    def of(problem: Problem) -> _Parts:
        topology = problem.topology
        counts = (topology.num_ranks, topology.num_links, topology.num_ports, problem.num_chunks)
        ends = np.cumsum((0, *counts)).tolist()
        return _Parts(*(slice(a, b) for a, b in pairwise(ends)))


def _given(problem: Problem) -> IntArray | None:
    """The elements of the problem's group, shape (num_elements, everything); None if they keep a port."""
    symmetry = symmetry_group(problem)
    columns = _ports_by_link(problem.topology)
    elements = []
    for ranks, links, chunks in zip(symmetry.rank_map, symmetry.link_map, symmetry.chunk_map, strict=True):
        ports = _port_map(problem.topology, columns, links)
        if ports is None:
            return None
        elements.append(_joined(problem, ranks, links, ports, chunks))
    group = np.array(elements)
    return group if _moves_everything(problem, group) else None


def _found(problem: Problem) -> IntArray | None:
    """As many elements as candidates that fit each other generate, shape (num_elements, everything)."""
    topology = problem.topology
    size = topology.num_ranks + topology.num_links + topology.num_ports + problem.num_chunks
    if not topology.num_links or size * topology.num_ranks > _MOST_IMAGES:
        return None
    group = np.arange(size)[None]
    generators: list[IntArray] = []
    columns = _ports_by_link(topology)
    for renaming in _renamings(problem.num_ranks):
        if len(group) == problem.num_ranks:
            break
        if (group[:, : problem.num_ranks] == renaming).all(axis=1).any():
            continue
        generator = _automorphism(problem, renaming, columns)
        larger = None if generator is None else _generated([*generators, generator], problem.num_ranks)
        if generator is not None and larger is not None and _moves_everything(problem, larger):
            generators.append(generator)
            group = larger
    return group


def _renamings(ranks: int) -> Iterator[IntArray]:
    """Digits that go round, the largest first, then bits that are flipped."""
    every = np.arange(ranks)
    digits = [
        (size, place)
        for size in range(2, ranks + 1)
        for place in range(1, ranks // size + 1)
        if ranks % (size * place) == 0
    ]
    for size, place in sorted(digits, reverse=True):
        digit = every // place % size
        yield every + ((digit + 1) % size - digit) * place
    for mask in range(3, ranks & -ranks):
        yield every ^ mask


def _automorphism(problem: Problem, ranks: IntArray, columns: IntArray) -> IntArray | None:
    """The renaming as a permutation of everything; None if it changes the problem."""
    topology = problem.topology
    homes = np.bincount(problem.collective.home, minlength=problem.num_ranks)
    if (homes[ranks] != homes).any():
        return None
    links = _link_map(topology, ranks)
    if links is None:
        return None
    for cost in (topology.alpha_us, topology.beta_us_per_mb):
        if (cost[links] != cost).any():
            return None
    may_use = problem.limits.may_use
    if may_use is not None and (may_use[ranks][:, links] != may_use).any():
        return None
    rates = topology.port_betas
    if rates is not None and any(rates[link] != rates[image] for link, image in enumerate(links.tolist())):
        return None
    ports = _port_map(topology, columns, links)
    chunks = None if ports is None else problem.collective.chunk_map(ranks)
    if ports is None or chunks is None:
        return None
    return _joined(problem, ranks, links, ports, chunks)


def _joined(problem: Problem, *maps: IntArray) -> IntArray:
    parts = _Parts.of(problem)
    begins = (parts.ranks.start, parts.links.start, parts.ports.start, parts.chunks.start)
    return np.concatenate([part + begin for part, begin in zip(maps, begins, strict=True)])


def _link_map(topology: LogicalTopology, ranks: IntArray) -> IntArray | None:
    """Where the renaming takes each link; None if there is no link there."""
    key = topology.src * topology.num_ranks + topology.dst
    image = ranks[topology.src] * topology.num_ranks + ranks[topology.dst]
    order = np.argsort(key)
    place = np.minimum(np.searchsorted(key[order], image), len(key) - 1)
    links = order[place]
    return links if (key[links] == image).all() else None


def _ports_by_link(topology: LogicalTopology) -> IntArray:
    """The ports of each link in a row, filled up with -1."""
    width = max((len(ports) for ports in topology.ports), default=0)
    return np.array([(*ports, *(-1,) * (width - len(ports))) for ports in topology.ports], dtype=np.int64)


def _port_map(topology: LogicalTopology, columns: IntArray, links: IntArray) -> IntArray | None:
    """Where each port goes if each link's first port goes to its image's first, and so on, or None."""
    image = columns[links]
    used = columns >= 0
    if (used != (image >= 0)).any():
        return None
    ports = np.arange(topology.num_ports)
    ports[columns[used]] = image[used]
    fits = (ports[columns[used]] == image[used]).all() and len(np.unique(ports)) == len(ports)
    return ports if fits else None


def _generated(generators: list[IntArray], ranks: int) -> IntArray | None:
    """All compositions, the identity first; None if one of them leaves a rank in place."""
    identity = np.arange(len(generators[0]))
    elements, seen = [identity], {identity[:ranks].tobytes()}
    for element in elements:
        for generator in generators:
            image = generator[element]
            if image[:ranks].tobytes() in seen:
                continue
            if (image[:ranks] == identity[:ranks]).any():
                return None
            seen.add(image[:ranks].tobytes())
            elements.append(image)
    return np.array(elements)


def _moves_everything(problem: Problem, group: IntArray) -> bool:
    """Whether only the identity keeps a port, and no link has two ports of one orbit."""
    topology, parts = problem.topology, _Parts.of(problem)
    used = np.unique(topology.incidence[1]) + parts.ports.start
    if (group[1:, used] == used).any():
        return False
    orbit = group[:, parts.ports].min(axis=0)
    return all(len({int(orbit[port]) for port in ports}) == len(ports) for ports in topology.ports)


def _quotient(problem: Problem, group: IntArray) -> Quotient:
    topology, parts = problem.topology, _Parts.of(problem)
    least = group[:, parts.ports].min(axis=0) - parts.ports.start
    orbits, port_of = np.unique(least, return_inverse=True)
    merged = replace(
        topology,
        ports=tuple(tuple(int(port_of[port]) for port in ports) for ports in topology.ports),
        port_names=tuple(topology.port_names[orbit] for orbit in orbits),
    )
    images = group[:, parts.chunks] - parts.chunks.start
    chosen = images.min(axis=0) == np.arange(problem.num_chunks)
    part = replace(problem, topology=merged, collective=_only(problem.collective, chosen), symmetry=())
    return Quotient(problem, part, images[:, chosen], group[:, parts.links] - parts.links.start)


def _only(collective: Collective, chosen: BoolArray) -> Collective:
    """The chosen chunks alone, numbered in their order, at the offsets that they have."""
    number = np.cumsum(chosen) - 1

    def rows(placement: Placement) -> Placement:
        keep = chosen[placement.chunk]
        return Placement(number[placement.chunk[keep]], placement.rank[keep], placement.offset[keep])

    return replace(
        collective,
        name=f"{collective.name} of one orbit",
        inputs=rows(collective.inputs),
        outputs=rows(collective.outputs),
        reduces=collective.reduces[chosen],
        home=collective.home[chosen],
    )
