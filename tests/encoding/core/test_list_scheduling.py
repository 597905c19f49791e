"""Passes of list scheduling: decided by hand on small machines, and the same as machine code and without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import custom, full, machine, problem, random_schedules, ring
from studies import examples

from taccl.encoding.core import list_scheduling
from taccl.encoding.core.list_scheduling import Policy, RoutingInstance, schedule_by_policy
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import SymmetryGroup, symmetry_group
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.support.jit import Loop, ahead_of_time

#: What goes where is for the pass to decide.
_COPIES = ("allgather", "alltoall", "broadcast", "scatter", "gather")


def routing(requested: Problem) -> RoutingInstance:
    usable = np.array([requested.usable(chunk) for chunk in range(requested.num_chunks)], dtype=np.bool_)
    left = np.zeros((requested.num_chunks, requested.num_ranks))
    return RoutingInstance(
        requested, symmetry_group(requested), *Instance(requested).distances_by_limits, usable, left
    )


def passed(requested: Problem, policy: Policy) -> Schedule | None:
    schedule = schedule_by_policy(routing(requested), policy, np.random.default_rng(0))
    if schedule is not None:
        schedule.check()
    return schedule


def rows(schedule: Schedule | None) -> list[tuple[int, int, float]] | None:
    if schedule is None:
        return None
    return list(zip(schedule.chunk.tolist(), schedule.link.tolist(), schedule.start_us.tolist(), strict=True))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    group, hold = st.sampled_from((1, 2, 10**9)), st.integers(1, 3)
    return Policy(
        draw(group),
        draw(group),
        draw(hold),
        draw(hold),
        draw(st.sampled_from((0.5, 1.0))),
        draw(st.booleans()),
        draw(st.sampled_from((0.0, 1.0))),
    )


@settings(max_examples=examples(30), deadline=None)
@given(random_schedules(_COPIES), policies())
def test_machine_code_and_python_decide_the_same(known: Schedule, policy: Policy) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "is_compiled", False)
        as_it_stands = passed(known.problem, policy)
    with ahead_of_time():
        compiled = passed(known.problem, policy)
    assert rows(as_it_stands) == rows(compiled)


@settings(max_examples=examples(20), deadline=None)
@given(random_schedules(_COPIES), policies())
def test_a_pass_that_is_looked_at_after_each_event_decides_the_same(known: Schedule, policy: Policy) -> None:
    at_once = passed(known.problem, policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_scheduling, "LIST_SCHEDULING_LOOKS_AT_ONCE", 0)
        assert rows(passed(known.problem, policy)) == rows(at_once)


@settings(max_examples=examples(20), deadline=None)
@given(random_schedules(_COPIES))
def test_the_plainest_policy_leaves_no_demand_unmet(known: Schedule) -> None:
    assert passed(known.problem, Policy()) is not None


def test_a_pass_ends_when_its_time_is_over() -> None:
    around, random = routing(problem(ring(4), "allgather")), np.random.default_rng(0)
    assert schedule_by_policy(around, Policy(), random, Budget(0.0)) is None
    assert schedule_by_policy(around, Policy(), random) is not None


def test_an_image_of_a_send_that_is_there_already_is_not_sent_again() -> None:
    """Ranks 2 and 3 change places, and 0 and 1 stay: what goes from 0 to 1 is its own image."""
    requested = problem(full(4), "broadcast")
    topology, swapped = requested.topology, [0, 1, 3, 2]
    ends = zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    images = [topology.link_index[swapped[src], swapped[dst]] for src, dst in ends]
    links, chunks = range(topology.num_links), [[0], [0]]
    ranks = np.array([range(4), swapped])
    group = SymmetryGroup(ranks, np.array(chunks), np.array([links, images]))
    plain = routing(requested)
    schedule = schedule_by_policy(replace(plain, symmetry=group), Policy(), np.random.default_rng(0))
    assert schedule is not None
    schedule.check()
    assert len(schedule) == 3


def test_a_link_that_waited_in_vain_sends_as_soon_as_it_could_have() -> None:
    """0 -> 1 -> 2, 1 us each: the one chunk there is leaves 1 when it has come, though two were hoped for."""
    alone = problem(ring(3, 1.0, 0.0), "broadcast")
    assert rows(passed(alone, Policy(hold=2))) == [(0, 0, 0.0), (0, 1, 1.0)]


def test_chunks_that_wait_together_share_a_send_up_to_the_group() -> None:
    three = problem(ring(2, 1.0, 0.0), "broadcast", 3)
    for group, time_us in ((1, 3.0), (2, 2.0), (3, 1.0)):
        schedule = passed(three, Policy(group=group))
        assert schedule is not None
        assert schedule.makespan_us == time_us


def test_a_chunk_is_left_to_a_link_that_would_deliver_it_sooner() -> None:
    """2 has a slow link from 0 and a fast one from 1, where the chunk is 1 us later: 2 us, and not 9."""
    topology = machine(3, [(0, 1, 1.0, 0.0), (0, 2, 9.0, 0.0), (1, 2, 1.0, 0.0)])
    requested = problem(topology, "broadcast")
    waits, hurries = passed(requested, Policy()), passed(requested, Policy(defer=False))
    assert waits is not None
    assert hurries is not None
    assert (waits.makespan_us, hurries.makespan_us) == (2.0, 9.0)


def test_own_chunks_leave_first_where_that_is_requested() -> None:
    """On the ring 0 -> 1 -> 2 -> 0 the link from 1 carries the chunk of 1 first, whatever the policy."""
    own_first = RoutingLimits(own_first=np.array([False, True, False]))
    requested = problem(ring(3, 1.0, 1.0), "allgather", limits=own_first)
    for policy in (Policy(), Policy(group=2), Policy(hold=2, group=2)):
        schedule = passed(requested, policy)
        assert schedule is not None
        over = [(start_us, chunk) for chunk, link, start_us in rows(schedule) or () if link == 1]
        assert min(over)[1] == 1
        assert len({start_us for start_us, _ in over}) == 2


@pytest.mark.parametrize("compiled", [False, True])
def test_where_each_chunk_is_wanted_only_where_it_is_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    monkeypatch.setattr(Loop, "is_compiled", compiled)
    assert rows(passed(Problem(full(3), custom(3, [((0,), (0,), False)]), 1.0), Policy())) == []
