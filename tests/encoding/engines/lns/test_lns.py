"""Windows: what is decided anew fits to what stays, and the known schedule is always a solution."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model
from registered import greedy, lns, routes_at_once, serves, textbook
from small_problems import (
    custom,
    featured_problems,
    full,
    machine,
    problem,
    random_schedules,
    ring,
    two_nodes,
)
from solving import solved
from studies import examples

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.encoding.engines.lns import lns as search
from taccl.encoding.engines.lns.apart import Apart, bundles_of, taken_apart
from taccl.encoding.engines.lns.choose import KINDS, Chooser, slacks_us, split
from taccl.encoding.engines.lns.model import build
from taccl.encoding.engines.lns.solutions import decisions
from taccl.encoding.engines.lns.window import Window
from taccl.encoding.instance import Instance
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def times_of(schedule: Schedule) -> tuple[list[float], list[float]]:
    """Starts and ends of the sends in the order of `decisions_of`."""
    sends = schedule.sends
    order = sorted(range(len(sends)), key=lambda send: (sends.start_us[send], sends.end_us[send]))
    return sends.start_us[order].tolist(), sends.end_us[order].tolist()


def apart_of(schedule: Schedule, lots: random.Random | None = None) -> Apart:
    decisions = decisions_of(schedule)
    bundles = bundles_of(schedule.problem, decisions)
    if lots is not None:
        bundles = split(bundles, range(len(bundles)), lots)
    apart = taken_apart(schedule.problem, decisions, bundles)
    assert apart is not None
    return apart


def decided_anew(schedule: Schedule, apart: Apart, window: Window) -> Schedule:
    """The best schedule of a window, which has at least the known one."""
    requested = schedule.problem
    ticks = ticks_of(requested, schedule.makespan_us)
    model = build(
        apart,
        times_of(schedule)[0],
        window,
        ticks,
        ticks.at_most(schedule.makespan_us),
        lambda bundle, link: bool(requested.usable(apart.bundles[bundle][0])[link]),
    )
    assert model is not None
    solver, status = solved(model.cp, num_workers=1, max_deterministic_time=0.1 * examples(1))
    assume(status != cp_model.UNKNOWN)  # some are not decided with ten times the work either
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE), "the known schedule is a solution"
    found = in_order(requested, decisions(model, solver.value))
    found.check()
    return found


def within(known: Schedule, target_us: float, units: int) -> bool:
    """Whether windows find a schedule that takes no longer than that."""
    for update in lns(known.problem, SearchOptions(), Budget.of_work(units), known):
        assert update.schedule is not None
        update.schedule.check()
        if update.schedule.makespan_us <= target_us + TOLERANCE_US:
            return True
    return False


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_schedules(COLLECTIVES), st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_every_window_holds_the_known_schedule_and_nothing_that_is_not_valid(
    schedule: Schedule, kind: str, lots: random.Random
) -> None:
    assume(len(schedule))
    apart = apart_of(schedule, lots)
    slack = slacks_us(apart, *times_of(schedule))
    window = Chooser(apart, times_of(schedule)[0], slack, lots).draw(kind, lots.randint(1, 60))
    found = decided_anew(schedule, apart, window)
    rounding = len(schedule.sends) * 2e-5 * schedule.makespan_us
    assert found.makespan_us <= schedule.makespan_us + rounding


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(able=True), st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_windows_know_unequal_chunks_late_inputs_and_what_follows_outputs(
    requested: Problem, kind: str, lots: random.Random
) -> None:
    assume("helpers" not in requested.features and serves("lns", requested))
    known = best_of(routes_at_once, requested)
    assume(len(known))
    apart = apart_of(known, lots)
    slack = slacks_us(apart, *times_of(known))
    window = Chooser(apart, times_of(known)[0], slack, lots).draw(kind, lots.randint(1, 60))
    rounding = len(known.sends) * 2e-5 * known.makespan_us
    assert decided_anew(known, apart, window).makespan_us <= known.makespan_us + rounding


def test_a_late_chunk_waits_and_the_others_go_before_it() -> None:
    """Round a ring of four one way, rank 0's chunk is there at 6 us: what waits behind it need not."""
    plain = problem(ring(4), "allgather")
    requested = replace(plain, ready_us=np.array([6.0, 0.0, 0.0, 0.0]))
    link = requested.topology.link_index
    hops = [(rank, step) for rank in range(4) for step in range(3)]  # the late chunk is first on each link
    known = in_order(
        requested,
        [Decision((rank,), link[(rank + step) % 4, (rank + step + 1) % 4]) for rank, step in hops],
    )
    assert known.makespan_us > 12.0
    assert within(known, 12.0, 5_000)


