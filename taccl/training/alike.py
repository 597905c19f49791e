"""Allocations that look alike: the machine that is left of one is isomorphic to that of the other.

Devices are coloured by what they are, and then again and again by the colours of their neighbours and the
costs of the links to them (colour refinement: Weisfeiler and Leman). Of machines that are trees, equal
colours prove an isomorphism; that a link leaves its node is part of its cost, and says which devices are of
one node where those are linked. Of other machines an isomorphism is built: a device of a colour that several
have is singled out in both, colours are refined again, and so on until each colour is of one device; then
links are compared one by one. Where that fails, the two allocations count as different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from taccl.model.collective import BoolArray, IntArray
from taccl.topologies import PhysicalTopology
from taccl.topologies.devices import NO_NODE

_Colours = NDArray[np.uint64]
_ODD, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


def _mixed(values: _Colours) -> _Colours:
    """Numbers that look random, equal ones for equal ones (the finalizer of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


@dataclass(eq=False)
class Alike:
    """Tells which allocations of one machine look alike.

    Parameters
    ----------
    machine : without helpers.
    """

    machine: PhysicalTopology
    _classes: dict[bytes, list[tuple[int, ...]]] = field(default_factory=dict)
    _known: dict[tuple[tuple[int, tuple[int, ...]], ...], tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        devices, links = self.machine.devices, self.machine.links
        index = {device.name: place for place, device in enumerate(devices)}
        node_of = {device.name: device.node for device in devices}
        nodes = sorted({*node_of.values()} - {NO_NODE})
        self._is_forest = _is_forest(self.machine)
        vertex = {node: len(devices) + place for place, node in enumerate(nodes)}
        members = [(index[each.name], vertex[each.node]) for each in devices if each.node != NO_NODE]
        of_link = [
            (link.alpha_us, link.beta_us_per_mb, node_of[link.src] == node_of[link.dst]) for link in links
        ]
        costs = {cost: place + 2 for place, cost in enumerate(sorted(set(of_link)))}
        ends = [
            (index[link.src], index[link.dst], costs[cost]) for link, cost in zip(links, of_link, strict=True)
        ]
        ends += [(device, node, 0) for device, node in members]
        ends += [(node, device, 1) for device, node in members]
        self._src, self._dst, cost = (np.array(each, dtype=np.int64) for each in zip(*ends, strict=True))
        self._cost = cost
        self._mixed_cost = _mixed(cost.astype(np.uint64) * _ODD + np.uint64(1))
        kinds = sorted({each.kind for each in devices})
        of = [kinds.index(each.kind) + 1 for each in devices] + [0] * len(nodes)
        self._kind = _mixed(np.array(of, dtype=np.uint64) * _OTHER)
        self._node_of = np.array([vertex.get(each.node, -1) for each in devices], dtype=np.int64)
        self._gpu = np.array([index[gpu.name] for gpu in self.machine.gpus], dtype=np.int64)
        self._is_gpu = np.zeros(len(self._kind), dtype=np.bool_)
        self._is_gpu[self._gpu] = True

    def representative(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """The first allocation seen that looks like this one; itself, where none does."""
        ordered = tuple(sorted(ranks))
        key = self._up_to_equal_nodes(ordered)
        if key not in self._known:
            self._known[key] = self._first_alike(ordered)
        return self._known[key]

    def _first_alike(self, ordered: tuple[int, ...]) -> tuple[int, ...]:
        kept = self._kept(ordered)
        colours = self._refined(kept, self._kind.copy())
        known = self._classes.setdefault(np.sort(colours[kept]).tobytes(), [])
        for other in known:
            if self._is_forest or self._isomorphic(ordered, other):
                return other
        known.append(ordered)
        return ordered

    def _up_to_equal_nodes(self, ranks: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """What is chosen of each node, which of equal nodes it is left out."""
        chosen: dict[int, list[int]] = {}
        for rank in ranks:
            gpu = self.machine.gpus[rank]
            chosen.setdefault(gpu.node, []).append(gpu.local)
        return tuple(sorted((self._equal_to[node], tuple(of)) for node, of in chosen.items()))

    @cached_property
    def _equal_to(self) -> dict[int, int]:
        """For each node the first that can change places with it, while all else stays where it is."""
        of_node: dict[int, list[int]] = {}
        for index, device in enumerate(self.machine.devices):
            if device.node != NO_NODE:
                of_node.setdefault(device.node, []).append(index)
        first: dict[int, int] = {}
        every = np.ones(len(self._kind), dtype=np.bool_)
        every[len(self.machine.devices) :] = False  # nodes themselves: their devices move together
        own = np.flatnonzero(every)
        for node, devices in of_node.items():
            for other in dict.fromkeys(first.values()):
                if len(of_node[other]) == len(devices):
                    swapped = own.copy()
                    swapped[devices], swapped[of_node[other]] = of_node[other], devices
                    if self._maps((every, every), own, swapped):
                        first[node] = other
                        break
            first.setdefault(node, node)
        return first

    def _kept(self, ranks: tuple[int, ...]) -> BoolArray:
        """What is left of the machine: as `select` has it."""
        kept = np.zeros(len(self._kind), dtype=np.bool_)
        chosen = self._gpu[list(ranks)]
        kept[self._node_of[chosen]] = True
        devices = self._node_of
        kept[: len(devices)] = np.where(devices >= 0, kept[devices], True) & ~self._is_gpu[: len(devices)]
        kept[chosen] = True
        return kept

    def _refined(self, kept: BoolArray, colours: _Colours) -> _Colours:
        used = kept[self._src] & kept[self._dst]
        src, dst, cost = self._src[used], self._dst[used], self._mixed_cost[used]
        many = 0
        while (now := len(np.unique(colours[kept]))) > many:
            many = now
            out, into = np.zeros_like(colours), np.zeros_like(colours)
            np.add.at(out, src, _mixed(colours[dst] * _ODD + cost))
            np.add.at(into, dst, _mixed(colours[src] * _OTHER + cost))
            colours = _mixed(colours * _ODD + out + into * _OTHER)
        return colours

    def _isomorphic(self, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        """Whether an isomorphism was built from what is left of one allocation to that of the other."""
        kept = self._kept(one), self._kept(other)
        colours = [self._refined(each, self._kind.copy()) for each in kept]
        for turn in range(int(kept[0].sum())):
            places = [np.flatnonzero(each) for each in kept]
            sorted_places = [
                place[np.argsort(colour[place], kind="stable")]
                for place, colour in zip(places, colours, strict=True)
            ]
            ranked = [colour[place] for colour, place in zip(colours, sorted_places, strict=True)]
            if not np.array_equal(ranked[0], ranked[1]):
                return False
            twins = np.flatnonzero(ranked[0][1:] == ranked[0][:-1])
            if not len(twins):
                return self._maps(kept, sorted_places[0], sorted_places[1])
            for side in (0, 1):
                colours[side][sorted_places[side][twins[0]]] ^= _mixed(np.array([turn + 1], np.uint64))[0]
                colours[side] = self._refined(kept[side], colours[side])
        return False

    def _maps(self, kept: tuple[BoolArray, BoolArray], one: IntArray, other: IntArray) -> bool:
        """Whether devices in these orders have the same links."""
        rows = []
        for has, order in zip(kept, (one, other), strict=True):
            number = np.full(len(has), -1, dtype=np.int64)
            number[order] = np.arange(len(order))
            used = has[self._src] & has[self._dst]
            columns = np.stack([number[self._src[used]], number[self._dst[used]], self._cost[used]])
            rows.append(columns[:, np.lexsort(columns)])
        return np.array_equal(rows[0], rows[1]) and np.array_equal(self._kind[one], self._kind[other])


def _is_forest(machine: PhysicalTopology) -> bool:
    """Whether links close no circle, and each node stays in one piece whichever GPUs are left out."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(device.name for device in machine.devices)
    graph.add_edges_from((link.src, link.dst) for link in machine.links)
    if not nx.is_forest(graph):
        return False
    node_of = {device.name: device.node for device in machine.devices}
    for gpu in machine.gpus:
        inside = [each for each in graph[gpu.name] if node_of[each] == gpu.node]
        if len(inside) != 1:  # a GPU in the middle, or one that only the fabric joins to its node
            return False
    of_node: dict[int, list[str]] = {}
    for device in machine.devices:
        if device.kind != "gpu" and device.node != NO_NODE:
            of_node.setdefault(device.node, []).append(device.name)
    return all(nx.is_connected(graph.subgraph(names)) for names in of_node.values())
