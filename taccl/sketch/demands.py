"""Can every demand be met over the links that a chunk may use? Requested before any solver runs.

A chunk that is copied must reach every rank that wants it from some rank that starts with it. A sum
is made at the owner of its chunk: every contributor must reach the owner, and the owner every rank
that wants the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.model.collective import Collective, IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import RoutingLimits


@dataclass(frozen=True)
class SketchDemand:
    """`chunk`, which may use what chunks of `owner` may, has to go from one of `sources` to `dst`."""

    chunk: int
    owner: int
    sources: tuple[int, ...]
    dst: int

    @property
    def src(self) -> int:
        """The first of the sources, for messages."""
        return self.sources[0]


def first_gap(collective: Collective, logical: LogicalTopology, limits: RoutingLimits) -> SketchDemand | None:
    """The first demand that cannot be met; None when all can."""
    reach = Reach(logical, limits)
    for chunk in range(collective.num_chunks):
        if not reach.everywhere(int(collective.owner[chunk])):
            for demand in demands_of(collective, chunk):
                if reach.links_to(demand) is None:
                    return demand
    return None


def demands_of(collective: Collective, chunk: int) -> Iterator[SketchDemand]:
    """All that has to move for a chunk to be where it is wanted."""
    owner = int(collective.owner[chunk])
    starts = tuple(np.flatnonzero(collective.pre[chunk]).tolist())
    if collective.reduces[chunk]:
        for start in starts:
            if start != owner:
                yield SketchDemand(chunk, owner, (start,), owner)
        starts = (owner,)
    for rank in np.flatnonzero(collective.post[chunk]).tolist():
        if rank not in starts:
            yield SketchDemand(chunk, owner, starts, rank)


def what_moves(demand: SketchDemand, collective: Collective) -> str:
    """What has to go, in the user's words."""
    what = collective.describe_chunk(demand.chunk)
    if collective.reduces[demand.chunk] and demand.dst == demand.owner:
        return f"the contribution of rank {demand.src} to {what}"
    return what


def can_go(gap: SketchDemand, logical: LogicalTopology, limits: RoutingLimits) -> bool:
    """Whether the chunk can go from the gap's sources to its destination on other terms."""
    return Reach(logical, limits).links_to(gap) is not None


class Reach:
    """How many links it takes from rank to rank over those that the chunks of an owner may use.

    Each answer is kept, and owners with the same usable links share theirs. Where those links join every
    rank to every other, as they mostly do, two searches tell so for all ranks.
    """

    def __init__(self, logical: LogicalTopology, limits: RoutingLimits) -> None:
        self.logical = logical
        self.may_use = limits.may_use
        self.kinds: dict[bytes, int] = {}
        self.kind_of: dict[int, int] = {}
        self.found: dict[tuple[int, tuple[int, ...], bool], IntArray] = {}
        self.all_reach: dict[int, bool] = {}

    def everywhere(self, owner: int) -> bool:
        """Whether chunks of `owner` can go from any rank to any other."""
        kind = self._kind(owner)
        if kind not in self.all_reach:
            there, back = self._search(owner, (0,)), self._search(owner, (0,), backwards=True)
            self.all_reach[kind] = bool((there >= 0).all() and (back >= 0).all())
        return self.all_reach[kind]

    def links_to(self, demand: SketchDemand) -> int | None:
        """How many links the shortest way has; None if there is no way."""
        if demand.dst == demand.owner and len(demand.sources) == 1:  # one search for all that is summed there
            links = self._search(demand.owner, (demand.dst,), backwards=True)[demand.sources[0]]
        else:
            links = self._search(demand.owner, demand.sources)[demand.dst]
        return int(links) if links >= 0 else None

    def reached(self, demand: SketchDemand) -> list[int]:
        """The ranks that the chunk can get to from its sources."""
        return [int(rank) for rank in np.flatnonzero(self._search(demand.owner, demand.sources) >= 0)]

    def _kind(self, owner: int) -> int:
        """Homes with the same usable links are of one kind."""
        if owner not in self.kind_of:
            row = b"" if self.may_use is None else self.may_use[owner].tobytes()
            self.kind_of[owner] = self.kinds.setdefault(row, len(self.kinds))
        return self.kind_of[owner]

    def _search(self, owner: int, starts: tuple[int, ...], backwards: bool = False) -> IntArray:
        key = (self._kind(owner), starts, backwards)
        if key not in self.found:
            ends = self.logical.src, self.logical.dst
            src, dst = reversed(ends) if backwards else ends
            if self.may_use is not None:
                src, dst = src[self.may_use[owner]], dst[self.may_use[owner]]
            self.found[key] = _levels(self.logical.num_ranks, src, dst, starts)
        return self.found[key]


def _levels(num_ranks: int, src: IntArray, dst: IntArray, starts: tuple[int, ...]) -> IntArray:
    """How many links each rank is from the nearest of `starts` along src -> dst; -1 for those not reached."""
    level = np.full(num_ranks, -1, dtype=np.int64)
    level[list(starts)] = 0
    for links in range(1, num_ranks):
        new = dst[(level[src] == links - 1) & (level[dst] < 0)]
        if not len(new):
            break
        level[new] = links
    return level
