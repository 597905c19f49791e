"""The searches of a request: under the costs of any way to make the file, its number of chunks given or not.

It knows requests, numbers of chunks and who carries out searches; how a way is chosen it must not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.engines.textbook.known import textbook_schedules
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.sketch import SketchedNetwork
from taccl.support.budget import Budget
from taccl.synthesis.autotune import Searched, Way
from taccl.synthesis.chunking import choose_chunks
from taccl.synthesis.request import Request
from taccl.synthesis.resolved import Resolved, resolve
from taccl.synthesis.search import Alone, Observer, Searcher
from taccl.synthesis.stated import StatedProblem, stated_problem

#: Where files are predicted: textbook schedules of a number of chunks, and of how many numbers.
_TEXTBOOKS, _OF_NUMBERS = 6, 3
#: The part of a search's budget that writing these down takes.
_WRITING_DOWN = 0.05


@dataclass(frozen=True, eq=False)
class Searching:
    """Searches for a request under the costs of any way to make the file.

    `can_be_used` : raises TacclError where no file can hold a schedule; None: that is found out later.
    `searcher` : who carries out the searches.
    `several` : whether to hand over also what is not the best by the costs of the problem.
    `chunk_bytes` : where the number of chunks is open, chunks are multiples of so many bytes.
    """

    request: Request
    resolved: Resolved
    network: SketchedNetwork
    can_be_used: Callable[[Schedule, Way], object] | None
    searcher: Searcher
    several: bool
    chunk_bytes: int = 1

    def __call__(
        self,
        way: Way,
        options: SearchOptions,
        budget: Budget | None,
        on_progress: Observer | None,
        quick: bool = False,
    ) -> Searched[StatedProblem]:
        """What `choosing.Search` says; without a budget, it is that of the options."""
        if budget is not None and options.effort is None:
            options = replace(options, time_limit_s=budget.remaining_s())
        known_in = None if budget is None else budget.share(_WRITING_DOWN)
        if self.request.leaves_chunks_open and not quick:
            return self._with_others(self._with_chunks(way, options, budget, on_progress), known_in)
        stated = self._stated(way, self.resolved)
        instance = Instance(stated.problem)
        if quick and engine_named("greedy").can(instance):
            options = replace(options, engine="greedy")
        searcher = Alone() if quick else self.searcher
        found = searcher.search(instance, options, on_progress, budget)
        searched = Searched(way, stated, found, ((stated, found),))
        return searched if quick else self._with_others(searched, known_in)

    def with_chunks(self, number: int) -> Searching:
        """The same for so many chunks in each part, asked for by their number. Raises what `resolve` does."""
        request = replace(self.request, chunks=number)
        return replace(self, request=request, resolved=self._cut(number))

    def _with_others(
        self, searched: Searched[StatedProblem], budget: Budget | None
    ) -> Searched[StatedProblem]:
        """With what the search passed through and what textbooks say, where files decide.

        By the costs of a problem sums take no time, so what they put first need not be the best file.
        """
        if not self.several or budget is None:
            return searched
        others = []
        fastest = sorted(searched.all_found, key=lambda each: each[1].schedule.makespan_us)
        for place, (stated, found) in enumerate(fastest):
            known = list(found.passed)
            if place < _OF_NUMBERS and found.status != "interrupted":
                known += textbook_schedules(Instance(stated.problem), budget.share(1 / 2), _TEXTBOOKS)
            others += [(stated, found.passing(each)) for each in known if each is not found.schedule]
        return replace(searched, all_found=(*searched.all_found, *others))

    def _with_chunks(
        self, way: Way, options: SearchOptions, budget: Budget | None, on_progress: Observer | None
    ) -> Searched[StatedProblem]:
        """The same, with the number of chunks that is fastest under these costs."""
        usable = self.can_be_used
        choice = choose_chunks(
            lambda number: self._stated(way, self._cut(number)),
            options,
            on_progress,
            None if usable is None else lambda schedule: usable(schedule, way),
            budget,
            self.searcher,
            self.chunk_bytes,
        )
        return Searched(
            way, choice.stated, choice.found, choice.all_found, choice.tried, self.resolved.notes, choice.note
        )

    def _cut(self, number: int) -> Resolved:
        """What is asked, with so many chunks in each part."""
        return resolve(
            Request(
                collective=self.request.collective,
                topology=self.resolved.topology,
                sketch=self.resolved.sketch,
                size=self.request.size,
                chunks=number,
                root=self.request.root,
                target=self.request.target,
            )
        )

    def problem(self, way: Way) -> Problem:
        """What engines see under the costs of a way, with as many chunks as are asked for."""
        return self._stated(way, self.resolved).problem

    def _stated(self, way: Way, resolved: Resolved) -> StatedProblem:
        return stated_problem(resolved, self.request.symmetry, self.network, way.served)
