r"""One port into a node: either an alpha more, or one group, which must be gathered before and spread after.

Let W be a set of ranks, X the others, C the N >= 2 chunks that must enter W, each from one rank of X, and let
all links from X to W share a port that is busy for all of a send. Each chunk of C crosses at least once.

*Two groups or more.* They keep the port busy for 2 a + N b at least, where a is the least alpha of these
links and b the least time of a chunk on them:

    T >= 2 a + N b.

*One group*, over a link l from u to u'. It is all that ever enters W, so it has all of C, and u holds all of
it before. Until then no chunk of C has been in W, so C came to u over links inside X. Afterwards no chunk of
C comes to a rank of W but from u', over links inside W. With g(u) the least time in which C comes to u over
links inside X, s(u') the least one in which C comes from u' to those who want it in W, and d_l the time of N
chunks on l:

    T >= g(u) + d_l + s(u'),

if N chunks may be a group at all; else there is no such case. T is no less than the least of all cases.

*g and s* are those of a small model that leaves out no send (`sending_model.in_node`), or what the counts of
`steps` say, if that is more. For g it is read backwards: the transfers by which each chunk of C first came
to the ranks of its way to u are a path, and turned round these paths are copies of C from u to where each
chunk starts, in groups that are no larger, over ports that are busy as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.entering import Entering
from taccl.encoding.bounds.tuning import (
    ONE_GROUP_HORIZON,
    ONE_GROUP_MOST_CHUNKS,
    ONE_GROUP_MOST_ROUTES,
    ONE_GROUP_MOST_S,
    ONE_GROUP_SHARE,
    ONE_GROUP_SHORTEST,
)
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.in_node import least_us
from taccl.encoding.sending_model.node_parts import Around, Inside, Item
from taccl.model.collective import BoolArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def has_one_port(at: Entering) -> bool:
    """Whether all that enters shares a port that is busy for all of a send, and the node is small enough."""
    topology, links = at.problem.topology, at.crossing.links
    if not topology.is_serial or topology.port_betas is not None or not all(topology.ports):
        return False
    if not at.instance.demand.copies_from_one or not 2 <= len(at.crossing.chunks) <= ONE_GROUP_MOST_CHUNKS:
        return False
    shared = set.intersection(*(set(topology.ports[link]) for link in links.tolist()))
    within = [
        at.inside[topology.src] & at.inside[topology.dst],
        ~at.inside[topology.src] & ~at.inside[topology.dst],
    ]
    routes = max(int(each.sum()) for each in within) * len(at.crossing.chunks)
    return bool(shared) and routes <= ONE_GROUP_MOST_ROUTES


def one_group_us(at: Entering, known_us: float) -> float:
    """What the two cases prove; no more than is known, or 0, where they add nothing.

    Raises
    ------
    OutOfBudget : before it is known.
    """
    problem, topology, links = at.problem, at.problem.topology, at.crossing.links
    many = len(at.crossing.chunks)
    if at.instance.durations_us.min(initial=known_us) <= ONE_GROUP_SHORTEST * known_us:
        return 0.0
    apart_us = (
        2 * topology.alpha_us[links].min() + many * topology.beta_us_per_mb[links].min() * problem.chunk_mb
    )
    apart_us = min(float(apart_us), ONE_GROUP_HORIZON * known_us)
    if apart_us <= known_us or many > problem.max_group:
        return apart_us
    return _together_us(at, known_us, apart_us, at.budget.at_most(ONE_GROUP_MOST_S))


@dataclass(frozen=True, eq=False)
class _Side:
    """One side of a cut: its links between its ranks, and for each chunk the ranks that it goes to there."""

    around: Around
    ranks_of: Sequence[frozenset[int]]

    @staticmethod
    def of(
        problem: Problem, inside: BoolArray, known_us: float, ranks_of: Sequence[frozenset[int]], back: bool
    ) -> _Side:
        topology = problem.topology
        links = np.flatnonzero(inside[topology.src] & inside[topology.dst]).tolist()
        each = [
            Inside(
                int(topology.src[link]),
                int(topology.dst[link]),
                float(topology.alpha_us[link]),
                float(topology.beta_us_per_mb[link] * problem.chunk_mb),
                tuple(topology.ports[link]),
            )
            for link in links
        ]
        each = [link.reversed for link in each] if back else each
        around = Around(each, True, [True] * len(each), problem.max_group, ticks_of(problem, known_us))
        return _Side(around, ranks_of)

    def raised(self, least: Mapping[int, float], before_us: float, budget: Budget) -> dict[int, float]:
        """For each rank when the chunks can have come from there to where they go, or `before_us`, if sooner.

        `least` says what is known of that. Where the least of them stays what it is, so do the others.
        """
        found = dict(least)
        for rank in sorted(least, key=lambda each: least[each]):
            found[rank] = max(least[rank], self._least_us(rank, before_us, budget.share(ONE_GROUP_SHARE)))
            if found[rank] <= least[rank]:
                break
        return found

    def _least_us(self, rank: int, before_us: float, budget: Budget) -> float:
        going = [(chunk, ranks - {rank}) for chunk, ranks in enumerate(self.ranks_of) if ranks - {rank}]
        if not going or before_us <= 0 or not budget.remaining_s():
            return 0.0
        items = [Item((chunk,), ((rank, 0.0),), ranks) for chunk, ranks in going]
        return least_us(self.around, items, before_us, 0, budget)


def _together_us(at: Entering, known_us: float, most_us: float, budget: Budget) -> float:
    """When all can be done where one group crosses, or `most_us`, if that is sooner."""
    problem, topology, chunks, links = at.problem, at.problem.topology, at.crossing.chunks, at.crossing.links
    many, wanted = len(chunks), _wanted(at.instance, at.inside, chunks.tolist())
    source = problem.collective.source[chunks].tolist()
    before = _Side.of(problem, ~at.inside, known_us, [frozenset({rank}) for rank in source], back=True)
    after = _Side.of(problem, at.inside, known_us, wanted, back=False)
    back, looks = at.back(np.bincount(source, minlength=problem.num_ranks)), at.looks
    takes = topology.duration_us(links, np.full(len(links), many * problem.chunk_mb))
    ends = {
        (int(looks[topology.src[link]]), int(looks[topology.dst[link]]), each_us)
        for link, each_us in zip(links.tolist(), takes.tolist(), strict=True)
    }
    total, room_us = sum(map(len, wanted)), most_us - float(takes.min())
    gather = {u: _first_us(back.of(u, many), many, most_us) for u, _, _ in ends}
    spread = {into: _first_us(at.spreads.of(into, many), total, most_us) for _, into, _ in ends}
    gather = before.raised(gather, room_us - min(spread.values()), budget)
    spread = after.raised(spread, room_us - min(gather.values()), budget)
    return float(min(most_us, *(gather[u] + each_us + spread[into] for u, into, each_us in ends)))


def _wanted(instance: Instance, inside: BoolArray, chunks: Sequence[int]) -> list[frozenset[int]]:
    """The ranks of W that want each of some chunks."""
    wanted: dict[int, set[int]] = {chunk: set() for chunk in chunks}
    wants = instance.demand.wants
    for chunk, rank in zip(wants.chunk.tolist(), wants.rank.tolist(), strict=True):
        if chunk in wanted and inside[rank]:
            wanted[chunk].add(rank)
    return [frozenset(wanted[chunk]) for chunk in chunks]


def _first_us(steps: Steps, count: int, most_us: float) -> float:
    """When a count is first reached, or `most_us`, if that is sooner."""
    first_us = steps.first(count)
    return most_us if first_us is None else min(first_us, most_us)
