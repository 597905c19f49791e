"""Pipelines for what one rank has and all want: chunk after chunk, each to where it is lacking.

Several rules for breaking ties are tried for several numbers of chunks, and the best of these again by other
chances. Sums for one rank are the same on the reversed links, read backwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from taccl.encoding.core.distance import distances_from
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import as_sums
from taccl.encoding.core.sequence import of_columns
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.streams.dissemination import Style, disseminated
from taccl.encoding.engines.streams.net import Net, net_of
from taccl.encoding.engines.streams.scattering import far_from_root, scattered
from taccl.encoding.engines.streams.tuning import (
    AT_ONCE_S,
    COMPILING_S,
    FEW_IN_VAIN,
    GROWTH_OF_LOOKS,
    HELP,
    HELP_CHUNKS,
    HELP_ROUNDS,
    LEAST_PART,
    LOOK,
    MOST_CASES,
    MOST_DELIVERED,
    MOST_IN_VAIN,
    MOST_PAIRS,
    MOST_PRICED,
    MOST_ROUNDS,
    MOST_ROWS,
    MOST_S,
    PATIENCE,
    ROW,
    SLOWER,
    STYLES,
    STYLES_OF_NODES,
    TELLING_LOOKS,
)
from taccl.encoding.instance import Instance
from taccl.model.network import FloatArray
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import UNITS_PER_S, Budget
from taccl.support.jit import is_at_hand

#: The styles of `tuning`, without help from afar and by one chance.
_STYLES, _STYLES_OF_NODES = (
    tuple(Style(*each, help_us=-math.inf, seed=0) for each in rows) for rows in (STYLES, STYLES_OF_NODES)
)


def serves(instance: Instance) -> Verdict:
    """Whether one rank has all, or one wants all: the same for each of the others, sums of all, or parts."""
    if instance.problem.limits.own_first is not None or instance.problem.symmetry:
        return no("it knows no order in which own chunks leave first, and no symmetry that is requested")
    problem = instance.problem
    if problem.num_ranks < 2 or problem.sizes is not None or not problem.topology.num_links:
        return no("there is one rank, no link, or chunks of unequal sizes")
    if instance.demand.delivers or instance.demand.gathers:
        return _serves_parts(instance)
    if not instance.is_of_one_root:
        return no("it is for chunks of one rank, or for one rank")
    copying = instance.copying
    problem = copying.problem
    if problem.num_chunks * problem.num_ranks > MOST_ROWS:
        return no("the machine or the number of chunks is too large")
    return YES if np.isfinite(_from_root_us(copying)).all() else no("some rank is out of reach")


def _serves_parts(instance: Instance) -> Verdict:
    """Whether each of the others has, or wants, as much as any of them, and can be reached."""
    problem, collective = instance.problem, instance.problem.collective
    if problem.limits.may_use is not None:
        return no("some links are for the chunks of some ranks only")
    ends = collective.destination if instance.demand.delivers else collective.source
    far_us = far_from_root(instance)
    parts = np.bincount(ends, minlength=problem.num_ranks)
    if (parts != collective.chunks_per_rank).any():
        return no("some ranks have parts of other sizes")
    large = problem.num_ranks * problem.topology.num_links > MOST_PRICED
    if large or problem.num_chunks > MOST_DELIVERED:
        return no("the machine or the number of chunks is too large")
    return YES if np.isfinite(far_us).all() else no("some rank is out of reach")


def is_compiled() -> bool:
    """Whether its loops are machine code already, here or on disk."""
    return is_at_hand(disseminated)


def streams(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield pipelines that are better than `incumbent`.

    The first time on a machine its loops have to be compiled; with no time for that it yields a note.
    """
    if not _has_time(budget):
        why = f"pipelines of one root were not tried: compiling takes up to {COMPILING_S:g} s: taccl compile"
        yield Update("streams", note=why)
        return
    best_us = math.inf if incumbent is None else incumbent.makespan_us
    for schedule in _improving([instance], options.seed, MOST_IN_VAIN, budget, best_us):
        yield Update("streams", schedule)


def streams_at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield one pipeline, whatever is left of the budget, where that takes about a second."""
    if not instance.is_of_one_root or not (budget.counts_work or is_compiled()):
        return
    case = _Case(instance)
    copies = _Takes().copies(case, _STYLES[0], options.seed, budget.without_end().at_most(AT_ONCE_S))
    if copies is not None:
        yield Update("streams", case.requested(copies))


def across_chunks(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Pipelines of the same size cut into different numbers of chunks, each faster than those before."""
    if _has_time(budget):
        in_turn = sorted(instances, key=lambda each: each.problem.num_chunks)
        # Where a coarse cut is not served, finer ones are not either; on large machines each look takes long.
        served = takewhile(lambda each: budget.remaining_s() > 0 and bool(serves(each)), in_turn)
        yield from _improving(list(served), 0, FEW_IN_VAIN, budget, math.inf)


