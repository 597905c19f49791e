"""What CP-SAT proves of copies holds for every schedule, and what it calls optimal is.

Of sums that are copied on it proves what holds for schedules in which each sum is made once, and says no
more.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import brute_force_trees
import numpy as np
import pytest
from brute_force import TooLarge, fastest
from hypothesis import HealthCheck, assume, given, settings
from ortools.sat.python import cp_model
from registered import cp, greedy, reducing, routes_at_once, serves
from registered import joint as jointly
from small_problems import (
    ENGINE_BETAS,
    custom,
    custom_problems,
    featured_problems,
    machine,
    ndv2_node,
    problem,
    problems,
    ring,
    two_nodes,
)
from solving import solved
from studies import examples

from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import NEVER, ticks_of
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.cp.engine import add_hint
from taccl.encoding.engines.cp.proof import prove, whole_model
from taccl.encoding.engines.cp.solve import events, schedule_of
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

_COPIES = ("allgather", "alltoall", "broadcast", "gather", "scatter")
#: Of an exhaustive search; what takes more of these takes hundreds of thousands.
_MOST_SENDS = 1_000
#: Of CP-SAT's count for one example. With 10, of 872 examples 868 end within 1.3 s of the wall and one takes
#: 38: CP-SAT counts less than it does there.
_SECONDS = 1.0
some = settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def first(small: Problem) -> Schedule:
    """A schedule to begin with."""
    engine = reducing(greedy) if small.features <= {"reductions"} else routes_at_once
    update = next(engine(small, SearchOptions(), Budget(0.0), None))
    assert update.schedule is not None
    return update.schedule


def of_the_whole_model(small: Problem, known: Schedule, seconds: float = 10.0) -> tuple[Schedule, float]:
    """Its best schedule and its bound, with no bound known before."""
    model = whole_model(Instance(small), known, 0.0)
    add_hint(model, known)
    best, bound = known, 0.0
    for each in events(model, 0, Budget.of_work(round(1000 * seconds))):
        assert not each.impossible, "the known schedule is a solution"
        bound = max(bound, each.bound * model.sending.clock.ticks.tick_us)
        if each.decisions is not None:
            found = schedule_of(small, each.decisions)
            found.check()
            best = min(best, found, key=lambda schedule: schedule.makespan_us)
    return best, bound


def agrees_with_an_exhaustive_search(small: Problem) -> None:
    search = brute_force_trees.fastest if small.collective.is_reduction else fastest
    try:
        optimum = search(small, _MOST_SENDS).makespan_us
    except (TooLarge, brute_force_trees.TooLarge):
        return
    known = first(small)
    if not len(known):
        return
    best, bound = of_the_whole_model(small, known, _SECONDS)
    assert bound <= optimum * (1 + 1e-9) + 1e-6
    assert best.makespan_us >= optimum - 1e-6
    if bound >= best.makespan_us * (1 - 1e-9):
        assert best.makespan_us == pytest.approx(optimum, abs=1e-6)
    for update in prove(Instance(small), SearchOptions(), Budget.of_work(1_000), known, 0.0):
        assert update.lower_bound_us <= (
            0.0 if small.collective.is_reduction else optimum * (1 + 1e-9) + 1e-6
        )


@some
@given(problems(most_ranks=4, names=_COPIES, limited=True, betas=ENGINE_BETAS))
def test_what_is_proved_of_copies_agrees_with_an_exhaustive_search(small: Problem) -> None:
    agrees_with_an_exhaustive_search(small)


@some
@given(problems(most_ranks=3, names=("allreduce",), limited=True, betas=ENGINE_BETAS))
def test_what_is_proved_of_sums_and_copies_agrees_with_an_exhaustive_search(small: Problem) -> None:
    agrees_with_an_exhaustive_search(small)


@some
@given(custom_problems(most_ranks=3, betas=ENGINE_BETAS))
def test_what_is_proved_of_a_custom_collective_agrees_with_an_exhaustive_search(small: Problem) -> None:
    if small.collective.is_reduction:
        return
    agrees_with_an_exhaustive_search(small)


@settings(some, max_examples=examples(6))
@given(featured_problems(most_ranks=3, names=_COPIES))
def test_what_is_proved_of_unequal_and_late_chunks_agrees_with_an_exhaustive_search(small: Problem) -> None:
    assume(next(routes_at_once(small, SearchOptions(), Budget(0.0), None), None) is not None)
    try:
        optimum = fastest(small, _MOST_SENDS).makespan_us
    except TooLarge:
        return
    known = first(small)
    if not len(known):
        return
    best, bound = of_the_whole_model(small, known, _SECONDS)
    assert best.makespan_us >= optimum - 1e-6
    assert bound <= optimum * (1 + 1e-9) + 1e-6
    if bound >= best.makespan_us * (1 - 1e-9):
        assert best.makespan_us == pytest.approx(optimum, abs=1e-6)


def late(**more: np.ndarray) -> Problem:
    """An AllGather on a ring of four, links one way, 1 us and 1 us a chunk; rank 0's chunk is there at 6."""
    return replace(problem(ring(4), "allgather"), ready_us=np.array([6.0, 0.0, 0.0, 0.0]), **more)


