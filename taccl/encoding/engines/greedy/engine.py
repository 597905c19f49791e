"""The greedy engine: many cheap passes under different policies, keeping the best.

The first pass gives a valid schedule within seconds; the others are a search over policies and random ties.
On machines that are too large for that, chunks along trees (`along_trees`) are the first schedule. Its
bound is 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.list_scheduling import Policy, RoutingInstance, schedule_by_policy
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.greedy.along_trees import along_trees, has_trees
from taccl.encoding.engines.greedy.match import MatchPolicy, is_for_matching, match
from taccl.encoding.engines.greedy.rarest_first import is_synchronous, rarest_first, rounds_take_s
from taccl.encoding.engines.greedy.route import spread_routes
from taccl.encoding.engines.greedy.tuning import (
    ALONG_TREES_ROWS_PER_UNIT,
    CONGESTION,
    GROUPS,
    HOLDS,
    KEPT,
    LARGE,
    MOST_LINKS_AT_ONCE,
    MOST_PLACES_AT_ONCE,
    QUOTIENT,
    SOON,
    TAPERS,
)
from taccl.encoding.instance import Instance
from taccl.encoding.quotient import Quotient
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

_MATCHES = (
    MatchPolicy(),
    MatchPolicy(patience=1.2, overtake=True),
    MatchPolicy(patience=3.0),
    MatchPolicy(noise=1.0),
)
_NOISES = (0.1, 0.3, 1.0, 3.0)
#: What a variation may change next to the noise; "noise" changes nothing else. Some matter only with groups.
_CHOICES = (
    "group",
    "internode group",
    "internode hold",
    "hold",
    "taper",
    "defer",
    "congestion",
    "sharing",
    "noise",
)
_OF_GROUPS = ("group", "internode group", "taper")
#: Synchronous rounds are the fastest pass: on a torus of 1,024 ranks they take 2 s, where trees take 6 s and
#: end up twice as slow.
_MOST_FOR_ROUNDS_S = 4.0


@dataclass(frozen=True)
class _Trial:
    """What one pass is run with."""

    policy: Policy | MatchPolicy
    congestion: float = 0.0
    sharing: bool = False


def is_quick(instance: Instance) -> bool:
    """Whether the first schedule of `greedy` is there within seconds."""
    problem = instance.problem
    if rounds_take_s(problem) <= _MOST_FOR_ROUNDS_S:
        return True
    places = len(problem.collective.inputs) + len(problem.collective.outputs)
    pairs = problem.num_chunks * problem.topology.num_links
    return pairs <= MOST_LINKS_AT_ONCE and places <= MOST_PLACES_AT_ONCE


def greedy(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield improving schedules, the first one always, until the budget is over.

    Where a symmetry exchanges ranks, a part of the time goes to schedules of the quotient: those are found
    many times faster, and on large regular machines they are the better ones. Where all links cost the
    same, schedules in synchronous rounds come first.
    """
    best = None if incumbent is None else incumbent.makespan_us
    for update in _streams(instance, options, budget, incumbent):
        assert update.schedule is not None
        if best is None or update.schedule.makespan_us < best - TOLERANCE_US:
            best = update.schedule.makespan_us
            yield update


def greedy_at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield the best schedule of the budget, or one along trees where the first takes more than seconds."""
    schedule = along_trees(instance) if has_trees(instance) and not is_quick(instance) else None
    if schedule is None:
        yield from deque(greedy(instance, options, budget, incumbent), maxlen=1)
        return
    budget.spend(len(schedule) / ALONG_TREES_ROWS_PER_UNIT)
    yield Update("greedy", schedule)


def _streams(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Schedules from rounds, from the quotient and from the whole, as far as there is time for each."""
    problem, known = instance.problem, incumbent is not None
    if is_synchronous(problem) and (not known or budget.remaining_s()):
        schedule = rarest_first(problem, np.random.default_rng(options.seed), budget if known else None)
        if schedule is not None:
            known = True
            yield Update("greedy", schedule)
    too_late = known and instance.quotient_takes_s > budget.remaining_s()
    alone = bool(problem.symmetry) or too_late
    quotient, small = (None, None) if alone else (instance.quotient, instance.quotient_instance)
    is_wanted = small is not None and (
        not known or (budget.remaining_s() > 0 and _size(small.problem) <= LARGE)
    )
    if quotient is not None and small is not None and is_wanted:
        for update in _lifted(
            quotient, _passes(small, options, budget.share(QUOTIENT), None, known), incumbent
        ):
            known = True
            yield update
    if not known or (budget.remaining_s() and _size(problem) <= LARGE):
        yield from _passes(instance, options, budget, incumbent, known)


