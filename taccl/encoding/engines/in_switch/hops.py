"""What each chunk does on its way through a switch: by the ranks themselves, or by one rank of each node.

Every rank has a *door*, by which its data reaches the switch: itself, as with NVLS, or a rank of its node, as
with CollNet. What the ranks of a node hold is summed up at their door, and copied from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest

import numpy as np

from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray, Placement
from taccl.model.network import LogicalTopology

Ends = tuple[int, int]
#: Whether sums go there, and from where to where, at one step.
Step = tuple[bool, list[Ends]]


@dataclass(frozen=True)
class Hop:
    """A chunk over a link, at a step of the algorithm."""

    chunk: int
    link: int
    reduce: bool


@dataclass(frozen=True)
class Way:
    """How all chunks of a problem go through a switch.

    Parameters
    ----------
    name : of the algorithm.
    planned : the number of each chunk, in the order of their turns, and its steps.
    turn_of : for each of these how many chunks of its owner come before it.
    links : the link between two ranks.
    doors : this many chunks after another have doors of their own.
    """

    name: str
    planned: Sequence[tuple[int, Sequence[Step]]]
    turn_of: Sequence[int]
    links: Mapping[Ends, int]
    doors: int

    @cached_property
    def chunks(self) -> Sequence[Sequence[Sequence[Hop]]]:
        """For each chunk, in the order of their turns, its hops at each step."""
        links = self.links
        return [
            [[Hop(number, links[ends], reduce) for ends in moves] for reduce, moves in steps]
            for number, steps in self.planned
        ]

    @property
    def steps(self) -> int:
        return max(map(len, self.chunks))

    @property
    def turns(self) -> int:
        """The most chunks of one owner."""
        return self.turn_of[-1] + 1


#: Some ranks of a node, and their door -> from where to where they sum up there, step by step.
_Inside = Callable[[Sequence[int], int], list[list[Ends]]]


@dataclass(frozen=True)
class _Team:
    """The door of each rank, and the helpers that sum and that copy for all doors; None: there is none."""

    door: Sequence[int]
    at_sum: int | None
    at_copy: int | None


@dataclass(frozen=True)
class Chunk:
    """Who holds a chunk or contributes to it, who wants it, and the rank at whose door it is whole."""

    held: Sequence[int]
    goals: Sequence[int]
    is_sum: bool
    owner: int


def through_one(instance: Instance) -> Iterator[Way]:
    """Through a switch that all ranks reach, or one rank of each node."""
    topology, collective = instance.problem.topology, instance.problem.collective
    members, nodes = np.arange(topology.num_members), nodes_of(topology)
    itself = "NVLS" if topology.num_nodes == 1 else "CollNet" + " by each rank" * (nodes is not None)
    yield from _through(instance, itself, _teams(topology, [members]), _direct)
    if nodes is not None:
        place_of = np.argsort(nodes.ravel())
        teams = _teams(topology, [np.repeat(doors, nodes.shape[1])[place_of] for doors in nodes.T])
        yield from _through(instance, "CollNet direct", teams, _direct)
        if collective.reduces.all() and len(collective.outputs.rank) == collective.num_chunks * len(members):
            yield from _through(instance, "CollNet chain", teams, _chain)


def nodes_of(topology: LogicalTopology) -> IntArray | None:
    """Nodes on axis 0, the ranks of each that hold data on axis 1; None: one, or unequal, or of one."""
    node_of = topology.node_of[: topology.num_members]
    counts = np.unique(node_of, return_counts=True)[1]
    if len(counts) < 2 or counts[0] == 1 or (counts != counts[0]).any():
        return None
    return np.argsort(node_of, kind="stable").reshape(len(counts), -1)


def helpers_of(topology: LogicalTopology, ranks: Sequence[int]) -> tuple[int | None, int | None] | None:
    """Of the helpers with links to and from all of these ranks, one that sums and one that copies."""
    index, may_sum, may_copy = topology.link_index, topology.may_sum, topology.may_copy
    reaching = [
        helper
        for helper in range(topology.num_members, topology.num_ranks)
        if all((rank, helper) in index and (helper, rank) in index for rank in ranks)
    ]
    if not reaching:
        return None
    at_sum = next((each for each in reaching if may_sum is None or may_sum[each]), None)
    return at_sum, next((each for each in reaching if may_copy is None or may_copy[each]), None)


def _teams(topology: LogicalTopology, every: Iterable[IntArray]) -> list[_Team]:
    """Those doors that a helper which sums or copies has links with, in both directions."""
    doors = [door.tolist() for door in every]
    helpers = [helpers_of(topology, sorted(set(door))) for door in doors]
    return [_Team(door, *found) for door, found in zip(doors, helpers, strict=True) if found is not None]


def _through(instance: Instance, name: str, teams: Sequence[_Team], inside: _Inside) -> Iterator[Way]:
    """Nothing where a chunk is neither summed nor copied at a switch, or lacks a link."""
    turns, planned = Counter[int](), list[tuple[Chunk, list[Step]]]()
    for chunk in chunks_of(instance) if teams else ():
        turn = turns[chunk.owner]
        turns[chunk.owner] += 1
        at_home = [team for team in teams if team.door[chunk.owner] == chunk.owner]
        team = at_home[0] if at_home else teams[(turn + chunk.owner) % len(teams)]
        planned.append((chunk, _steps(chunk, team, inside)))
    yield from as_way(instance, name, planned, len(teams))


def as_way(
    instance: Instance, name: str, planned: Iterable[tuple[Chunk, list[Step]]], doors: int
) -> Iterator[Way]:
    """All chunks, those of different owners in turn; nothing where one has no steps, or lacks a link."""
    index, turns = instance.problem.topology.link_index, Counter[int]()
    found = list[tuple[int, int, int, list[Step]]]()
    for number, (chunk, steps) in enumerate(planned):
        if not steps or any(ends not in index for _, moves in steps for ends in moves):
            return
        found.append((turns[chunk.owner], chunk.owner, number, steps))
        turns[chunk.owner] += 1
    if found:
        found.sort()
        in_turn = [(number, steps) for _, _, number, steps in found]
        yield Way(name, in_turn, [turn for turn, *_ in found], index, doors)


def chunks_of(instance: Instance) -> Iterator[Chunk]:
    """The chunks of a problem, in their order."""
    collective = instance.problem.collective
    sources = _ranks_of(collective.inputs, collective.num_chunks)
    wanted = _ranks_of(collective.outputs, collective.num_chunks)
    for chunk, (held, goals) in enumerate(zip(sources, wanted, strict=True)):
        is_sum = bool(collective.reduces[chunk]) and len(held) > 1
        owner = (int(collective.owner[chunk]) if len(goals) > 1 else goals[0]) if is_sum else held[0]
        yield Chunk(held, goals, is_sum, owner)


def _ranks_of(placement: Placement, num_chunks: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(num_chunks)]
    for chunk, rank in zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True):
        found[chunk].append(rank)
    return found


def _steps(chunk: Chunk, team: _Team, inside: _Inside) -> list[Step]:
    """To the doors, through the switch, and from the doors; nothing where the switch is of no use."""
    home = team.door[chunk.owner]
    across = _across(chunk, team, home)
    if not across:
        return []
    has = set[int]() if chunk.is_sum else {chunk.owner}
    first = _inside_nodes(chunk.held, team, inside) if chunk.is_sum else [[(chunk.owner, home)]]
    last = _inside_nodes([rank for rank in chunk.goals if rank not in has], team, inside)
    up = [(chunk.is_sum, [ends for ends in moves if ends[0] != ends[1]]) for moves in first]
    down = [(False, [(dst, src) for src, dst in moves]) for moves in reversed(last)]
    return [step for step in (*up, *across, *down) if step[1]]


def _across(chunk: Chunk, team: _Team, home: int) -> list[Step]:
    """Between the doors: all but the owner's send to the sum, which it gets, adds to its own and multicasts.

    A helper that does both has the total at once.
    """
    heads = {team.door[rank] for rank in chunk.held} if chunk.is_sum else {home}
    wanting = {team.door[rank] for rank in chunk.goals}
    at_sum, at_copy = team.at_sum, team.at_copy
    if at_sum is not None and at_sum == at_copy and len(heads) > 1 and len(wanting) > 1:
        return [
            (True, [(door, at_sum) for door in sorted(heads)]),
            (False, [(at_sum, door) for door in sorted(wanting)]),
        ]
    givers, takers = sorted(heads - {home}), sorted(wanting - {home})
    if len(takers) == 1 or not (givers or takers):  # nothing is summed or copied
        return []
    steps = list[Step]()
    if givers:
        if at_sum is None:
            return []
        steps += [(True, [(door, at_sum) for door in givers]), (True, [(at_sum, home)])]
    if takers:
        if at_copy is None:
            return []
        steps += [(False, [(home, at_copy)]), (False, [(at_copy, door) for door in takers])]
    return steps


def _inside_nodes(ranks: Sequence[int], team: _Team, inside: _Inside) -> list[list[Ends]]:
    """From where to where, step by step, so that what these ranks have is at their doors."""
    of_door: dict[int, list[int]] = {}
    for rank in ranks:
        if team.door[rank] != rank:
            of_door.setdefault(team.door[rank], []).append(rank)
    at_once = zip_longest(*(inside(mates, door) for door, mates in of_door.items()), fillvalue=[])
    return [[ends for moves in steps for ends in moves] for steps in at_once]


def _direct(mates: Sequence[int], door: int) -> list[list[Ends]]:
    """Each sends to the door."""
    return [[(rank, door) for rank in mates]]


def _chain(mates: Sequence[int], door: int) -> list[list[Ends]]:
    """Each sends to the next; the one before the door is the last."""
    line = sorted(mates, key=lambda rank: (rank < door, rank))
    return [[ends] for ends in pairwise([*line, door])]
