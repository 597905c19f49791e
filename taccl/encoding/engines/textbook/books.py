"""The algorithms that there are for an instance, which of them promise most, and the schedules of some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm
from taccl.encoding.engines.textbook.estimates import Load, load_of
from taccl.encoding.engines.textbook.parts import Parts, parts_of
from taccl.encoding.engines.textbook.plans import algorithms
from taccl.encoding.engines.textbook.rough import Rough
from taccl.encoding.engines.textbook.schedules import backwards, go_apart, rows_of, timed
from taccl.encoding.engines.textbook.tuning import (
    A_BATCH_AS_WRITTEN,
    AN_ESTIMATE_AS_WRITTEN,
    BACKWARDS_AS_TIMED,
    CELLS_AS_WRITTEN,
    CHUNKS_AS_TIMED,
    COLUMNS_AS_TIMED,
    DEALT_AS_WRITTEN,
    FIRST_WRITTEN,
    MANY_TO_WRITE,
    MOST_ROWS,
    MOST_TO_REORDER,
    ONE_WRITTEN,
    PARTS_AS_WRITTEN,
    PROMISING,
    ROUGHLY_WORTH,
    SOON_WRITTEN,
    SURELY_WRITTEN,
    WRITTEN_PER_S,
)
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import UNITS_PER_S, Budget


class Work:
    """Sends done so far: this many are always allowed, more while there is time, at this many a second."""

    def __init__(self, budget: Budget, surely: int, per_s: int) -> None:
        self.done = 0
        self._budget, self._surely, self._per_s = budget, surely, per_s

    def allows(self, sends: int) -> bool:
        return self.done + sends <= self._surely or sends <= self._per_s * self._budget.remaining_s()

    def did(self, sends: int) -> None:
        self.done += sends
        self._budget.spend(sends / self._per_s * UNITS_PER_S)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An algorithm with a number of batches, and about how long it will take.

    `apart` : whether its chunks may be sent one by one, as of `Books.schedule`.
    """

    books: Books
    algorithm: Algorithm
    batches: int
    estimate_us: float
    apart: bool = False

    @property
    def name(self) -> str:
        return self.algorithm.name + (f", {self.batches} batches" if self.batches > 1 else "")

    @property
    def work(self) -> int:
        """About how much work it is to time it, in sends."""
        sends, rows = self.batches * self.algorithm.moves, self.algorithm.rows * self.books.parts.most_pieces
        if self.apart and go_apart(self.books.requested, rows):
            sends = rows
        if sends > MOST_TO_REORDER and not self.algorithm.is_explicit:
            sends //= COLUMNS_AS_TIMED
        work = sends + rows // CHUNKS_AS_TIMED
        return work * BACKWARDS_AS_TIMED if self.books.are_backwards else work

    def schedule(self, seen: set[int]) -> Schedule | None:
        """What it comes to, as of `Books.schedule`."""
        return self.books.schedule(self.algorithm, self.batches, seen, self.apart)


