"""Several collectives at once, as a file says them: `parts`, each a standard collective among some ranks.

    collective: step
    ranks: 16
    parts:
      - {name: tensor, collective: allreduce, in_groups: 8, size: 16MB, chunks: 4}
      - {name: data, collective: allreduce, across_groups: 8, size: 64MB, ready: 50}
      - {name: experts, collective: alltoall, members: [0, 1, 8, 9], size: 4MB, after: tensor, weight: 2}

`members` is a list of ranks, or a list of such lists: as many collectives of their own. `in_groups: 8` is the
same for ranks 0 to 7, 8 to 15 and so on, `across_groups: 8` for ranks of the same place in all of these.
`ready` and `tail` are microseconds. `after` names parts that have to end before this one is ready, `weight`
says how much its end counts; both are for those who compare (`taccl synthesize --requests`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.errors import CollectiveError
from taccl.model.collectives import make_collective
from taccl.model.demand import Demand, Part
from taccl.support.size_limits import MAX_PLACES
from taccl.synthesis.collective_places import Places, size_of, time_of
from taccl.topologies.strict_yaml import Node

#: No part counts more, next to another.
_MOST_WEIGHT = 1e6


@dataclass(frozen=True, eq=False)
class RequestedPart:
    """One entry of `parts`.

    Parameters
    ----------
    groups : the collective among each of the groups of ranks.
    size_bytes : of each group, as nccl-tests counts it.
    ready_us : when its inputs are there, counted from the end of the last of `after`.
    after : the places of the entries that have to end before.
    weight : how much its end counts.
    """

    name: str
    collective: str
    groups: tuple[Part, ...]
    size_bytes: int
    ready_us: float
    after: tuple[int, ...]
    weight: float

    @property
    def num_chunks(self) -> int:
        """Of all groups."""
        return sum(part.demand.collective.num_chunks for part in self.groups)


def parts_alone(node: Node, ranks: int, pieces: int) -> list[Part]:
    """The parts of a file for who plans them as one collective.

    Raises
    ------
    CollectiveError : with the line that is wrong; a part that waits for another one.
    """
    requested = requested_parts(node, ranks, pieces)
    for each, part in zip(node.elements(), requested, strict=True):
        if part.after:
            raise each.error(f"{part.name} waits for another part", hint="taccl synthesize --requests FILE")
    return [group for part in requested for group in part.groups]


def requested_parts(node: Node, ranks: int, pieces: int) -> list[RequestedPart]:
    """All entries of `parts`, in the order of the file.

    Raises
    ------
    CollectiveError : with the line that is wrong; parts that wait for each other.
    """
    nodes = node.elements()
    if not nodes:
        raise node.error("a collective has at least one part")
    keys = [
        each.mapping(
            allowed=(
                *("name", "collective", "members", "in_groups", "across_groups", "size", "chunks", "root"),
                *("ready", "tail", "after", "weight"),
            ),
            required=("collective", "size"),
        )
        for each in nodes
    ]
    place_of: dict[str, int] = {}
    for place, each in enumerate(keys):
        name = each["name"].string() if "name" in each else f"part {place}"
        if name in place_of:
            raise each["name"].error(f"two parts are named {name!r}")
        place_of[name] = place
    after = [_after(each.get("after"), place_of) for each in keys]
    _check_no_cycle(nodes, list(place_of), after)
    return [_requested(*each, ranks, pieces) for each in zip(nodes, place_of, keys, after, strict=True)]


def _requested(
    node: Node, name: str, keys: Mapping[str, Node], after: tuple[int, ...], ranks: int, pieces: int
) -> RequestedPart:
    size_bytes = size_of(keys["size"])
    ready_us, tail_us = (time_of(keys[each]) if each in keys else 0.0 for each in ("ready", "tail"))
    cut = pieces * (keys["chunks"].integer(1, MAX_PLACES) if "chunks" in keys else 1)
    groups = []
    for members in _members(node, keys, ranks):
        try:
            root = _root(node, keys, members, ranks)
            collective = make_collective(keys["collective"].string(), len(members), cut, root)
        except CollectiveError as error:
            raise (error if error.line else keys["collective"].error(str(error), hint=error.hint)) from error
        demand = Demand(
            collective,
            ready_us=np.full(len(collective.inputs), ready_us),
            tail_us=np.full(len(collective.outputs), tail_us),
            chunk_bytes=size_bytes / collective.chunks_per_size,
        )
        groups.append(Part(demand, np.array(members, dtype=np.int64)))
    weight = keys["weight"].number(above=0, maximum=_MOST_WEIGHT) if "weight" in keys else 1.0
    what = keys["collective"].string()
    return RequestedPart(name, what, tuple(groups), size_bytes, ready_us, after, weight)


def _root(node: Node, keys: Mapping[str, Node], members: list[int], ranks: int) -> int | None:
    if "root" not in keys:
        return None
    root = keys["root"].integer(0, ranks - 1)
    if root not in members:
        raise keys["root"].error(f"root {root} is no member of {node.name}")
    return members.index(root)


def _members(node: Node, keys: Mapping[str, Node], ranks: int) -> list[list[int]]:
    """The ranks of each group."""
    given = [key for key in ("members", "in_groups", "across_groups") if key in keys]
    if len(given) > 1:
        raise keys[given[1]].error(f"{node.name} has {given[0]!r} and {given[1]!r}", hint="leave one out")
    if not given:
        return [list(range(ranks))]
    said = keys[given[0]]
    if given[0] != "members":
        many = said.integer(1, ranks)
        if ranks % many:
            raise said.error(f"{ranks} ranks are no groups of {many}", hint="members: [[0, 1, 2], [3, 4]]")
        groups = np.arange(ranks).reshape(-1, many)
        made: list[list[int]] = (groups if given[0] == "in_groups" else groups.T).tolist()
        return made
    if said.kind == "list" and any(each.kind == "list" for each in said.elements()):
        return [list(Places.read(each, ranks).offsets) for each in said.elements()]
    return [list(Places.read(said, ranks).offsets)]


def _after(node: Node | None, place_of: Mapping[str, int]) -> tuple[int, ...]:
    """The places of the parts that are named."""
    if node is None:
        return ()
    named = node.elements() if node.kind == "list" else (node,)
    for each in named:
        if each.string() not in place_of:
            raise each.error(f"no part is named {each.raw!r}", hint="one of " + ", ".join(place_of))
    return tuple(place_of[each.string()] for each in named)


def _check_no_cycle(nodes: Sequence[Node], names: Sequence[str], after: Sequence[tuple[int, ...]]) -> None:
    """Raise for parts of which each waits for the next, and the last for the first."""
    left = set(range(len(after)))
    while free := {part for part in left if left.isdisjoint(after[part])}:
        left -= free
    if left:
        first = min(left)
        waiting = ", ".join(names[part] for part in sorted(left))
        raise nodes[first].error(f"these wait for each other, so none is ever ready: {waiting}")
