"""What one rank has for each of the others: which paths and groups are tried; and the same backwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from taccl.encoding.core.backwards import read_backwards, turned_round
from taccl.encoding.engines.streams.deliveries import Deliveries, Groups
from taccl.encoding.engines.streams.paths import paths_of
from taccl.encoding.engines.streams.soonest import soonest_paths
from taccl.encoding.engines.streams.tuning import (
    DELIVERED,
    DELIVERED_ROW,
    FIRST,
    GROWTH,
    MOST_HOPS,
    OF_RANK,
    RANKS,
    TURNS,
    WAY,
)
from taccl.encoding.instance import Instance
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import UNITS_PER_S, Budget


def scattered(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Schedules by all kinds of paths, for each number of chunks in the groups that suit it.

    Paths of a Broadcast's tree are for small messages, so only the coarsest cut is tried on them.
    """
    if not instances:
        return
    forwards = [_forwards(each.problem) for each in instances]
    far_us = far_from_root(instances[0])
    for paths in soonest_paths(forwards[0], budget):
        if not _are_short(paths):
            return
        for schedule in _together(Deliveries(forwards[0], paths), budget):
            yield _as_requested(instances[0].problem, schedule)
        if not budget.remaining_s():
            return
    for parts, rides in DELIVERED:
        first = forwards[0]
        looks = first.topology.num_links + OF_RANK * first.num_ranks
        effort = WAY * TURNS * parts * first.num_ranks * looks
        if budget.remaining_s() < effort / UNITS_PER_S:
            return
        budget.spend(effort)
        paths = paths_of(first, far_us, parts, rides)
        if not _are_short(paths):
            return
        for instance, problem in zip(instances, forwards, strict=True):
            if problem.collective.chunks_per_rank % parts == 0:
                for schedule in _in_groups(Deliveries(problem, paths), budget):
                    yield _as_requested(instance.problem, schedule)
        if not budget.remaining_s():
            return


def _are_short(paths: Mapping[int, Sequence[tuple[int, ...]]]) -> bool:
    """Whether every path has few enough links for the recursion in `Deliveries`."""
    return max(len(path) for several in paths.values() for path in several) <= MOST_HOPS


def far_from_root(instance: Instance) -> FloatArray:
    """How far each rank is from the one that has all, or that wants all; microseconds, shape (num_ranks,)."""
    collective = instance.problem.collective
    far_us = instance.distances_us
    return (
        far_us[int(collective.source[0])]
        if instance.demand.delivers
        else far_us[:, int(collective.destination[0])]
    )


def _in_groups(deliveries: Deliveries, budget: Budget) -> Iterator[Schedule]:
    """Groups of all sizes of at most one rank's chunks, and of several ranks'; then the best with several."""
    many, took_us = deliveries.problem.collective.chunks_per_rank, dict[Groups, float]()

    def made(groups: Groups) -> Schedule:
        schedule = deliveries.schedule(groups)
        budget.spend(DELIVERED_ROW * len(schedule))
        took_us[groups] = schedule.makespan_us
        return schedule

    alone = [Groups(first, growth, 1) for first in FIRST if first <= many for growth in GROWTH]
    for groups in (*alone, *(Groups(ranks * many, 1.0, ranks) for ranks in RANKS)):
        if took_us and not budget.remaining_s():
            return
        yield made(groups)
    best = min(took_us, key=took_us.__getitem__)
    for ranks in RANKS:
        if not budget.remaining_s():
            return
        yield made(replace(best, ranks=ranks))


def _together(deliveries: Deliveries, budget: Budget) -> Iterator[Schedule]:
    """As few sends on each link as possible, then with the parts of fewer ranks in each."""
    ranks = deliveries.problem.num_ranks
    for most in (ranks, *RANKS):
        schedule = deliveries.schedule(
            Groups(ranks * deliveries.problem.collective.chunks_per_rank, 1.0, most)
        )
        budget.spend(DELIVERED_ROW * len(schedule))
        yield schedule


def _forwards(problem: Problem) -> Problem:
    """A problem in which one rank has all; of one in which one wants all, time runs backwards."""
    source = problem.collective.source
    return problem if (source == source[0]).all() else turned_round(problem)


def _as_requested(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule, read backwards where the problem is not that of the schedule."""
    return schedule if schedule.problem is problem else read_backwards(problem, schedule)
