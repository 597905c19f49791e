"""The CP engine: the joint model solved by CP-SAT, first on short paths, then with nothing left out.

What is found with nothing left out is proved for the problem itself (`proof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import Ticks, ticks_of
from taccl.encoding.core.update import Update
from taccl.encoding.engines.cp.proof import (
    is_provable,
    is_whole_model_written_soon,
    prove,
    proved,
    proved_us,
    whole_model,
)
from taccl.encoding.engines.cp.solve import events, is_written_soon, schedule_of
from taccl.encoding.engines.cp.tuning import (
    ALONGSIDE_SHARE,
    ALONGSIDE_SLACK,
    ALONGSIDE_SLOTS,
    MOST_CELLS,
    MOST_JOINT,
    MOST_PAIRS,
    REPORTED_GROWTH,
    SMALL,
    STAGES,
    STAGES_IF_SMALL,
)
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.candidates import Candidates, candidates_alongside, near_candidates
from taccl.encoding.sending_model.hints import Hints
from taccl.encoding.sending_model.joint import JointModel, build, size_of
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

_STAGES_BEFORE_PROOF = ((1.0, 3, 0.25), (1.5, 2, 0.3), (2.0, 4, 0.3))
#: The part of what is left of the time for schedules of the whole model, before it is used for proofs.
_WHOLE_SHARE = 0.2


@dataclass
class _Known:
    """The best so far of a problem."""

    best: Schedule
    bound_us: float

    def better(self, update: Update) -> Iterator[Update]:
        """The part of an update that is news."""
        schedule, bound_us = update.schedule, update.lower_bound_us
        if schedule is not None and schedule.makespan_us < self.best.makespan_us - TOLERANCE_US:
            self.best = schedule
            yield update
        elif bound_us > self.bound_us:
            self.bound_us = bound_us
            yield update
        elif update.note:
            yield update


def jointly(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield improving schedules, and bounds, until everything is proved or the budget is over.

    For problems of copies and those that `serves_jointly` says yes to: sums and copies decided together,
    so that a chunk is copied on while others are still being summed. Of these, what is proved is reported in
    notes (`proof`). No model is begun that would take more than a part of the budget to write down.
    """
    problem = instance.problem
    if not serves(instance) or not is_written_soon(_least_transfers(problem), budget):
        return
    known = _Known(best, instance.bound_us)
    for update in _models(instance, options, budget, known):
        yield from known.better(update)


def _models(instance: Instance, options: SearchOptions, budget: Budget, known: _Known) -> Iterator[Update]:
    """What one model after the other says: near the best schedule, on short paths, then of all schedules."""
    problem = instance.problem
    provable = is_provable(instance, known.best)
    # Whether the sketch asks for nothing beyond a valid schedule.
    free = not problem.symmetry and problem.limits.own_first is None and options.slack is None
    small = free and provable and is_small(problem)
    if problem.topology.internode.any() and not problem.collective.is_reduction:
        yield from _alongside(instance, options, budget.share(ALONGSIDE_SHARE), known)
    for slack, slots, share in STAGES_IF_SMALL if small else _STAGES_BEFORE_PROOF if provable else STAGES:
        if budget.remaining_s():
            yield from _near(instance, options, budget.share(share), known, options.slack or slack, slots)
    if small:
        yield from _whole(instance, options, budget.share(_WHOLE_SHARE), known)
    if provable:
        proved = prove(instance, options, budget, known.best, known.bound_us)
        yield from (update for update in proved if free or update.schedule is None)
    if small:
        yield from _whole(instance, options, budget, known)


#: Why it declines helpers with little memory.
_MEMORY = "a rank has a limit of memory, of which the model says nothing"


def serves(instance: Instance) -> Verdict:
    """Whether the model can be written down at all."""
    problem = instance.problem
    if problem.topology.memory_mb is not None:
        return no(_MEMORY)
    if problem.num_chunks * problem.topology.num_links > MOST_CELLS:
        return no(f"more than {MOST_CELLS:,} pairs of a chunk and a link are too many for one model")
    if _least_transfers(problem) > MOST_PAIRS:
        return no(f"more than {MOST_PAIRS:,} transfers are too many for one model")
    collective = problem.collective
    if problem.ready_us is not None and ((collective.num_sources > 1) & ~collective.reduces).any():
        return no("a chunk that is copied from several ranks may come to one before it is ready there")
    return YES


def _least_transfers(problem: Problem) -> int:
    """How many transfers every schedule has, at least: one into each rank that wants a chunk it has not."""
    collective = problem.collective
    return max(0, len(collective.outputs) - len(collective.inputs))