@dataclass(frozen=True, eq=False)
class Books:
    """The algorithms for an instance, and what was estimated of them so far.

    Parameters
    ----------
    problem : what schedules are for.
    requested : the same, or, where all chunks are sums for one rank each, the reversed problem, which copies.
    parts : of `requested`.
    """

    problem: Problem
    requested: Problem
    parts: Parts
    _estimates_us: dict[tuple[Algorithm, int], float | None] = field(default_factory=dict)
    _last_load: dict[tuple[Algorithm, int], Load | None] = field(default_factory=dict)
    _taken: list[tuple[Algorithm, ...]] = field(default_factory=list)

    @cached_property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """All that are not too large to be timed."""
        return tuple(each for each in self._every if each.rows * self.parts.most_pieces <= MOST_ROWS)

    @property
    def are_backwards(self) -> bool:
        """Whether schedules are read backwards."""
        return self.requested is not self.problem

    @property
    def leaves_out(self) -> bool:
        """Whether some are too large to be timed."""
        return len(self.algorithms) < len(self._every)

    @cached_property
    def _every(self) -> tuple[Algorithm, ...]:
        return self._taken[0] if self._taken else tuple(algorithms(self.requested, self.parts))

    def take_algorithms_of(self, coarser: Books) -> None:
        """Those of the same size in fewer chunks, which are not looked for again."""
        self._taken[:] = [coarser._every]

    def candidates(
        self,
        budget: Budget,
        wanted: Callable[[Algorithm], bool] = lambda algorithm: True,
        first: Callable[[str], float] | None = None,
        apart: bool = False,
    ) -> Iterator[Candidate]:
        """All that the machine has the links for, each in 1, 2, 4, ... batches as long as that is promising.

        What was once estimated stays so: a second search of the instance goes on where the first ended.

        `first` : from the name of an algorithm a key to sort by; None: what is soon written down comes first,
        and where alphas are most of the time, what sends least often. With many to write, or no time, what
        promises most by a rough estimate, and some of these in any case.
        """
        work = Work(budget, SURELY_WRITTEN if first is None else 0, WRITTEN_PER_S)
        dealt = DEALT_AS_WRITTEN * len(self.parts.begin)
        these = (algorithm for algorithm in self.algorithms if wanted(algorithm))
        is_much = self._to_write > SURELY_WRITTEN
        hurries = first is None and (self.has_many or (is_much and not budget.remaining_s()))
        best_us, in_any_case = float("inf"), FIRST_WRITTEN if hurries else 0
        for algorithm in self._in_order(list(these), first, hurries):
            if hurries and self.roughly_us(algorithm) > ROUGHLY_WORTH * best_us:
                break
            least_us = float("inf")
            for batches in algorithm.numbers_of_batches(self.parts):
                sends = 0
                if (algorithm, batches) not in self._estimates_us:
                    written = self._written(algorithm, algorithm.written_for(batches))
                    is_written = (algorithm, algorithm.written_for(batches)) in self._last_load
                    sends = AN_ESTIMATE_AS_WRITTEN
                    sends += 0 if is_written else A_BATCH_AS_WRITTEN + max(written, dealt)
                is_sure = in_any_case > 0 and sends <= ONE_WRITTEN
                if not (is_sure or work.allows(sends)):
                    break
                in_any_case -= 1
                time_us = self._estimate_us(algorithm, batches)
                work.did(sends + self._looked_at // CELLS_AS_WRITTEN if sends else 0)
                if time_us is None or time_us > PROMISING * least_us:
                    break
                yield Candidate(self, algorithm, batches, time_us, apart)
                least_us, best_us = min(least_us, time_us), min(best_us, time_us)

    def _in_order(
        self, these: list[Algorithm], first: Callable[[str], float] | None, hurries: bool
    ) -> list[Algorithm]:
        """The algorithms in the order in which they are written down; `first` as for `candidates`."""
        if first is not None:
            return sorted(these, key=lambda each: first(each.name))
        if hurries:
            return sorted(these, key=self.roughly_us)
        return sorted(these, key=_moves if _is_small(self.requested, self.parts) else self._size)

    @cached_property
    def has_many(self) -> bool:
        """Whether it takes long to write down all algorithms, so that a rough estimate says which first."""
        return self._to_write > MANY_TO_WRITE

    @cached_property
    def _to_write(self) -> int:
        """About how much there is to write down in all, in sends."""
        return sum(self._written(each, 1) for each in self.algorithms)

    def roughly_us(self, algorithm: Algorithm) -> float:
        """A key to sort by: about how long it takes, from what is known before it is written down."""
        if algorithm.plans:
            return self._rough.of_plans(algorithm.plans)
        return self._rough.of_sends(
            *(algorithm.moves, algorithm.rows, algorithm.crossing, algorithm.crossers)
        )

    @cached_property
    def _rough(self) -> Rough:
        return Rough(self.requested, self.parts)

    def _size(self, algorithm: Algorithm) -> int:
        """A key to sort by: what takes long to write down comes last; the others keep their order."""
        size = self._written(algorithm, 1)
        return size if size > SOON_WRITTEN else 0

    def _written(self, algorithm: Algorithm, batches: int) -> int:
        """About how much there is to write down for this many batches, in sends."""
        labels = self.parts.num_parts if algorithm.labels is None else algorithm.labels
        units = int(algorithm.rows * min(1.0, labels / max(1, self.parts.num_parts)))
        return batches * (algorithm.moves + algorithm.shares * units // PARTS_AS_WRITTEN)

    @property
    def _looked_at(self) -> int:
        """How many pairs of a step and a port the last estimate went over."""
        return sum(load.num_cells for load in self._last_load.values() if load is not None)

    def _estimate_us(self, algorithm: Algorithm, batches: int) -> float | None:
        """About how long this many batches take; None if a link is missing."""
        key = algorithm, batches
        if key not in self._estimates_us:
            written = algorithm.written_for(batches)
            load = self._load(algorithm, written)
            self._estimates_us[key] = None if load is None else load.time_us(batches, batches // written)
        return self._estimates_us[key]

    def _load(self, algorithm: Algorithm, batches: int) -> Load | None:
        """What this many batches do to ports; kept until another is requested."""
        key = algorithm, batches
        if key not in self._last_load:
            cut, sends = algorithm.built(self.parts, batches)
            self._last_load.clear()
            self._last_load[key] = load_of(self.requested, sends, cut)
        return self._last_load[key]

    def schedule(
        self, algorithm: Algorithm, batches: int, seen: set[int], apart: bool = False
    ) -> Schedule | None:
        """What an algorithm comes to; None if it cannot be, or is one of those `seen` by their hash.

        `apart` : each chunk by itself where that costs nothing (`schedules.go_apart`).
        """
        cut, sends = algorithm.built(self.parts, batches)
        rows = rows_of(self.requested, sends, cut, apart)
        if rows is None or hash(rows) in seen:
            return None
        seen.add(hash(rows))
        schedule = timed(self.requested, sends, rows)
        if schedule is None or not self.are_backwards:
            return schedule
        return backwards(self.problem, schedule)


def books_of(instance: Instance) -> Books | None:
    """The algorithms for an instance; None: there are none for its demand. `instance.once(books_of)`."""
    copying = instance.copying
    parts = copying.once(parts_of)
    return None if parts is None else Books(instance.problem, copying.problem, parts)


def _is_small(requested: Problem, parts: Parts) -> bool:
    """Whether the data of one rank keeps ports busy for less than an alpha on most links."""
    topology = requested.topology
    if not topology.is_serial:
        return False  # alphas keep no port busy
    data_mb = requested.chunk_mb * parts.most_at_one_rank
    return bool(np.median(topology.alpha_us - data_mb * topology.beta_us_per_mb) > 0)


def _moves(algorithm: Algorithm) -> int:
    """A key to sort by."""
    return algorithm.moves
