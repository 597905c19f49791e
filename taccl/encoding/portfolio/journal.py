"""What every engine did in a search: how long it ran, what it found, what it declined, how it failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from taccl.encoding.core.budget import Budget
from taccl.encoding.core.update import Update
from taccl.errors import TacclError
from taccl.schedule import Schedule


@dataclass(frozen=True)
class EngineRun:
    """An engine in a search.

    Parameters
    ----------
    name : of the engine.
    seconds : that it ran, all its turns together; nominal ones where work is counted.
    time_us : of the last schedule that it found, microseconds; None: none faster than what was known. An
        engine that works on a phase tells the time of that phase.
    lower_bound_us : the best bound that it proved of what it worked on, microseconds; 0: none.
    """

    name: str
    seconds: float
    time_us: float | None = None
    lower_bound_us: float = 0.0


@dataclass(frozen=True)
class Declined:
    """An engine or a bound that did not serve the problem, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Failure:
    """An engine or a bound that broke down, in its words."""

    name: str
    text: str


@dataclass
class Journal:
    """What happened so far. Engines are in the order of their first turns."""

    _runs: dict[str, EngineRun] = field(default_factory=dict)
    _declined: dict[str, Declined] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    _refused: list[Schedule] = field(default_factory=list)

    @property
    def runs(self) -> tuple[EngineRun, ...]:
        return tuple(self._runs.values())

    @property
    def declined(self) -> tuple[Declined, ...]:
        """Each with the first reason that it gave; nothing that had a turn later."""
        return tuple(each for name, each in self._declined.items() if name not in self._runs)

    def declines(self, name: str, reason: str) -> None:
        self._declined.setdefault(name, Declined(name, reason))

    def fails(self, name: str, fault: Exception) -> None:
        failure = Failure(name, told(fault))
        if failure not in self.failures:  # a bound is asked again about each phase
            self.failures.append(failure)

    def refuses(self, name: str, schedule: Schedule, fault: Exception) -> None:
        """Note that a schedule is not valid, so that nobody goes on from it."""
        self.fails(name, fault)
        self._refused.append(schedule)

    def accepted(self, update: Update) -> Schedule | None:
        """The schedule of an update that was yielded before, unless it was refused; None: it has none."""
        return None if any(each is update.schedule for each in self._refused) else update.schedule

    def kept(self, name: str, budget: Budget, updates: Iterator[Update]) -> Iterator[Update]:
        """The updates of an engine's turn, with a note of each here.

        One that breaks down ends its turn, and no more: what others found is kept, and others go on.
        """
        run = self._runs.get(name, EngineRun(name, 0.0))
        began_s = budget.remaining_s()
        try:
            for update in self.guarded(name, updates):
                if update.schedule is not None:
                    run = replace(run, time_us=update.schedule.makespan_us)
                run = replace(run, lower_bound_us=max(run.lower_bound_us, update.lower_bound_us))
                yield update
        finally:
            self._runs[name] = replace(run, seconds=run.seconds + began_s - budget.remaining_s())

    def guarded(self, name: str, updates: Iterator[Update]) -> Iterator[Update]:
        """The updates until they end or break down, which is noted."""
        try:
            yield from updates
        except Exception as fault:  # a bug of one engine or bound must not lose what another found
            self.fails(name, fault)


def told(fault: Exception) -> str:
    """A failure in a line for people."""
    if isinstance(fault, TacclError):
        return str(fault)
    return f"{type(fault).__name__}: {fault}"
