"""The best way from one GPU to another, past no other GPU.

Of two routes the one with the smaller beta (its largest link beta) is better, then the one with the
smaller alpha (the sum of its links'), then the one with fewer links. Routes that are still equal
differ in the NICs they take, in the switches, or not at all: GPU g of G prefers NIC number g * N // G of its
node's N, so that GPUs which are equally far from several NICs spread over them; and where switches of nodes
are linked past any NIC, GPUs g and h of two nodes take way number (g + h) mod n of n. NICs and switches of a
third node pass nothing on: what comes in from outside stays in its node. A helper at a switch has the links
of the switch, at costs of its own where it says so.

The order (largest beta, sum of alphas) has no optimal substructure, so a search finds the least
largest beta to every end first, and then, for each such beta, the least alpha over the links that
are no worse than it and lead to an end of that beta. On a tree there is one way, and nothing to search.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from taccl.topologies.devices import (
    BETWEEN_NODES,
    INSIDE_NODE,
    NO_NODE,
    RANKS,
    Device,
    DeviceKind,
    Link,
    Path,
)
from taccl.topologies.helpers import links_at_switches

#: What a path may pass from NIC to NIC.
_BETWEEN_NICS: frozenset[DeviceKind] = frozenset(("switch", "fabric"))

#: Alphas are compared as whole numbers of 10**-9 microseconds, so that the order of a sum is no matter.
_TICKS_PER_US = 1e9

Way = tuple[int, ...]
Distance = tuple[int, int]
Kinds = tuple[DeviceKind, ...]


class _Reach(NamedTuple):
    """What paths from one device may use.

    Parameters
    ----------
    leaving, into : device -> the links that leave it, or lead to it; the nearest devices first.
    is_tree : whether links, with those back, close no circle: then there is one way to each device.
    """

    leaving: dict[int, list[int]]
    into: dict[int, list[int]]
    is_tree: bool


class PathFinder:
    """Paths of one machine, searched once per source and then remembered."""

    def __init__(self, devices: Sequence[Device], links: Sequence[Link]) -> None:
        self.devices = devices
        at_switches = links_at_switches(devices, links)
        self.links = [*links, *(link for link, _ in at_switches)]
        self._num_own = len(links)
        # The machine's links that each of these uses.
        self._used = [*((index,) for index in range(len(links))), *(used for _, used in at_switches)]
        index = {device.name: i for i, device in enumerate(devices)}
        self.ends = [(index[link.src], index[link.dst]) for link in self.links]
        number = {(link.src, link.dst): i for i, link in enumerate(links)}
        self._behind = {
            index[device.name]: number[device.behind] for device in devices if device.behind is not None
        }
        self.leaving: list[list[int]] = [[] for _ in devices]
        self.entering: list[list[int]] = [[] for _ in devices]
        for link, (src, dst) in enumerate(self.ends):
            self.leaving[src].append(link)
            self.entering[dst].append(link)
        self.gpus = [i for kind in RANKS for i, device in enumerate(devices) if device.kind == kind]
        self._rank_of = {gpu: rank for rank, gpu in enumerate(self.gpus)}
        self._exit_of = [self._exited(src, dst) for src, dst in self.ends]
        self._staying = [[link for link in links if self._exit_of[link] is None] for links in self.leaving]
        self._from_rank: dict[int, dict[int, Path]] = {}
        self._from_nic: dict[int, dict[int, Way]] = {}

    def path(self, src_rank: int, dst_rank: int) -> Path | None:
        """The best way past no other GPU; None when there is none."""
        return self.paths_from(src_rank).get(dst_rank)

    def paths_from(self, src_rank: int) -> dict[int, Path]:
        """The best way to each GPU that there is one to."""
        if src_rank not in self._from_rank:
            self._from_rank[src_rank] = self._paths_from(src_rank)
        return self._from_rank[src_rank]

    def host_path(self, src_rank: int, dst_rank: int) -> Path | None:
        """`path`, or the way from the one GPU's NIC to the other's."""
        path = self.path(src_rank, dst_rank)
        src, dst = self.gpus[src_rank], self.gpus[dst_rank]
        if path is not None or self.devices[src].node == self.devices[dst].node:
            return path
        sender, receiver = self._nearest_nic[0].get(src), self._nearest_nic[1].get(dst)
        if sender is None or receiver is None:
            return None
        if sender not in self._from_nic:
            self._from_nic[sender] = self._routes(sender, ("nic",), _BETWEEN_NICS)
        way = self._from_nic[sender].get(receiver)
        return None if way is None else self._path(src_rank, dst_rank, way)

    def _paths_from(self, src_rank: int) -> dict[int, Path]:
        start = self.gpus[src_rank]
        node, switch = self.devices[start].node, self.devices[start].at
        inside = self._routes(start, RANKS, INSIDE_NODE)
        between = self._routes(start, RANKS, BETWEEN_NODES)
        direct = {self.ends[link][1]: (link,) for link in self.leaving[start]}
        found = {}
        reached = sorted(
            (self._rank_of[end], end) for end in {*direct, *inside, *between} if end in self._rank_of
        )
        for rank, gpu in reached:
            routes = inside if self.devices[gpu].node == node != NO_NODE else between
            way = direct.get(gpu, routes.get(gpu))
            if way is None or (switch is not None and self.devices[gpu].at == switch):
                continue
            if gpu in direct or not self._are_servers_of_one_switch(start, gpu):
                found[rank] = self._path(src_rank, rank, way)
        return found

    def _are_servers_of_one_switch(self, one: int, other: int) -> bool:
        """Whether two helpers of no node hang on the same switch: then neither has what the other lacks."""
        if not self.devices[one].kind == self.devices[other].kind == "helper":
            return False
        ends = [{self.ends[link][1] for link in self.leaving[server]} for server in (one, other)]
        return self.devices[one].node == self.devices[other].node == NO_NODE and bool(ends[0] & ends[1])

    def _path(self, src_rank: int, dst_rank: int, way: Way) -> Path:
        ends = (self.gpus[src_rank], self.gpus[dst_rank])
        behind = sorted({self._behind[end] for end in ends if end in self._behind}) if self._behind else []
        links = [self.links[link] for link in (*way, *behind)]
        alpha_us = math.fsum([link.alpha_us for link in links])
        if not behind and max(way) < self._num_own:
            return Path(src_rank, dst_rank, way, alpha_us, max([link.beta_us_per_mb for link in links]))
        every = (*way, *behind)
        used = [(number, self.links[link].beta_us_per_mb) for link in every for number in self._used[link]]
        numbers, betas = zip(*used, strict=True)
        return Path(src_rank, dst_rank, numbers, alpha_us, max(betas), betas)

    def _routes(self, start: int, end_kinds: Kinds, passed: frozenset[DeviceKind]) -> dict[int, Way]:
        """The best way to every reachable device of `end_kinds`, through devices of the kinds `passed`."""
        reach = self._reach(start, end_kinds, passed)
        ends = [end for end in reach.into if end != start and self.devices[end].kind in end_kinds]
        if reach.is_tree:
            return self._ways_down(start, ends, reach)
        routes: dict[int, Way] = {}
        betas = self._least_betas(start, ends, reach)
        of_beta: dict[float, list[int]] = {}
        for end, beta in betas.items():
            of_beta.setdefault(beta, []).append(end)
        for beta, those in of_beta.items():
            leaving = self._leading_to(those, beta, reach)
            last_links = self._last_links(self._least_alphas(start, leaving), leaving)
            for end in those:
                routes[end] = self._walk_back(start, end, last_links)
        return routes

    def _reach(self, start: int, end_kinds: Kinds, passed: frozenset[DeviceKind]) -> _Reach:
        """The links that paths from `start` may use."""
        home, entered = self.devices[start].node, passed.union(end_kinds)
        leaving: dict[int, list[int]] = {}
        into: dict[int, list[int]] = {}
        seen, queue, joined = {start}, [start], set[tuple[int, int]]()
        for device in queue:
            if device != start and self.devices[device].kind not in passed:
                continue
            is_home = self.devices[device].node == home
            for link in (self.leaving if is_home else self._staying)[device]:
                end = self.ends[link][1]
                if self.devices[end].kind in entered:
                    leaving.setdefault(device, []).append(link)
                    into.setdefault(end, []).append(link)
                    joined.add((device, end) if device < end else (end, device))
                    if end not in seen:
                        seen.add(end)
                        queue.append(end)
        return _Reach(leaving, into, len(joined) == len(seen) - 1)

    def _ways_down(self, start: int, ends: Sequence[int], reach: _Reach) -> dict[int, Way]:
        """The one way to each end on a tree, where devices come after those that lead to them."""
        paths: dict[int, Way] = {start: ()}
        for device, links in reach.into.items():
            if device != start:
                paths[device] = (*paths[self.ends[links[0]][0]], links[0])
        return {end: paths[end] for end in ends}

    def _least_betas(self, start: int, ends: Sequence[int], reach: _Reach) -> dict[int, float]:
        """End -> the least largest beta on any way to it."""
        best: dict[int, float] = {}
        queue = [(0.0, start)]
        while queue:
            beta, device = heapq.heappop(queue)
            if device in best:
                continue
            best[device] = beta
            for link in reach.leaving.get(device, ()):
                step = (max(beta, self.links[link].beta_us_per_mb), self.ends[link][1])
                if step[1] not in best:
                    heapq.heappush(queue, step)
        return {end: best[end] for end in ends}

    def _leading_to(self, ends: Sequence[int], beta: float, reach: _Reach) -> dict[int, list[int]]:
        """Device -> the links that leave it, of those no worse than `beta` that lead to some of `ends`."""
        leaving: dict[int, list[int]] = {}
        seen, queue = set(ends), list(ends)
        for device in queue:
            for link in reach.into.get(device, ()):
                if self.links[link].beta_us_per_mb <= beta:
                    before = self.ends[link][0]
                    leaving.setdefault(before, []).append(link)
                    if before not in seen:
                        seen.add(before)
                        queue.append(before)
        return {device: sorted(links) for device, links in leaving.items()}

    def _least_alphas(self, start: int, leaving: Mapping[int, Sequence[int]]) -> dict[int, Distance]:
        """Device -> (alpha in ticks, links) of the best way over these links."""
        best: dict[int, Distance] = {}
        queue: list[tuple[Distance, int]] = [((0, 0), start)]
        while queue:
            (ticks, hops), device = heapq.heappop(queue)
            if device in best:
                continue
            best[device] = (ticks, hops)
            for link in leaving.get(device, ()):
                end = self.ends[link][1]
                if end not in best:
                    heapq.heappush(queue, ((ticks + self._ticks[link], hops + 1), end))
        return best

    def _last_links(
        self, best: Mapping[int, Distance], leaving: Mapping[int, Sequence[int]]
    ) -> dict[int, list[int]]:
        """Device -> the links that a best way to it may end with."""
        last: dict[int, list[int]] = {}
        for device, (ticks, hops) in best.items():
            for link in leaving.get(device, ()):
                end = self.ends[link][1]
                if best.get(end) == (ticks + self._ticks[link], hops + 1):
                    last.setdefault(end, []).append(link)
        return last

    def _walk_back(self, start: int, end: int, last_links: Mapping[int, Sequence[int]]) -> Way:
        way: list[int] = []
        device = end
        while device != start:
            candidates = last_links[device]
            taken = candidates[0] if len(candidates) == 1 else self._taken(candidates, start, end)
            way.append(taken)
            device = self.ends[taken][0]
        return tuple(reversed(way))

    def _taken(self, candidates: Sequence[int], start: int, end: int) -> int:
        """Of links that equally good routes end with, the one for these two ends."""
        one, other = self.devices[start], self.devices[end]
        if self._has_switch_exits and one.node != other.node:
            return candidates[(one.local + other.local) % len(candidates)]
        return min(candidates, key=lambda link: (self._nic_misfit(self.ends[link][0], start, end), link))

    def _exited(self, src: int, dst: int) -> int | None:
        """The node that a link leaves from a NIC or a switch; None for all other links."""
        door, end = self.devices[src], self.devices[dst]
        leads_out = door.kind == "nic" or (door.kind == "switch" and door.node != NO_NODE)
        return door.node if leads_out and end.node != door.node else None

    @cached_property
    def _has_switch_exits(self) -> bool:
        return any(
            node is not None and self.devices[src].kind == "switch"
            for node, (src, _) in zip(self._exit_of, self.ends, strict=True)
        )

    def _nic_misfit(self, device: int, start: int, end: int) -> int:
        """How far a NIC's number is from the one that the GPU on its side prefers; else 0."""
        if self.devices[device].kind != "nic":
            return 0
        gpu = end if self.devices[device].node == self.devices[end].node else start
        return abs(self.devices[device].local - self._preferred_nic(gpu))

    def _preferred_nic(self, gpu: int) -> int:
        node, kind = self.devices[gpu].node, self.devices[gpu].kind
        return self.devices[gpu].local * len(self.nics.get(node, ())) // self._rank_counts[node, kind]

    @cached_property
    def nics(self) -> dict[int, list[int]]:
        """Node -> its NICs."""
        nics: dict[int, list[int]] = {}
        for i, device in enumerate(self.devices):
            if device.kind == "nic":
                nics.setdefault(device.node, []).append(i)
        return nics

    @cached_property
    def _rank_counts(self) -> Counter[tuple[int, DeviceKind]]:
        """Node and kind -> how many GPUs, or helpers, it has."""
        return Counter((self.devices[rank].node, self.devices[rank].kind) for rank in self.gpus)

    @cached_property
    def _ticks(self) -> list[int]:
        return [round(link.alpha_us * _TICKS_PER_US) for link in self.links]

    @cached_property
    def _nearest_nic(self) -> tuple[dict[int, int], dict[int, int]]:
        """GPU -> the NIC it sends through, and the NIC it receives through."""
        nearest: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for gpu in self.gpus:
            nics = self.nics.get(self.devices[gpu].node)
            if nics:
                for sends, found in zip((True, False), nearest, strict=True):
                    hops, preferred = self._hops(gpu, sends), self._preferred_nic(gpu)
                    found[gpu] = min(
                        nics,
                        key=lambda nic: (
                            hops.get(nic, math.inf),
                            abs(self.devices[nic].local - preferred),
                            nic,
                        ),
                    )
        return nearest

    def _hops(self, start: int, forwards: bool) -> dict[int, int]:
        """Links from (or to) `start` to every device of its node, passing anything in the node."""
        hops, queue = {start: 0}, deque([start])
        while queue:
            device = queue.popleft()
            for link in (self.leaving if forwards else self.entering)[device]:
                other = self.ends[link][1 if forwards else 0]
                if other not in hops and self.devices[other].node == self.devices[start].node:
                    hops[other] = hops[device] + 1
                    queue.append(other)
        return hops
