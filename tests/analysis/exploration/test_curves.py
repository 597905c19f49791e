"""A schedule is timed at other sizes as if it were made for them."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl import bounds, synthesize
from taccl.analysis.exploration.curves import at_size
from taccl.analysis.exploration.library_table import library
from taccl.encoding.core.timing import decisions_of, in_order, scaled_us
from taccl.model.schedule import Schedule
from taccl.topologies import parse_topology


@pytest.fixture(scope="module", params=["allgather", "allreduce", "alltoall"])
def schedule(request: pytest.FixtureRequest) -> Schedule:
    """On two rings of two joined by slow links, in two chunks."""
    found = synthesize(request.param, topology="mesh:2x2", size="64KB", chunks=2, effort=300, file=False)
    return found.schedule


@given(factor=st.floats(2**-12, 2**12))
def test_the_time_at_a_multiple_of_the_size_is_that_of_the_schedule_made_again(
    schedule: Schedule, factor: float
) -> None:
    problem = replace(schedule.problem, chunk_mb=schedule.problem.chunk_mb * factor)
    again = in_order(problem, decisions_of(schedule))
    again.check()
    (time_us,) = scaled_us(schedule.problem, decisions_of(schedule), [factor])
    assert time_us == pytest.approx(again.makespan_us, rel=1e-9)


def test_a_curve_grows_and_bends_upwards(schedule: Schedule) -> None:
    factors = [float(factor) for factor in range(1, 12)]
    times = list(scaled_us(schedule.problem, decisions_of(schedule), factors))
    steps = [after - before for before, after in pairwise(times)]
    assert all(step > 0 for step in steps)
    assert all(after >= before - 1e-9 for before, after in pairwise(steps))


def test_at_its_own_size_it_takes_no_longer_than_it_was_found_to(schedule: Schedule) -> None:
    again = at_size(schedule, schedule.problem.size_bytes)
    assert again is not None
    assert again.makespan_us <= schedule.makespan_us + 1e-9


def test_a_size_that_its_chunks_do_not_divide_has_no_time(schedule: Schedule) -> None:
    assert at_size(schedule, schedule.problem.collective.chunks_per_size + 1) is None


def test_no_time_is_below_the_bound_at_that_size(schedule: Schedule) -> None:
    name = schedule.problem.collective.name
    for size in (2**12, 2**20):
        again = at_size(schedule, size)
        assert again is not None
        proved = bounds(name, topology="mesh:2x2", size=size, chunks=2)
        assert again.makespan_us >= max(each.value_us for each in proved if each.holds_for_any_chunks) - 1e-9


def test_a_schedule_has_no_time_where_a_helpers_memory_is_too_small() -> None:
    """Four ranks at a switch that holds 0.1 MB: 1 MB in four parts does not fit, 1 KB does."""
    star = parse_topology(
        "name: star\ngpus: 4\nswitches: 1\nlinks:\n"
        "  - {from: gpus, to: switch0, alpha_us: 10, bandwidth_gbps: 100}\n"
        "helpers: [{at: switch0, can: [reduce-to-one, copy], memory_mb: 0.1}]\n"
    )
    table = library("all", "allreduce", topology=star, sizes="1KB,1MB")
    through = [curve for curve in table.curves if "NVLS" in curve.name]
    assert any(math.isfinite(curve.times_us[0]) and math.isinf(curve.times_us[1]) for curve in through)
    for curve in through:
        for size, time_us in zip((2**10, 2**20), curve.times_us, strict=True):
            assert math.isinf(time_us) == (at_size(curve.answer.saved.schedule, size) is None)
