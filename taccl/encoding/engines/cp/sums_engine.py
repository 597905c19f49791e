"""Small problems with sums among all programs: the fastest one, and the proof that none is faster.

First, interchangeable chunks go together, as few large ones (`sums_smaller`): that finds recursive doubling
and its like in a moment. After a look for faster programs of all kinds, CP-SAT is queried whether any program
ends before a given moment: hardly later than the bound, before the best one does, then halfway between what
is refuted and what could not be decided, as in `proof`. For each question it is first proved what each chunk
needs by that moment with the network to itself, which the linear relaxation of the whole does not see. The
rest of the time goes to the fastest program again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.cp_sat import events_of
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import Ticks, ticks_of
from taccl.encoding.core.update import Update
from taccl.encoding.engines.cp.solve import is_written_soon
from taccl.encoding.engines.cp.sums_model import Need, SumModel, build, size_of
from taccl.encoding.engines.cp.sums_parts import interchangeable_chunks
from taccl.encoding.engines.cp.sums_read import Program, add_hint, program_of, schedule_of
from taccl.encoding.engines.cp.sums_smaller import (
    bundles,
    one_chunk,
    unbundled,
)
from taccl.encoding.engines.cp.tuning import (
    PROOF_NEAR,
    PROOF_ROUNDING,
    SUMS_ENGINE_BUNDLES_SHARE,
    SUMS_ENGINE_FASTEST_SHARE,
    SUMS_ENGINE_LAST_QUESTION_SHARE,
    SUMS_ENGINE_MOST_ITEMS,
    SUMS_ENGINE_MOST_UNIONS,
    SUMS_ENGINE_NEAR_QUESTION_SHARE,
    SUMS_ENGINE_NEEDS_SHARE,
    SUMS_ENGINE_QUESTION_SHARE,
    SUMS_ENGINE_REPORTED_GROWTH,
)
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import OPTIMAL_GAP
from taccl.support.budget import Budget

#: Where costs are rounded to ticks, no bound comes nearer to a time than this fraction of it.
_PROVED_WHEN_ROUNDING = 2e-5
#: Where costs are rounded, this many ticks (of 10**7) may be what rounding takes off the best program itself.
_ROUNDED_TICKS = 100


def serves_all_programs(instance: Instance) -> Verdict:
    """Whether some sum is wanted at several ranks, and the problem is small enough.

    A sum that one rank wants is made once, on its way there: the compact form leaves nothing out.
    """
    collective = instance.problem.collective
    wanted = np.bincount(collective.outputs.chunk, minlength=collective.num_chunks)
    if not (collective.reduces & (wanted > 1)).any():
        return no("no sum is wanted by several ranks, so the compact form leaves nothing out")
    if not _fits(instance.problem):
        return no(
            f"more than {SUMS_ENGINE_MOST_ITEMS} partial sums on links are too many for any proof in minutes"
        )
    return YES


def _fits(problem: Problem) -> bool:
    collective, topology = problem.collective, problem.topology
    items, unions = 0.0, 0.0
    for reduces, contributors in zip(
        collective.reduces.tolist(), collective.num_sources.tolist(), strict=True
    ):
        items += topology.num_links * (2.0 ** min(contributors, 60) - 1 if reduces else 1)
        unions += problem.num_ranks * (3.0 ** min(contributors, 60) / 2 if reduces else 0)
    return items <= SUMS_ENGINE_MOST_ITEMS and unions <= SUMS_ENGINE_MOST_UNIONS


def _alone(instance: Instance) -> list[tuple[list[int], Instance]]:
    """Interchangeable chunks, and one of them with the network to itself; `instance.once(_alone)`."""
    problem = instance.problem
    return [(chunks, Instance(one_chunk(problem, chunks[0]))) for chunks in interchangeable_chunks(problem)]


def _is_soon_written(problem: Problem, ticks: Ticks, last: int, budget: Budget) -> bool:
    """Whether a model fits, and is written down in a small part of the budget; if so, that work is noted."""
    return is_written_soon(size_of(problem, ticks, last), budget)


def all_programs(
    instance: Instance, options: SearchOptions, budget: Budget, best: Schedule
) -> Iterator[Update]:
    """Yield schedules faster than `best`, and bounds above the known one, until they meet or time is up."""
    if serves_all_programs(instance):
        yield from _Search(instance, options, budget, best, instance.bound_us).run()


class _Search:
    """The best so far, and what is requested next."""

    def __init__(
        self, instance: Instance, options: SearchOptions, budget: Budget, best: Schedule, bound_us: float
    ) -> None:
        self.instance, self.problem = instance, instance.problem
        self.options, self.budget = options, budget
        self.best, self.bound_us = best, bound_us
        # Whether any valid schedule is welcome.
        self.free = self.problem.limits.own_first is None and options.slack is None

    def run(self) -> Iterator[Update]:
        if self.free:
            yield from self._together()
            yield from self._fastest(self.budget.share(SUMS_ENGINE_FASTEST_SHARE))
        yield from self._questions()
        yield from self._fastest(self.budget)

    def _is_proved(self) -> bool:
        """Whether no program can be shown to be faster than the best one."""
        near = OPTIMAL_GAP if ticks_of(self.problem, self.best.makespan_us).exact else _PROVED_WHEN_ROUNDING
        return self.bound_us >= self.best.makespan_us * (1 - near)

    def _better(self, schedule: Schedule) -> Iterator[Update]:
        if self.free and schedule.makespan_us < self.best.makespan_us - TOLERANCE_US:
            self.best = schedule
            yield Update("cp", schedule)

    def _proved(self, ticks: Ticks, num_ticks: int) -> Iterator[Update]:
        """What it means that no solution of a whole model lasts less than this many ticks."""
        value_us = num_ticks * ticks.tick_us * (1 - PROOF_ROUNDING)
        if value_us > self.bound_us:
            self.bound_us = value_us
            chunks, links = self.problem.num_chunks, self.problem.topology.num_links
            yield Update("cp", None, value_us, f"all programs, by CP-SAT: {chunks} chunks on {links} links")

    def _together(self) -> Iterator[Update]:
        """Schedules in which interchangeable chunks go together."""
        for smaller, together in self.instance.once(bundles):
            ticks = ticks_of(smaller.problem, self.best.makespan_us)
            last = ticks.last_before(self.best.makespan_us)
            budget = self.budget.share(SUMS_ENGINE_BUNDLES_SHARE)
            if self._is_proved() or not _is_soon_written(smaller.problem, ticks, last, budget):
                return
            model = build(smaller, ticks, (0, last))
            for each in self._requested(model, budget):
                if isinstance(each, tuple):
                    yield from self._better(unbundled(self.problem, each, together))

    def _questions(self) -> Iterator[Update]:
        """Is any program hardly later than the bound; is any faster than the best; then bisection."""
        ticks, last = self._before_the_best()
        near = ticks.at_most(self.bound_us * (1 + PROOF_NEAR))
        if self.bound_us and near < last:
            yield from self._decided(ticks, near, SUMS_ENGINE_NEAR_QUESTION_SHARE)
        open_us = self.best.makespan_us
        while self.budget.remaining_s() and not self._is_proved():
            ticks, last = self._before_the_best()
            if open_us < self.best.makespan_us:
                if open_us - self.bound_us < PROOF_NEAR * self.bound_us:
                    if open_us >= self.best.makespan_us * (1 - PROOF_NEAR):
                        yield from self._decided(ticks, last, SUMS_ENGINE_LAST_QUESTION_SHARE)
                    return
                last = min(last, ticks.last_before((self.bound_us + open_us) / 2))
            if last < ticks.at_least(self.bound_us):
                return
            decided = False
            for each in self._decided(ticks, last, SUMS_ENGINE_QUESTION_SHARE):
                decided = True
                yield each
            if not decided:
                open_us = min(open_us, last * ticks.tick_us)

    def _before_the_best(self) -> tuple[Ticks, int]:
        """How long a program may last that is faster than the best one."""
        ticks = ticks_of(self.problem, self.best.makespan_us)
        last = ticks.last_before(self.best.makespan_us)
        return ticks, last - (0 if ticks.exact else _ROUNDED_TICKS)

    def _decided(self, ticks: Ticks, last: int, share: float) -> Iterator[Update]:
        """A program that ends by a moment, or that there is none; nothing if neither could be stated."""
        needs = self._needs(ticks, last)
        if needs is None:
            yield from self._proved(ticks, last + 1)
            return
        if not _is_soon_written(self.problem, ticks, last, self.budget.share(share)):
            return
        model = build(self.instance, ticks, (ticks.at_least(self.bound_us), last), False, needs)
        add_hint(model, self.best)
        for each in self._requested(model, self.budget.share(share)):
            if isinstance(each, tuple):
                yield from self._better(schedule_of(self.problem, each))
                return
            yield from self._proved(ticks, each)

    def _needs(self, ticks: Ticks, last: int) -> list[Need] | None:
        """What each chunk takes of the links by a moment; None if some chunk alone is not done by then."""
        topology = self.problem.topology
        links = [range(topology.num_links), *topology.links_into, *topology.links_from]
        budget = self.budget.share(SUMS_ENGINE_NEEDS_SHARE)
        needs: list[Need] = []
        kinds = self.instance.once(_alone)
        for number, (chunks, alone) in enumerate(kinds):
            if not _is_soon_written(alone.problem, ticks, last, budget):
                return needs
            model = build(alone, ticks, (0, last), False)
            cost = model.clock.cost[0]
            for position, over in enumerate(links):
                if not budget.remaining_s():
                    return needs
                weight = {link: cost[link] or 1 for link in over}
                takes = sum(weight[link] * use for _, link, use in model.uses[0] if link in weight)
                if isinstance(takes, int):
                    continue
                model.cp.minimize(takes)
                left = (len(kinds) - number) * len(links) - position
                least = 0
                for each in events_of(
                    model.cp, lambda value: None, self.options.seed, budget.share(1 / left), 1
                ):
                    if each.impossible:
                        return None
                    least = max(least, each.bound)
                needs.append(Need(tuple(chunks), weight, least))
        return needs

    def _fastest(self, budget: Budget) -> Iterator[Update]:
        """Better and better programs, from the best on."""
        ticks = ticks_of(self.problem, self.best.makespan_us)
        lasting = ticks.at_least(self.bound_us), ticks.at_most(self.best.makespan_us)
        if self._is_proved() or not _is_soon_written(self.problem, ticks, lasting[1], budget):
            return
        model = build(self.instance, ticks, lasting)
        add_hint(model, self.best)
        proved = reported = 0
        for each in self._requested(model, budget):
            if isinstance(each, tuple):
                yield from self._better(schedule_of(self.problem, each))
                continue
            proved = each
            if proved > reported * (1 + SUMS_ENGINE_REPORTED_GROWTH):
                reported = proved
                yield from self._proved(ticks, proved)
        yield from self._proved(ticks, proved)

    def _requested(self, model: SumModel, budget: Budget) -> Iterator[Program | int]:
        """Programs that end in time, and how many ticks all last at least, as far as is proved."""
        for each in events_of(model.cp, lambda value: program_of(model, value), self.options.seed, budget):
            if each.decisions is not None:
                yield each.decisions
            elif each.impossible:
                yield model.clock.last + 1
            elif each.bound:
                yield each.bound
