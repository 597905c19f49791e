"""Times that follow from decisions, on hand-made ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import machine, problem, random_schedules, ring
from studies import examples

from taccl.encoding.core.ordering import Ordering, list_schedule
from taccl.encoding.core.timing import Decision, Ports, decisions_of, in_order, predecessors
from taccl.model.collectives import COLLECTIVES
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import RoutingLimits
from taccl.model.schedule import TOLERANCE_US, Schedule


def line(occupancy: Occupancy = "serial") -> LogicalTopology:
    """0 -> 1 -> 2 and 2 -> 0; alpha 1, beta 2, so a chunk of 1 MB takes 3 us."""
    return ring(3, alpha_us=1.0, beta=2.0, occupancy=occupancy)


#: Two pieces of rank 0's buffer, one after the other, to rank 1 and on to rank 2.
_PIECE_BY_PIECE = [Decision((0,), 0), Decision((1,), 0), Decision((0,), 1), Decision((1,), 1)]


def starts(schedule: Schedule) -> dict[tuple[int, int], float]:
    """Start of each transfer by (chunk, link)."""
    cells = zip(schedule.chunk.tolist(), schedule.link.tolist(), strict=True)
    return dict(zip(cells, schedule.start_us.tolist(), strict=True))


@pytest.mark.parametrize("place", [in_order, list_schedule])
def test_a_serial_port_is_busy_for_alpha_too(place) -> None:
    schedule = place(problem(line(), "broadcast", 2), _PIECE_BY_PIECE)
    schedule.check()
    assert starts(schedule) == {(0, 0): 0.0, (1, 0): 3.0, (0, 1): 3.0, (1, 1): 6.0}
    assert schedule.makespan_us == 9.0


@pytest.mark.parametrize("place", [in_order, list_schedule])
def test_a_pipelined_port_is_free_again_after_the_body(place) -> None:
    schedule = place(problem(line("pipelined"), "broadcast", 2), _PIECE_BY_PIECE)
    schedule.check()
    assert starts(schedule) == {(0, 0): 0.0, (1, 0): 2.0, (0, 1): 3.0, (1, 1): 5.0}
    assert schedule.makespan_us == 8.0


@pytest.mark.parametrize("place", [in_order, list_schedule])
@pytest.mark.parametrize(("occupancy", "second_us"), [("serial", 2.0), ("pipelined", 1.0)])
def test_a_port_that_is_faster_than_its_links_is_free_before_they_are(
    place, occupancy: Occupancy, second_us: float
) -> None:
    """Rank 0 sends to 1 and 2 over links of 2 us/MB through a port that takes 1 us for a MB."""
    links = [(0, 1, 1.0, 2.0), (0, 2, 1.0, 2.0)]
    topology = machine(3, links, occupancy, shared=[(0, 1)], rates=[0.5])
    schedule = place(problem(topology, "broadcast"), [Decision((0,), 0), Decision((0,), 1)])
    schedule.check()
    assert starts(schedule) == {(0, 0): 0.0, (0, 1): second_us}
    assert schedule.makespan_us == second_us + 3.0


def test_chunks_that_share_a_send_pay_one_alpha_and_arrive_together() -> None:
    schedule = in_order(problem(line(), "broadcast", 2), [Decision((0, 1), 0), Decision((0, 1), 1)])
    schedule.check()
    assert schedule.makespan_us == (1.0 + 4.0) * 2
    assert len(schedule.sends) == 2


def test_links_that_share_a_port_take_turns_in_the_order_given() -> None:
    fork = machine(3, [(0, 1, 1.0, 2.0), (0, 2, 1.0, 2.0)], shared=[(0, 1)])
    schedule = in_order(problem(fork, "scatter"), [Decision((2,), 1), Decision((1,), 0)])
    schedule.check()
    assert starts(schedule) == {(2, 1): 0.0, (1, 0): 3.0}


def test_a_sum_is_sent_on_when_all_contributions_are_there() -> None:
    """Rank 2 passes its part to 0, 0 adds its own and passes both to 1."""
    reduced = problem(ring(3, alpha_us=1.0, beta=2.0), "reduce")
    reduced = replace(reduced, collective=replace(reduced.collective, outputs=_at_rank_one(reduced)))
    schedule = in_order(reduced, [Decision((0,), 2, True), Decision((0,), 0, True)])
    schedule.check()
    assert starts(schedule) == {(0, 2): 0.0, (0, 0): 3.0}


def _at_rank_one(reduced):
    outputs = reduced.collective.outputs
    return replace(outputs, rank=np.ones_like(outputs.rank))


def test_a_copy_waits_for_the_copy_that_brought_its_chunk() -> None:
    assert predecessors(problem(line(), "broadcast", 2), _PIECE_BY_PIECE) == [[], [], [0], [1]]


def test_a_shared_send_waits_for_all_its_chunks() -> None:
    decisions = [*_PIECE_BY_PIECE[:2], Decision((0, 1), 1)]
    assert predecessors(problem(line(), "broadcast", 2), decisions) == [[], [], [0, 1]]


def test_a_sum_waits_for_the_sums_that_meet_at_its_sender_and_copies_wait_for_the_last_sums() -> None:
    """Chunk 0 of an AllReduce: 1 -> 2 -> 0, then copies 0 -> 1 -> 2."""
    allreduce = problem(line(), "allreduce")
    decisions = [Decision((0,), 1, True), Decision((0,), 2, True), Decision((0,), 0), Decision((0,), 1)]
    assert predecessors(allreduce, decisions) == [[], [0], [1], [2]]


def test_where_own_chunks_go_first_the_others_wait_for_them() -> None:
    """AllGather round the ring: what rank 1 carries on for 0 waits for rank 1's own chunk."""
    own_first = RoutingLimits(own_first=np.array([False, True, False]))
    decisions = [
        Decision((0,), 0),
        Decision((0,), 1),
        Decision((1,), 1),
        Decision((1,), 2),
        Decision((2,), 2),
    ]
    plain = predecessors(problem(line(), "allgather"), decisions)
    ruled = predecessors(problem(line(), "allgather", limits=own_first), decisions)
    assert plain[1] == [0]
    assert ruled[1] == [0, 2]
    assert [ruled[i] for i in (0, 2, 3, 4)] == [plain[i] for i in (0, 2, 3, 4)]


