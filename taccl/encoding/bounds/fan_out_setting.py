"""What there is at a line that leaves the node of a root: its ports, by kinds of equal costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.capacity import Cover, Covers
from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.cuts import Crossing
from taccl.encoding.bounds.entering import Entering
from taccl.encoding.bounds.staged_copies import disjoint_sets
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.support.budget import Budget

#: Of a chunk: what is no larger than any part that somebody may send.
_SMALL = 1e-9


@dataclass(frozen=True, order=True)
class Link:
    """A kind of link through a port: equal costs, and receivers that look equal.

    Parameters
    ----------
    alpha_us, us_per_mb, port_us_per_mb : what a send costs, and how long its port is busy for a MB.
    from_source : whether it leaves a rank of S.
    into : of a link that crosses which of `Setting.receivers` it leads to, and else how many fed ports its
        receiver can send through.
    """

    alpha_us: float
    us_per_mb: float
    port_us_per_mb: float
    from_source: bool
    into: int


#: The kinds of links through a port, and how many of each there are.
Port = tuple[tuple[Link, int], ...]


class Setting:
    """A line between W and A, all ranks but W, and the ranks S of A where what must cross it starts.

    Parameters
    ----------
    inside : shape (num_ranks,), W.
    crossing : C, the chunks that must enter W, and the links into W.
    horizon_us : what chunks serve in W is worked out for so long.
    parts : not 0: for any number of chunks. What is counted is then parts of chunks, so many of each, and a
        send of n parts may have hardly more than n - 1.

    Raises
    ------
    OutOfBudget : by what needs it, before it is known what chunks serve in W.
    """

    def __init__(
        self,
        view: View,
        inside: BoolArray,
        crossing: Crossing,
        horizon_us: float,
        budget: Budget,
        parts: int = 0,
    ) -> None:
        self.view, self.crossing, self.horizon_us, self.parts = view, crossing, horizon_us, parts
        self._inside, self._topology = inside, view.problem.topology
        small = replace(view, instance=view.instance.once(_of_small_chunks)) if parts else view
        self._at = Entering(small, inside, crossing, horizon_us, budget, apart=True)
        #: The most ranks of W that want a chunk or part, and the pairs of these and such ranks.
        self.each, self.need = int(self._at.wanting.max()), int(self._at.wanting.sum()) * max(1, parts)
        #: The most chunks or parts of C in a send, and the size of each.
        self.largest = len(crossing.chunks) * parts or min(len(crossing.chunks), view.problem.max_group)
        self.unit_mb = view.problem.chunk_mb / max(1, parts)

    @cached_property
    def sources(self) -> BoolArray:
        """S, shape (num_ranks,)."""
        starts = self.view.instance.demand.starts
        sources = np.zeros(len(self._inside), dtype=np.bool_)
        sources[starts.rank[self._at.chosen[starts.chunk]]] = True
        return sources

    @property
    def is_fed(self) -> bool:
        """Whether there are ports across the line that only ranks of A without own chunks use."""
        return not (self.sources & self._inside).any() and bool(self.fed_by.any())

    @cached_property
    def num_sets(self) -> int:
        """Of how many sets, of each of which no rank of W wants two, the chunks or parts are."""
        sets = disjoint_sets(self.view.instance, self.crossing.chunks, self._inside)
        return len(np.unique(sets)) * max(1, self.parts)

    @cached_property
    def fed_by(self) -> IntArray:
        """Through how many ports that no rank of S uses each rank can send across, shape (num_ranks,)."""
        fed = self._fed(self.cover)
        senders = self._topology.src[self.crossing.links]
        used = np.unique(np.stack([senders[fed], self.cover.place[fed]]), axis=1)[0]
        return np.bincount(used, minlength=len(self._inside))

    @cached_property
    def crossing_ports(self) -> Counter[Port]:
        """The ports of a cover of the links into W."""
        return self._kinds(self.cover, self.crossing.links, self._numbered[1])

    @cached_property
    def feeding_ports(self) -> Counter[Port]:
        """The ports of a cover of the links out of S that do not cross."""
        src, dst = self._topology.src, self._topology.dst
        return self._covered(self.sources[src] & ~self.sources[dst] & ~self._inside[dst], self.fed_by)

    @cached_property
    def spreading_ports(self) -> Counter[Port]:
        """The ports of a cover of the links inside W to ranks that want something."""
        into = (self._at.want > 0)[self._topology.dst]
        return self._covered(self._inside[self._topology.src] & into, np.zeros_like(self.fed_by))

    @cached_property
    def relays(self) -> dict[int, set[tuple[Port, ...]]]:
        """Kinds of ranks that are not in S, by the number of fed ports: their ports to others of them.

        Of a link with several ports that counts which fewest ranks send through, by most links.
        """
        topology, (link_of, port) = self._topology, self._topology.incidence
        users = np.bincount(
            np.unique(np.stack([port, topology.src[link_of]]), axis=1)[0], minlength=topology.num_ports
        )
        links = np.bincount(port, minlength=topology.num_ports)
        chosen = np.lexsort((-links[port], users[port], link_of))[topology.first_pair[:-1]]
        goes = np.flatnonzero(~self.sources[topology.src] & ~self.sources[topology.dst])
        owner = np.stack([topology.src[goes], port[chosen[goes]]])
        owners, place = np.unique(owner, axis=1, return_inverse=True)
        ports = self._ports(place.ravel(), len(owners[0]), goes, chosen[goes], self.fed_by)
        of_rank: dict[int, list[Port]] = {}
        for rank, each in zip(owners[0].tolist(), ports, strict=True):
            of_rank.setdefault(rank, []).append(each)
        relays: dict[int, set[tuple[Port, ...]]] = {}
        for rank in np.flatnonzero(~self.sources).tolist():
            kind = tuple(sorted(of_rank.get(rank, ())))
            relays.setdefault(int(self.fed_by[rank]), set()).add(kind)
        return relays

    @property
    def receivers(self) -> list[Steps]:
        """How many ranks of W one chunk serves so long after it crossed to one, where these differ."""
        return self._numbered[0]

    @cached_property
    def _numbered(self) -> tuple[list[Steps], IntArray]:
        """These, and for each rank which of them it has, -1 where no link crosses to it."""
        number, kinds = dict[object, int](), list[Steps]()
        which = np.full(len(self._inside), -1)
        for rank in np.unique(self._topology.dst[self.crossing.links]).tolist():
            informed = self._at.w[rank]
            which[rank] = number.setdefault(informed.key(), len(kinds))
            if which[rank] == len(kinds):
                kinds.append(informed)
        return kinds, which

    @cached_property
    def cover(self) -> Cover:
        """Of the narrowest covers of the links into W one of which S uses fewest ports, and with few."""

        def ports(cover: Cover) -> tuple[int, int]:
            return len(np.unique(cover.place[~self._fed(cover)])), len(cover.ports)

        return min(self.view.instance.once(Covers).equally_narrow(self.crossing.links), key=ports)

    def _fed(self, cover: Cover) -> BoolArray:
        """Whether no rank of S uses the port of each of the links into W."""
        senders = self._topology.src[self.crossing.links]
        from_source = np.bincount(cover.place, self.sources[senders], len(cover.ports)) > 0
        fed: BoolArray = ~from_source[cover.place]
        return fed

    def _covered(self, chosen: BoolArray, into: IntArray) -> Counter[Port]:
        links = np.flatnonzero(chosen)
        if not len(links):
            return Counter()
        covers = self.view.instance.once(Covers).equally_narrow(links)
        return self._kinds(min(covers, key=lambda cover: len(cover.ports)), links, into)

    def _kinds(self, cover: Cover, links: IntArray, into: IntArray) -> Counter[Port]:
        """How many ports of a cover have each kinds of links."""
        return Counter(self._ports(cover.place, len(cover.ports), links, cover.pair, into))

    def _ports(
        self, place: IntArray, many: int, links: IntArray, pair: IntArray, into: IntArray
    ) -> list[Port]:
        """Ports by the kinds of their links: `place` says which of the ports each link is at."""
        topology = self._topology
        columns = (
            topology.alpha_us[links],
            topology.beta_us_per_mb[links],
            topology.pair_betas[pair],
            self.sources[topology.src[links]],
            into[topology.dst[links]],
        )
        rows, kind = np.unique(np.stack(columns), axis=1, return_inverse=True)
        kinds = [Link(a, b, c, bool(own), int(to)) for a, b, c, own, to in rows.T.tolist()]
        each, counts = np.unique(np.stack([place, kind.ravel()]), axis=1, return_counts=True)
        ports: list[list[tuple[Link, int]]] = [[] for _ in range(many)]
        for port, number, count in zip(*each.tolist(), counts.tolist(), strict=True):
            ports[port].append((kinds[number], count))
        return [tuple(port) for port in ports]


def _of_small_chunks(instance: Instance) -> Instance:
    """The same with chunks that take hardly more than alphas."""
    return Instance(replace(instance.problem, chunk_mb=instance.problem.chunk_mb * _SMALL))
