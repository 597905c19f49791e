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
`stages` say, if that is more. For g it is read backwards: the transfers by which each chunk of C first came
to the ranks of its way to u are a path, and turned round these paths are copies of C from u to where each
chunk starts, in groups that are no larger, over ports that are busy as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, node_cuts
from taccl.encoding.bounds.first_times import OutOfBudget, Steps, is_large
from taccl.encoding.bounds.staged_cut import in_turn
from taccl.encoding.bounds.stages import Entering
from taccl.encoding.bounds.tuning import (
    ONE_GROUP_HORIZON,
    ONE_GROUP_MOST_CHUNKS,
    ONE_GROUP_MOST_CUTS,
    ONE_GROUP_MOST_ROUTES,
    ONE_GROUP_MOST_S,
    ONE_GROUP_SHARE,
    ONE_GROUP_SHORTEST,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.in_node import least_us
from taccl.encoding.sending_model.node_parts import Around, Inside, Item
from taccl.model.collective import BoolArray
from taccl.support.budget import Budget


@dataclass(frozen=True, eq=False)
class _Side:
    """One side of a cut: its links between its ranks, and for each chunk the ranks that it goes to there."""

    around: Around
    ranks_of: Sequence[frozenset[int]]

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


def _side(
    instance: Instance, inside: BoolArray, known_us: float, ranks_of: Sequence[frozenset[int]], back: bool
) -> _Side:
    problem = instance.problem
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


def _one_group_bound(view: View, cut: Cut, known_us: float, budget: Budget) -> Proof | None:
    """What the cut proves beyond what is known; None for nothing."""
    instance = view.instance
    inside = members(instance.problem.num_ranks, cut.ranks)
    crossing = instance.once(Crossings).of(cut)[-1:]
    if not crossing or not 2 <= len(crossing[0].chunks) <= ONE_GROUP_MOST_CHUNKS:
        return None
    chunks, links = crossing[0].chunks, crossing[0].links
    problem, topology = instance.problem, instance.problem.topology
    shared = set.intersection(*(set(topology.ports[link]) for link in links.tolist()))
    within = [inside[topology.src] & inside[topology.dst], ~inside[topology.src] & ~inside[topology.dst]]
    if not shared or max(int(each.sum()) for each in within) * len(chunks) > ONE_GROUP_MOST_ROUTES:
        return None
    alpha_us, cost_us = topology.alpha_us[links], topology.beta_us_per_mb[links] * problem.chunk_mb
    apart_us = min(float(2 * alpha_us.min() + len(chunks) * cost_us.min()), ONE_GROUP_HORIZON * known_us)
    if apart_us <= known_us:
        return None
    value_us = apart_us
    if len(chunks) <= problem.max_group:
        value_us = _together_us(view, inside, crossing[0], known_us, apart_us, budget)
    if value_us <= known_us:
        return None
    what = f"{len(chunks)} chunks {cut.name} through {name_ports(problem, np.array(sorted(shared)))}"
    return ONE_GROUP.proof(value_us, f"{what}, in one group or with one more alpha")


def _together_us(
    view: View, inside: BoolArray, crossing: Crossing, known_us: float, most_us: float, budget: Budget
) -> float:
    """When all can be done where one group crosses, or `most_us`, if that is sooner."""
    instance, problem, topology = view.instance, view.problem, view.problem.topology
    demand, many = instance.demand, len(crossing.chunks)
    number = {chunk: place for place, chunk in enumerate(crossing.chunks.tolist())}
    wanted: list[set[int]] = [set() for _ in number]
    for chunk, rank in zip(demand.wants.chunk.tolist(), demand.wants.rank.tolist(), strict=True):
        if chunk in number and inside[rank]:
            wanted[number[chunk]].add(rank)
    source = problem.collective.source[crossing.chunks].tolist()
    before = _side(instance, ~inside, known_us, [frozenset({rank}) for rank in source], back=True)
    after = _side(instance, inside, known_us, [frozenset(ranks) for ranks in wanted], back=False)
    at = Entering(view, inside, crossing, most_us, budget)
    back, looks = at.back(np.bincount(source, minlength=problem.num_ranks)), at.looks
    takes = topology.duration_us(crossing.links, np.full(len(crossing.links), many * problem.chunk_mb))
    ends = {
        (int(looks[topology.src[link]]), int(looks[topology.dst[link]]), each_us)
        for link, each_us in zip(crossing.links.tolist(), takes.tolist(), strict=True)
    }
    total, room_us = sum(map(len, wanted)), most_us - float(takes.min())
    gather = {u: _first_us(None if back is None else back.of(u, many), many, most_us) for u, _, _ in ends}
    spread = {into: _first_us(at.spreads.of(into, many), total, most_us) for _, into, _ in ends}
    gather = before.raised(gather, room_us - min(spread.values()), budget)
    spread = after.raised(spread, room_us - min(gather.values()), budget)
    together_us = min(gather[u] + each_us + spread[into] for u, into, each_us in ends)
    return float(min(most_us, together_us))


def _first_us(steps: Steps | None, count: int, most_us: float) -> float:
    """When a count is first reached, or `most_us`, to which it is known; 0 for a count that is not."""
    if steps is None:
        return 0.0
    first_us = steps.first(count)
    return most_us if first_us is None else first_us


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield ONE_GROUP.proof(0.0, "nothing has to enter")
    instance, topology = view.instance, view.problem.topology
    if not known_us or view.backwards or is_large(view.problem) or not instance.demand.copies_from_one:
        return
    if not topology.is_serial or topology.port_betas is not None or not all(topology.ports):
        return
    if instance.durations_us.min(initial=known_us) <= ONE_GROUP_SHORTEST * known_us:
        return
    budget = budget.at_most(ONE_GROUP_MOST_S)
    for cut, now_known_us in in_turn(instance, node_cuts(instance), ONE_GROUP_MOST_CUTS, known_us, budget):
        try:
            proof = _one_group_bound(view, cut, now_known_us, budget)
        except OutOfBudget:
            return
        if proof is not None:
            yield proof


ONE_GROUP = Bound(
    name="one-group",
    about="a node behind one port: two groups pay two alphas there, and one group has to be gathered before "
    "and spread after, which takes as long as the fastest of all sends in a small node",
    remedy="a shorter alpha there, a second port into that node, or more or faster links inside",
    prove=_prove,
    features=RELAXED,
)
