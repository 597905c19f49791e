"""The engine of routes and orders: routes by several choosers, put in order by one scheduler.

    choosers    forests of trees at prices, trees at the optimum of programs, rails between nodes, paths at
                prices, flows, routes of least load past helpers, shortest
    orders      pipelines of whatever can go, matchings of what goes together

Where some rank may not sum or not copy, sums whose parts stay apart (`apart`) are tried, too.

Each product of the two is tried. Where ranks are in one orbit, the quotient is answered first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from taccl.encoding.core import scheduler
from taccl.encoding.core.dealing import dealing_is_compiled, warm_up_dealing
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.routes import pairs as by_pairs
from taccl.encoding.engines.routes import spanning
from taccl.encoding.engines.routes.apart import schedules_apart
from taccl.encoding.engines.routes.choice import Choice, Chooser, by_phases, powers_of_two
from taccl.encoding.engines.routes.columns import Routes
from taccl.encoding.engines.routes.crossings import crossings, serves_crossings
from taccl.encoding.engines.routes.flow import flow, has_flow
from taccl.encoding.engines.routes.forests import forests, serves_forests
from taccl.encoding.engines.routes.load_program import by_load_program, one_by_one, serves_load_program
from taccl.encoding.engines.routes.orders import Open
from taccl.encoding.engines.routes.packed import has_packing, layers, packing
from taccl.encoding.engines.routes.pairs import pairs
from taccl.encoding.engines.routes.search import RouteSearch
from taccl.encoding.engines.routes.shortest import along_shortest_paths
from taccl.encoding.engines.routes.tuning import (
    ACROSS_IN_VAIN,
    ACROSS_LONGER,
    ACROSS_PATHS_S,
    ACROSS_SHARE,
    ACROSS_TREES_S,
    CHANCE,
    CHOSEN_PER_S,
    COMPILING_S,
    FOR_PROGRAM,
    FOR_QUOTIENT,
    LOAD_PROGRAM_BEHIND,
    LOAD_PROGRAM_CHANCE,
    LOAD_PROGRAM_NEAR,
    LOAD_PROGRAM_TRIALS,
    MOST_ROWS_ALONE,
    MOST_ROWS_APART,
    MOST_TOGETHER,
    MOST_TWICE,
    POWERS,
    SEEDS,
)
from taccl.encoding.instance import Instance
from taccl.encoding.quotient import Quotient
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether there is something to move, and no sketch asks for what routes cannot keep."""
    problem = instance.problem
    if not problem.topology.num_links or problem.num_ranks < 2 or not problem.num_chunks:
        return no("nothing has to move")
    if problem.limits.own_first is not None:
        return no("it knows no order in which own chunks leave first")
    if problem.symmetry and instance.quotient is None:
        return no("the symmetry that is requested keeps a port in its place, so there is no quotient")
    return YES if choosers_of(instance) else no("more contributions and outputs than it takes one by one")