def _lifted(quotient: Quotient, updates: Iterator[Update], incumbent: Schedule | None) -> Iterator[Update]:
    """The same on the whole, of what is faster: to write millions of images takes longer than a pass."""
    best_us = np.inf if incumbent is None else incumbent.makespan_us
    for update in updates:
        assert update.schedule is not None
        if update.schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = update.schedule.makespan_us
            yield replace(update, schedule=quotient.lifted(update.schedule))


def _size(problem: Problem) -> int:
    """What the time of one pass grows with."""
    return problem.num_chunks * problem.num_ranks * problem.topology.num_links


def _passes(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None, known: bool
) -> Iterator[Update]:
    """Improving schedules: first every policy once, then variations of the best ones, with random ties.

    Where no schedule is `known`, the first pass goes on to its end whatever the budget says.
    """
    random = np.random.default_rng(options.seed)
    best = None if incumbent is None else incumbent.makespan_us
    kept: list[tuple[float, int, _Trial]] = []
    routings: dict[tuple[float, bool], RoutingInstance] = {}
    for number, trial in enumerate(_trials(instance, kept, random)):
        known = known or best is not None
        if known and not budget.remaining_s():
            return
        seconds = budget if known else None
        paths = trial.congestion, trial.sharing
        if paths not in routings:
            routing = _routing(instance, *paths, random, seconds)
            if routing is None:
                return
            routings[paths] = routing
        if isinstance(trial.policy, MatchPolicy):
            schedule = match(routings[paths], trial.policy, random, seconds)
        else:
            schedule = schedule_by_policy(routings[paths], trial.policy, random, seconds)
        if schedule is None:
            continue
        kept[:] = sorted([*kept, (schedule.makespan_us, number, trial)])[:KEPT]
        if best is None or schedule.makespan_us < best - TOLERANCE_US:
            best = schedule.makespan_us
            yield Update("greedy", schedule)


def _trials(
    instance: Instance, kept: list[tuple[float, int, _Trial]], random: np.random.Generator
) -> Iterator[_Trial]:
    """Matchings, the plainest policy, all others in random order, then variations of `kept`, without end.

    Matchings take longer, so they come first only where ranks of a node are joined by switches.
    """
    topology, routed = instance.problem.topology, bool(len(instance.demand.from_one_to_another))
    groups, policies = not one_by_one(topology).all(), _policies(topology)
    plain, *others = [
        _Trial(policy, congestion, sharing)
        for sharing in ((False, True) if routed else (False,))
        for congestion in (CONGESTION if routed else (0.0,))
        for policy in policies
    ]
    matchings = [_Trial(policy) for policy in _MATCHES] if is_for_matching(instance) else []
    plain_first = [plain, *_in_turn(others, random)]
    soon = 0 if _through_switches(topology) else SOON
    yield from (*plain_first[:soon], *matchings, *plain_first[soon:])
    while kept:
        _, _, trial = kept[random.integers(len(kept))]
        yield _varied(trial, routed, groups, random)


def _through_switches(topology: LogicalTopology) -> bool:
    """Whether links inside nodes pass several ports each; of machines without such links, any link."""
    inside = np.flatnonzero(~topology.internode).tolist() or range(topology.num_links)
    return any(len(topology.ports[link]) > 1 for link in inside)