def test_on_a_ring_of_four_a_late_chunk_goes_round_last() -> None:
    """It takes three hops of 2 us; the others are round before it is there, so nothing is in its way."""
    assert decided(late()) == (pytest.approx(12.0), pytest.approx(12.0))


def test_a_larger_chunk_takes_longer_on_each_hop() -> None:
    assert decided(late(sizes=np.array([2.0, 1.0, 1.0, 1.0]))) == (pytest.approx(15.0), pytest.approx(15.0))


def test_what_follows_an_output_counts() -> None:
    """4 us follow the late chunk at rank 3, where it comes last."""
    outputs = late().collective.outputs
    tail = np.where((outputs.chunk == 0) & (outputs.rank == 3), 4.0, 0.0)
    assert decided(late(tail_us=tail)) == (pytest.approx(16.0), pytest.approx(16.0))


def decided(small: Problem) -> tuple[float, float]:
    """The time of the fastest schedule, and the least that one tick less is refuted for."""
    best, bound = of_the_whole_model(small, first(small))
    return best.makespan_us, bound


def fewest_ticks(small: Problem, known: Schedule) -> int | None:
    """What the whole model's fastest solution lasts; None where so much work does not prove it.

    With up to 8 sends it does: of 100 random problems all are decided, most with much less. It bounds
    what a hard one costs: with four times as much the test below once took 86 s.
    """
    model = whole_model(Instance(small), known, 0.0)
    solver, status = solved(model.cp, num_workers=8, max_deterministic_time=0.25)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN)
    return round(solver.objective_value) if status == cp_model.OPTIMAL else None


@settings(some, max_examples=12)
@given(problems(most_ranks=3, names=_COPIES, most_sends=8, limited=True, betas=ENGINE_BETAS))
def test_where_alpha_keeps_no_port_busy_shared_sends_save_nothing(small: Problem) -> None:
    """The optimum without slots is the one with as many as any schedule can have."""
    small = replace(small, topology=replace(small.topology, occupancy="pipelined", port_betas=None))
    known = first(small)
    if not len(known):
        return
    assert not whole_model(Instance(small), known, 0.0).slots
    nowhere = np.zeros(small.topology.num_links, dtype=np.bool_)
    with patch("taccl.encoding.sending_model.sends.one_by_one", return_value=nowhere):
        shared = fewest_ticks(small, known)
    alone = fewest_ticks(small, known)
    assume(shared is not None and alone is not None)
    assert alone == shared


