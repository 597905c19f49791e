"""Engines that only copy, for problems with sums: each phase is answered, and the answers are merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from taccl.encoding.core.mirror_image import as_same, same_links
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import (
    Phases,
    as_copies,
    care_takes_s,
    merged,
    merged_with_care,
    overlapped,
    owners_of,
)
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Run
from taccl.encoding.engines.tuning import (
    BY_PHASES_CARE_AT_ONCE_S,
    BY_PHASES_FOR_MIRROR,
    BY_PHASES_LARGE,
    BY_PHASES_LEAST_FOR_CARE,
    BY_PHASES_MANY_ROWS,
    BY_PHASES_MIRRORED_PER_S,
    BY_PHASES_MOST_FOR_CARE,
    BY_PHASES_QUOTIENT,
    BY_PHASES_STATED_PER_S,
)
from taccl.encoding.instance import Instance
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def by_phases(engine: Run, asks_quotient: bool = True) -> Run:
    """The engine, for problems with sums too.

    Where sums are copied on and ranks are in one orbit, the quotient is answered first
    (`symmetry.quotient`), with half of the budget. Each phase has its own share, and the rest goes into
    overlapping them, by other orders of the same sends. Sums are made where the incumbent makes them, if
    there is one.

    `asks_quotient` : not for an engine that decides one send of each orbit itself.
    """

    def run(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        problem, parts = instance.problem, instance.phases
        if parts.reduce_phase is None:
            yield from engine(instance, options, budget, incumbent)
            return
        best = incumbent
        # One phase alone, and a symmetry that is requested, are the engine's own business.
        in_orbits = asks_quotient and not problem.symmetry and parts.broadcast_phase is not None
        if best is not None and instance.quotient_takes_s > budget.remaining_s():
            in_orbits = False
        quotient, small = (instance.quotient, instance.quotient_instance) if in_orbits else (None, None)
        is_large = problem.num_chunks * problem.num_ranks > BY_PHASES_LARGE
        if quotient is not None and small is not None:
            part = budget.share(1.0 if is_large else BY_PHASES_QUOTIENT)
            for update in _in_phases(engine, small, options, part, None):
                found = update.schedule
                # A bound of the quotient is none of the whole.
                if found and (best is None or found.makespan_us < best.makespan_us - TOLERANCE_US):
                    best = quotient.lifted(found)
                    yield Update(update.stage, best)
        stating_s = problem.num_chunks * problem.num_ranks / BY_PHASES_STATED_PER_S
        if best is None or (budget.remaining_s() > stating_s and not (is_large and quotient is not None)):
            yield from _in_phases(engine, instance, options, budget, best)

    return run


def _in_phases(
    engine: Run,
    instance: Instance,
    options: SearchOptions,
    budget: Budget,
    best: Schedule | None,
) -> Iterator[Update]:
    """Better and better schedules of a problem with sums, from schedules of its phases."""
    parts = instance.phases
    if best is not None and best.sums is None and parts.broadcast_phase is not None:
        owners = owners_of(best)
        # A helper holds no data, so it is no end of a phase.
        if (owners < instance.problem.topology.num_members).all():
            parts = instance.phases_at(owners)
    left_s, care_s = budget.remaining_s(), care_takes_s(instance.problem)
    with_care = care_s < BY_PHASES_MOST_FOR_CARE * left_s
    share = budget.share(1.0 - with_care * care_s / max(left_s, care_s))
    plain: _Plain = (None, None)
    for update in _pairs(engine, parts, options, share, best):
        if isinstance(update, Update):
            yield update
            continue
        stage, sums, copies = update
        plain = _plainer(plain[0], sums), _plainer(plain[1], copies)
        # Where there is a schedule already, or it takes long, orders are compared only while there is time.
        in_any_case = best is None and care_s < BY_PHASES_CARE_AT_ONCE_S
        schedule = merged(instance.problem, sums, copies, None if in_any_case else budget)
        if best is None or schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield Update(stage, best)
    if best is None or parts.broadcast_phase is None:
        return
    if with_care and budget.remaining_s() > BY_PHASES_LEAST_FOR_CARE * care_s and None not in plain:
        schedule = min(merged_with_care(instance.problem, *plain, budget), key=lambda each: each.makespan_us)
        if schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield Update("overlap", best)
    for schedule in overlapped(best, options.seed, budget):
        yield Update("overlap", schedule)


def _plainer(kept: Schedule | None, found: Schedule | None) -> Schedule | None:
    """The faster of those without groups: single sends of two phases can go next to each other.

    Groups make one phase faster, and keep ports busy for long where the other phase could use them.
    """
    if found is None or len(found.sends) < len(found):
        return kept
    return found if kept is None or found.makespan_us < kept.makespan_us else kept


#: Schedules of the reduce phase and of the broadcast phase.
_Plain = tuple[Schedule | None, Schedule | None]
_Pair = tuple[str, Schedule | None, Schedule | None]


def _pairs(
    engine: Run, parts: Phases[Instance], options: SearchOptions, budget: Budget, best: Schedule | None
) -> Iterator[_Pair | Update]:
    """Improving pairs of phases: the first schedule of each at once, then the better ones of each.

    What an engine proves of sums alone, read backwards, it proves of the problem: that is passed on, where
    the topology's schedules read backwards are schedules. (Sums that each go to one rank may as well leave
    each rank once, if all ranks may sum; `bounds` says why.) Sums alone begin with the best schedule of the
    problem, read backwards. Of phases that are each other's mirror image one is searched.
    """
    if best is not None and _is_long(best, budget):
        return
    if parts.reduce_phase is not None and parts.broadcast_phase is None:
        incumbent = None if best is None else as_copies(parts.reduce_phase.problem, best)
        for update in engine(parts.reduce_phase, options, budget, incumbent):
            if update.schedule is not None:
                yield update.stage, update.schedule, None
            reduced = parts.reduce_phase.problem.topology
            # Read backwards, who may not sum may not copy. Forwards its parts may leave one after another.
            if update.lower_bound_us and reduced.reads_backwards and reduced.may_copy is None:
                yield replace(update, schedule=None)
        return
    assert parts.reduce_phase is not None and parts.broadcast_phase is not None
    links = same_links(parts.reduce_phase.problem, parts.broadcast_phase.problem)
    if links is not None:
        for both in _with_schedules(engine(parts.reduce_phase, options, budget.share(0.8), None)):
            assert both.schedule is not None
            yield both.stage, both.schedule, as_same(both.schedule, parts.broadcast_phase.problem, links)
        return
    first, second = budget.share(0.4), budget.share(0.8)
    sums_stream = _with_schedules(engine(parts.reduce_phase, options, first, None))
    copies_stream = _with_schedules(engine(parts.broadcast_phase, options, second, None))
    sums, copies = next(sums_stream, None), next(copies_stream, None)
    if sums is None or copies is None:
        return
    yield sums.stage, sums.schedule, copies.schedule
    for sums in sums_stream:
        yield sums.stage, sums.schedule, copies.schedule
    for copies in copies_stream:
        yield copies.stage, sums.schedule, copies.schedule


def _is_long(best: Schedule, budget: Budget) -> bool:
    """Whether to read a schedule backwards takes too much of the time for anybody to find a better one.

    So does a first schedule of each phase, which is made to its end.
    """
    return (
        len(best) > BY_PHASES_MANY_ROWS
        and len(best) / BY_PHASES_MIRRORED_PER_S > BY_PHASES_FOR_MIRROR * budget.remaining_s()
    )


def _with_schedules(updates: Iterator[Update]) -> Iterator[Update]:
    return (update for update in updates if update.schedule is not None)
