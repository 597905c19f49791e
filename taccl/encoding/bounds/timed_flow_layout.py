"""What is alike in `timed-flow`: kinds of chunks, with some of the ways that they have to take, and ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.colours import first_of_each
from taccl.encoding.bounds.direct import sizeless
from taccl.encoding.bounds.kinds import Kinds
from taccl.encoding.bounds.orbits import Automorphisms, orbits
from taccl.encoding.bounds.tuning import TIMED_FLOW_KINDS, TIMED_FLOW_WAYS, TIMED_FLOW_WAYS_OF_SIZES
from taccl.encoding.instance import Instance
from taccl.model.automorphism import NetworkMap
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology


@dataclass(frozen=True, eq=False)
class Way:
    """From where to where chunks of a kind have to get.

    Parameters
    ----------
    source, end : ranks.
    links : one of each orbit of links under what keeps the kind, the source and the end.
    into, out : for one of each orbit of ranks, how many links of each orbit lead there, and away.
    """

    source: int
    end: int
    links: IntArray
    into: dict[int, IntArray]
    out: dict[int, IntArray]


@dataclass(frozen=True, eq=False)
class Commodity:
    """A kind of chunks for all that symmetries take it to.

    Parameters
    ----------
    images : how many kinds that is.
    size_mb : of all chunks of the kind.
    links : the orbits of links under what keeps the kind; each is named by its least member.
    ways : some of those that its chunks have to take.
    transfers : each chunk is sent this often at least, all in all.
    """

    images: int
    size_mb: float
    links: IntArray
    ways: tuple[Way, ...]
    transfers: int


@dataclass(frozen=True, eq=False)
class Layout:
    """What does not depend on the horizon: it is the same for any number of chunks of a size.

    Parameters
    ----------
    commodities : of an instance.
    ports : for one of each orbit of ports, which commodities use it over which pair (link, port), and for how
        many MB in the mean over the orbit.
    """

    commodities: tuple[Commodity, ...]
    ports: tuple[tuple[tuple[int, int, float], ...], ...]

    @staticmethod
    def of(instance: Instance) -> Layout | None:
        """That of an instance, which its network keeps.

        None: some kind of chunks is copied from several ranks, or too many are unlike each other.
        """
        kinds, limits = Kinds.of(instance.problem), instance.problem.limits
        columns = kinds.starts, kinds.wanted, kinds.are_sums, limits.may_use, limits.own_first
        sizes_mb = np.round(kinds.many * instance.problem.chunk_mb, 9)
        key = *(b"" if each is None else each.tobytes() for each in columns), sizes_mb.tobytes()
        known = instance.problem.topology.once(_layouts)
        if key not in known:
            known[key] = _layout(instance, Automorphisms(instance.problem, kinds))
        return known[key]

    @property
    def variables(self) -> int:
        """How many variables a cell has for each size of sends."""
        return sum(
            len(np.unique(each.links)) + sum(len(way.links) for way in each.ways) for each in self.commodities
        )


def _layouts(topology: LogicalTopology) -> dict[object, Layout | None]:
    """Where layouts are kept; `topology.once(_layouts)`."""
    return {}


def _layout(instance: Instance, found: Automorphisms) -> Layout | None:
    problem, kinds = instance.problem, found.kinds
    if (~kinds.are_sums & (kinds.starts.sum(axis=1) > 1)).any():
        return None
    most = TIMED_FLOW_WAYS_OF_SIZES if problem.topology.is_serial else TIMED_FLOW_WAYS
    whole = found.keeping(())
    images = (kinds.images(each.ranks) for each in whole)
    orbit = orbits(len(kinds), (each for each in images if each is not None))
    chosen = np.unique(orbit).tolist()
    if not 0 < len(chosen) <= TIMED_FLOW_KINDS:
        return None
    far_us = instance.once(sizeless).distances_us
    commodities = [
        _commodity(found, kind, tuple(_ways(found, kind, far_us, most)), int((orbit == kind).sum()))
        for kind in chosen
    ]
    ports = orbits(problem.topology.num_ports, (each.ports for each in whole))
    return layout_of(problem.topology, commodities, ports)


def _uses(
    topology: LogicalTopology, commodities: Sequence[Commodity], ports: IntArray
) -> Iterator[tuple[tuple[int, int, float], ...]]:
    """The uses of each orbit of ports; `ports` : the orbits, each named by its least member."""
    pair_link, pair_port = topology.incidence
    for port in np.unique(ports).tolist():
        pairs, uses = np.flatnonzero(ports[pair_port] == port), []
        for number, each in enumerate(commodities):
            rows = np.stack([each.links[pair_link[pairs]], topology.pair_betas[pairs]])
            _, chosen, many = np.unique(rows, axis=1, return_index=True, return_counts=True)
            size_mb = each.size_mb * each.images / int((ports == port).sum())
            uses += [
                (number, pair, times * size_mb)
                for pair, times in zip(pairs[chosen].tolist(), many.tolist(), strict=True)
            ]
        yield tuple(uses)


def layout_of(topology: LogicalTopology, commodities: Sequence[Commodity], ports: IntArray) -> Layout:
    """A layout by the orbits of ports."""
    return Layout(tuple(commodities), tuple(_uses(topology, commodities, ports)))


def _commodity(found: Automorphisms, kind: int, ways: tuple[Way, ...], images: int) -> Commodity:
    kinds, problem = found.kinds, found.problem
    starts, wanted = np.flatnonzero(kinds.starts[kind]), np.flatnonzero(kinds.wanted[kind])
    marked = tuple(int(ranks[0]) for ranks in (starts, wanted) if len(ranks) == 1)
    links = orbits(problem.topology.num_links, (each.links for each in _that_keep(found, kind, marked)))
    transfers = len(starts) + len(wanted) - 2 if kinds.are_sums[kind] else 0
    return Commodity(images, float(kinds.many[kind]) * problem.chunk_mb, links, ways, transfers)


def _ways(found: Automorphisms, kind: int, far_us: FloatArray, most: int) -> Iterator[Way]:
    """The farthest ends that are not alike, from one source."""
    topology, wanted = found.problem.topology, np.flatnonzero(found.kinds.wanted[kind])
    starts = np.flatnonzero(found.kinds.starts[kind])
    source = int(starts[0] if len(wanted) > 1 else starts[starts != wanted[0]][0])
    alike = orbits(topology.num_ranks, (each.ranks for each in _that_keep(found, kind, (source,))))
    ends = wanted[wanted != source]
    ends = ends[first_of_each(alike[ends])]
    for end in ends[np.argsort(-far_us[source, ends], kind="stable")][:most].tolist():
        kept = _that_keep(found, kind, (source, end))
        links = orbits(topology.num_links, (each.links for each in kept))
        ranks = orbits(topology.num_ranks, (each.ranks for each in kept))
        yield way_of(topology, source, end, links, ranks)


def way_of(topology: LogicalTopology, source: int, end: int, links: IntArray, ranks: IntArray) -> Way:
    """A way by the orbits of links and ranks, each named by its least member."""
    chosen = [rank for rank in np.unique(ranks).tolist() if rank != source]
    into, out = (
        {rank: np.bincount(links[side == rank], minlength=topology.num_links) for rank in chosen}
        for side in (topology.dst, topology.src)
    )
    return Way(source, end, np.unique(links), into, out)


def _that_keep(found: Automorphisms, kind: int, marked: tuple[int, ...]) -> list[NetworkMap]:
    """Automorphisms that keep a kind and these ranks, as many as are found soon."""
    kept = []
    for each in found.keeping(marked):
        images = found.kinds.images(each.ranks)
        if images is not None and images[kind] == kind:
            kept.append(each)
    return kept
