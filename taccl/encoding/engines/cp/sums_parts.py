r"""What any program may send, where sums may be made anywhere and as often as one likes.

A *part* of a chunk is a set of its contributions, as an integer (`schedule.partial_sums`); the *whole* is all
of them. A chunk that is copied has one part, its whole, which is wherever the chunk starts. An *item* is a
chunk with one of its parts. An item may travel over a link if it can be at the sender, and arrive, in time:

    head[c, C, r]   at least the longest of the shortest paths from the contributors in C to r
    tail[c, r]      at least the shortest path from r to a rank that wants c
    allowed         head at the sender + the link's duration + tail at the receiver <= horizon

The number of parts doubles with each contributor, and a rank has about 3^k / 2 routes of making parts from
others, k being the contributors. So this is for few of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.ticks import NEVER, Ticks
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.problem import Problem
from taccl.model.schedule.partial_sums import contributors, ranks_of

#: (chunk, part)
Item = tuple[int, int]


@dataclass(frozen=True, eq=False)
class SumCandidates:
    """Where each item may go.

    Parameters
    ----------
    whole : for each chunk, the set of all its contributions.
    parts : for each chunk, all its parts, the whole last.
    on_link : for each link, the items that may travel over it.
    head, tail : see above, in ticks.
    """

    whole: list[int]
    parts: list[list[int]]
    on_link: list[list[Item]]
    head: dict[tuple[int, int, int], int]
    tail: IntArray


def sum_candidates(instance: Instance, ticks: Ticks, horizon: int) -> SumCandidates:
    """All that a program of at most `horizon` ticks can need."""
    problem, topology, collective = instance.problem, instance.problem.topology, instance.problem.collective
    whole = contributors(collective)
    parts = [
        subsets(every) if reduces else [every]
        for every, reduces in zip(whole, collective.reduces.tolist(), strict=True)
    ]
    distances, kind = instance.distances_by_limits
    away = ticks.of(distances)
    tail = np.full((problem.num_chunks, problem.num_ranks), NEVER, dtype=np.int64)
    head: dict[tuple[int, int, int], int] = {}
    for chunk in range(problem.num_chunks):
        between = away[kind[chunk]]
        tail[chunk] = between[:, collective.post[chunk]].min(axis=1, initial=NEVER)
        for part in parts[chunk]:
            come = between[ranks_of(part)]
            first = come.max(axis=0) if collective.reduces[chunk] else come.min(axis=0)
            for rank, ticks_away in enumerate(first.tolist()):
                head[chunk, part, rank] = ticks_away
    lasts = ticks.of(instance.durations_us)
    usable = [problem.usable(chunk).tolist() for chunk in range(problem.num_chunks)]
    on_link: list[list[Item]] = []
    for link, (src, dst) in enumerate(zip(topology.src.tolist(), topology.dst.tolist(), strict=True)):
        on_link.append(
            [
                (chunk, part)
                for chunk in range(problem.num_chunks)
                if usable[chunk][link]
                for part in parts[chunk]
                if not is_own(problem, chunk, part, dst)
                and head[chunk, part, src] + int(lasts[link]) + int(tail[chunk, dst]) <= horizon
            ]
        )
    return SumCandidates(whole, parts, on_link, head, tail)


def is_own(problem: Problem, chunk: int, part: int, rank: int) -> bool:
    """Whether a rank has a part from the beginning."""
    collective = problem.collective
    return bool(collective.pre[chunk, rank]) and (not collective.reduces[chunk] or part == 1 << rank)


def subsets(whole: int) -> list[int]:
    """All sets in `whole` but the empty one, every set after those in it."""
    found, part = [], whole
    while part:
        found.append(part)
        part = (part - 1) & whole
    return found[::-1]


def splits(part: int, rank: int) -> Iterator[tuple[int, int]]:
    """Candidates of making a part from two at a rank: (what came in one piece, the rest of it).

    Any disjoint pieces are added in one order only: next is the one with the rank's own contribution, if that
    is in what is left, else the one with the lowest.
    """
    lowest = part & -part
    key = 1 << rank if part >> rank & 1 else lowest
    others = part ^ key
    rest = others
    while rest:
        yield part ^ rest, rest
        rest = (rest - 1) & others


def interchangeable_chunks(problem: Problem) -> list[list[int]]:
    """All chunks, in classes that any permutation of a class is a symmetry of: the same contributors, wanting
    ranks and links.
    """
    collective = problem.collective
    classes: dict[bytes, list[int]] = defaultdict(list)
    for chunk in range(problem.num_chunks):
        rows = (collective.pre[chunk], collective.post[chunk], problem.usable(chunk))
        classes[bytes([int(collective.reduces[chunk])]) + b"".join(row.tobytes() for row in rows)].append(
            chunk
        )
    return list(classes.values())