def is_small(problem: Problem) -> bool:
    """Whether CP-SAT may be expected to prove the fastest schedule, or come near it, in seconds."""
    return problem.num_chunks * problem.topology.num_links <= SMALL


def serves_jointly(instance: Instance) -> Verdict:
    """Whether every chunk is summed over all ranks for all ranks, and the problem is small."""
    problem = instance.problem
    if problem.topology.memory_mb is not None:
        return no(_MEMORY)
    collective, everywhere = problem.collective, problem.num_chunks * problem.topology.num_members
    if not (collective.reduces.all() and len(collective.inputs) == len(collective.outputs) == everywhere):
        return no("it is for sums over all ranks that all ranks want")
    if 2 * problem.num_chunks * problem.topology.num_links > MOST_JOINT:
        return no(f"more than {MOST_JOINT:,} candidate transfers of both phases")
    return YES


def _near(
    instance: Instance, options: SearchOptions, budget: Budget, known: _Known, slack: float, slots: int
) -> Iterator[Update]:
    """Schedules on paths that are short enough, with the problem's symmetry."""
    ticks = ticks_of(instance.problem, known.best.makespan_us)
    candidates = near_candidates(instance, ticks, ticks.at_most(known.best.makespan_us), slack)
    yield from _on(candidates, slots, ticks, instance, options, budget, known)


def _alongside(instance: Instance, options: SearchOptions, budget: Budget, known: _Known) -> Iterator[Update]:
    """Schedules that send between nodes what the best one does, with the problem's symmetry."""
    ticks = ticks_of(instance.problem, known.best.makespan_us)
    horizon = ticks.at_most(known.best.makespan_us)
    candidates = candidates_alongside(instance, known.best, ticks, horizon, ALONGSIDE_SLACK)
    yield from _on(candidates, ALONGSIDE_SLOTS, ticks, instance, options, budget, known)


def _on(
    candidates: Candidates,
    slots: int,
    ticks: Ticks,
    instance: Instance,
    options: SearchOptions,
    budget: Budget,
    known: _Known,
) -> Iterator[Update]:
    problem = instance.problem
    lasting = ticks.at_least(known.bound_us), ticks.at_most(known.best.makespan_us)
    if not is_written_soon(size_of(problem, ticks, lasting[1], candidates, slots), budget):
        return
    model = build(problem, ticks, lasting, instance.group, candidates, slots)
    add_hint(model, known.best)
    for event in events(model, options.seed, budget):
        if event.decisions is not None:
            yield Update("cp", schedule_of(problem, event.decisions))


def _whole(instance: Instance, options: SearchOptions, budget: Budget, known: _Known) -> Iterator[Update]:
    """Schedules and bounds with nothing left out."""
    if not is_whole_model_written_soon(instance, known.best, budget):
        return
    problem, model = instance.problem, whole_model(instance, known.best, known.bound_us)
    add_hint(model, known.best)
    reported = 0.0
    for event in events(model, options.seed, budget):
        if event.decisions is not None:
            yield Update("cp", schedule_of(problem, event.decisions))
        elif event.bound > reported * (1 + REPORTED_GROWTH) or event.is_last:
            reported = event.bound
            if (least_us := proved_us(model, event.bound)) > known.bound_us:
                yield proved(problem, least_us, known.best)


def add_hint(model: JointModel, schedule: Schedule) -> None:
    """Hint every variable with what the schedule does, as far as the model can say it.

    The model makes each sum once, so it can say nothing of a schedule that does not.
    """
    if schedule.sums is not None:
        return
    hints, at, chunks = Hints(model.sending), model.sending.at, model.sending.problem.num_chunks
    items = (schedule.chunk + chunks * schedule.reduce).tolist()
    hints.hint_sends(schedule, items)
    ends = hints.in_ticks(schedule.end_us)
    for item, rank, when in zip(items, schedule.dst.tolist(), ends, strict=True):
        hints.hint(at[item, rank], when, largest=True)
    adds = schedule.reduce
    passes_on, receives = (
        set(zip(schedule.chunk[adds].tolist(), end[adds].tolist(), strict=True))
        for end in (schedule.src, schedule.dst)
    )
    contributes = schedule.problem.collective.pre
    for (chunk, rank), root in model.sending.root.items():
        has_part = contributes[chunk, rank] or (chunk, rank) in receives
        is_root = bool(has_part) and (chunk, rank) not in passes_on
        hints.hint(root, is_root)
        if is_root:
            hints.hint(at[chunk, rank], hints.value(at[chunks + chunk, rank]) or 0, largest=True)
    hints.add()