def test_groups_of_one_link_may_follow_each_other_while_the_first_is_on_its_way() -> None:
    """Pipelined, and port 0 takes 1 us for a chunk of rank 0, whose link takes 2, and 2 us for the others.

    Two groups of two, and the others' chunks in between, in 8 us and an alpha of 10. A second group that
    waited for the first to come would end at 28.
    """
    links = [(0, 1, 10.0, 2.0), (2, 3, 10.0, 2.0), (4, 5, 10.0, 2.0)]
    topology = machine(6, links, "pipelined", shared=[(0, 1, 2)])
    topology = replace(topology, port_betas=((2.0, 1.0), (2.0, 2.0), (2.0, 2.0)))
    ends = [([0], [1], False)] * 4 + [([2], [3], False), ([4], [5], False)]
    moved = Problem(topology, custom(6, ends), 1.0, max_group=2)
    sends = (((0, 1), 0), ((4,), 1), ((2, 3), 0), ((5,), 2))
    turns = in_order(moved, [Decision(chunks, link) for chunks, link in sends])
    assert turns.makespan_us == pytest.approx(18.0)
    assert fewest_ticks(moved, turns) == round(18.0 / ticks_of(moved, 18.0).tick_us)


def proved(small: Problem, seconds: float = 20.0) -> tuple[float, float]:
    """(time, bound) that the engine ends with, with all that it says checked on the way."""
    time_us, bound_us = first(small).makespan_us, 0.0
    engine = jointly if serves("joint", small) else reducing(cp)
    for update in engine(small, SearchOptions(), Budget.of_work(round(1000 * seconds)), first(small)):
        bound_us = max(bound_us, update.lower_bound_us)
        if update.schedule is not None:
            update.schedule.check()
            time_us = min(time_us, update.schedule.makespan_us)
        assert bound_us <= time_us * (1 + 1e-9)
        if bound_us >= time_us * (1 - 1e-9):
            break
    return time_us, bound_us


def test_an_allgather_of_an_ndv2_node_is_proved_to_take_an_alpha_more_than_the_other_bounds_say() -> None:
    node = problem(ndv2_node(), "allgather")
    assert lower_bound(node).value_us == pytest.approx(69.6)
    assert proved(node) == (pytest.approx(69.9), pytest.approx(69.9))


def test_a_sum_is_proved_by_its_mirror_image() -> None:
    node = problem(ndv2_node(), "reducescatter")
    assert proved(node) == (pytest.approx(69.9), pytest.approx(69.9))


def notes(small: Problem, seconds: float = 20.0) -> tuple[float, list[str]]:
    """The time that `jointly` ends with, and what it notes about the last schedule; it must tell no bound."""
    time_us, reported = first(small).makespan_us, []
    for update in jointly(small, SearchOptions(), Budget.of_work(round(1000 * seconds)), first(small)):
        assert update.lower_bound_us == 0.0
        if update.schedule is not None:
            update.schedule.check()
            time_us, reported = update.schedule.makespan_us, []
        reported += [update.note] if update.note else []
        if "is faster" in update.note:
            break
    return time_us, reported


def test_what_is_proved_of_sums_that_are_made_once_is_a_note_and_no_bound() -> None:
    """Round a ring of three the fastest takes 13 us; where each sum is made once, and nothing mixes, 14."""
    everyone = (0, 1, 2)
    both = Problem(ring(3, 0.5, 3.0), custom(3, [(everyone, everyone, True)] * 2), 1.0, max_group=2)
    assert fastest(both).makespan_us == pytest.approx(13.0)
    time_us, reported = notes(both)
    assert time_us == pytest.approx(14.0)
    assert reported[-1] == (
        "no schedule that makes each sum once, at one rank, is faster "
        "(proved by CP-SAT, which says nothing of others)"
    )
    assert lower_bound(both).value_us <= 13.0


def test_a_sum_for_one_rank_is_not_proved_where_ports_are_busy_otherwise_backwards() -> None:
    """Two links with alphas of 1 and 5 us share a port that is busy for neither: no time is turned round."""
    links = [(0, 1, 1.0, 2.0), (2, 1, 5.0, 2.0), (1, 0, 1.0, 2.0), (1, 2, 1.0, 2.0)]
    mixed = problem(machine(3, links, "pipelined", shared=[(0, 1)]), "reducescatter")
    assert not mixed.topology.reads_backwards
    for update in reducing(cp)(mixed, SearchOptions(), Budget.of_work(2_000), first(mixed)):
        assert update.lower_bound_us == 0.0
    for exact in (
        problem(replace(mixed.topology, occupancy="serial"), "reducescatter"),
        problem(ring(3), "reduce"),
    ):
        assert exact.topology.reads_backwards


