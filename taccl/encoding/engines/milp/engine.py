"""The MILP engine: TACCL's routing program, then orders by list scheduling.

1. `routing` decides which links each chunk takes. 2. Passes of list scheduling confined to those links find
the order on each port, and which neighbours share a send.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.list_scheduling import Policy, RoutingInstance, schedule_by_policy
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ordering import list_schedule
from taccl.encoding.core.timing import Decision, without_dead_ends
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.milp.routing import RoutingOptions, routed
from taccl.encoding.engines.milp.tuning import (
    ALPHA_SHARES,
    FOR_ROUTES,
    GROUPS,
    HOLDS,
    MOST_ON_PATHS,
    ON_PATHS_PER_S,
    PASSED_PER_UNIT,
    SLACKS,
)
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def milp(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield improving schedules until all routings are tried or the budget is over."""
    slacks = SLACKS if options.slack is None else (options.slack,)
    # Where alpha keeps no port busy, its share makes no difference to the program.
    pays = instance.problem.topology.is_serial and not one_by_one(instance.problem.topology).all()
    shares = ALPHA_SHARES if pays else ALPHA_SHARES[:1]
    routings = list(itertools.starmap(RoutingOptions, itertools.product(slacks, shares)))
    for number, routing in enumerate(routings):
        if _least_transfers(instance) > min(MOST_ON_PATHS, ON_PATHS_PER_S * budget.remaining_s()):
            return
        share = budget.share(1.0 / (len(routings) - number))
        schedule = _routed_and_ordered(instance, best, routing, options, share)
        if schedule is not None and schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield Update("milp", best)


def serves(instance: Instance) -> Verdict:
    """Whether the routing program has few enough variables."""
    if _least_transfers(instance) > MOST_ON_PATHS:
        return no(f"more than {MOST_ON_PATHS:,} pairs of a chunk and a link are too many for its routes")
    return YES


def _least_transfers(instance: Instance) -> int:
    """How many transfers every schedule has at least, and pairs of a chunk and a link the shortest paths."""
    collective = instance.problem.collective
    return max(0, len(collective.outputs) - len(collective.inputs))


def _routed_and_ordered(
    instance: Instance, best: Schedule, routing: RoutingOptions, options: SearchOptions, budget: Budget
) -> Schedule | None:
    """The best order on the routes of one program; None: it has none, or no time is left to write it."""
    allowed = instance.path_sets(routing.slack)
    if allowed.sum() > min(MOST_ON_PATHS, ON_PATHS_PER_S * budget.remaining_s()):
        return None
    uses = routed(instance, best, allowed, routing, options, budget.share(FOR_ROUTES))
    return None if uses is None else _ordered(instance, uses, options.seed, budget)


def _ordered(instance: Instance, uses: BoolArray, seed: int, budget: Budget) -> Schedule:
    """The best order found on the given routes: passes under every policy, then with random ties."""
    problem = instance.problem
    left = np.zeros((problem.num_chunks, problem.num_ranks))
    routing = RoutingInstance(problem, instance.group, *instance.distances_by_limits, uses, left)
    alone = [Decision((int(chunk),), int(link)) for chunk, link in zip(*np.nonzero(uses), strict=True)]
    best = without_dead_ends(list_schedule(problem, alone))
    random = np.random.default_rng(seed)
    for number, policy in enumerate(_policies()):
        if number and not budget.remaining_s():
            break
        schedule = schedule_by_policy(routing, policy, random, budget if number else None)
        budget.spend(len(alone) / PASSED_PER_UNIT)
        if schedule is not None and schedule.makespan_us < best.makespan_us:
            best = schedule
    return best


def _policies() -> Iterator[Policy]:
    for noise in (0.0, 0.3, 1.0, 3.0):
        for group, internode_group, hold in itertools.product(GROUPS, GROUPS, HOLDS):
            yield Policy(group, internode_group, 1, hold, defer=False, noise=noise)
