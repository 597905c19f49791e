"""Computing before and after a collective: when chunks are ready, what follows, what is exposed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl import bounds, make_problem, synthesize
from taccl.errors import CollectiveError, ScheduleError
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.demand import Demand
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_json, schedule_from_sends, schedule_to_json
from taccl.model.windows import Windows, compute_alone_us

RING = {"topology": "ring:4", "size": "4MB", "executor": False}


def test_a_rank_makes_its_chunks_one_after_another():
    demand = Windows(ready_us_per_mb=10).applied(Demand(make_collective("allgather", 2, 3)), 2.0)
    assert demand.ready_us.tolist() == [20, 40, 60] * 2
    assert demand.tail_us is None


def test_what_follows_takes_as_long_as_the_chunk_is_large():
    demand = Windows(then_us_per_mb=5).applied(Demand(make_collective("alltoall", 3)), 2.0)
    assert set(demand.tail_us.tolist()) == {10.0}
    assert demand.ready_us is None


def test_a_table_says_when_each_part_is_ready_and_its_pieces_are_with_it():
    windows = Windows(ready_us=((0, 1, 7.0),))
    demand = windows.applied(Demand(make_collective("allgather", 2, 2)), 1.0)
    assert demand.ready_us.tolist() == [0, 0, 7, 7]


def test_the_work_on_a_sum_comes_where_it_is_made():
    windows = Windows(at_root_us_per_mb=3)
    for name in ("reducescatter", "reduce"):
        demand = windows.applied(Demand(make_collective(name, 4)), 2.0)
        assert set(demand.tail_us) == {6.0}
        assert demand.sum_work_us is None
    demand = windows.applied(Demand(make_collective("allreduce", 4)), 2.0)
    assert demand.tail_us is None
    assert set(demand.sum_work_us) == {6.0}
    with pytest.raises(CollectiveError, match="at_root"):
        windows.applied(Demand(make_collective("allgather", 4)), 2.0)


def two_ranks(work_us: float, copied_at_us: float) -> Schedule:
    """Rank 0 sends its part in 10 us, rank 1 adds it, works on the sum, and sends that back."""
    pair = LogicalTopology(
        name="pair",
        node_of=np.zeros(2, dtype=int),
        src=np.array([0, 1]),
        dst=np.array([1, 0]),
        alpha_us=np.zeros(2),
        beta_us_per_mb=np.full(2, 10.0),
        ports=((0,), (1,)),
        port_names=("a", "b"),
    )
    chunk = make_collective("allreduce", 2).only(np.array([True, False]), "one")
    problem = Problem(pair, chunk, 1.0, sum_work_us=np.array([work_us]))
    sends = [Send((0,), 0, 0.0, True), Send((0,), 1, copied_at_us)]
    return schedule_from_sends(problem, sends)


def test_a_sum_is_copied_on_once_the_work_on_it_is_done_and_is_there_then():
    two_ranks(5.0, 15.0).check()
    assert two_ranks(5.0, 15.0).makespan_us == 25.0
    assert two_ranks(20.0, 30.0).makespan_us == 40.0
    assert compute_alone_us(two_ranks(5.0, 15.0).problem) == 5.0
    with pytest.raises(ScheduleError, match="does not hold it yet"):
        two_ranks(5.0, 14.9).check()


@pytest.mark.parametrize("engine", ["routes", "greedy", "milp"])
def test_engines_keep_the_work_on_sums_and_bounds_know_it(engine):
    for topology, chunks in (("ring:3", 2), ("switch:3", 1)):
        requested = {"topology": topology, "size": "3MB", "chunks": chunks, "executor": False}
        plain = synthesize("allreduce", **requested, engine="routes", effort=60, file=False)
        windows = Windows(at_root_us_per_mb=40.0, then_us_per_mb=3.0 if engine == "routes" else 0.0)
        found = synthesize("allreduce", **requested, windows=windows, engine=engine, effort=60, file=False)
        work_us = 40.0 / chunks
        assert found.problem.sum_work_us.tolist() == [work_us] * 3 * chunks
        assert found.time_us > plain.time_us
        sums = found.schedule.reduce
        for copy in np.flatnonzero(~sums):
            made = sums & (found.schedule.chunk == found.schedule.chunk[copy])
            assert found.schedule.start_us[copy] >= found.schedule.end_us[made].max() + work_us - 1e-6
        again = schedule_from_json(schedule_to_json(found.schedule)).schedule
        again.check()
        assert again.makespan_us == pytest.approx(found.time_us)
        proven = bounds("allreduce", **requested, windows=windows)
        assert max(proof.value_us for proof in proven) <= found.time_us * (1 + 1e-9)


@pytest.mark.parametrize(
    "words",
    [
        {"ready_us_per_mb": -1.0},
        {"then_us_per_mb": float("nan")},
        {"ready_us": ((0, 0, -1.0),)},
        {"ready_us_per_mb": 1.0, "ready_us": ((0, 0, 1.0),)},
    ],
)
def test_a_time_that_is_none_is_refused(words):
    with pytest.raises(CollectiveError):
        Windows(**words)


def test_a_chunk_that_starts_nowhere_is_refused():
    with pytest.raises(CollectiveError, match="offset 3 of rank 0"):
        Windows(ready_us=((3, 0, 1.0),)).applied(Demand(make_collective("allgather", 2)), 1.0)


@settings(max_examples=examples(10), deadline=None)
@given(
    st.sampled_from(sorted(COLLECTIVES)),
    st.integers(1, 3),
    st.floats(0, 50),
    st.floats(0, 50),
)
def test_nothing_is_faster_than_computing_alone_or_a_bound(collective, chunks, ready, then):
    windows = Windows(ready_us_per_mb=ready, then_us_per_mb=then)
    requested = {**RING, "collective": collective, "chunks": chunks, "windows": windows}
    found = synthesize(**requested, effort=20, file=False)
    alone_us = compute_alone_us(make_problem(**requested).problem)
    assert found.time_us >= alone_us - 1e-6
    plain = synthesize(**{**requested, "windows": None}, effort=20, file=False)
    if found.exposed_us is None:
        assert found.time_us == plain.time_us
    else:
        assert found.exposed_us == pytest.approx(found.time_us - alone_us, abs=1e-6)
    assert max(proof.value_us for proof in bounds(**requested)) <= found.time_us * (1 + 1e-9)


def test_finer_chunks_hide_more():
    """A ring of four: half a part leaves while the other half is made."""
    windows = Windows(ready_us_per_mb=100)
    coarse, fine = (
        synthesize("allgather", **RING, chunks=chunks, windows=windows, effort=300, file=False)
        for chunks in (1, 4)
    )
    assert fine.exposed_us < 0.5 * coarse.exposed_us
    assert np.isclose(coarse.schedule.problem.ready_us, 100.0).all()


def test_a_moment_that_is_no_time_is_none():
    windows = Windows(ready_us_per_mb=2.2e-313)
    assert make_problem("reduce", **RING, chunks=1, windows=windows).problem.ready_us is None