def test_list_scheduling_sends_own_chunks_first_even_against_the_priorities() -> None:
    """Rank 0's chunk is at rank 1 before its own has left, as rank 1's own chunk waits for nothing."""
    topology = machine(3, [(0, 1, 0.0, 1.0), (1, 2, 0.0, 1.0), (2, 0, 0.0, 1.0), (2, 1, 0.0, 9.0)])
    own_first = RoutingLimits(own_first=np.array([False, True, False, False]))
    gathered = problem(topology, "allgather", limits=own_first)
    decisions = [Decision((0,), 0), Decision((0,), 1), Decision((1,), 1), Decision((1,), 2)]
    decisions += [Decision((2,), 2), Decision((2,), 3)]
    schedule = list_schedule(gathered, decisions, [9.0, 9.0, 0.0, 0.0, 0.0, 0.0])
    schedule.check()
    assert starts(schedule)[1, 1] < starts(schedule)[0, 1]


def test_the_tail_of_a_send_is_the_longest_chain_that_waits_for_it() -> None:
    allgather = problem(line(), "broadcast", 2)
    assert Ordering.of(allgather, _PIECE_BY_PIECE).tails_us.tolist() == [6.0, 6.0, 3.0, 3.0]


def test_what_most_waits_for_goes_first() -> None:
    """Both pieces leave rank 0 over one link; only the second has further to go."""
    topology = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)])
    both = problem(topology, "scatter")
    schedule = list_schedule(both, [Decision((1,), 0), Decision((2,), 0), Decision((2,), 1)])
    schedule.check()
    assert starts(schedule) == {(2, 0): 0.0, (1, 0): 2.0, (2, 1): 2.0}


@given(random_schedules(COLLECTIVES), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40)
def test_of_what_could_start_first_the_highest_priority_does(valid: Schedule, random: Random) -> None:
    """As if every send that waits were looked at again each time."""
    decisions = decisions_of(valid)
    before = predecessors(valid.problem, decisions)
    priority = [float(random.randrange(3)) for _ in decisions]
    listed = list_schedule(valid.problem, decisions, priority, before)
    listed.check()
    ports, ends, left = Ports(valid.problem), dict[int, float](), set(range(len(decisions)))
    while left:
        able = [
            (max([ports.ready(decisions[i].link), *(ends[b] for b in before[i])]), -priority[i], i)
            for i in left
            if all(b in ends for b in before[i])
        ]
        start_us, _, index = min(able)
        ends[index] = ports.place(
            decisions[index].link, valid.problem.units(decisions[index].chunks), start_us
        )
        left.remove(index)
    assert listed.makespan_us == pytest.approx(max(ends.values(), default=0.0), abs=TOLERANCE_US)


def test_nothing_to_send_takes_no_time() -> None:
    still = problem(machine(1, []), "allgather")
    for schedule in (in_order(still, []), list_schedule(still, [])):
        schedule.check()
        assert schedule.makespan_us == 0.0


@settings(max_examples=60, deadline=None)
@given(random_schedules(COLLECTIVES))
def test_the_decisions_of_a_schedule_taken_again_end_no_later(schedule: Schedule) -> None:
    """Left-shifted in the same order, a valid schedule stays valid."""
    again = in_order(schedule.problem, decisions_of(schedule))
    again.check()
    assert again.makespan_us <= schedule.makespan_us + TOLERANCE_US


@settings(max_examples=examples(20), deadline=None)
@given(random_schedules(COLLECTIVES))
def test_list_scheduling_any_valid_decisions_gives_a_valid_schedule(schedule: Schedule) -> None:
    again = list_schedule(schedule.problem, decisions_of(schedule))
    again.check()
    assert len(again) == len(schedule)
