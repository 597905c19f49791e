"""The paths engine: a path for each chunk at balanced loads, then all transfers in one pipeline.

It serves problems in which each chunk goes from one rank to one (AlltoAll, Gather, Scatter), at any size: its
work grows with the number of transfers. Where ranks are in one orbit, it answers the quotient first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Verdict, no
from taccl.encoding.engines.paths.choose import Ends, Paths, choose, choosing_is_compiled
from taccl.encoding.engines.paths.pipeline import chunks_of, remaining, scheduled, scheduling_is_compiled
from taccl.encoding.engines.paths.tuning import (
    BLENDS,
    CHANCE,
    MOST_TOGETHER,
    MOST_TWICE,
    POWERS,
    SEEDS,
    UNITS,
)
from taccl.encoding.engines.pipelined import asks_quotient, kinds_of, knows_sketch, note_of_compiling
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray, Placement
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether every chunk is copied from one rank to one rank."""
    if not instance.demand.moves_pairwise:
        return no("paths carry chunks from one rank to one rank, and here some go to several")
    if not instance.problem.topology.num_links or not len(instance.demand.from_one_to_another):
        return no("nothing has to move")
    return knows_sketch(instance)


def paths(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield better and better schedules, of the quotient first where there is one.

    The first time on a machine its loops have to be compiled; with no time for that it yields a note.
    """
    if (note := note_of_compiling("paths", "paths", budget, is_compiled)) is not None:
        yield note
        return
    best_us = np.inf if incumbent is None else incumbent.makespan_us
    asks = asks_quotient(instance, budget)
    quotient, small = (instance.quotient, instance.quotient_instance) if asks else (None, None)
    if quotient is not None and small is not None:
        is_all = instance.problem.symmetry or instance.problem.num_chunks > MOST_TWICE
        for schedule in _Search(small, options.seed).schedules(budget.share(1.0 if is_all else 0.5), best_us):
            best_us = schedule.makespan_us
            yield Update("paths", quotient.lifted(schedule))
        if is_all:
            return
    for schedule in _Search(instance, options.seed).schedules(budget, best_us):
        yield Update("paths", schedule)


def paths_at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield the first schedule, of the quotient where there is one, compiled now if need be."""
    if not serves(instance):
        return
    quotient, small = instance.quotient, instance.quotient_instance
    for schedule in _Search(small or instance, options.seed).schedules(budget, np.inf):
        yield Update("paths", schedule if quotient is None else quotient.lifted(schedule))
        return


def is_compiled() -> bool:
    """Whether its loops are machine code already, here or on disk."""
    return choosing_is_compiled() and scheduling_is_compiled()


class _Search:
    """What all routes of one problem share."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self.problem, self.seed = instance.problem, seed
        self.costs = costs_of(self.problem.topology)
        chunks = instance.demand.from_one_to_another
        self.usable, kind = kinds_of(self.problem)
        self.ends = self._ends(chunks, kind[chunks])
        problem = self.problem
        self.mb = problem.size_mb[self.ends.chunk]
        self.ready_us, self.tail_us = (
            _by_chunk(problem, times_us, placement)[self.ends.chunk]
            for times_us, placement in (
                (problem.ready_us, problem.collective.inputs),
                (problem.tail_us, problem.collective.outputs),
            )
        )

    def schedules(self, budget: Budget, best_us: float) -> Iterator[Schedule]:
        """Schedules of all routes, each better than all before; the first way is tried even without time."""
        powers, takes_s = list(POWERS), 0.0
        for blend, seed in self._routes():
            if takes_s and not budget.remaining_s() > takes_s:
                return
            chosen = choose(self.problem.topology, self.costs, self.usable, self.ends, self.mb, blend, seed)
            if chosen is None:
                return
            for size, power in product(self._sizes(), list(powers)):
                if takes_s and not budget.remaining_s() > takes_s:
                    return
                began_s = budget.read_s()
                schedule = self._schedule(chosen, size, power, seed)
                budget.spend(UNITS * len(schedule))
                takes_s = max(budget.read_s() - began_s, 1e-9)
                if schedule.makespan_us < best_us - TOLERANCE_US:
                    best_us = schedule.makespan_us
                    powers.remove(power)
                    powers.insert(0, power)
                    yield schedule

    def _sizes(self) -> list[int]:
        """How many chunks may travel together."""
        most = min(self.problem.max_group, MOST_TOGETHER, len(self.ends))
        return [1 << power for power in range(most.bit_length())]

    def _routes(self) -> Iterator[tuple[float, int]]:
        """How trees are blended, and a seed."""
        topology = self.problem.topology
        blends = BLENDS if 1 < topology.num_nodes < topology.num_ranks else BLENDS[-1:]
        for number in range(SEEDS):
            for blend in blends:
                yield blend, self.seed + number

    def _ends(self, chunks: IntArray, kind: IntArray) -> Ends:
        """The chunks by source and kind; those for one node are in company, where it has several ranks."""
        collective, node_of = self.problem.collective, self.problem.topology.node_of
        source, target = collective.source[chunks], collective.destination[chunks]
        piece = np.arange(len(chunks)) % collective.chunks_per_rank
        company = node_of[target] if len(np.unique(node_of)) > 1 else target
        company = company * collective.chunks_per_rank + piece
        order = np.lexsort((chunks, company, kind, source))
        return Ends(*(column[order] for column in (chunks, source, target, kind, company)))

    def _schedule(self, chosen: Paths, size: int, power: float, seed: int) -> Schedule:
        mine = chunks_of(chosen)
        key = -remaining(chosen, self._weight(chosen, mine, power)) - self.tail_us[mine]
        # Those that are equally urgent go in another order each time.
        key *= 1.0 + CHANCE * np.random.default_rng(seed).random(len(self.ends))[mine]
        start, end, leader = scheduled(chosen, self.costs, self.mb, self.ready_us, key, size)
        link, adds = chosen.link.astype(np.int64), np.zeros(len(start), dtype=np.bool_)
        return Schedule(self.problem, self.ends.chunk[mine], link, start, end, adds, leader).sorted()

    def _weight(self, chosen: Paths, mine: IntArray, power: float) -> FloatArray:
        """What each step counts in its urgency: its time, and more where its ports are busy."""
        topology, load = self.problem.topology, chosen.load_us
        link, port = topology.incidence
        busiest = np.zeros(topology.num_links)
        np.maximum.at(busiest, link, load[port] / max(float(load.max()), 1e-300))
        duration = topology.duration_us(chosen.link.astype(np.int64), self.mb[mine])
        return np.asarray(duration * busiest[chosen.link] ** power + 1e-3 * duration)


def _by_chunk(problem: Problem, times_us: FloatArray | None, placement: Placement) -> FloatArray:
    """The moment of each chunk's one row of a placement, shape (num_chunks,)."""
    moments = np.zeros(problem.num_chunks)
    if times_us is not None:
        moments[placement.chunk] = times_us
    return moments