def best_of(engine, requested: Problem, units: int = 300, known: Schedule | None = None) -> Schedule:
    """The last schedule that an engine has within some work."""
    found = known
    for update in engine(requested, SearchOptions(), Budget.of_work(units), known):
        found = update.schedule or found
    assert found is not None
    found.check()
    return found


def hubs(chunks: int = 1, nodes_of: int = 3) -> Schedule:
    """Sums at a hub of each of two nodes, exchanged between hubs, and copied from there: chunks together."""
    inside = [
        (n + a, n + b) for n in (0, nodes_of) for a in range(nodes_of) for b in range(nodes_of) if a != b
    ]
    pairs = [*inside, (0, nodes_of), (nodes_of, 0)]
    links = [(a, b, 1.0, 1.0) for a, b in pairs]
    topology = machine(2 * nodes_of, links, node_of=[0] * nodes_of + [1] * nodes_of)
    requested = problem(topology, "allreduce", chunks, chunk_mb=0.125, max_group=100)
    every = tuple(range(requested.num_chunks))

    def send(one: int, other: int, contributions: int) -> Decision:
        link = topology.link_index[one, other]
        return Decision(every, link, contributions > 0, (contributions,) * len(every))

    others = [(hub, hub + other) for hub in (0, nodes_of) for other in range(1, nodes_of)]
    node = (1 << nodes_of) - 1
    sends = [send(rank, hub, 1 << rank) for hub, rank in others]
    sends += [send(0, nodes_of, node), send(nodes_of, 0, node << nodes_of)]
    sends += [send(hub, rank, 0) for hub, rank in others]
    return in_order(requested, sends)


def doubling() -> Schedule:
    """Recursive doubling on four ranks."""
    return best_of(textbook, problem(full(4), "allreduce", chunk_mb=0.001))


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS), st.sampled_from([hubs, doubling]), st.randoms(use_true_random=False))
def test_sums_that_are_made_at_many_ranks_stay_whole(
    kind: str, made: Callable[[], Schedule], lots: random.Random
) -> None:
    schedule = made()
    assert schedule.sums is not None
    apart = apart_of(schedule, lots)
    slack = slacks_us(apart, *times_of(schedule))
    window = Chooser(apart, times_of(schedule)[0], slack, lots).draw(kind, lots.randint(1, 60))
    assert decided_anew(schedule, apart, window).makespan_us <= schedule.makespan_us + TOLERANCE_US


def test_small_messages_spread_from_a_hub_in_unequal_parts() -> None:
    """Where a chunk pays by the way it takes, the parts of a message that go by different routes are unequal.

    Two routes lead from 0 to 3: 0 -> 1 -> 3 at 1 us a chunk, and 0 -> 2 -> 3 at 2 us. Of 6 chunks, halves
    take 2 * (1 + 3 * 2) = 14 us; 4 chunks by the fast way and 2 by the other, 10.
    """
    links = [(0, 1, 1.0, 1.0), (1, 3, 1.0, 1.0), (0, 2, 1.0, 2.0), (2, 3, 1.0, 2.0)]
    requested = Problem(machine(4, links), custom(4, [([0], [3], False)] * 6), 1.0)
    link = requested.topology.link_index
    halves = [((0, 1, 2), one, other) for one, other in ((0, 1), (1, 3))]
    halves += [((3, 4, 5), one, other) for one, other in ((0, 2), (2, 3))]
    known = in_order(requested, [Decision(chunks, link[one, other]) for chunks, one, other in halves])
    assert known.makespan_us == 14.0
    assert within(known, 10.0, 5_000)


