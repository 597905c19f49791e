"""The forest engine: trees at balanced loads, then all transfers in one pipeline, in several forms.

It serves problems in which every chunk comes from all ranks, goes to all ranks, or both (ReduceScatter,
AllGather, AllReduce), at any size: the work grows with the number of transfers. Where ranks are in one orbit,
it answers the quotient first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.routes import Grouping
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Verdict, no
from taccl.encoding.engines.forest.arcs import NO_LINK, arcs_of, spans
from taccl.encoding.engines.forest.choose import Forest, Shape, choose, choosing_is_compiled, shape_of
from taccl.encoding.engines.forest.demand import ANYWHERE, spread_of
from taccl.encoding.engines.forest.pipeline import (
    Batches,
    Network,
    Pipeline,
    again,
    mirrored,
    scheduled,
    scheduling_is_compiled,
)
from taccl.encoding.engines.forest.promise import Promise, promise_of
from taccl.encoding.engines.forest.tuning import (
    BUSIER,
    FOR_QUOTIENT,
    FOR_SCOUTS,
    MANY,
    MOST_TOGETHER,
    SCOUTS,
    SEEDS,
    SHALLOW,
    SHORTER,
    STEP,
    UNITS,
    VAIN,
    WAVES_BOTH,
    WAVES_ONE,
    WORSE,
    WORTH_TURNING,
)
from taccl.encoding.engines.pipelined import asks_quotient, kinds_of, knows_sketch, note_of_compiling
from taccl.encoding.instance import Instance
from taccl.encoding.quotient import Quotient
from taccl.model.collective import BoolArray, IntArray
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import UNITS_PER_S, Budget

#: Shapes of trees: how much the way from the root counts in choosing them, and by what part the longest may
#: be longer than it must.
_SHAPES = ((0.3, np.inf), (0.05, np.inf))


def serves(instance: Instance) -> Verdict:
    """Whether every chunk comes from all ranks or goes to all, over links that join them."""
    problem = instance.problem
    spread = spread_of(instance.demand)
    if spread is None:
        return no(
            "trees carry chunks from all ranks to one, from one to all, or both, and here some go elsewhere"
        )
    if not problem.topology.num_links or problem.num_ranks < 2:
        return no("nothing has to move")
    arcs = arcs_of(problem.topology, spread)
    if not spans(arcs, max(int(spread.root[0]), 0)):
        return no("sums and copies share trees, and two-way links do not join all ranks")
    return knows_sketch(instance)


def forest(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield better and better schedules, of the quotient first where there is one.

    The first time on a machine its loops have to be compiled; with no time for that it yields a note.
    """
    if (note := note_of_compiling("forest", "forests", budget, is_compiled)) is not None:
        yield note
        return
    best_us = np.inf if incumbent is None else incumbent.makespan_us
    quotient = instance.quotient if asks_quotient(instance, budget) else None
    if quotient is not None and instance.quotient_instance is not None:
        part = instance.quotient_instance
        search = _Search(part, options.seed)
        candidates = search.schedules(budget.share(FOR_QUOTIENT))
        for schedule in _lifted(quotient, candidates, best_us, budget):
            best_us = schedule.makespan_us
            yield Update("forest", schedule)
        images = instance.problem.num_chunks / part.problem.num_chunks
        if instance.problem.symmetry or search.takes_s * images > budget.remaining_s():
            return
    for schedule in _Search(instance, options.seed).schedules(budget):
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield Update("forest", schedule)


def _lifted(
    quotient: Quotient, candidates: Iterator[Schedule], best_us: float, budget: Budget
) -> Iterator[Schedule]:
    """What is faster than the best, lifted: the first at once, the last of all, and some in between.

    To make millions of images takes longer than a way, so no more time goes to them than to routes.
    """
    last_s, took_s, held = budget.remaining_s(), 0.0, None
    for schedule in candidates:
        if schedule.makespan_us >= best_us - TOLERANCE_US:
            continue
        best_us, held = schedule.makespan_us, schedule
        before_s = budget.remaining_s()
        if last_s - before_s >= took_s:
            yield quotient.lifted(schedule)
            last_s, held = budget.remaining_s(), None
            took_s = before_s - last_s
    if held is not None:
        yield quotient.lifted(held)


def is_compiled() -> bool:
    """Whether its loops are machine code already, here or on disk."""
    return choosing_is_compiled() and scheduling_is_compiled()


