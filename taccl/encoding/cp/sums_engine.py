"""Small problems with sums among all programs: the fastest one, and the proof that none is faster.

First chunks that are alike go together, as few large ones (`sums_smaller`): that finds recursive doubling and its like
in a moment. Then CP-SAT is asked whether any program ends before a given moment, each halfway between what is refuted
and what could not be decided, as in `proof`; there, what each chunk needs by that moment with the network to itself
is proved first, since the linear relaxation does not see it. The rest of the time goes to the fastest program.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.cp.solve import news_of
from taccl.encoding.cp.sums_model import Need, SumModel, build
from taccl.encoding.cp.sums_read import Program, add_hint, program_of, schedule_of
from taccl.encoding.cp.sums_smaller import bundles, one_chunk, unbundled
from taccl.encoding.cp.sums_ways import alike
from taccl.encoding.cp.ticks import Ticks, ticks_of
from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: More items on links, or more ways of making parts at ranks, take longer to write down than to search.
_MOST_ITEMS = 6_000
_MOST_UNIONS = 4_000
#: Shares of the time that is left: for each size of bundles, for each question, for what chunks need before it.
_BUNDLES_SHARE, _QUESTION_SHARE, _NEEDS_SHARE = 0.15, 0.4, 0.2
#: A bound within this fraction of what could not be decided is near enough.
_NEAR = 2e-3
#: A bound within this fraction of a schedule's time proves it fastest.
_PROVED = 1e-9
#: Taken off a bound, so that float error never puts it above a schedule.
_ROUNDING = 1e-11
#: What rounding to ticks may take off a program, in ticks: each send is rounded down once.
_ROUNDED_TICKS = 100
#: A bound that grows by less than this fraction is not worth telling before the end.
_NEWS = 1e-3


def is_for_all_programs(problem: Problem) -> bool:
    """Whether some sum is wanted at several ranks, and the problem is small enough.

    A sum that one rank wants is made once on its way there: for such problems the compact form leaves nothing out.
    """
    collective = problem.collective
    shared = collective.reduces & (collective.post.sum(axis=1) > 1)
    return bool(shared.any()) and _fits(problem)


def _fits(problem: Problem) -> bool:
    collective, topology = problem.collective, problem.topology
    items, unions = 0.0, 0.0
    for reduces, contributors in zip(
        collective.reduces.tolist(), collective.pre.sum(axis=1).tolist(), strict=True
    ):
        items += topology.num_links * (2.0**contributors - 1 if reduces else 1)
        unions += problem.num_ranks * (3.0**contributors / 2 if reduces else 0)
    return items <= _MOST_ITEMS and unions <= _MOST_UNIONS


def all_programs(
    problem: Problem, options: SolveOptions, budget: Budget, best: Schedule, bound_us: float
) -> Iterator[Update]:
    """Yield better schedules than `best`, and bounds better than `bound_us`, until they meet or time is up."""
    yield from _Search(problem, options, budget, best, bound_us).run()


class _Search:
    """The best so far, and what is asked next."""

    def __init__(
        self, problem: Problem, options: SolveOptions, budget: Budget, best: Schedule, bound_us: float
    ) -> None:
        self.problem, self.options, self.budget = problem, options, budget
        self.best, self.bound_us = best, bound_us
        # Whether any valid schedule is welcome.
        self.free = problem.limits.own_first is None and options.slack is None

    def run(self) -> Iterator[Update]:
        if self.free:
            yield from self._bundles()
        yield from self._questions()
        if not self._is_proved() and self.budget.remaining_s():
            yield from self._fastest()

    def _is_proved(self) -> bool:
        return self.bound_us >= self.best.makespan_us * (1 - _PROVED)

    def _better(self, schedule: Schedule) -> Iterator[Update]:
        if self.free and schedule.makespan_us < self.best.makespan_us - TOLERANCE_US:
            self.best = schedule
            yield Update("cp", schedule)

    def _proved(self, ticks: Ticks, num_ticks: int) -> Iterator[Update]:
        """What it means that no solution of a whole model lasts less than so many ticks."""
        value_us = num_ticks * ticks.tick_us * (1 - _ROUNDING)
        if value_us > self.bound_us:
            self.bound_us = value_us
            chunks, links = self.problem.num_chunks, self.problem.topology.num_links
            yield Update("cp", None, value_us, f"all programs, by CP-SAT: {chunks} chunks on {links} links")

    def _bundles(self) -> Iterator[Update]:
        for smaller, together in bundles(self.problem):
            if self._is_proved() or not self.budget.remaining_s():
                return
            ticks = ticks_of(smaller, self.best.makespan_us)
            model = build(smaller, ticks, (0, ticks.last_before(self.best.makespan_us)))
            for each in self._asked(model, self.budget.share(_BUNDLES_SHARE)):
                if isinstance(each, tuple):
                    yield from self._better(unbundled(self.problem, each, together))

    def _questions(self) -> Iterator[Update]:
        """Whether any program is faster than the best; then bisection, as long as that cannot be told."""
        open_us = self.best.makespan_us
        while self.budget.remaining_s() and not self._is_proved():
            ticks = ticks_of(self.problem, self.best.makespan_us)
            last = ticks.last_before(self.best.makespan_us) - (0 if ticks.exact else _ROUNDED_TICKS)
            if open_us < self.best.makespan_us:
                if open_us - self.bound_us < _NEAR * self.bound_us:
                    return
                last = min(last, ticks.last_before((self.bound_us + open_us) / 2))
            if last < ticks.at_least(self.bound_us):
                return
            told = False
            for each in self._decided(ticks, last):
                told = True
                yield each
            if not told:
                open_us = min(open_us, last * ticks.tick_us)

    def _decided(self, ticks: Ticks, last: int) -> Iterator[Update]:
        """A program that ends by a moment, or that there is none; nothing if neither could be told."""
        needs = self._needs(ticks, last)
        if needs is None:
            yield from self._proved(ticks, last + 1)
            return
        model = build(self.problem, ticks, (ticks.at_least(self.bound_us), last), False, needs)
        add_hint(model, self.best)
        for each in self._asked(model, self.budget.share(_QUESTION_SHARE)):
            if isinstance(each, tuple):
                yield from self._better(schedule_of(self.problem, each))
                return
            yield from self._proved(ticks, each)

    def _needs(self, ticks: Ticks, last: int) -> list[Need] | None:
        """What each chunk takes of the links by a moment; None if some chunk alone is not done by then."""
        topology, cost = self.problem.topology, None
        kinds = alike(self.problem)
        links = [range(topology.num_links), *topology.links_into, *topology.links_from]
        budget = self.budget.share(_NEEDS_SHARE)
        needs = []
        for number, chunks in enumerate(kinds):
            model = build(one_chunk(self.problem, chunks[0]), ticks, (0, last), False)
            cost = model.costs[1]
            for position, over in enumerate(links):
                weight = {link: cost[link] or 1 for link in over}
                model.cp.minimize(sum(weight[link] * use for (_, link), use in model.use.items() if link in weight))
                left = (len(kinds) - number) * len(links) - position
                least = 0
                for each in news_of(model.cp, lambda value: None, self.options.seed, budget.share(1 / left)):
                    if each.impossible:
                        return None
                    least = max(least, each.bound)
                needs.append(Need(tuple(chunks), weight, least))
        return needs

    def _fastest(self) -> Iterator[Update]:
        ticks = ticks_of(self.problem, self.best.makespan_us)
        lasting = ticks.at_least(self.bound_us), ticks.at_most(self.best.makespan_us)
        model = build(self.problem, ticks, lasting)
        add_hint(model, self.best)
        told = 0.0
        for each in self._asked(model, self.budget):
            if isinstance(each, tuple):
                yield from self._better(schedule_of(self.problem, each))
            elif each > told * (1 + _NEWS):
                told = each
                yield from self._proved(ticks, each)

    def _asked(self, model: SumModel, budget: Budget) -> Iterator[Program | int]:
        """Programs that end by `model.last`, and how many ticks every program lasts, as far as it is proved."""
        for each in news_of(model.cp, lambda value: program_of(model, value), self.options.seed, budget):
            if each.decisions is not None:
                yield each.decisions
            elif each.impossible:
                yield model.last + 1
            elif each.bound:
                yield each.bound