def test_a_chunk_takes_a_way_that_nobody_uses() -> None:
    """Round a ring with links both directions, all chunks going one way take 3 steps; both directions, 2."""
    requested = problem(ring(4, both=True), "allgather")
    link = requested.topology.link_index
    known = in_order(
        requested,
        [
            Decision((rank,), link[(rank + step) % 4, (rank + step + 1) % 4])
            for step in range(3)
            for rank in range(4)
        ],
    )
    assert known.makespan_us == 6.0
    assert within(known, 4.0, 10_000)


def test_a_sum_takes_another_tree() -> None:
    """All parts of a sum for 0 pass one rank after another; straight routes are faster."""
    requested = Problem(full(4), custom(4, [([0, 1, 2, 3], [0], True)]), 1.0)
    link = requested.topology.link_index
    known = in_order(requested, [Decision((0,), link[rank, rank - 1], True) for rank in (3, 2, 1)])
    assert known.makespan_us == 6.0
    assert within(known, 2.0, 5_000)


def test_the_same_work_and_seed_draw_the_same_windows() -> None:
    known = best_of(greedy, problem(two_nodes(), "alltoall"), 10)
    one, other = (best_of(lns, known.problem, 150, known) for _ in range(2))
    assert one.start_us.tolist() == other.start_us.tolist()
    assert one.link.tolist() == other.link.tolist()


def test_a_known_optimum_ends_the_search() -> None:
    requested = problem(ring(3), "broadcast")
    known = best_of(greedy, requested, 10)
    instance = Instance(requested)
    instance.proves(known.makespan_us)
    budget = Budget.of_work(500)
    assert list(search(instance, SearchOptions(), budget, known)) == []
    assert budget.remaining_s() > 0.4


def test_more_transfers_than_can_be_taken_apart_are_declined() -> None:
    assert serves("lns", problem(ring(8), "alltoall"))
    assert not serves("lns", problem(ring(150), "alltoall"))


def test_a_window_that_takes_long_to_write_down_is_left_alone() -> None:
    """A chunk for one rank may go over any of 56 links: that is 56 sends, next to the seven known ones."""
    known = best_of(routes_at_once, problem(full(8), "scatter"))
    apart, starts = apart_of(known), times_of(known)[0]
    window = Window(frozenset({0}), frozenset(), frozenset())
    ticks = ticks_of(known.problem, known.makespan_us)

    def sends_within(most: float) -> bool:
        last = ticks.at_most(known.makespan_us)
        return build(apart, starts, window, ticks, last, lambda *_: True, most) is not None

    assert sends_within(100) and not sends_within(30)


def test_only_the_critical_path_has_no_slack() -> None:
    """0 -> 1 -> 2 takes 2 + 2 us, and what goes to 3 alone could wait for 2."""
    links = [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (0, 3, 1.0, 1.0)]
    requested = problem(machine(4, links), "broadcast")
    schedule = in_order(requested, [Decision((0,), link) for link in (0, 2, 1)])
    apart = apart_of(schedule)
    assert [apart.decisions[send].link for send in range(3)] == [0, 2, 1]
    assert slacks_us(apart, *times_of(schedule)) == [0.0, 2.0, 0.0]


def test_chunks_that_always_travel_together_are_one_bundle() -> None:
    apart = apart_of(hubs(chunks=2))
    assert apart.bundles == [tuple(range(12))]
    assert {rank: sink for (_, rank), sink in apart.sink.items()} == {1: 0, 2: 0, 4: 3, 5: 3}
    assert apart.root == {}
