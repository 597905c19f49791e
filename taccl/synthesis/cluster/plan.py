"""Which tasks a search is made of: engines and seeds in their order, and how much of a budget each has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from taccl.encoding.core.options import MAX_SEED, SearchOptions
from taccl.encoding.engines.needs import is_huge
from taccl.encoding.engines.registry import all_engines, serves_somehow
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.support.budget import UNITS_PER_S, Budget
from taccl.synthesis.cluster.tuning import PLAN_UNCUT_S, PLAN_WAY, PLAN_WAY_S


def engines_for(instance: Instance, requested: str, journal: Journal) -> tuple[str, ...]:
    """What is worth a task of its own for an instance: `auto`, then each engine that serves it."""
    if requested != "auto" or is_huge(instance):
        return (requested,)
    return (requested, *_serving(instance, journal))


def _serving(instance: Instance, journal: Journal) -> Iterator[str]:
    for engine in all_engines(journal.fails):
        if engine.part_of or engine.role == "first":
            continue  # every search asks it anyway
        try:
            if serves_somehow(engine, instance):
                yield engine.name
        except Exception as fault:  # of another package, and no other engine has to pay for it
            journal.fails(engine.name, fault)


def variations(options: SearchOptions, engines: tuple[str, ...]) -> Iterator[SearchOptions]:
    """The options with each engine in turn, then again with the next seed, without end.

    Between any two engines `auto` comes with a seed of its own, so half of all tasks are as a search without
    a cluster is.
    """
    seed = options.seed
    while True:
        for name in engines:
            if name != engines[0]:
                yield replace(options, engine=name, seed=seed)
                seed = (seed + 1) % (MAX_SEED + 1)
            yield replace(options, engine=engines[0], seed=seed)
        seed = (seed + 1) % (MAX_SEED + 1)


def for_a_part(
    options: SearchOptions, budget: Budget, part: float, uncut_s: float = PLAN_UNCUT_S
) -> SearchOptions:
    """The options of a task with a part of what is left, less its way to the worker and back."""
    left_s = budget.remaining_s()
    if budget.counts_work:
        return replace(options, effort=max(1, round(left_s * part * UNITS_PER_S)))
    seconds = left_s if left_s <= uncut_s else max(left_s * part, uncut_s)
    return replace(options, time_limit_s=max(0.0, seconds - PLAN_WAY * seconds - PLAN_WAY_S))
