"""The way of one chunk: a tree from where it is to all who want it, along shortest paths (Dijkstra 1959).

A rank that may not copy does one thing with the chunk: it keeps it, or passes it on to one other. Where there
are such ranks, the tree grows by the path to the nearest rank that still lacks the chunk, from any rank that
has it and may pass it on (Takahashi and Matsuyama 1980, for Steiner trees). That may find no tree where there
is one; a machine without such ranks has a tree wherever there are paths.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from taccl.model.collective import BoolArray
from taccl.model.network import LogicalTopology


@dataclass(frozen=True, eq=False)
class SteinerNetwork:
    """Links that a chunk may use, how long it takes on each, and who may pass it on to several.

    Parameters
    ----------
    duration_us : of the chunk on each link of `topology`.
    usable : shape (num_links,), or None for all.
    """

    topology: LogicalTopology
    duration_us: list[float]
    usable: BoolArray | None

    @cached_property
    def links_from(self) -> list[list[tuple[int, int, float]]]:
        """(link, other end, duration) of the usable links that leave each rank."""
        dst: list[int] = self.topology.dst.tolist()
        usable = [True] * len(dst) if self.usable is None else self.usable.tolist()
        return [
            [(link, dst[link], self.duration_us[link]) for link in links if usable[link]]
            for links in self.topology.links_from
        ]

    @cached_property
    def may_copy(self) -> list[bool]:
        if self.topology.may_copy is None:
            return [True] * self.topology.num_ranks
        may: list[bool] = self.topology.may_copy.tolist()
        return may

    def tree(self, there_us: Mapping[int, float], wanted: Collection[int]) -> list[int] | None:
        """The links that bring a chunk from where it is, and when, to all who want it; None: none found."""
        at_us, wants = dict(there_us), set(wanted)
        passed_on, links, lacking = set[int](), list[int](), wants - set(there_us)
        while lacking:
            before = len(links)
            begin = {r: us for r, us in at_us.items() if self._may_pass_on(r, r in wants or r in passed_on)}
            for path in self._paths(begin, lacking, set(at_us)):
                for link in path:
                    sender, receiver = int(self.topology.src[link]), int(self.topology.dst[link])
                    passed_on.add(sender)
                    at_us[receiver] = at_us[sender] + self.duration_us[link]
                links += path
                if not all(self.may_copy[int(self.topology.src[link])] for link in path):
                    break  # no other path may pass these ranks
            lacking -= set(at_us)
            if len(links) == before:
                return None
        return links

    def _may_pass_on(self, rank: int, has_a_use: bool) -> bool:
        return self.may_copy[rank] or not has_a_use

    def _paths(self, begin: Mapping[int, float], lacking: set[int], reached: set[int]) -> Iterator[list[int]]:
        """The path to the rank of `lacking` that is there first, in order; then to the next, and so on."""
        heap = [(us, rank) for rank, us in begin.items()]
        heapq.heapify(heap)
        nearest_us, link_into, missing = dict(begin), dict[int, int](), set(lacking)
        while heap and missing:
            now_us, rank = heapq.heappop(heap)
            if now_us > nearest_us[rank]:
                continue
            if rank in missing:
                path = self._back(link_into, rank, reached)
                reached |= {int(self.topology.dst[link]) for link in path}
                missing -= reached
                yield path
                if not self.may_copy[rank]:
                    continue
            for link, other, duration_us in self.links_from[rank]:
                at_us = now_us + duration_us
                if other in reached or at_us >= nearest_us.get(other, float("inf")):
                    continue
                nearest_us[other], link_into[other] = at_us, link
                heapq.heappush(heap, (at_us, other))

    def _back(self, link_into: Mapping[int, int], rank: int, reached: set[int]) -> list[int]:
        path = []
        while rank not in reached:
            path.append(link_into[rank])
            rank = int(self.topology.src[path[-1]])
        return path[::-1]
