"""One search made of many: this process begins it, workers go on, and one listener hears them all. An answer
is an offer: its schedule is rebuilt on the problem as it is known here and checked by the listener of every
search, and its bound is a claim. A claim above what is proved starts a proof here; what stays above is
reported as the workers'.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

from taccl.encoding.bounds import quick_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.needs import is_huge
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.alongside import BoundsAlongside
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.solve import solve
from taccl.errors import ScheduleError, TacclError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.tolerance import OPTIMAL_GAP, contradicts, is_above, is_optimal
from taccl.support.budget import UNITS_PER_S, Budget
from taccl.synthesis.cluster.claims import Claim, Claims
from taccl.synthesis.cluster.connection import Cluster, connected
from taccl.synthesis.cluster.plan import engines_for, for_a_part, variations
from taccl.synthesis.cluster.pool import Ended
from taccl.synthesis.cluster.task import Task, TaskAnswer
from taccl.synthesis.cluster.tuning import (
    SHARING_AHEAD_BY_WORK,
    SHARING_HERE,
    SHARING_LEAST_AHEAD_S,
    SHARING_LEAST_UNITS,
    SHARING_LOOK_S,
    SHARING_PROVE,
    SHARING_SOME,
    SHARING_TASKS_BY_WORK,
    SHARING_TURN,
)
from taccl.synthesis.search import Found, Observer, heard
from taccl.synthesis.searcher import Alone, Searcher, TaskRun

TaskEnded = Ended[Task, TaskAnswer]


@contextmanager
def searcher_at(scheduler: str | None, options: SearchOptions) -> Iterator[Searcher]:
    """Who carries out the searches of a call: the cluster of a scheduler, or this process alone.

    Raises
    ------
    ClusterError : no scheduler answers at the address, or none of its workers can be used.
    """
    if scheduler is None:
        yield Alone()
        return
    began_s = time.monotonic()
    with connected(scheduler) as cluster:
        yield Sharing(cluster, options.since(began_s).limit_s)


class Sharing:
    """Searches of one call that are shared out over a cluster.

    `limit_s` : seconds after which nobody is waited for, also where work is counted.
    `address` is that of the scheduler; `runs` are the tasks that ended so far, in the order in which they
    were merged.
    """

    def __init__(self, cluster: Cluster[Task, TaskAnswer], limit_s: float = math.inf) -> None:
        self.cluster, self.address = cluster, cluster.address
        self._end_s = time.monotonic() + limit_s
        self.runs: list[TaskRun] = []
        self._pool = cluster.pool
        self._number = 0
        self.claims = Claims()
        self._ahead: dict[int, list[Task]] = {}
        self._ahead_budget: Budget | None = None
        self._stash: dict[int, list[TaskEnded]] = {}

    def search(
        self,
        instance: Instance,
        options: SearchOptions,
        on_progress: Observer | None = None,
        budget: Budget | None = None,
    ) -> Found:
        """`taccl.synthesis.search.search`, with the cluster's workers as well.

        Raises
        ------
        TacclError : what `taccl.synthesis.search.search` raises.
        """
        journal, budget = Journal(), budget or options.budget()
        shared = _Shared(self, instance, options, budget, journal)
        updates = shared.updates()
        try:
            return heard(updates, options, journal, budget, on_progress)
        finally:
            updates.close()

    def begin(self, problems: Iterable[Problem], options: SearchOptions, budget: Budget) -> None:
        """Hand out one task for each problem, which are one problem with several numbers of chunks.

        Their answers are kept for the searches of these problems; `budget` is for all of them together.
        """
        self._ahead_budget = budget
        self._stash.clear()  # of an earlier search, which may have had other costs
        requested, options = list(problems), replace(options, known=None)
        if budget.counts_work:
            trying = for_a_part(options, budget, SHARING_AHEAD_BY_WORK)
        else:
            most = max(1, int(budget.remaining_s() / SHARING_LEAST_AHEAD_S)) * self._pool.slots
            requested = requested[:most]
            turns = math.ceil(len(requested) / max(1, self._pool.slots))
            trying = for_a_part(options, budget, 1 / max(1, turns), uncut_s=0.0)
        tasks = [self.task(problem, trying) for problem in requested]
        for task in tasks:
            self._ahead.setdefault(task.chunks, []).append(task)
        self._pool.submit(tasks)

    def heard_of(self) -> tuple[int, ...]:
        """The numbers of chunks that tasks of `begin` answered for, once the budget of that is spent.

        What has not ended then is given up. Where work is counted, it waits for all.
        """
        budget = self._ahead_budget
        while budget is not None and any(self._ahead.values()) and self.waits_within(budget):
            self.take_ended(SHARING_LOOK_S)
        late = [task for tasks in self._ahead.values() for task in tasks]
        for ended in self._pool.drop(late):
            self.note(ended, None)
        self._ahead.clear()
        return tuple(sorted(number for number, ended in self._stash.items() if ended))

    def waits_within(self, budget: Budget) -> bool:
        """Whether there is time to wait for others. Waiting is no work, so it spends none."""
        if budget.counts_work:
            return time.monotonic() < self._end_s
        return budget.remaining_s() > 0

    def take_ended(self, seconds: float) -> list[TaskEnded]:
        """What ended of the tasks of a search; of those that were begun ahead, it is kept."""
        rest = []
        for ended in self._pool.ended(seconds):
            waiting = self._ahead.get(ended.task.chunks, [])
            if any(task is ended.task for task in waiting):
                waiting[:] = [task for task in waiting if task is not ended.task]
                self._stash.setdefault(ended.task.chunks, []).append(ended)
            else:
                rest.append(ended)
        return rest

    def kept_for(self, chunks: int) -> list[TaskEnded]:
        """What tasks that were begun ahead gave for a number of chunks, in the order of the tasks; once."""
        return sorted(self._stash.pop(chunks, []), key=lambda ended: ended.task.number)

    def task(self, problem: Problem, options: SearchOptions) -> Task:
        """The next task."""
        self._number += 1
        return Task(self._number - 1, problem, options)

    def note(self, ended: TaskEnded, time_us: float | None, remark: str = "") -> None:
        """Keep what became of a task. `time_us` is of its schedule, if that is valid."""
        answer, options = ended.answer, ended.task.options
        self.runs.append(
            TaskRun(
                engine=options.engine,
                seed=options.seed,
                chunks=ended.task.chunks,
                worker=ended.worker,
                seconds=0.0 if answer is None else round(answer.seconds, 3),
                time_us=time_us,
                claimed_bound_us=0.0 if answer is None else answer.claimed_us,
                claimed_source="" if answer is None else answer.claimed_source,
                remark=remark or ended.remark,
            )
        )

    def notes_on(self, found: Found, *, counts_work: bool) -> tuple[str, ...]:
        """What the user should know: about the cluster, its tasks, and claims that are not proved here.

        `counts_work` : whether the answer should be the same each time.
        """
        answered = sum(run.time_us is not None for run in self.runs)
        notes = [f"{answered} of {len(self.runs)} tasks at {self.cluster.address} gave a valid schedule"]
        notes += self.cluster.notes
        lost = sum(run.remark.startswith("lost") for run in self.runs)
        if lost:
            what = ", so another run may find another schedule" if counts_work else ", and nothing else"
            notes.append(f"tasks lost with their workers: {lost}{what}")
        notes += self.claims.notes_on(found)
        return tuple(notes)


class _Shared:
    """One search: what is done here, the tasks of it, and the best so far."""

    def __init__(
        self, sharing: Sharing, instance: Instance, options: SearchOptions, budget: Budget, journal: Journal
    ) -> None:
        self._sharing, self._pool = sharing, sharing.cluster.pool
        self._instance, self._options = instance, options
        self._budget, self._journal = budget, journal
        self._chunks = instance.problem.collective.chunks_per_rank
        self._best: Schedule | None = options.known
        self._mine: list[Task] = []
        self._is_settled = self._has_proved = False
        self._in_vain = self._failed = 0
        self._most_in_vain = self._most_failed = 0

    def updates(self) -> Generator[Update, None, None]:
        """What is found here and there, as it comes; where work is counted, in the order of the tasks."""
        try:
            yield from self._known_ahead()
            if self._budget.counts_work:
                yield from self._by_work()
            else:
                yield from self._by_the_clock()
        finally:
            for ended in self._pool.drop(self._mine):
                self._sharing.note(ended, None)

    def _known_ahead(self) -> Iterator[Update]:
        """What tasks that were begun ahead found; with it, no first schedule has to be made here."""
        kept = self._sharing.kept_for(self._chunks)
        for ended in kept:
            yield from self._merged(ended)
        if kept and self._best is not None:
            proof = quick_bound(self._instance)
            self._instance.proves(proof.value_us)
            yield Update("bound", None, proof.value_us, proof.witness)
            self._options = replace(self._options, known=self._best)

    def _by_the_clock(self) -> Iterator[Update]:
        plan = self._plan()
        if is_huge(self._instance):  # the first schedule takes long, and others need not wait for it
            self._hand_out(plan)
        here = solve(self._instance, self._options, self._journal, self._budget.share(SHARING_HERE))
        yield from self._alongside(here, plan)
        while self._goes_on():
            yield from self._ended_by_now(min(SHARING_LOOK_S, self._budget.remaining_s()))
            yield from self._proved_here(SHARING_PROVE)
            self._hand_out(plan)
        if not self._is_settled and (not self._pool.slots or self._failed > self._most_failed):
            rest = replace(self._options, known=self._best)  # there is nobody else, so it goes on here
            yield from self._alongside(solve(self._instance, rest, self._journal, self._budget), plan)

    def _alongside(self, here: Iterator[Update], plan: Iterator[SearchOptions]) -> Iterator[Update]:
        """What is found here, and what ends elsewhere meanwhile."""
        for update in self._kept(here):
            yield update
            yield from self._ended_by_now(0.0)
            self._hand_out(plan)

    def _by_work(self) -> Iterator[Update]:
        """The same tasks on any cluster, merged in their order, so that the answer is the same."""
        share = self._budget.remaining_s() * (1 - SHARING_HERE)
        here = self._budget.share(SHARING_HERE)
        yield from self._kept(solve(self._instance, self._options, self._journal, here))
        units = round(share * UNITS_PER_S)
        limit_s = self._options.time_limit_s
        if units < SHARING_LEAST_UNITS:
            return
        for each in islice(self._plan(), SHARING_TASKS_BY_WORK):
            trying = replace(each, effort=units, time_limit_s=limit_s, known=self._best)
            self._mine.append(self._sharing.task(self._instance.problem, trying))
        self._pool.submit(self._mine)
        ended_by_number: dict[int, TaskEnded] = {}
        for task in list(self._mine):
            while task.number not in ended_by_number and self._sharing.waits_within(self._budget):
                for ended in self._sharing.take_ended(SHARING_LOOK_S):
                    ended_by_number[ended.task.number] = ended
            if task.number in ended_by_number:
                yield from self._merged(ended_by_number.pop(task.number))
        yield from self._proved_here(1.0)
        self._budget.spend(units)

    def _plan(self) -> Iterator[SearchOptions]:
        engines = engines_for(self._instance, self._options.engine, self._journal)
        self._most_failed = self._pool.slots + SHARING_SOME
        self._most_in_vain = 2 * len(engines) + self._most_failed
        return variations(self._options, engines)

    def _hand_out(self, plan: Iterator[SearchOptions]) -> None:
        """A task for each free thread, from the best that is known."""
        tasks: list[Task] = []
        while self._goes_on(but_for_tasks=True) and len(tasks) < self._pool.free:
            options = for_a_part(next(plan), self._budget, SHARING_TURN)
            if options.time_limit_s == 0:
                break
            tasks.append(self._sharing.task(self._instance.problem, replace(options, known=self._best)))
        self._mine += tasks
        if tasks:
            self._pool.submit(tasks)

    def _goes_on(self, *, but_for_tasks: bool = False) -> bool:
        """Whether there is time, somebody to work, and something to gain."""
        if self._pool.is_gone or not self._budget.remaining_s() or self._is_settled:
            return False
        if self._in_vain > self._most_in_vain or self._failed > self._most_failed:
            return False
        return but_for_tasks or bool(self._pool.slots) or bool(self._pool.unfinished)

    def _kept(self, updates: Iterator[Update]) -> Iterator[Update]:
        """The updates, with a note of the best that whoever listens took for valid."""
        for update in updates:
            yield update
            schedule = self._journal.accepted(update)
            if schedule is not None and schedule.makespan_us < self._best_us:
                self._best = schedule

    @property
    def _best_us(self) -> float:
        return math.inf if self._best is None else self._best.makespan_us

    def _ended_by_now(self, seconds: float) -> Iterator[Update]:
        for ended in self._sharing.take_ended(seconds):
            if any(task is ended.task for task in self._mine):
                yield from self._merged(ended)
            else:
                self._sharing.note(ended, None, "ended after its search did")

    def _merged(self, ended: TaskEnded) -> Iterator[Update]:
        """What a task came to, as news; it is noted with what the check here says."""
        answer, name = ended.answer, f"{ended.task.name} at {ended.worker or self._sharing.cluster.address}"
        self._mine = [task for task in self._mine if task is not ended.task]
        self._failed += 1
        if answer is None:
            self._sharing.note(ended, None)
            if not ended.remark.startswith("lost"):
                self._journal.fails(name, TacclError(ended.remark))
            return
        for failure in answer.failures:
            self._journal.fails(name, TacclError(failure))
        before_us = self._best_us
        if answer.columns is None:
            self._sharing.note(ended, None, "; ".join(answer.failures) or "no schedule")
            return
        try:
            schedule = answer.columns.as_schedule_of(self._instance.problem)
        except (ScheduleError, TypeError, ValueError) as fault:
            self._journal.fails(name, fault)
            self._sharing.note(ended, None, "refused: it is no schedule of the problem")
            return
        update = Update(f"{ended.task.options.engine} at {ended.worker}", schedule)
        yield from self._kept(iter((update,)))
        is_valid = self._journal.accepted(update) is not None
        if not is_valid:
            self._sharing.note(ended, None, "refused: its schedule is not valid")
            return
        self._failed = 0
        improved = self._best_us < before_us * (1 - OPTIMAL_GAP)
        ended_by_itself = answer.status in ("optimal", "gap reached", "finished", "engine failed")
        self._in_vain = 0 if improved or not ended_by_itself else self._in_vain + 1
        self._sharing.note(ended, schedule.makespan_us, "faster" if improved else "not faster")
        self._hear_claim(ended)

    def _hear_claim(self, ended: TaskEnded) -> None:
        answer = ended.answer
        if answer is None:
            return
        if contradicts(answer.claimed_us, self._best_us):
            fault = TacclError(f"it claims a bound of {answer.claimed_us:.6f} us, above a valid schedule")
            self._journal.fails(f"{ended.task.name} at {ended.worker}", fault)
            return
        claim = Claim(answer.claimed_us, answer.claimed_source, ended.worker)
        self._sharing.claims.hear(self._instance.problem, claim)
        gap = max(self._options.gap, OPTIMAL_GAP)
        # Whoever claims that nothing is faster would go on in vain: believed for that, and reported as a
        # claim.
        self._is_settled = self._is_settled or is_optimal(self._best_us, answer.claimed_us, gap)

    def _proved_here(self, part: float) -> Iterator[Update]:
        """The bounds once more, with a part of what is left, where workers claim more than is proved."""
        claimed_us = self._sharing.claims.of(self._instance.problem)
        if self._has_proved or not is_above(claimed_us, self._instance.bound_us):
            return
        self._has_proved = True
        yield from self._kept(BoundsAlongside(self._instance, self._journal).within(self._budget.share(part)))
