"""Nodes whose switches sum and copy: what each switch sums goes from node to node along a rail.

A *rail* is the ranks that have one place in their nodes. The ranks of a node send a chunk to the sum of
their switch, which one of them gets, the one on the chunk's rail. These send theirs to the owner, all at once
or each to the next, and the total comes back the same way. Owners are in all nodes and on all rails, so all
NICs carry the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from taccl.encoding.engines.in_switch.hops import (
    Chunk,
    Ends,
    Step,
    Way,
    as_way,
    chunks_of,
    helpers_of,
    nodes_of,
)
from taccl.encoding.instance import Instance

#: The heads of a rail, its owner last -> from where to where their sums go, step by step.
_Across = Callable[[Sequence[int]], list[list[Ends]]]


@dataclass(frozen=True)
class _Node:
    """The ranks of a node by their places, and the helpers that sum and copy for them, if any."""

    ranks: Sequence[int]
    at_sum: int | None
    at_copy: int | None


def along_rails(instance: Instance) -> Iterator[Way]:
    """Nothing for one node, for unequal ones, or where a switch cannot do what a chunk needs."""
    topology = instance.problem.topology
    places = nodes_of(topology)
    helpers = [] if places is None else [helpers_of(topology, ranks) for ranks in places.tolist()]
    if places is None or None in helpers:
        return
    nodes = [_Node(ranks, *found) for ranks, found in zip(places.tolist(), helpers, strict=True) if found]
    home = {
        rank: (number, place) for number, node in enumerate(nodes) for place, rank in enumerate(node.ranks)
    }
    chunks = list(chunks_of(instance))
    variants: list[tuple[str, _Across]] = [("NVLS along rails", _direct)]
    if len(nodes) > 2:
        variants.append(("NVLS along rails, ring", _ring))
    for name, across in variants:
        planned = []
        for chunk in chunks:
            number, place = home[chunk.owner]
            planned.append(
                (chunk, _steps(chunk, (*nodes[number + 1 :], *nodes[: number + 1]), place, across))
            )
        yield from as_way(instance, name, planned, 1)


def _direct(heads: Sequence[int]) -> list[list[Ends]]:
    """Each sends to the owner."""
    return [[(head, heads[-1]) for head in heads[:-1]]]


def _ring(heads: Sequence[int]) -> list[list[Ends]]:
    """Each adds to what the one before it sends."""
    return [[ends] for ends in pairwise(heads)]


def _steps(chunk: Chunk, nodes: Sequence[_Node], place: int, across: _Across) -> list[Step]:
    """To the owner, in the last node, and from it; nothing where a helper is missing."""
    up = _up(chunk, nodes, place, across) if chunk.is_sum else []
    down = _down(chunk, nodes, place, across)
    return [] if up is None or down is None else [step for step in (*up, *down) if step[1]]


def _up(chunk: Chunk, nodes: Sequence[_Node], place: int, across: _Across) -> list[Step] | None:
    """All but the rank on the rail send to their switch's sum, which it adds to its own and passes on."""
    if len(chunk.held) < sum(len(node.ranks) for node in nodes):
        return None
    to_sum, summed = list[Ends](), list[Ends]()
    for node in nodes:
        if node.at_sum is None:
            return None
        head = node.ranks[place]
        to_sum += [(rank, node.at_sum) for rank in node.ranks if rank != head]
        summed.append((node.at_sum, head))
    passed = across([node.ranks[place] for node in nodes])
    return [(True, to_sum), (True, summed), *((True, moves) for moves in passed)]


def _down(chunk: Chunk, nodes: Sequence[_Node], place: int, across: _Across) -> list[Step] | None:
    """From the owner along the rail, and the rank of each node there multicasts it."""
    wanting = set(chunk.goals) - {chunk.owner}
    heads, to_copy, copied = [chunk.owner], list[Ends](), list[Ends]()
    for node in nodes:
        head, others = node.ranks[place], [rank for rank in node.ranks if rank in wanting]
        if others and head != chunk.owner:
            heads.append(head)
        others = [rank for rank in others if rank != head]
        if others and node.at_copy is None:
            return None
        if others and node.at_copy is not None:
            to_copy.append((head, node.at_copy))
            copied += [(node.at_copy, rank) for rank in others]
    # Read backwards, what goes to the owner comes from it.
    passed = [[(dst, src) for src, dst in moves] for moves in reversed(across(heads[::-1]))]
    return [*((False, moves) for moves in passed), (False, to_copy), (False, copied)]