def routes(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield better and better schedules, of the quotient first where there is one.

    The first time on a machine its loops have to be compiled; with no time for that it yields a note.
    """
    if not _has_time(budget):
        why = f"routes were not tried: compiling them takes up to {COMPILING_S:g} s, once: taccl compile"
        yield Update("routes", note=why)
        return
    _warm_up()
    best_us = np.inf if incumbent is None else incumbent.makespan_us
    for schedule in _apart(instance, incumbent):
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield Update("routes", schedule)
        if not budget.remaining_s():
            break
    asks = bool(instance.problem.symmetry) or (
        not _needs_the_whole(instance) and instance.quotient_takes_s < budget.remaining_s()
    )
    quotient, small = (instance.quotient, instance.quotient_instance) if asks else (None, None)
    if quotient is not None and small is not None:
        search = RouteSearch(small, choosers_of(small), options.seed)
        candidates = search.schedules(budget.share(FOR_QUOTIENT), np.inf)
        for schedule in _lifted(quotient, candidates, best_us, budget):
            best_us = schedule.makespan_us
            yield Update("routes", schedule)
        if _ends_with_quotient(search, instance, budget):
            return
    elif best_us < np.inf and _takes_to_choose_s(instance) > budget.remaining_s():
        return
    for schedule in RouteSearch(instance, choosers_of(instance), options.seed).schedules(budget, best_us):
        yield Update("routes", schedule)


def _takes_to_choose_s(instance: Instance) -> float:
    """To choose the first routes, which no budget interrupts; nothing worth counting for few chunks."""
    num_chunks = instance.problem.num_chunks
    return num_chunks / CHOSEN_PER_S if num_chunks > MOST_TWICE else 0.0


def _ends_with_quotient(quotient: RouteSearch, instance: Instance, budget: Budget) -> bool:
    """Whether nothing but the quotient is searched: by the symmetry, the time or the number of chunks."""
    whole, images = instance.problem, instance.problem.num_chunks / quotient.problem.num_chunks
    if whole.symmetry or quotient.takes_s * images > budget.remaining_s():
        return True
    return instance.demand.moves_pairwise and whole.num_chunks > MOST_TWICE


def routes_at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield the first schedule, of the quotient where there is one, compiled now if need be."""
    if not serves(instance):
        return
    asks = bool(instance.problem.symmetry) or not _needs_the_whole(instance)
    quotient, small = (instance.quotient, instance.quotient_instance) if asks else (None, None)
    part = instance if small is None else small
    search = RouteSearch(part, choosers_of(part), options.seed, must_end=True)
    for schedule in search.schedules(budget, np.inf):
        yield Update("routes", schedule if quotient is None else quotient.lifted(schedule))
        return
    for schedule in schedules_apart(instance.problem):
        yield Update("routes", schedule)
        return


def across_chunks(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Schedules of the same size cut into different numbers of chunks, each faster than those before.

    The coarsest first, until finer ones are no faster.
    """
    in_turn = sorted(instances, key=lambda each: each.problem.num_chunks)
    least_s = ACROSS_PATHS_S if in_turn and in_turn[0].demand.moves_pairwise else ACROSS_TREES_S
    if budget.remaining_s() < least_s or not _has_time(budget):
        return
    _warm_up()
    best_us, in_vain, first_s = np.inf, 0, 0.0
    for instance in in_turn:
        share, before_us, began_s = budget.share(ACROSS_SHARE), best_us, budget.read_s()
        is_too_long = share.remaining_s() <= ACROSS_LONGER * first_s
        if is_too_long or in_vain == ACROSS_IN_VAIN or not serves(instance):
            return
        first_s = 0.0
        for update in routes(instance, SearchOptions(), share, None):
            first_s = first_s or budget.read_s() - began_s
            if update.schedule is not None and update.schedule.makespan_us < best_us - TOLERANCE_US:
                best_us = update.schedule.makespan_us
                yield update.schedule
        in_vain = 0 if best_us < before_us else in_vain + 1


def _has_time(budget: Budget) -> bool:
    """Whether there is time for its loops to be compiled, or they are."""
    return budget.counts_work or budget.remaining_s() > COMPILING_S or is_compiled()


def _warm_up() -> None:
    scheduler.warm_up()
    warm_up_dealing()


def _apart(instance: Instance, incumbent: Schedule | None) -> Iterator[Schedule]:
    """Sums whose parts stay apart; where there is a schedule already, of small problems only."""
    collective = instance.problem.collective
    rows = len(collective.inputs) + len(collective.outputs)
    return schedules_apart(instance.problem) if rows <= MOST_ROWS_APART or incumbent is None else iter(())


def _needs_the_whole(instance: Instance) -> bool:
    """Whether sums may be made at helpers: there one after another is soonest whole. Or memory is shared.

    A symmetric schedule makes them all at the same time, and copies begin when the last contribution is in:
    211 us instead of 127 for 1 MB among 4 GPUs around a server. And a helper that stays in its place has to
    hold the images of a chunk at the same time.
    """
    is_limited = instance.problem.topology.memory_mb is not None
    return {"helpers", "reductions"} <= instance.features or is_limited


def is_compiled() -> bool:
    """Whether its loops are machine code already, here or on disk."""
    choosing = spanning.choosing_is_compiled() and by_pairs.choosing_is_compiled() and dealing_is_compiled()
    return choosing and scheduler.is_compiled()


def choosers_of(instance: Instance) -> list[Chooser]:
    """The choosers that serve an instance, those first that have routes soonest."""
    phases = [each for each in (instance.phases.reduce_phase, instance.phases.broadcast_phase) if each]
    collective, choosers = instance.problem.collective, list[Chooser]()
    if instance.demand.moves_pairwise:
        choosers += [crossings] if serves_crossings(instance) else []
        choosers += [pairs] if len(instance.demand.from_one_to_another) else []
    elif "helpers" not in instance.features:  # trees span all ranks, and helpers may be no part of one
        choosers += [forests] if serves_forests(instance) else []
    if not choosers and len(collective.inputs) + len(collective.outputs) <= MOST_ROWS_ALONE:
        choosers += [_least_loads] if serves_load_program(instance.problem) else []
        choosers.append(_shortest)
    if "helpers" not in instance.features:
        choosers += [_once(choose) for choose in (layers, packing) if all(map(has_packing, phases))]
        choosers += [_once(flow)] if all(map(has_flow, phases)) else []
    return choosers


def _once(choose: Callable[[Instance, Budget], Routes | None]) -> Chooser:
    """The one set of routes of a chooser that copies, for problems with sums too."""

    def choices(instance: Instance, seed: int, budget: Budget) -> Iterator[Choice]:
        routes = by_phases(choose, instance, budget.share(FOR_PROGRAM))
        if routes is not None:
            most = min(instance.problem.max_group, MOST_TOGETHER, instance.problem.num_chunks)
            for _ in range(SEEDS):
                yield Choice(routes, powers_of_two(most), turns_back=True, matches=True)

    return choices


def _least_loads(instance: Instance, seed: int, budget: Budget) -> Iterator[Choice]:
    """The routes of least load, in all orders; then with copies next to them, then in random orders."""
    most = powers_of_two(min(instance.problem.max_group, MOST_TOGETHER, instance.problem.num_chunks))
    is_free = instance.problem.topology.memory_mb is None
    known = list(_routes_of_least_load(instance, budget))
    # Those first whose busiest port is least busy, but for rounding.
    known.sort(key=lambda found: float(f"{found[1]:.5g}"))
    several = [turns for routes, _ in known for turns in (*one_by_one(instance.problem, routes), routes)]
    for attempt in range(SEEDS):
        for routes in several:
            if len(routes):
                # Slots of memory are taken in the order of turns, which copies next to the routes leave.
                turns_back, chance = attempt == 1 and is_free, LOAD_PROGRAM_CHANCE * (attempt > 1)
                yield Choice(routes, most, behind=LOAD_PROGRAM_BEHIND, turns_back=turns_back, chance=chance)


def _routes_of_least_load(instance: Instance, budget: Budget) -> Iterator[tuple[Routes, float]]:
    """Ways by several programs, with the busiest port's time; until the bound leaves nothing to gain."""
    for straight, passes in LOAD_PROGRAM_TRIALS:
        routes = by_load_program(instance.problem, straight, budget.share(FOR_PROGRAM), passes)
        if routes is not None:
            load_us = float(Open(instance.problem, routes).load_us.max(initial=0.0))
            yield routes, load_us
            if load_us <= instance.bound_us * (1 + LOAD_PROGRAM_NEAR) or not budget.remaining_s():
                return


def _shortest(instance: Instance, seed: int, budget: Budget) -> Iterator[Choice]:
    """Shortest paths: they may end where nobody wants a chunk, so none may leave its route."""
    # Without any time it is asked for a first schedule, which others wait for.
    routes = along_shortest_paths(instance.problem, budget if budget.remaining_s() else None)
    if routes is not None:
        most = min(instance.problem.max_group, MOST_TOGETHER, instance.problem.num_chunks)
        if "helpers" in instance.features:
            # Sums meet at a few helpers, and each is whole soonest if all ranks send it at the same time.
            yield Choice(routes, powers_of_two(most))
        # Groups that are settled before may need more memory at once than a helper has.
        is_free = instance.problem.topology.memory_mb is None
        yield Choice(routes, powers_of_two(most), POWERS, CHANCE, matches=is_free)


def _lifted(
    quotient: Quotient, candidates: Iterator[Schedule], best_us: float, budget: Budget
) -> Iterator[Schedule]:
    """What is faster than the best, lifted: the first at once, the last of all, and some in between.

    To make millions of images takes longer than a way, so no more time goes to them than to routes.
    """
    last_s, took_s, held = budget.remaining_s(), 0.0, None
    for schedule in candidates:
        if schedule.makespan_us >= best_us - TOLERANCE_US:
            continue
        best_us, held = schedule.makespan_us, schedule
        before_s = budget.remaining_s()
        if last_s - before_s >= took_s:
            yield quotient.lifted(schedule)
            last_s, held = budget.remaining_s(), None
            took_s = before_s - last_s
    if held is not None:
        yield quotient.lifted(held)
