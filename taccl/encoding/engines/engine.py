"""What an engine is: a value with a name, what it can, what it serves, and a stream of improving answers.

Engines are anytime. They yield an `Update` whenever they have a better schedule or a better bound,
and stop when they have nothing more to say or their budget is spent. They print nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: Yields better and better schedules than the incumbent, if there is one, until done or out of budget.
Run = Callable[[Instance, SearchOptions, Budget, "Schedule | None"], Iterator[Update]]
#: The same for an engine that only improves what it is given.
Improve = Callable[[Instance, SearchOptions, Budget, Schedule], Iterator[Update]]


@dataclass(frozen=True)
class Verdict:
    """Whether something serves a problem; if not, `reason` says why in a sentence."""

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


#: It serves.
YES = Verdict()


def no(reason: str) -> Verdict:
    """It does not serve, and why."""
    return Verdict(reason)


@dataclass(frozen=True)
class Engine:
    """One way of answering problems.

    Parameters
    ----------
    name : as in `--engine`.
    about : what it does, in a few words.
    features : what a problem may use; one that uses more is skipped (`Problem.features`).
    serves : whether it answers an instance, or why not. It is asked about a problem that only copies,
        unless `takes_sums`.
    run : the answers.
    takes_sums : whether it answers problems with sums as a whole; else it is asked for each phase.
    at_once : its first answers, where they are there much sooner than those of `run`.
    is_quick : whether its first answer is there within seconds, so that it may be asked before all others.
    part_of : the engine with which it is asked for; empty: none.
    is_compiled : whether its loops are machine code already; None: it has none.
    """

    name: str
    about: str
    features: frozenset[str]
    serves: Callable[[Instance], Verdict]
    run: Run
    takes_sums: bool = False
    at_once: Run | None = None
    is_quick: Callable[[Instance], bool] = lambda _: True
    part_of: str = ""
    is_compiled: Callable[[], bool] | None = None

    def can(self, instance: Instance) -> Verdict:
        """Whether it knows the features and serves the instance, or both phases of it if it only copies."""
        lacking = sorted(instance.features - self.features)
        if lacking:
            return no(f"it knows no {lacking[0].replace('_', ' ')}")
        if self.takes_sums:
            return self.serves(instance)
        parts = instance.phases
        verdicts = [self.serves(part) for part in (parts.reduce_phase, parts.broadcast_phase) if part]
        return next((verdict for verdict in verdicts if not verdict), YES)


def everything(_: Instance) -> Verdict:
    """Of an engine that serves whatever has its features."""
    return YES


def beginning_with(first: Run, improve: Improve) -> Run:
    """The engine that gives `improve` the first schedule of `first` where there is none yet.

    Where nothing has to move, there is nothing to improve.
    """

    def run(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        if incumbent is None:
            update = next(first(instance, options, budget.share(0.0), None), None)
            if update is None or update.schedule is None:
                return
            yield update
            incumbent = update.schedule
        if len(incumbent):
            yield from improve(instance, options, budget, incumbent)

    return run