class _Search:
    """What all routes of one problem share.

    `takes_s` : how long the last schedule took, with its trees if they were new.
    `both` : whether chunks are summed and copied; `transfers` : of all of them.
    `is_backwards` : whether pipelines are scheduled on the network reversed, to be read backwards in time.
    """

    def __init__(self, instance: Instance, seed: int) -> None:
        spread = spread_of(instance.demand)
        assert spread is not None  # or it is not served
        self.problem, self.spread, self.seed, self.takes_s = instance.problem, spread, seed, 0.0
        self.arcs, self.costs = arcs_of(self.problem.topology, spread), costs_of(self.problem.topology)
        self.kind, allowed = self._kinds()
        self.network = Network(self.arcs, self.costs, allowed)
        self.both = spread.sums and spread.copies
        self.transfers = (
            self.problem.num_chunks * (self.problem.num_ranks - 1) * (spread.sums + spread.copies)
        )
        # What begins all at once and ends as a trickle fills links better than its mirror image.
        self.is_backwards = not spread.copies and self.problem.topology.reads_backwards

    def schedules(self, budget: Budget) -> Iterator[Schedule]:
        """Schedules of all routes, with the waves that promise most; the first even without time.

        Of very many transfers none is begun that would not be there in time.
        """
        best_us = best_first_us = np.inf
        is_large = self.transfers > MANY
        self.takes_s = UNITS * self.transfers / UNITS_PER_S if is_large else 0.0
        waves = list(WAVES_BOTH if self.both else WAVES_ONE)
        for grouping, shape, seed in self._candidates(budget):
            if best_us < np.inf and budget.remaining_s() <= self.takes_s:
                return
            began_s = budget.read_s()
            batches = self._batches(grouping)
            trees = self._trees(batches, shape, seed, budget)
            if trees is None:
                return
            least_us = np.inf
            for wave in list(waves):
                if (best_us < np.inf or is_large) and budget.remaining_s() <= self.takes_s:
                    return
                first = self._pipeline(trees, batches, wave)
                budget.spend(UNITS * self.transfers)
                first_us = first.makespan_us
                schedule = self._schedule(first, self.is_backwards) if first_us < best_us else None
                self.takes_s = budget.read_s() - began_s
                if schedule is not None:
                    best_us = first_us
                    yield schedule
                if first_us < min(least_us, best_first_us * (1 + WORTH_TURNING)):
                    for schedule in self._turned(first, best_us, budget):
                        best_us = schedule.makespan_us
                        yield schedule
                elif first_us > best_first_us * (1 + WORSE):
                    break
                if first_us < best_first_us:
                    waves.remove(wave)
                    waves.insert(0, wave)
                least_us, best_first_us = min(least_us, first_us), min(best_first_us, first_us)
                began_s = budget.read_s()

    def _turned(self, first: Pipeline, best_us: float, budget: Budget) -> Iterator[Schedule]:
        """What is faster than the best when a pipeline is scheduled again and again from its end.

        Of many small steps the last is reported: rows take as long as the pipeline itself.
        """
        if not self.both or not self.problem.topology.reads_backwards:
            return
        pipeline, is_backwards, vain, held = first, False, 0, None
        least_us = first.makespan_us
        while vain < VAIN and budget.remaining_s() > self.takes_s:
            began_s = budget.read_s()
            pipeline, is_backwards = again(pipeline), not is_backwards
            budget.spend(UNITS * self.transfers)
            vain = 0 if pipeline.makespan_us < least_us - TOLERANCE_US else vain + 1
            least_us = min(least_us, pipeline.makespan_us)
            if vain == 0 and least_us < best_us:
                held = pipeline, is_backwards
                if least_us < best_us * (1 - STEP):
                    best_us, held = least_us, None
                    schedule = self._schedule(pipeline, is_backwards)
                    self.takes_s = max(self.takes_s, budget.read_s() - began_s)
                    yield schedule
        if held is not None:
            yield self._schedule(*held)

    def _candidates(self, budget: Budget) -> Iterator[tuple[Grouping, Shape, int]]:
        """How chunks are put together, what promises most first, which trees are preferred, and a seed.

        None where even the trees of a few chunks are not there in time: those of all take longer.
        """
        most = min(self.problem.max_group, MOST_TOGETHER, self.problem.num_chunks)
        sizes = [1 << power for power in range(most.bit_length())]
        groupings = [
            Grouping(size, tapered) for size in sizes for tapered in (False, True) if size > 1 or not tapered
        ]
        mb = self.problem.chunk_mb
        any_root = bool((self.spread.root == ANYWHERE).any())
        shapes = [shape_of(self.arcs, self.costs, mb, *each, any_root) for each in _SHAPES]
        promise = self._promise(shapes[0], budget.share(FOR_SCOUTS))
        if promise is None:
            return
        shallow = shape_of(self.arcs, self.costs, mb, *SHALLOW, any_root)
        of_shallow = self._promise(shallow, budget.share(FOR_SCOUTS))
        if of_shallow is not None:
            is_first = of_shallow.way_us(mb) <= SHORTER * promise.way_us(mb) and of_shallow.busy_us(
                mb
            ) <= BUSIER * promise.busy_us(mb)
            shapes.insert(0 if is_first else len(shapes), shallow)
            likely = of_shallow if is_first else promise
            groupings.sort(key=lambda each: (each.tapered, likely.time_us(mb, each.size)))
        for number in range(SEEDS):
            for grouping, shape in product(groupings, shapes):
                yield grouping, shape, self.seed + number

    def _promise(self, shape: Shape, budget: Budget) -> Promise | None:
        """What the trees of a few chunks promise; None if they do not reach all ranks, or not in time."""
        problem, many = self.problem, self.problem.num_chunks
        some = np.unique(np.linspace(0, many - 1, min(many, SCOUTS)).astype(np.int64))
        mb = np.full(len(some), problem.chunk_mb)
        root = self.spread.root[some]
        scouts = choose(
            self.arcs, self.costs, self.network.allowed, self.kind[some], root, mb, shape, self.seed, budget
        )
        return None if scouts is None else promise_of(scouts, self.arcs, self.costs, problem.chunk_mb, many)

    def _kinds(self) -> tuple[IntArray, BoolArray]:
        """The kind of each chunk, and the arcs that chunks of each kind may use."""
        usable, kind = kinds_of(self.problem)
        allowed = np.ones((len(usable), len(self.arcs.parent)), dtype=np.bool_)
        for links in (self.arcs.up, self.arcs.down):
            allowed &= (links == NO_LINK) | usable[:, links]
        return kind, allowed

    def _batches(self, grouping: Grouping) -> Batches:
        """Chunks of one root and one kind that share a tree; those of all roots by turns."""
        root, kind = self.spread.root, self.kind
        order = np.lexsort((np.arange(len(root)), kind, root))
        starts = np.flatnonzero(np.diff(root[order]) | np.diff(kind[order])) + 1
        turns: list[list[tuple[int, ...]]] = []
        for chunks in np.split(order, starts):
            for turn, batch in enumerate(grouping.cut(tuple(chunks.tolist()))):
                if turn == len(turns):
                    turns.append([])
                turns[turn].append(batch)
        batches = [batch for turn in turns for batch in turn]
        first = np.concatenate([[0], np.cumsum([len(batch) for batch in batches])])
        return Batches(first, np.array([chunk for batch in batches for chunk in batch], dtype=np.int64))

    def _trees(
        self, batches: Batches, shape: Shape, seed: int, budget: Budget | None = None
    ) -> Forest | None:
        first = batches.chunk[batches.first[:-1]]
        mb = np.diff(batches.first) * self.problem.chunk_mb
        root = self.spread.root[first]
        return choose(
            self.arcs, self.costs, self.network.allowed, self.kind[first], root, mb, shape, seed, budget
        )

    def _pipeline(self, trees: Forest, batches: Batches, wave: float) -> Pipeline:
        problem = self.problem
        period_us = float(trees.load_us.max()) / max(1, problem.num_chunks)
        most = min(problem.max_group, int(np.diff(batches.first).max()))
        kind = self.kind[batches.chunk[batches.first[:-1]]]
        network = self.network.reversed() if self.is_backwards else self.network
        return scheduled(trees, network, kind, batches, problem.chunk_mb, wave * period_us, most)

    def _schedule(self, pipeline: Pipeline, is_backwards: bool) -> Schedule:
        rows = mirrored(pipeline.transfers()) if is_backwards else pipeline.transfers()
        _, group = np.unique(rows.leader, return_inverse=True)
        return Schedule(
            self.problem, rows.chunk, rows.link, rows.start_us, rows.end_us, rows.is_sum, group.ravel()
        ).sorted()
