"""Sums whose parts stay apart on the way: for relays that may not sum, or not copy.

In the compact form a rank passes on one part of a sum, whatever met there. A rank that may not sum has to
pass on one part after another, so here each send says what it carries. There are two algorithms.

*To a root.* Contributions go along a tree of shortest paths to one rank. A rank that may sum sends the sum of
what comes and its own, one that may not sends the same parts as they are. Copies of the whole leave the root
along another tree.

*Along a line.* Copies of the whole cannot reach everybody through relays that may not copy. So the
contributors stand in a line. Each gets the sum of all before it and the sum of all behind it, adds its own to
each of them, and passes these on (a prefix sum, Blelloch 1990, in both directions at once). No part passes a
relay twice, so a relay need do nothing but pass on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from taccl.encoding.core.ordering import Ordering
from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.routes.shortest import Trees
from taccl.errors import ScheduleError
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def schedules_apart(problem: Problem) -> Iterator[Schedule]:
    """Valid schedules by both algorithms in several orders, none of them proved fastest."""
    if not problem.collective.reduces.any() or not some_rank_is_limited(problem.topology):
        return
    trees = Trees(problem)
    for along_a_line in (False, True):
        sends = _sends(problem, trees, along_a_line)
        if sends is None:
            continue
        ordering = Ordering.of(problem, sends)
        for timed in (ordering.timed(), ordering.matched()):
            schedule = ordering.schedule(timed)
            try:
                schedule.check()
            except ScheduleError:
                continue
            yield schedule


def some_rank_is_limited(topology: LogicalTopology) -> bool:
    """Whether some rank may not sum, or not copy."""
    return any(may is not None and not may.all() for may in (topology.may_sum, topology.may_copy))


def _sends(problem: Problem, trees: Trees, along_a_line: bool) -> list[Decision] | None:
    """The sends of all chunks, in an order in which they can happen; None if some chunk has no way."""
    sends: list[Decision] = []
    for chunk in range(problem.num_chunks):
        if not problem.collective.reduces[chunk]:
            copied = trees.copied(chunk)
            found = None if copied is None else [Decision((chunk,), link, sums=(0,)) for link, _ in copied]
        else:
            found = (_on_a_line if along_a_line else _to_a_root)(problem, trees, chunk)
        if found is None:
            return None
        sends += found
    return sends


def _to_a_root(problem: Problem, trees: Trees, chunk: int) -> list[Decision] | None:
    """Parts to the rank with the shortest way in and out, and copies of the whole from there."""
    contributors, wanted = trees.contributors(chunk), trees.wanted(chunk)
    for root in trees.roots(chunk):
        if not _may_sum(problem.topology, root) and len(contributors) > 1:
            continue
        into, out = trees.apart_to(chunk, root), trees.copies_from(chunk, root, wanted)
        if into is not None and out is not None:
            copies = [Decision((chunk,), link, sums=(0,)) for link in out]
            return [*_parts(problem.topology, chunk, contributors, into), *copies]
    return None


def _parts(
    topology: LogicalTopology, chunk: int, contributors: tuple[int, ...], into: list[int]
) -> Iterator[Decision]:
    """What goes over the links of a tree into a root, those farthest from it first."""
    held: dict[int, list[int]] = defaultdict(list)
    for rank in contributors:
        held[rank].append(1 << rank)
    for link in into:
        src, dst = int(topology.src[link]), int(topology.dst[link])
        parts = [sum(held[src])] if _may_sum(topology, src) else held[src]
        for part in parts:
            yield Decision((chunk,), link, reduce=True, sums=(part,))
        held[dst] += parts


def _on_a_line(problem: Problem, trees: Trees, chunk: int) -> list[Decision] | None:
    """The sums of all before and of all behind each contributor; None if others want it, or no way is."""
    ranks = trees.contributors(chunk)
    if ranks != trees.wanted(chunk):
        return None
    first = int(problem.collective.owner[chunk])
    line = sorted(ranks, key=lambda rank: (rank - first) % problem.num_ranks)
    sends: list[Decision] = []
    for order in (line, line[::-1]):
        part = 0
        for rank, following in pairwise(order):
            path = trees.copies_from(chunk, rank, (following,))
            if path is None:
                return None
            part |= 1 << rank
            sends += [Decision((chunk,), link, reduce=True, sums=(part,)) for link in path]
    return sends


def _may_sum(topology: LogicalTopology, rank: int) -> bool:
    return topology.may_sum is None or bool(topology.may_sum[rank])


__all__ = ["schedules_apart", "some_rank_is_limited"]
