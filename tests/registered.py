"""The registered engines as functions of a problem, for tests that look at one engine alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.engine import Run
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


@dataclass(frozen=True)
class OnProblem:
    """An engine that is given a problem of which nothing is known yet."""

    run: Run

    def __call__(
        self, problem: Problem, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        return self.run(Instance(problem), options, budget, incumbent)


def reducing(engine: OnProblem) -> OnProblem:
    """The engine requested each phase of a problem with sums."""
    return OnProblem(by_phases(engine.run))


def serves(name: str, problem: Problem) -> bool:
    """Whether the engine of that name says that it serves a problem as it is."""
    return bool(engine_named(name).serves(Instance(problem)))


def _alone(name: str) -> OnProblem:
    return OnProblem(engine_named(name).run)


def _at_once(name: str) -> OnProblem:
    run = engine_named(name).at_once
    assert run is not None
    return OnProblem(run)


greedy, combining, milp, cp = _alone("greedy"), _alone("combining"), _alone("milp"), _alone("cp")
textbook = _alone("textbook")
exchange, owners = _alone("exchange"), _alone("owners")
joint, all_programs = _alone("joint"), _alone("all-programs")
lns = _alone("lns")
combining_at_once, routes_at_once = _at_once("combining"), _at_once("routes")
textbook_at_once = _at_once("textbook")
