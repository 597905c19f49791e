"""Bounds of the whole problem by CP-SAT: no schedule is faster than so much.

The model of a problem that only copies leaves nothing out: every link that may be used, as many shared
sends as any schedule can have, and neither the symmetry nor the order of a sender's own chunks that a
sketch asks for. `model.build` says why its optimum is no later than any schedule of the problem.

Of a problem that sums and then copies the model only has the schedules in which each sum is made once: at
one rank, whichever, to which each other rank passes its part on once, and where no send mixes partial sums
and copies. Others may be faster (recursive doubling is), so what is proved of these is reported in a note,
and is no bound.

CP-SAT is queried whether it has a solution that ends before a given moment. With that moment fixed, only
a whole number of chunks fits on each port before it, and that often contradicts the demand at once, where
minimising sees next to nothing. Each moment lies halfway between what is refuted and what CP-SAT
could not decide; where all but a little is refuted, it is the end of the best schedule known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import Ticks, ticks_of
from taccl.encoding.core.update import Update
from taccl.encoding.engines.cp.solve import events, is_written_soon, schedule_of
from taccl.encoding.engines.cp.tuning import (
    PROOF_MOST_TO_LOOK_AT,
    PROOF_MOST_TO_PROVE,
    PROOF_NEAR,
    PROOF_PAIRS_PER_S,
    PROOF_ROUNDING,
    PROOF_SHARE,
)
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.candidates import Candidates, every_candidate
from taccl.encoding.sending_model.joint import JointModel, build, size_of
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import is_optimal
from taccl.support.budget import Budget

#: Which schedules with sums the model allows, for notes.
_ONCE = "that makes each sum once, at one rank,"
_ONE_PART = "that makes each sum once, at one rank, with one part at ranks that may not sum,"
_NO_OTHERS = "which says nothing of others"


def unrestricted(instance: Instance) -> Instance:
    """The problem without what a sketch asks of a schedule beyond being valid.

    `instance.once(unrestricted)`.
    """
    problem = instance.problem
    if not problem.symmetry and problem.limits.own_first is None:
        return instance
    return Instance(replace(problem, symmetry=(), limits=replace(problem.limits, own_first=None)))


def is_provable(instance: Instance, best: Schedule) -> bool:
    """Whether the model of all schedules no later than `best` is small enough."""
    problem = instance.problem
    if problem.num_chunks * problem.topology.num_links > PROOF_MOST_TO_LOOK_AT:
        return False
    ticks = ticks_of(problem, best.makespan_us)
    candidates = every_candidate(instance, ticks, ticks.at_most(best.makespan_us))
    return bool(candidates.allowed.sum() <= PROOF_MOST_TO_PROVE)


def whole_model(
    instance: Instance, best: Schedule, bound_us: float, before_us: float | None = None
) -> JointModel:
    """The model of all schedules no later than `best`, or, without an objective, before a moment."""
    instance = instance.once(unrestricted)
    ticks, horizon, candidates = _everything(instance, best, before_us)
    lasting, minimise = (ticks.at_least(bound_us), horizon), before_us is None
    return build(instance.problem, ticks, lasting, instance.group, candidates, None, minimise)


def is_whole_model_written_soon(
    instance: Instance, best: Schedule, budget: Budget, before_us: float | None = None
) -> bool:
    """Whether that model leaves time for its search. If so, the work of writing it is noted."""
    instance = instance.once(unrestricted)
    ticks, horizon, candidates = _everything(instance, best, before_us)
    return is_written_soon(
        size_of(instance.problem, ticks, horizon, candidates, None), budget, PROOF_PAIRS_PER_S
    )


def _everything(instance: Instance, best: Schedule, before_us: float | None) -> tuple[Ticks, int, Candidates]:
    """The ticks of a whole model, how many a solution lasts at most, and all transfers in that time."""
    ticks = ticks_of(instance.problem, best.makespan_us)
    horizon = ticks.at_most(best.makespan_us) if before_us is None else ticks.last_before(before_us)
    return ticks, horizon, every_candidate(instance, ticks, horizon)


def proved_us(model: JointModel, num_ticks: int) -> float:
    """A time that no solution of a model is faster than, if none lasts less than `num_ticks`."""
    return num_ticks * model.sending.clock.ticks.tick_us * (1 - PROOF_ROUNDING)


def proved(problem: Problem, least_us: float, best: Schedule) -> Update:
    """What it means for a problem that no schedule of its whole model is faster than `least_us`."""
    if not problem.collective.is_reduction:
        links = problem.topology.num_links
        witness = f"CP-SAT: all routes, orders and groups of {problem.num_chunks} chunks on {links} links"
        return Update("cp", None, least_us, witness)
    once = _ONCE if problem.topology.may_sum is None else _ONE_PART
    if is_optimal(best.makespan_us, least_us):
        return Update("cp", note=f"no schedule {once} is faster (proved by CP-SAT, {_NO_OTHERS})")
    return Update("cp", note=f"no schedule {once} takes less than {least_us:.2f} us (CP-SAT, {_NO_OTHERS})")


def prove(
    instance: Instance, options: SearchOptions, budget: Budget, best: Schedule, bound_us: float
) -> Iterator[Update]:
    """Yield better bounds, and schedules met on the way, until both meet, the rest is open, or time is up.

    The schedules need not have the problem's symmetry. Of sums that are copied on, what is proved is in
    notes.
    """
    problem, open_us = instance.problem, best.makespan_us
    while budget.remaining_s() and not is_optimal(best.makespan_us, bound_us):
        open_us = min(open_us, best.makespan_us)
        before_us = (bound_us + open_us) / 2
        if before_us - bound_us < PROOF_NEAR * bound_us:
            if open_us < best.makespan_us:
                return
            before_us = open_us
        if not is_whole_model_written_soon(instance, best, budget, before_us):
            return
        model = whole_model(instance, best, bound_us, before_us)
        answer = None
        for answer in events(model, options.seed, budget.share(PROOF_SHARE)):
            if answer.decisions is not None:
                found = schedule_of(problem, answer.decisions)
                if found.makespan_us >= best.makespan_us - TOLERANCE_US:
                    return  # earlier by rounding only
                best = found
                yield Update("cp", best)
                break
        if answer is not None and answer.impossible:
            bound_us = proved_us(model, model.sending.clock.last + 1)
            yield proved(problem, bound_us, best)
        elif answer is None or answer.decisions is None:
            if before_us == best.makespan_us:
                return
            open_us = before_us
