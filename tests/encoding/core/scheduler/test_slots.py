"""Chunks that wait for the memory of a helper: on a switch that has room for a few of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import helped_switch
from studies import examples

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.routes.load_program import by_load_program
from taccl.encoding.engines.routes.orders import Open
from taccl.encoding.portfolio.solve import solve
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def pooled(slots: float, pieces: int = 4, name: str = "allreduce", members: int = 4) -> Problem:
    """Chunks of 1 MB that take 1 us, around a hub that sums and copies with room for this many."""
    topology = helped_switch(members, [(True, True)])
    memory_mb = np.where(np.arange(members + 1) == members, slots, np.inf)
    collective = make_collective(name, members, pieces).with_helpers(1)
    return Problem(replace(topology, memory_mb=memory_mb), collective, 1.0)


def opened(requested: Problem) -> Open:
    routes = by_load_program(requested, 1e-2, Budget.of_work(10_000))
    assert routes is not None
    return Open(requested, routes)


@pytest.mark.parametrize(("slots", "took_us"), [(1, 32.0), (2, 24.0), (16, 17.0)])
def test_sixteen_chunks_take_turns_in_the_slots_of_a_switch(slots: int, took_us: float) -> None:
    """In one slot each takes 2 us, in and out; in two each waits for the slot of the one before last."""
    schedule = opened(pooled(slots)).pipeline(0.3, 0.0, 1).schedule()
    schedule.check()
    assert schedule.makespan_us <= took_us


def test_a_switch_without_room_for_a_chunk_is_not_used() -> None:
    requested = pooled(0.5)
    for update in solve(requested, SearchOptions(effort=1000)):
        if update.schedule is not None:
            update.schedule.check()
            assert (update.schedule.dst < 4).all()


@settings(max_examples=examples(8))
@given(st.integers(1, 5), st.integers(1, 3), st.sampled_from(["allreduce", "allgather", "reducescatter"]))
def test_no_search_ends_with_more_in_a_helper_than_it_holds(slots: int, pieces: int, name: str) -> None:
    requested = pooled(slots, pieces, name, members=3)
    schedules = [each.schedule for each in solve(requested, SearchOptions(engine="routes", effort=300))]
    for schedule in schedules:
        if schedule is not None:
            schedule.check()
    assert any(schedule is not None for schedule in schedules)
