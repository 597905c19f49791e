"""Who carries out the searches of a call: this process alone, or a cluster with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.errors import TacclError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.search import Found, Observer, search


@dataclass(frozen=True)
class TaskRun:
    """What became of a task, for people and for JSON.

    Parameters
    ----------
    engine, seed, chunks : of the task.
    worker : the address of who had it.
    seconds : on the worker; 0 where nothing came back.
    time_us : of its schedule, if that passed the check here; else None.
    claimed_bound_us, claimed_source : the bound that the worker claims; 0: none.
    remark : what became of it.
    """

    engine: str
    seed: int
    chunks: int
    worker: str
    seconds: float
    time_us: float | None
    claimed_bound_us: float
    claimed_source: str
    remark: str

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON, units in their keys."""
        values = asdict(self)
        return values | {"solve_s": values.pop("seconds")}


class Searcher(Protocol):
    """Whoever carries out the searches of a call: this process alone, or others with it."""

    def search(
        self,
        instance: Instance,
        options: SearchOptions,
        on_progress: Observer | None = None,
        budget: Budget | None = None,
    ) -> Found:
        """What `search` says."""
        ...

    def begin(self, problems: Sequence[Problem], options: SearchOptions, budget: Budget) -> None:
        """Others may begin with one problem that has several numbers of chunks, within the budget."""
        ...

    def heard_of(self) -> tuple[int, ...]:
        """The numbers of chunks that others found something for by the end of that budget.

        The next search for each tells of it.
        """
        ...

    @property
    def address(self) -> str | None:
        """Of the scheduler of a cluster; None: there is none."""
        ...

    @property
    def runs(self) -> Sequence[TaskRun]:
        """The tasks of a cluster that ended so far."""
        ...

    def notes_on(self, found: Found, *, counts_work: bool) -> tuple[str, ...]:
        """What the user should know of who searched."""
        ...


class Alone:
    """Carries out searches in this process alone."""

    address: str | None = None
    runs: tuple[TaskRun, ...] = ()

    def search(
        self,
        instance: Instance,
        options: SearchOptions,
        on_progress: Observer | None = None,
        budget: Budget | None = None,
    ) -> Found:
        return search(instance, options, on_progress, budget)

    def begin(self, problems: Sequence[Problem], options: SearchOptions, budget: Budget) -> None:
        pass

    def heard_of(self) -> tuple[int, ...]:
        return ()

    def notes_on(self, found: Found, *, counts_work: bool) -> tuple[str, ...]:
        return ()


def found_from(
    problem: Problem, options: SearchOptions, first: Schedule | None, on_progress: Observer | None = None
) -> Found:
    """What a search finds that begins with a schedule, which is kept whatever becomes of the search."""
    instance = Instance(problem)
    try:
        return Alone().search(instance, replace(options, known=first), on_progress)
    except (KeyboardInterrupt, TacclError) as end:
        if first is None:
            raise
        if isinstance(end, KeyboardInterrupt):
            return Found(first, instance.bound_us, "", "interrupted", 0.0)
        note = f"the search after mending failed: {end.message}"
        return Found(first, instance.bound_us, "", "engine failed", 0.0, note)