def test_a_bound_holds_without_the_symmetry_that_a_problem_asks_for() -> None:
    """Chunks 0 and 1 swap with their ranks and meet on a port that only one of them can have."""
    sides = [
        (0, 2, 1.0, 1.0),
        (1, 2, 1.0, 1.0),
        (2, 0, 1.0, 1.0),
        (2, 1, 1.0, 1.0),
        (0, 1, 1.0, 9.0),
        (1, 0, 1.0, 9.0),
    ]
    plain = problem(machine(3, sides, shared=[(0, 1)]), "allgather")
    requested = problem(plain.topology, "allgather", symmetry=[[1, 0, 2]])
    assert proved(requested)[1] <= fastest(plain).makespan_us + 1e-6


def test_a_bound_holds_without_the_order_of_own_chunks_that_a_sketch_asks_for() -> None:
    own_first = np.array([False] * 4 + [True] * 2)
    ruled = problem(two_nodes(beta_between=4.0), "allgather", limits=RoutingLimits(own_first=own_first))
    plain = problem(two_nodes(beta_between=4.0), "allgather")
    assert proved(ruled, 4.0)[1] <= fastest(plain).makespan_us + 1e-6


def test_what_a_symmetry_moves_takes_turns_at_a_shared_port() -> None:
    """Ranks 0 and 1, an orbit, share the NIC of their node, as do 2 and 3: routes symmetric, times not."""
    inside = [(a, b, 1.0, 1.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(a, b, 2.0, 10.0) for a, b in ((0, 2), (1, 3), (2, 0), (3, 1))]
    topology = machine(4, inside + across, shared=[(4, 5), (6, 7)], node_of=[0, 0, 1, 1])
    gather = problem(topology, "allgather", symmetry=[[1, 0, 3, 2]])
    known = first(gather)
    times = [
        update.schedule.makespan_us
        for update in cp(gather, SearchOptions(), Budget.of_work(3_000), known)
        if update.schedule is not None
    ]
    assert min([known.makespan_us, *times]) == pytest.approx(26.0)


def test_short_decimals_have_an_exact_tick() -> None:
    ticks = ticks_of(problem(ndv2_node(), "allgather"), 100.0)
    assert ticks.exact
    assert ticks.tick_us == pytest.approx(0.1)
    assert ticks.of(np.array([69.9, 0.3])).tolist() == [699, 3]
    assert (ticks.at_least(69.6), ticks.at_most(69.9), ticks.last_before(69.9)) == (696, 699, 698)


def test_measured_costs_are_rounded_down_and_nothing_takes_no_tick() -> None:
    odd = ring(3, alpha_us=np.pi, beta=np.e)
    ticks = ticks_of(problem(odd, "allgather"), 10.0)
    assert not ticks.exact
    assert ticks.tick_us == pytest.approx(1e-6)
    assert int(ticks.of(np.pi)) * ticks.tick_us <= np.pi < (int(ticks.of(np.pi)) + 1) * ticks.tick_us
    assert int(ticks.of(np.inf)) == NEVER
    slow_and_fast = machine(2, [(0, 1, np.pi * 1e-9, np.e * 1e-9), (1, 0, 1.0, 1e6)])
    assert int(ticks_of(problem(slow_and_fast, "allgather"), 1e6).of(np.pi * 1e-9)) >= 1


@pytest.mark.parametrize("costs", [(np.pi, np.e), (1.0, 1.0), (1.0, 1e7)], ids=["measured", "small", "large"])
def test_a_proof_ends_long_before_the_time_when_nothing_is_left_to_ask(costs: tuple[float, float]) -> None:
    """The fastest schedule is known, and with an hour to spare its proof returns."""
    gather = problem(ring(3, *costs), "allgather")
    known = fastest(gather).schedule()
    bounds = [
        update.lower_bound_us
        for update in prove(Instance(gather), SearchOptions(), Budget(3600.0), known, 0.0)
    ]
    assert bounds == sorted(bounds)
    assert bounds[-1] == pytest.approx(known.makespan_us, rel=1e-2)
    assert bounds[-1] <= known.makespan_us * (1 + 1e-9)