def _in_turn(trials: list[_Trial], random: np.random.Generator) -> list[_Trial]:
    """In random order, but some first that need no routes but those of the plainest trial, alone and shared.

    To find other routes takes longer than a pass.
    """
    shuffled = [trials[position] for position in random.permutation(len(trials))]
    early = [
        [each for each in shuffled if each.sharing == sharing and each.congestion == CONGESTION[0]][:SOON]
        for sharing in (False, True)
    ]
    done = {id(each) for part in early for each in part}
    return [*early[0], *early[1], *(each for each in shuffled if id(each) not in done)]


def _policies(topology: LogicalTopology) -> list[Policy]:
    """All policies that differ on these links, without groups where they save nothing."""
    saves, internode = ~one_by_one(topology), topology.internode
    has_internode = bool(internode.any())
    groups = GROUPS if (saves & ~internode).any() else (1,)
    internode_groups = GROUPS if (saves & internode).any() else (1,)
    return [
        Policy(group, internode_group, 1, internode_hold, taper, defer)
        for internode_hold in (HOLDS if has_internode else (1,))
        for internode_group in internode_groups
        for taper in (TAPERS if len(internode_groups) > 1 else (1.0,))
        for group in groups
        for defer in (True, False)
    ]


def _varied(trial: _Trial, routed: bool, groups: bool, random: np.random.Generator) -> _Trial:
    """The trial with noise, and now and then with one other choice; of groups only where those matter."""
    noise = float(random.choice(_NOISES))
    if isinstance(trial.policy, MatchPolicy):
        patience, rarity = float(random.uniform(1.0, 4.0)), float(random.choice((1.0, 10.0, 100.0)))
        return _Trial(MatchPolicy(patience, bool(random.integers(2)), rarity, noise))
    policy = replace(trial.policy, noise=noise)
    choices = _CHOICES if groups else [each for each in _CHOICES if each not in _OF_GROUPS]
    choice = choices[random.integers(len(choices))]
    if choice == "group":
        policy = replace(policy, group=_some_group(random))
    elif choice == "internode group":
        policy = replace(policy, internode_group=_some_group(random))
    elif choice == "internode hold":
        policy = replace(policy, internode_hold=int(random.integers(1, 17)))
    elif choice == "hold":
        policy = replace(policy, hold=int(random.integers(1, 9)))
    elif choice == "taper":
        policy = replace(policy, taper=float(random.choice((0.2, 0.3, 0.5, 0.7, 1.0))))
    elif choice == "defer":
        policy = replace(policy, defer=not policy.defer)
    congestion = float(random.choice(CONGESTION)) if routed and choice == "congestion" else trial.congestion
    sharing = bool(random.integers(2)) if routed and choice == "sharing" else trial.sharing
    return _Trial(policy, congestion, sharing)


def _some_group(random: np.random.Generator) -> int:
    return int(2 ** random.uniform(0, 6.2))


def _routing(
    instance: Instance,
    congestion: float,
    sharing: bool,
    random: np.random.Generator,
    budget: Budget | None,
) -> RoutingInstance | None:
    """What the passes need, with paths for chunks that one rank wants; None if the time is up before that."""
    problem, topology = instance.problem, instance.problem.topology
    chunks = instance.demand.from_one_to_another.tolist()
    routes = spread_routes(problem, instance.group, chunks, congestion, sharing, random, budget)
    if routes is None:
        return None
    usable = np.array([problem.usable(chunk) for chunk in range(problem.num_chunks)], dtype=np.bool_)
    left = np.zeros((problem.num_chunks, problem.num_ranks))
    for chunk, path in routes.items():
        usable[chunk] = False
        usable[chunk, path] = True
        left[chunk, topology.src[path]] = np.cumsum(instance.durations_us[path][::-1])[::-1]
    return RoutingInstance(problem, instance.group, *instance.distances_by_limits, usable, left)
