"""Collectives with computing around them, repaired: moments and work on sums stay those of the first."""

from __future__ import annotations

import pytest

from taccl import synthesize
from taccl.analysis.repair import repair
from taccl.analysis.under_way import rest_of
from taccl.model.schedule.saved import read_schedule
from taccl.model.windows import Windows

WINDOWS = [
    Windows(at_root_us_per_mb=50),
    Windows(ready_us_per_mb=20),
    Windows(then_us_per_mb=30),
    Windows(ready_us_per_mb=10, at_root_us_per_mb=30, then_us_per_mb=20),
]


@pytest.fixture(scope="module", params=WINDOWS, ids=["at-root", "ready", "then", "all"])
def saved(request, tmp_path_factory):
    """An AllReduce with computing around it, as a file."""
    path = tmp_path_factory.mktemp("saved") / "old.json"
    words = {"topology": "ring:4", "size": "4MB", "chunks": 1, "executor": False, "file": False}
    synthesize("allreduce", windows=request.param, effort=50, **words).write_schedule(path)
    return path


def test_on_the_same_machine_the_moments_are_the_same(saved):
    old = read_schedule(saved).schedule
    done = repair(saved, topology="ring:4", effort=50, file=False)
    assert done.first_us == pytest.approx(old.makespan_us)
    now = done.result.schedule.problem
    for name in ("ready_us", "tail_us", "sum_work_us"):
        before, after = getattr(old.problem, name), getattr(now, name)
        assert (before is None) == (after is None)
        assert before is None or after == pytest.approx(before)


@pytest.mark.parametrize("part", [0.0, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0])
def test_on_the_same_machine_the_rest_ends_when_the_whole_would_have(saved, part):
    """Work on a sum, and what follows an output, go on where they were; sends wait until ports are free."""
    old = read_schedule(saved).schedule
    at_us = part * old.makespan_us
    rest = rest_of(old, at_us, old.problem.topology)
    assert rest.schedule is not None
    rest.schedule.check()
    assert rest.from_us + rest.schedule.makespan_us >= old.makespan_us - 1e-6
    assert rest.schedule.makespan_us <= old.makespan_us - at_us + 1e-6


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9])
def test_without_a_link_the_rest_is_found(saved, part):
    at_us = part * read_schedule(saved).schedule.makespan_us
    done = repair(saved, at_us=at_us, topology="ring:4", without=("gpu0->gpu1",), effort=50)
    done.result.schedule.check()


def test_the_work_on_a_sum_that_is_whole_is_done_before_it_is_copied_on(tmp_path):
    """Two ranks, half a MB from each to the other: 10.5 us on the way, and 50 us of work on each sum."""
    words = {"topology": "full:2", "size": "1MB", "chunks": 1, "executor": False, "file": False}
    found = synthesize("allreduce", windows=Windows(at_root_us_per_mb=100), effort=50, **words)
    first_us = found.schedule.end_us.min()
    assert found.time_us == pytest.approx(2 * first_us + 50)
    found.write_schedule(tmp_path / "old.json")
    done = repair(tmp_path / "old.json", at_us=first_us + 20, topology="full:2", effort=50)
    assert done.result.time_us == pytest.approx(30 + first_us)
    assert done.result.schedule.problem.sum_work_us is None