def _has_time(budget: Budget) -> bool:
    """Whether there is time for its loops to be compiled, or they are."""
    return budget.counts_work or is_compiled() or budget.remaining_s() > COMPILING_S


def _improving(
    instances: Sequence[Instance], seed: int, most_in_vain: int, budget: Budget, best_us: float
) -> Iterator[Schedule]:
    """Schedules of all cuts, the coarsest first, and styles, each faster than those before."""
    if any(each.demand.delivers or each.demand.gathers for each in instances):
        schedules = scattered(instances, budget)
    else:
        trials = _trials([_Case(each) for each in instances], seed, most_in_vain, budget)
        schedules = (case.requested(copies) for case, copies in trials)
    for schedule in schedules:
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield schedule


def _trials(
    cases: Sequence[_Case], seed: int, most_in_vain: int, budget: Budget
) -> Iterator[tuple[_Case, Schedule]]:
    """One style of each cut, the coarsest first; then more of the fastest.

    Only what is faster than all before is yielded, as copies.
    """
    took_us, slower, takes = dict[_Case, float](), 0, _Takes()
    for case in cases:
        copies = takes.copies(case, _STYLES[0], seed, budget)
        if copies is None:
            break
        least_us, took_us[case] = min(took_us.values(), default=math.inf), copies.makespan_us
        slower = slower + 1 if copies.makespan_us > SLOWER * least_us else 0
        if copies.makespan_us < least_us:
            yield case, copies
        if slower == PATIENCE:
            break
    yield from _further_trials(took_us, takes, seed, most_in_vain, budget)


def _further_trials(
    took_us: dict[_Case, float], takes: _Takes, seed: int, most_in_vain: int, budget: Budget
) -> Iterator[tuple[_Case, Schedule]]:
    """The fastest cuts in all styles, the best of these with help from afar, and the best by other seeds."""
    best_us, in_vain = min(took_us.values(), default=math.inf), 0
    stops_below_s = (1 - LEAST_PART) * budget.remaining_s()
    cases = sorted(took_us, key=took_us.__getitem__)[:MOST_CASES]
    tried_us = {_Trial(case, _STYLES[0]): took_us[case] for case in cases}
    for number, trials in _rounds(cases, tried_us):
        is_help = 0 < number <= HELP_ROUNDS
        for trial in trials:
            if in_vain >= most_in_vain and budget.remaining_s() < stops_below_s:
                return
            copies = takes.copies(trial.case, trial.style, seed + number, budget)
            if copies is None:
                return
            # Help that gains nothing has no further turns.
            if not is_help or copies.makespan_us < tried_us[trial.with_help(-math.inf)] - TOLERANCE_US:
                tried_us[trial] = min(tried_us.get(trial, math.inf), copies.makespan_us)
            in_vain += not is_help
            if copies.makespan_us < best_us - TOLERANCE_US:
                best_us, in_vain = copies.makespan_us, 0
                yield trial.case, copies


def _rounds(
    cases: Sequence[_Case], tried_us: Mapping[_Trial, float]
) -> Iterator[tuple[int, Sequence[_Trial]]]:
    """Rounds of trials with their numbers; each depends on what was tried in the rounds before."""
    if not cases:
        return
    styles = list(_STYLES[1:])
    if not cases[0].is_serial:  # ports have time for what comes from afar
        base = _Trial(cases[0], _STYLES[0])
        helped = base.with_help(HELP[0] * tried_us[base])
        yield 1, [helped]
        if helped in tried_us:
            styles = [each._replace(help_us=helped.style.help_us) for each in styles]
    to_several = [case for case in cases if case.num_nodes > 2]  # chunks go to several other nodes
    over_nodes = [_Trial(case, style) for case in to_several for style in _STYLES_OF_NODES]
    coarsest, *finer = sorted(cases, key=lambda case: case.num_chunks)
    yield 0, [*over_nodes[:1], *(_Trial(coarsest, style) for style in styles)]
    # What is far slower in few chunks is so in many, which take longer to try.
    least_us = min(us for trial, us in tried_us.items() if trial.case is coarsest)
    promising = [each for each in styles if tried_us[_Trial(coarsest, each)] <= SLOWER * least_us]
    yield 0, [*(_Trial(case, style) for case in finer for style in promising), *over_nodes[1:]]
    for number in range(1, HELP_ROUNDS + 1):
        plain = [each for each in tried_us if each.style.help_us == -math.inf]
        few = [each for each in plain if number == 1 or each.case.is_coarse]
        fastest = sorted(few, key=tried_us.__getitem__)[:MOST_PAIRS]
        yield number, [each.with_help(part * tried_us[each]) for part in HELP for each in fastest]
    for number in range(HELP_ROUNDS + 1, MOST_ROUNDS):
        yield number, sorted(tried_us, key=tried_us.__getitem__)[:MOST_PAIRS]


