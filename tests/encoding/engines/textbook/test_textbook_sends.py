"""Sends as columns: many are timed at once as they are one by one; ragged rows; sums that sends carry."""

from __future__ import annotations

import numpy as np
import pytest
from small_problems import full, problem, ring
from textbook_machines import switch, torus

from taccl.encoding.core.timing import in_order
from taccl.encoding.engines.textbook import schedules
from taccl.encoding.engines.textbook.parts import parts_of
from taccl.encoding.engines.textbook.plans import algorithms
from taccl.encoding.engines.textbook.schedules import decisions, rows_of, timed
from taccl.encoding.engines.textbook.sends import Ragged
from taccl.encoding.instance import Instance

MACHINES = {"switch": switch(4), "ring": ring(5, both=True), "torus": torus(2, 3), "full": full(4)}


@pytest.mark.parametrize(("collective", "chunks"), [("allreduce", 3), ("allgather", 1), ("broadcast", 2)])
@pytest.mark.parametrize("name", MACHINES)
def test_very_many_sends_are_timed_as_they_are_one_by_one(
    name: str, collective: str, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MOST_TO_REORDER", 0)
    requested = problem(MACHINES[name], collective, chunks, max_group=2)
    parts = parts_of(Instance(requested))
    assert parts is not None
    timings = 0
    for algorithm in algorithms(requested, parts):
        for batches in list(algorithm.numbers_of_batches(parts))[:2]:
            cut, sends = algorithm.built(parts, batches)
            rows = rows_of(requested, sends, cut)
            if rows is None or sends.since is not None:
                continue
            schedule = timed(requested, sends, rows)
            assert schedule is not None
            schedule.check()
            one_by_one = in_order(requested, decisions(rows))
            assert schedule.makespan_us == pytest.approx(one_by_one.makespan_us)
            assert np.array_equal(schedule.link, one_by_one.link)
            assert np.array_equal(schedule.chunk, one_by_one.chunk)
            timings += 1
    assert timings


def test_rows_of_different_lengths_are_taken_in_any_order() -> None:
    rows = Ragged(np.array([7, 8, 9, 5]), np.array([2, 0, 1, 1]))
    taken = rows.take(np.array([2, 0, 1, 0]))
    assert taken.values.tolist() == [9, 7, 8, 7, 8]
    assert [row.tolist() for row in taken.rows()] == [[9], [7, 8], [], [7, 8]]
    assert Ragged.by_key(np.array([1, 0, 1]), 3).count.tolist() == [1, 2, 0]
