"""Equivalent allocations: the machine that is left of one is isomorphic to that of the other.

Devices are coloured by what they are, and then again and again by the colours of their neighbours and the
costs of the links to them (colour refinement: Weisfeiler and Leman). Of machines that are trees, equal
colours prove an isomorphism; that a link leaves its node is part of its cost, and says which devices are of
one node where those are linked. Of other machines an isomorphism is built: a device of a colour that several
have is singled out, colours are refined again, and so on until each colour is of one device; then links are
compared one by one, in the order of colours. Where they differ, two allocations count as different.

Before that, nodes and GPUs that can change places with all else where it is stand for each other: on nodes
with a switch for all GPUs, allocations differ by how many GPUs they have of which node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

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
class Isomorphisms:
    """Tells which allocations of one machine are equivalent.

    Parameters
    ----------
    machine : without helpers.
    """

    machine: PhysicalTopology
    _classes: dict[bytes, tuple[int, ...]] = field(default_factory=dict)
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
        part, kind = self._part(kept), self._kind[kept]
        looks = np.sort(part.refined(kind)).tobytes() if self._is_forest else part.looks(kind)
        return self._classes.setdefault(looks, ordered)

    def _up_to_equal_nodes(self, ranks: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """What is chosen of each node, which of equal nodes and of equal GPUs of a node it is left out."""
        chosen: dict[int, list[int]] = {}
        for rank in ranks:
            node, place = self._place_of[rank]
            chosen.setdefault(node, []).append(self._equal_gpu[self._equal_to[node], place])
        return tuple(sorted((self._equal_to[node], tuple(sorted(of))) for node, of in chosen.items()))

    @cached_property
    def _equal_gpu(self) -> dict[tuple[int, int], int]:
        """For each GPU, by node and place in it, the first of the node that can change places with it, while
        all other GPUs stay where they are; of nodes that are equal to no other before them.
        """
        of_node: dict[int, list[int]] = {}
        for rank, (node, _) in enumerate(self._place_of):
            if self._equal_to[node] == node:
                of_node.setdefault(node, []).append(rank)
        first: dict[tuple[int, int], int] = {}
        for ranks in of_node.values():
            known: list[int] = []
            for rank in ranks:
                other = next((each for each in known if self._may_swap(rank, each)), rank)
                if other == rank:
                    known.append(rank)
                first[self._place_of[rank]] = self._place_of[other][1]
        return first

    @cached_property
    def _place_of(self) -> list[tuple[int, int]]:
        """The node of each GPU, and how many GPUs of the node stand before it."""
        before: Counter[int] = Counter()
        places = []
        for gpu in self.machine.gpus:
            places.append((gpu.node, before[gpu.node]))
            before[gpu.node] += 1
        return places

    def _may_swap(self, one: int, other: int) -> bool:
        """Whether an isomorphism of the whole machine exchanges two GPUs and leaves all others in place."""
        marks = np.zeros((2, len(self._kind)), dtype=np.uint64)
        marks[:, self._gpu] = np.arange(1, len(self._gpu) + 1)
        swapped = self._gpu[[one, other]]
        marks[1, swapped] = marks[1, swapped[::-1]]
        whole = self._part(np.ones(len(self._kind), dtype=np.bool_))
        one_looks, other_looks = (whole.looks(_mixed(each) ^ self._kind) for each in marks)
        return one_looks == other_looks

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
        whole, own = self._part(every), np.flatnonzero(every)
        kind, links = self._kind[every], whole.in_order(own)
        for node, devices in of_node.items():
            for other in dict.fromkeys(first.values()):
                if len(of_node[other]) == len(devices):
                    swapped = own.copy()
                    swapped[devices], swapped[of_node[other]] = of_node[other], devices
                    if np.array_equal(kind, kind[swapped]) and np.array_equal(links, whole.in_order(swapped)):
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

    def _part(self, kept: BoolArray) -> _Part:
        """What is left of the machine, with its devices numbered anew."""
        number = np.cumsum(kept) - 1
        used = kept[self._src] & kept[self._dst]
        src, dst = number[self._src[used]], number[self._dst[used]]
        return _Part(src, dst, self._cost[used], self._mixed_cost[used])


class _Part(NamedTuple):
    """A part of a machine: links by the numbers of their devices, and what they cost."""

    src: IntArray
    dst: IntArray
    cost: IntArray
    mixed_cost: _Colours

    def refined(self, colours: _Colours) -> _Colours:
        """Colours that also say what is linked to a device, and to that, and so on."""
        many = 0
        while (now := _how_many(colours)) > many:
            many = now
            out, into = np.zeros_like(colours), np.zeros_like(colours)
            np.add.at(out, self.src, _mixed(colours[self.dst] * _ODD + self.mixed_cost))
            np.add.at(into, self.dst, _mixed(colours[self.src] * _OTHER + self.mixed_cost))
            colours = _mixed(colours * _ODD + out + into * _OTHER)
        return colours

    def looks(self, kind: _Colours) -> bytes:
        """Kinds of devices and links in an order of the devices by what they look like: where two parts have
        the same, the devices at one place of both are an isomorphism.

        Devices of one colour are singled out one after another. Where it matters which of them comes first,
        two parts may be isomorphic all the same.
        """
        colours = self.refined(kind)
        for turn in range(1, len(colours) + 1):
            order = np.argsort(colours, kind="stable")
            ranked = colours[order]
            twins = np.flatnonzero(ranked[1:] == ranked[:-1])
            if not len(twins):
                break
            colours[order[twins[0]]] ^= _mixed(np.array([turn], np.uint64))[0]
            colours = self.refined(colours)
        return kind[order].tobytes() + self.in_order(order).tobytes()

    def in_order(self, order: IntArray) -> IntArray:
        """The links with devices numbered in this order, sorted."""
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        columns = np.stack([number[self.src], number[self.dst], self.cost])
        return columns[:, np.lexsort(columns)]


def _how_many(colours: _Colours) -> int:
    ordered = np.sort(colours)
    return int((ordered[1:] != ordered[:-1]).sum()) + 1


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