class _Case:
    """One cut of the message, with what all its trials share."""

    def __init__(self, instance: Instance) -> None:
        self._instance, self._problem, self._copying = instance, instance.problem, instance.copying.problem

    @cached_property
    def _net(self) -> Net:
        """The links, for the first trial."""
        copying = self._instance.copying
        far_us, kind = copying.distances_by_limits
        root = int(self._copying.collective.source[0])
        is_turned = self._copying is not self._problem
        to_the_end = is_turned and not self._copying.topology.reads_backwards
        return net_of(self._copying, far_us[kind[0]], root, to_the_end)

    @property
    def num_nodes(self) -> int:
        """The nodes of the machine."""
        return self._problem.topology.num_nodes

    @property
    def is_serial(self) -> bool:
        """Whether alphas keep ports busy."""
        return self._problem.topology.is_serial

    @property
    def num_chunks(self) -> int:
        """Its chunks."""
        return self._problem.num_chunks

    @property
    def is_coarse(self) -> bool:
        """Whether it has few chunks, so that the last sends take a large part of the time."""
        return self._problem.num_chunks <= HELP_CHUNKS

    def looks_of_one(self, most_looks: float) -> int:
        """How many looks the first chunk alone takes."""
        root = int(self._copying.collective.source[0])
        return int(disseminated(self._net, 1, root, _STYLES[0], most_looks)[-1])

    def copies(self, style: Style, seed: int, most_looks: float) -> tuple[Schedule | None, int]:
        """The chunks in one style, by one chance, and how many looks that took; None after `most_looks`."""
        problem, root = self._copying, int(self._copying.collective.source[0])
        exact = style._replace(most=min(style.most, problem.max_group), seed=seed)
        made = disseminated(self._net, problem.num_chunks, root, exact, most_looks)
        chunk, link, start_us, send, looks = made
        if not len(chunk):
            return None, looks
        starts = start_us[np.flatnonzero(np.diff(send, prepend=-1))]
        return of_columns(problem, chunk, link, starts, np.zeros(len(chunk), np.bool_), send), looks

    def requested(self, copies: Schedule) -> Schedule:
        """The schedule of the problem: the copies, or sums as these read backwards."""
        return copies if copies.problem is self._problem else as_sums(self._problem, copies)


class _Takes:
    """How long trials take, by the looks of the last one; the first, by those of one chunk alone."""

    def __init__(self) -> None:
        self._looks, self._num_chunks, self._look_s = 0, 0, LOOK / UNITS_PER_S

    def copies(self, case: _Case, style: Style, seed: int, budget: Budget) -> Schedule | None:
        """A trial; None if there is no time for it."""
        if not self._num_chunks and case.num_chunks > 1:
            self._looks, self._num_chunks = case.looks_of_one(self._most_looks(budget)), 1
            budget.spend(LOOK * self._looks)
        most_looks, before_s = self._most_looks(budget), budget.remaining_s()
        if most_looks <= self._looks * (case.num_chunks / max(1, self._num_chunks)) ** GROWTH_OF_LOOKS:
            return None
        copies, self._looks = case.copies(style, seed, most_looks)
        self._num_chunks = case.num_chunks
        budget.spend(LOOK * self._looks + (0 if copies is None else ROW * len(copies)))
        if self._looks >= TELLING_LOOKS:
            took_s = before_s - budget.remaining_s()
            self._look_s = max(LOOK / UNITS_PER_S, took_s / self._looks)
        return copies

    def _most_looks(self, budget: Budget) -> float:
        """For how many looks there is time; loops of machine code hear no signal, so they are no longer."""
        return min(MOST_S, budget.remaining_s()) / self._look_s


@dataclass(frozen=True)
class _Trial:
    """A cut in a style."""

    case: _Case
    style: Style

    def with_help(self, help_us: float) -> _Trial:
        """The same with help from afar until then, as of `Style`."""
        return replace(self, style=self.style._replace(help_us=help_us))


def _from_root_us(copying: Instance) -> FloatArray:
    """How long a chunk takes to each rank."""
    return copying.once(_measured_from_root)


def _measured_from_root(copying: Instance) -> FloatArray:
    root = int(copying.problem.collective.source[0])
    return distances_from(copying.problem.topology, copying.durations_us, root)
