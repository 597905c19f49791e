"""Automorphisms: permutations of the ranks that leave the machine as it was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from taccl.topologies.devices import NO_NODE
from taccl.topologies.model import PhysicalTopology

if TYPE_CHECKING:
    import networkx as nx

Permutation = tuple[int, ...]


def automorphisms(topology: PhysicalTopology, limit: int = 100) -> tuple[Permutation, ...]:
    """Up to `limit` permutations p of the ranks such that moving every rank r to p[r] changes nothing.

    Devices keep their kind, links their cost, and devices of one node stay together. The identity
    is always among them. They are found by VF2 (Cordella and others, 2004, as networkx has it),
    in no particular order; for large machines that are almost but not quite regular this can take long.
    """
    return tuple(islice(_distinct(topology), limit))


def kinds_of_devices(topology: PhysicalTopology) -> dict[str, object]:
    """A colour for each device, by name: those of one colour have the same links at every distance.

    What an automorphism moves onto each other has one colour; the other way round, almost always.
    """
    graph = _coloured(topology)
    return {device.name: graph.nodes[device.name]["colour"] for device in topology.devices}


def _distinct(topology: PhysicalTopology) -> Iterator[Permutation]:
    from networkx.algorithms.isomorphism import DiGraphMatcher  # takes long, and few calls need it

    graph = _coloured(topology)
    identity = tuple(range(topology.num_ranks))
    yield identity
    seen = {identity}
    matcher = DiGraphMatcher(graph, graph, node_match=_same, edge_match=_same)
    for mapping in matcher.isomorphisms_iter():
        permutation = tuple(topology.rank_of[mapping[gpu.name]] for gpu in topology.gpus)
        if permutation not in seen:
            seen.add(permutation)
            yield permutation


def _same(one: dict[str, object], other: dict[str, object]) -> bool:
    return one == other


def _coloured(topology: PhysicalTopology) -> nx.DiGraph[str]:
    """The machine with each device's kind, each link's cost, and one more vertex for each node.

    Colours are refined (each vertex by its neighbours, Weisfeiler and Leman's way) so that the search
    meets few dead ends.
    """
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    for device in topology.devices:
        graph.add_node(
            device.name,
            colour=(device.kind, device.may_sum, device.may_copy, device.loops_back, device.memory_mb),
        )
        if device.at is not None:
            graph.add_edge(device.name, device.at, cost=(device.alpha_us, device.beta_us_per_mb))
    for link in topology.links:
        graph.add_edge(link.src, link.dst, cost=(link.alpha_us, link.beta_us_per_mb))
    for device in topology.devices:
        if device.node != NO_NODE:
            graph.add_node(f"node {device.node}", colour="node")
            graph.add_edge(f"node {device.node}", device.name, cost=None)
    colours: dict[str, object] = {vertex: data["colour"] for vertex, data in graph.nodes(data=True)}
    for _ in range(len(graph)):
        signatures = {vertex: _signature(graph, vertex, colours) for vertex in graph}
        number = {signature: i for i, signature in enumerate(dict.fromkeys(signatures.values()))}
        refined: dict[str, object] = {vertex: number[signatures[vertex]] for vertex in graph}
        if len(set(refined.values())) == len(set(colours.values())):
            break
        colours = refined
    ordered: nx.DiGraph[str] = nx.DiGraph()
    ordered.add_nodes_from((vertex, {"colour": colours[vertex]}) for vertex in _search_order(graph))
    ordered.add_edges_from(graph.edges(data=True))
    return ordered


def _search_order(graph: nx.DiGraph[str]) -> list[str]:
    """The vertices so that each is as close as can be to those before it.

    VF2 maps them in this order. A neighbour with few links pins a vertex down more than one with
    many, so a GPU comes right after the GPU that it shares a NIC with.
    """
    neighbours = {vertex: {*graph.predecessors(vertex), *graph.successors(vertex)} for vertex in graph}
    closeness = dict.fromkeys(graph, 0.0)
    order = []
    while closeness:
        vertex = max(closeness, key=closeness.__getitem__)
        del closeness[vertex]
        order.append(vertex)
        for other in neighbours[vertex] & closeness.keys():
            closeness[other] += 1.0 / len(neighbours[vertex])
    return order


def _signature(graph: nx.DiGraph[str], vertex: str, colours: dict[str, object]) -> object:
    into = sorted(repr((colours[u], graph.edges[u, vertex]["cost"])) for u in graph.predecessors(vertex))
    out = sorted(repr((colours[v], graph.edges[vertex, v]["cost"])) for v in graph.successors(vertex))
    return colours[vertex], tuple(into), tuple(out)
