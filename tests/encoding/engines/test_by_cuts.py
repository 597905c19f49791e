"""An engine asked for several numbers of chunks: each, and the best again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_problems import problem, ring

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.by_cuts import by_cuts
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def test_each_has_an_equal_part_of_the_time_and_the_best_another_by_other_chances() -> None:
    asked = list[tuple[int, int, float]]()

    def run(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        asked.append((instance.problem.num_chunks, options.seed, budget.remaining_s()))
        yield from engine_named("textbook").run(instance, options, budget.without_end(), incumbent)

    stated = [Instance(problem(ring(4), "allgather", pieces, chunk_mb=1 / pieces)) for pieces in (2, 1)]
    *_, best = by_cuts(run)(stated, Budget.of_work(300))
    assert [(chunks, seed) for chunks, seed, _ in asked] == [(4, 0), (8, 0), (best.problem.num_chunks, 1)]
    assert asked[0][2] == pytest.approx(0.1, rel=0.05)


def test_with_little_time_for_all_it_leaves_them_to_others() -> None:
    stated = [Instance(problem(ring(4), "allgather"))]
    run = by_cuts(engine_named("textbook").run)
    assert list(run(stated, Budget.of_work(200)))
    assert not list(run(stated, Budget.of_work(50)))


def test_only_what_is_faster_than_all_before_is_passed_on() -> None:
    stated = [Instance(problem(ring(4), "allgather", pieces, chunk_mb=1 / pieces)) for pieces in (1, 2)]
    found = [
        each.makespan_us for each in by_cuts(engine_named("textbook").run)(stated, Budget.of_work(3_000))
    ]
    assert found
    assert found == sorted(found, reverse=True)
