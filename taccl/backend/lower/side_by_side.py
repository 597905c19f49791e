"""Chunks change places with others that nothing tells apart, so that what travels as one lies side by side.

A group whose chunks do not lie side by side is copied together before it is sent, and apart where it came.
But chunks that start at the same ranks, are wanted at the same ranks, and are both sums or both copies, are
one *class*: any of them may lie where another of them lies. In an AllReduce these are all. So the chunks of a
class are put in an order in which as many sends as possible take neighbours.

Sets of chunks that are nested or disjoint have such an order, that of the leaves of their tree. Of sets that
overlap in part, those that more sends take come first.

    sends of {0, 2}, {1, 3} and all four        0 2 │ 1 3        chunk 2 lies at 1, chunk 1 at 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from taccl.backend.lower.tuning import SIDE_BY_SIDE_MOST_SETS
from taccl.model.chunk_maps import RankSets
from taccl.model.collective import Collective, IntArray
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import RoutingLimits
from taccl.model.schedule import Schedule


def side_by_side(schedule: Schedule) -> Schedule:
    """The schedule with other names of chunks, if then more of its sends take neighbours; else itself.

    It is as valid as it was. What it says of symmetries and of ranks whose chunks may not use a link is left
    out, as both name chunks by their ranks. A collective of one's own stays as it is: where its chunks lie is
    recognized by its file, and not by their numbers.
    """
    problem, sends = schedule.problem, schedule.sends
    equal = problem.sizes is None and problem.ready_us is None and problem.tail_us is None
    if not equal or sends.count.max(initial=1) == 1 or problem.collective.name not in COLLECTIVES:
        return schedule
    taken = _sets_taken(schedule)
    of_class = _classes(problem.collective)
    by_class = np.argsort(of_class, kind="stable")
    first = np.searchsorted(of_class[by_class], np.arange(int(of_class.max()) + 2))
    position = np.arange(problem.num_chunks)
    for each, mine in _within(taken, of_class).items():
        members = by_class[first[each] : first[each + 1]]
        position[_in_order(members.tolist(), _nested(mine))] = members
    if _neighbours(taken, position) <= _neighbours(taken, np.arange(problem.num_chunks)):
        return schedule
    anywhere = replace(problem, symmetry=(), limits=RoutingLimits())
    return replace(schedule, problem=anywhere, chunk=position[schedule.chunk])


def _within(
    taken: Mapping[tuple[int, ...], int], of_class: IntArray
) -> dict[int, dict[tuple[int, ...], int]]:
    """By class, the sets whose chunks are all of it, with the sends that take each."""
    found: dict[int, dict[tuple[int, ...], int]] = {}
    for some, times in taken.items():
        classes = of_class[list(some)]
        if (classes == classes[0]).all():
            found.setdefault(int(classes[0]), {})[some] = times
    return found


def _sets_taken(schedule: Schedule) -> Counter[tuple[int, ...]]:
    """The sets of several chunks that sends take, and how many sends take each."""
    order = np.lexsort((schedule.chunk, schedule.sends.of_row))
    chunks = schedule.chunk[order].tolist()
    ends = np.concatenate([[0], np.cumsum(schedule.sends.count)]).tolist()
    return Counter(tuple(chunks[begin:end]) for begin, end in pairwise(ends) if end - begin > 1)


def _classes(collective: Collective) -> IntArray:
    """The class of each chunk, by number."""
    starts, wanted = (
        RankSets.of(collective.num_chunks, rows.chunk, rows.rank).of_chunk
        for rows in (collective.inputs, collective.outputs)
    )
    kinds = np.stack([starts, wanted, collective.reduces.astype(np.int64)])
    return np.unique(kinds, axis=1, return_inverse=True)[1].ravel()


def _nested(taken: dict[tuple[int, ...], int]) -> list[tuple[int, ...]]:
    """Sets of which any two are nested or disjoint, the larger ones first."""
    chosen = dict[int, tuple[int, ...]]()
    likely = sorted(taken, key=lambda some: (-taken[some], -len(some), some))
    for some in likely[:SIDE_BY_SIDE_MOST_SETS]:
        bits = sum(1 << chunk for chunk in some)
        if all(bits & other in (0, bits, other) for other in chosen):
            chosen[bits] = some
    return sorted(chosen.values(), key=len, reverse=True)


def _in_order(members: Sequence[int], nested: Iterable[tuple[int, ...]]) -> list[int]:
    """The chunks of a class with each set side by side, near to the order of their numbers."""
    way: dict[int, list[int]] = {chunk: [] for chunk in members}
    for some in nested:
        for chunk in some:
            way[chunk].append(some[0])
    return sorted(members, key=lambda chunk: (*way[chunk], chunk))


def _neighbours(taken: Counter[tuple[int, ...]], position: IntArray) -> int:
    """How many sends take chunks that lie side by side, or are all that there are."""
    found = 0
    for some, times in taken.items():
        at = position[list(some)]
        found += times * bool(at.max() - at.min() == len(some) - 1)
    return found
