"""Demands that cannot be met: which lines leave them no way, and which would have to go.

Where several demands are cut off, each conflict is reported once, with the first demand that it cuts off and
the number of all: a demand belongs to a conflict if the lines of that conflict alone leave it no way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taccl.analysis.explained.conflict import Conflict, Line
from taccl.analysis.explained.symmetry import broken_without
from taccl.encoding.conflicts.core import Core
from taccl.encoding.conflicts.reach import no_way
from taccl.encoding.core.distance import ShortestPaths
from taccl.encoding.symmetry.action import compositions
from taccl.model.automorphism import broken_by
from taccl.model.collective import Collective, IntArray
from taccl.model.problem import Problem, Statement
from taccl.sketch.demands import Reach, SketchDemand, demands_of, what_moves
from taccl.sketch.parts import in_short
from taccl.sketch.rules import TakenApart
from taccl.support.budget import Budget
from taccl.synthesis.inputs import Inputs

#: This many conflicts are reported; one line that is wrong seldom makes more, and the next run shows the
#: rest.
_MOST_CONFLICTS = 5
#: This many images of a demand are looked at.
_MOST_IMAGES = 64


@dataclass(frozen=True)
class Unmet:
    """Which demands cannot be met, and why.

    Parameters
    ----------
    demands, unmet : how many there are, and how many of them cannot be met.
    conflicts : the reasons, each with the number of demands that it cuts off.
    untold : how many unmet demands no conflict explains.
    helps : sets of lines, each of which would let every demand be met if it were left out; with the
        symmetries that would not hold then.
    """

    demands: int
    unmet: int
    conflicts: tuple[Conflict, ...]
    untold: int
    helps: tuple[tuple[Statement, ...], ...]


@dataclass(frozen=True)
class DemandPath:
    """The shortest way of a demand, as ranks from first to last."""

    what: str
    ranks: tuple[int, ...]

    @property
    def num_links(self) -> int:
        return len(self.ranks) - 1


def number_of_demands(collective: Collective) -> int:
    """How many (chunk, rank) pairs something has to go to, sums to their owner included."""
    starts, wanted = (
        np.unique(rows.chunk * collective.num_ranks + rows.rank)
        for rows in (collective.inputs, collective.outputs)
    )
    is_sum = np.repeat(collective.reduces, collective.num_ranks)
    at_owner = np.arange(collective.num_chunks) * collective.num_ranks + collective.owner
    copies = np.setdiff1d(wanted, starts, assume_unique=True)
    to_and_from_owner = (np.setdiff1d(rows, at_owner, assume_unique=True) for rows in (starts, wanted))
    return int((~is_sum[copies]).sum() + sum(is_sum[rows].sum() for rows in to_and_from_owner))


def unmet_demands(requested: Inputs, apart: TakenApart, max_hops: int | None, budget: Budget) -> Unmet:
    """All demands that cannot be met over at most `max_hops` links (None: any number); see `Unmet`."""
    finder = _Finder(requested.collective, apart, max_hops)
    every_rule = range(len(apart.rules))
    gaps = list(finder.gaps(every_rule))
    found: list[_Cut] = []
    untold = 0
    for gap in gaps:
        cut = next((cut for cut in found if finder.is_cut_off(gap, cut)), None)
        if cut is not None:
            cut.demands += 1
        elif (
            image := next((cut for cut in found if finder.is_like_one_cut_off(gap, cut)), None)
        ) is not None:
            image.images += 1
        elif len(found) < _MOST_CONFLICTS:
            found.append(finder.cut(gap, budget))
        else:
            untold += 1
    return Unmet(
        demands=number_of_demands(requested.collective),
        unmet=len(gaps),
        conflicts=tuple(finder.reported(cut, requested.topology.name) for cut in found),
        untold=untold,
        helps=tuple(finder.remedies(gaps, found, budget)) if gaps else (),
    )


def longest_way(problem: Problem) -> DemandPath | None:
    """The demand that is most links away; None if nothing has to move."""
    reach = Reach(problem.topology, problem.limits)
    far, links = None, 0
    for chunk in range(problem.num_chunks):
        for demand in demands_of(problem.collective, chunk):
            distance = reach.links_to(demand) or 0
            if distance > links:
                far, links = demand, distance
    return None if far is None else DemandPath(what_moves(far, problem.collective), _ranks(problem, far))


def _ranks(problem: Problem, demand: SketchDemand) -> tuple[int, ...]:
    topology = problem.topology
    paths = ShortestPaths(topology, np.ones(topology.num_links), problem.usable(demand.chunk))
    routes = (paths.path(source, demand.dst) for source in demand.sources)
    way = min((way for way in routes if way is not None), key=len)
    return (int(topology.src[way[0]]), *(int(topology.dst[link]) for link in way))


@dataclass(eq=False)
class _Cut:
    """A conflict that is being collected: its first demand, its core, whether the limit on links is in it."""

    gap: SketchDemand
    core: Core
    by_hops: bool
    reach: Reach
    demands: int = 1
    images: int = 0


class _Finder:
    """Which demands are cut off by which rules; searches with the same rules share their answers."""

    def __init__(self, collective: Collective, apart: TakenApart, max_hops: int | None) -> None:
        self.collective, self.apart, self.max_hops = collective, apart, max_hops
        generated = compositions(_kept_symmetries(apart), collective.num_ranks, most=_MOST_IMAGES)
        self.permutations: Sequence[IntArray] = () if generated is None else list(generated.ranks[1:])

    def gaps(self, rules: Collection[int]) -> Iterator[SketchDemand]:
        """The demands that cannot be met with these rules."""
        reach = Reach(*self.apart.network(rules))
        for chunk in range(self.collective.num_chunks):
            if self.max_hops is None and reach.everywhere(int(self.collective.owner[chunk])):
                continue
            for demand in demands_of(self.collective, chunk):
                if self._is_too_far(reach, demand, self.max_hops):
                    yield demand

    def is_cut_off(self, gap: SketchDemand, cut: _Cut) -> bool:
        """Whether the rules of a conflict are enough to cut off this demand, too."""
        return self._is_too_far(cut.reach, gap, self.max_hops if cut.by_hops else None)

    def is_like_one_cut_off(self, gap: SketchDemand, cut: _Cut) -> bool:
        """Whether a symmetry of the network takes this demand to one that those rules cut off."""
        return any(self.is_cut_off(_moved(gap, ranks), cut) for ranks in self.permutations)

    def cut(self, gap: SketchDemand, budget: Budget) -> _Cut:
        """A minimal set of rules that cut off a demand; the limit on links is in it only if it has to be."""
        everything, rules = self.apart.everything, self.apart.rules
        by_hops = Reach(*self.apart.network(range(len(rules)))).links_to(gap) is not None
        max_hops = self.max_hops if by_hops else None
        core = no_way(everything, rules, gap.owner, gap.sources, gap.dst, budget, max_hops)
        assert core is not None, "there is no way, as a search from rank to rank has shown"
        members = tuple(number for number in core.members if rules[number].owners[gap.owner])
        core = replace(core, members=members)
        return _Cut(gap, core, by_hops, Reach(*self.apart.network(members)))

    def reported(self, cut: _Cut, machine: str) -> Conflict:
        """A conflict in words."""
        gap = cut.gap
        what = (
            f"{what_moves(gap, self.collective)} cannot go from {_ranks_said(gap.sources)} to rank {gap.dst}"
        )
        if cut.by_hops:
            what += f" over at most {links_said(self.max_hops)}"
        lines = [Line(self.apart.rules[number].said) for number in cut.core.members]
        if cut.by_hops:
            lines.append(Line(_hops_said(self.max_hops)))
        reason = "" if lines else f"{machine} has no links that lead there, {_where(cut)}"
        return Conflict(
            what=what,
            lines=tuple(lines),
            is_minimal=cut.core.is_minimal,
            minimal_means="there is a way (proved by z3)",
            machine=reason,
            demands=cut.demands,
            images=cut.images,
        )

    def remedies(
        self, gaps: Sequence[SketchDemand], found: Sequence[_Cut], budget: Budget
    ) -> Iterator[tuple[Statement, ...]]:
        """Each rule that is enough to leave out; if there is none, sets of which all have to go.

        Such a set is of one family of rules where that can be, and none of its rules can stay. When the
        budget is spent, no more are reported.
        """
        if self.max_hops is not None and all(cut.by_hops for cut in found):
            yield (_hops_said(self.max_hops),)
        named = sorted({member for cut in found for member in cut.core.members})
        single = [rule for rule in named if budget.remaining_s() and self._are_met(gaps, {rule})]
        yield from (self._left_out({rule}) for rule in single)
        if single:
            return
        enough = [family for family in self.apart.families if self._are_met(gaps, family)]
        for family in enough or [frozenset(range(len(self.apart.rules)))]:
            if not self._are_met(gaps, family):
                return
            left_out = set(family)
            for rule in sorted(family, key=lambda rule: (rule in named, rule)):
                if not budget.remaining_s():
                    return
                if self._are_met(gaps, left_out - {rule}):
                    left_out.discard(rule)
            yield self._left_out(left_out)

    def _left_out(self, rules: Collection[int]) -> tuple[Statement, ...]:
        """What has to change to leave out some rules: they, and the symmetries that need them."""
        said = (self.apart.rules[rule].said for rule in sorted(rules))
        return (*said, *broken_without(self.apart, rules))

    def _are_met(self, gaps: Sequence[SketchDemand], left_out: Collection[int]) -> bool:
        """Whether all gaps can be met without some rules; other demands then can as they could before."""
        reach = Reach(*self.apart.network([i for i in range(len(self.apart.rules)) if i not in left_out]))
        return not any(self._is_too_far(reach, gap, self.max_hops) for gap in gaps)

    @staticmethod
    def _is_too_far(reach: Reach, demand: SketchDemand, max_hops: int | None) -> bool:
        links = reach.links_to(demand)
        return links is None or (max_hops is not None and links > max_hops)


def _kept_symmetries(apart: TakenApart) -> list[IntArray]:
    """The symmetries of the sketch that its network has; what has one cut off has its images cut off."""
    logical, limits = apart.network(range(len(apart.rules)))
    return [ranks for _, ranks in apart.symmetries if broken_by(ranks, logical, limits) is None]


def _moved(demand: SketchDemand, ranks: IntArray) -> SketchDemand:
    return replace(
        demand,
        owner=int(ranks[demand.owner]),
        sources=tuple(int(ranks[source]) for source in demand.sources),
        dst=int(ranks[demand.dst]),
    )


def links_said(number: int | None) -> str:
    """`1 link`, `2 links`."""
    return f"{number} link{'' if number == 1 else 's'}"


def _hops_said(max_hops: int | None) -> Statement:
    return Statement(f"--max-hops {max_hops}: each chunk's way has at most this many links")


def _where(cut: _Cut) -> str:
    """How far the demand gets."""
    reached = cut.reach.reached(cut.gap)
    return f"only to {_ranks_said(reached)}"


def _ranks_said(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {in_short(ranks)}"
