"""What every engine did in a search: how long it ran, what it found, what it declined, how it failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from taccl.encoding.bounds import NOTHING, Proof
from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance, Part
from taccl.encoding.portfolio.tuning import JOURNAL_OF_A_TURN
from taccl.errors import TacclError, is_out_of_memory
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.support.interrupts import is_interrupt


@dataclass(frozen=True)
class EngineRun:
    """An engine on one part of the problem, in a search.

    Parameters
    ----------
    name : of the engine.
    seconds : that it ran, all its turns together, without those of engines that had their turns inside of
        it; nominal ones where work is counted. So all runs of a search add up to no more than it took.
    time_us : of the last schedule of the part that it found, microseconds; None: none faster than what was
        known.
    lower_bound_us : the best bound of the part that it proved, microseconds; 0: none.
    part : what it worked on.
    """

    name: str
    seconds: float
    time_us: float | None = None
    lower_bound_us: float = 0.0
    part: Part = "whole"

    def to_dict(self) -> dict[str, object]:
        """What the engine did, for JSON."""
        return {
            "part": self.part,
            "name": self.name,
            "solve_s": round(self.seconds, 3),
            "time_us": self.time_us,
            "lower_bound_us": self.lower_bound_us,
        }

    def with_news(self, update: Update, *, is_of_quotient: bool) -> EngineRun:
        """The run, after an update."""
        found, bound_us = update.schedule, 0.0 if is_of_quotient else update.lower_bound_us
        return replace(
            self,
            time_us=self.time_us if found is None else found.makespan_us,
            lower_bound_us=max(self.lower_bound_us, bound_us),
        )


@dataclass(frozen=True)
class Declined:
    """An engine or a bound that did not serve the problem, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class EngineFailure:
    """An engine or a bound that broke down, in its words."""

    name: str
    text: str


@dataclass
class Journal:
    """What happened so far. Engines are in the order of their first turns."""

    _runs: dict[tuple[Part, str], EngineRun] = field(default_factory=dict)
    _declined: dict[str, Declined] = field(default_factory=dict)
    failures: list[EngineFailure] = field(default_factory=list)
    _refused: list[Schedule] = field(default_factory=list)
    #: For each engine at work, the innermost last: seconds of those that it requested meanwhile.
    _inside_s: list[float] = field(default_factory=list)
    #: Whether an engine or a bound lacked memory.
    lacked_memory: bool = False
    #: The largest bound so far that holds for any number of equal chunks.
    any_chunks: Proof = NOTHING

    @property
    def runs(self) -> tuple[EngineRun, ...]:
        return tuple(self._runs.values())

    @property
    def declined(self) -> tuple[Declined, ...]:
        """Each with the first reason that it gave; nothing that had a turn later."""
        ran = {name for _, name in self._runs}
        return tuple(each for name, each in self._declined.items() if name not in ran)

    def hears(self, proof: Proof) -> None:
        """Keep what is proved for any number of equal chunks."""
        if proof.holds_for_any_chunks and proof.value_us > self.any_chunks.value_us:
            self.any_chunks = proof

    def declines(self, name: str, reason: str) -> None:
        self._declined.setdefault(name, Declined(name, reason))

    def fails(self, name: str, fault: Exception) -> None:
        failure = EngineFailure(name, reported(fault))
        self.lacked_memory |= is_out_of_memory(fault)
        if failure not in self.failures:  # a bound is queried again about each phase
            self.failures.append(failure)

    def refuses(self, name: str, schedule: Schedule, fault: Exception) -> None:
        """Note that a schedule is not valid, so that nobody goes on from it."""
        self.fails(name, fault)
        self._refused.append(schedule)

    def accepted(self, update: Update) -> Schedule | None:
        """The schedule of an update that was yielded before, unless it was refused; None: it has none."""
        return None if any(each is update.schedule for each in self._refused) else update.schedule

    def kept(
        self, name: str, instance: Instance, budget: Budget, updates: Iterator[Update]
    ) -> Iterator[Update]:
        """The updates of an engine's turn on an instance, with a note of each here.

        One that breaks down ends its turn, and no more: what others found is kept, and others go on.
        """
        part = instance.part
        self._runs.setdefault((part, name), EngineRun(name, 0.0, part=part))
        steps = self.guarded(name, self._noted(name, instance, updates))
        budget.spend(JOURNAL_OF_A_TURN / 2)
        try:
            while (update := self._step(name, part, budget, steps)) is not None:
                yield update
        finally:
            budget.spend(JOURNAL_OF_A_TURN / 2)

    def _noted(self, name: str, instance: Instance, updates: Iterator[Update]) -> Iterator[Update]:
        key = (instance.part, name)
        for update in updates:
            self._runs[key] = self._runs[key].with_news(update, is_of_quotient=instance.is_quotient)
            yield update

    def _step(self, name: str, part: Part, budget: Budget, steps: Iterator[Update]) -> Update | None:
        """The next update, with a note of how long the engine itself took for it."""
        began_s = budget.read_s()
        self._inside_s.append(0.0)
        try:
            return next(steps, None)
        finally:
            took_s = budget.read_s() - began_s
            run = self._runs[part, name]
            self._runs[part, name] = replace(run, seconds=run.seconds + took_s - self._inside_s.pop())
            if self._inside_s:
                self._inside_s[-1] += took_s

    def guarded(self, name: str, updates: Iterator[Update]) -> Iterator[Update]:
        """The updates until they end or break down, which is noted."""
        try:
            yield from updates
        except Exception as fault:  # a bug of one engine or bound must not lose what another found
            self.fails(name, fault)


def reported(fault: Exception) -> str:
    """A failure in a line for people.

    Raises
    ------
    KeyboardInterrupt : one was what caused it, so nothing failed, and the search ends.
    """
    if is_interrupt(fault):
        raise KeyboardInterrupt from fault
    if isinstance(fault, TacclError):
        return str(fault)
    return f"{type(fault).__name__}: {fault}"
