"""Can every demand be met over the links that a chunk may use? Asked before any solver runs.

A chunk that is copied must reach every rank that wants it from some rank that starts with it. A sum
is made at the home of its chunk: every contributor must reach the home, and the home every rank
that wants the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.collectives import BoolArray, Collective
from taccl.problem import LogicalTopology, RoutingLimits


@dataclass(frozen=True)
class Gap:
    """A demand that cannot be met: `chunk` has no way from `src` (one of its sources) to `dst`."""

    chunk: int
    src: int
    dst: int


def first_gap(collective: Collective, logical: LogicalTopology, limits: RoutingLimits) -> Gap | None:
    """The first demand that cannot be met; None when all can."""
    reach = _Reach(logical, limits)
    for chunk in range(collective.num_chunks):
        home = int(collective.home[chunk])
        if reach.everywhere(home):
            continue
        gap = _gap(collective, chunk, home, reach)
        if gap is not None:
            return gap
    return None


def can_go(gap: Gap, home: int, logical: LogicalTopology, limits: RoutingLimits) -> bool:
    """Whether chunks of `home` can go from the gap's source to its destination on other terms."""
    return bool(_Reach(logical, limits).from_ranks(home, (gap.src,))[gap.dst])


def _gap(collective: Collective, chunk: int, home: int, reach: _Reach) -> Gap | None:
    starts = tuple(int(rank) for rank in np.flatnonzero(collective.pre[chunk]))
    if collective.reduces[chunk]:
        lost = np.flatnonzero(collective.pre[chunk] & ~reach.into(home))
        if len(lost):
            return Gap(chunk, int(lost[0]), home)
        starts = (home,)
    missing = np.flatnonzero(collective.post[chunk] & ~reach.from_ranks(home, starts))
    return Gap(chunk, starts[0], int(missing[0])) if len(missing) else None


class _Reach:
    """Who reaches whom over the links that the chunks of a home may use; each answer is kept.

    Homes with the same usable links share their answers. Where those links join every rank to every
    other, as they mostly do, two searches answer for all ranks.
    """

    def __init__(self, logical: LogicalTopology, limits: RoutingLimits) -> None:
        self.logical = logical
        self.may_use = limits.may_use
        self.kinds: dict[bytes, int] = {}
        self.found: dict[tuple[object, ...], BoolArray] = {}
        self.all_reach: dict[int, bool] = {}

    def everywhere(self, home: int) -> bool:
        """Whether chunks of `home` can go from any rank to any other."""
        kind = self._kind(home)
        if kind not in self.all_reach:
            there, back = self.from_ranks(home, (0,)), self._search(home, (0,), backwards=True)
            self.all_reach[kind] = bool(there.all() and back.all())
        return self.all_reach[kind]

    def from_ranks(self, home: int, starts: tuple[int, ...]) -> BoolArray:
        """The ranks that chunks of `home` can reach from `starts`, shape (num_ranks,)."""
        return self._search(home, starts, backwards=False)

    def into(self, home: int) -> BoolArray:
        """The ranks from which chunks of `home` can reach `home`, shape (num_ranks,)."""
        return self._search(home, (home,), backwards=True)

    def _kind(self, home: int) -> int:
        """Homes with the same usable links are of one kind."""
        row = b"" if self.may_use is None else self.may_use[home].tobytes()
        return self.kinds.setdefault(row, len(self.kinds))

    def _search(self, home: int, starts: tuple[int, ...], backwards: bool) -> BoolArray:
        key = (self._kind(home), starts, backwards)
        if key not in self.found:
            ends = self.logical.src, self.logical.dst
            src, dst = reversed(ends) if backwards else ends
            if self.may_use is not None:
                src, dst = src[self.may_use[home]], dst[self.may_use[home]]
            self.found[key] = _closure(self.logical.num_ranks, src, dst, starts)
        return self.found[key]


def _closure(num_ranks: int, src: np.ndarray, dst: np.ndarray, starts: tuple[int, ...]) -> BoolArray:
    """The ranks that can be reached from `starts` along src -> dst."""
    reached = np.zeros(num_ranks, dtype=np.bool_)
    reached[list(starts)] = True
    while True:
        new = dst[reached[src] & ~reached[dst]]
        if not len(new):
            return reached
        reached[new] = True
