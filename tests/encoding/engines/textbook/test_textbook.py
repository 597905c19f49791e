"""Textbook algorithms: as fast as by hand, valid, and none where a link is missing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registered import greedy, textbook
from small_problems import (
    ENGINE_BETAS,
    Link,
    custom,
    custom_problems,
    full,
    machine,
    problem,
    problems,
    ring,
    two_nodes,
)
from studies import examples
from textbook_machines import all_built, railed_nodes, switch, torus

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.textbook import engine
from taccl.encoding.engines.textbook.all_pairs import ALL_PAIRS
from taccl.encoding.engines.textbook.books import Candidate, books_of
from taccl.encoding.engines.textbook.bruck import BRUCK, PAT, addition_chain
from taccl.encoding.engines.textbook.doubling import DOUBLING, DOUBLING_FAR_FIRST
from taccl.encoding.engines.textbook.engine import (
    by_name,
    fastest,
    few_equivalent_first,
    least_work_first,
    soonest_first,
    textbook_at_once,
)
from taccl.encoding.engines.textbook.grid import GridAlgorithm, by_nodes, sends_of
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.parts import parts_of
from taccl.encoding.engines.textbook.ring import RING, RING_BOTH_DIRECTIONS
from taccl.encoding.engines.textbook.schedules import rows_of, timed
from taccl.encoding.engines.textbook.sends import together
from taccl.encoding.engines.textbook.tuning import AN_ESTIMATE_AS_WRITTEN, WRITTEN_PER_S
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.solve import solve
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

ALGORITHMS = (RING, RING_BOTH_DIRECTIONS, DOUBLING, DOUBLING_FAR_FIRST, ALL_PAIRS, BRUCK, PAT)
line_algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda each: each.name)


def run(problem: Problem, *plans: GridAlgorithm, batches: int = 1) -> Schedule | None:
    """What some plans make of a problem, valid; None where a link is missing, or may not be used."""
    parts = parts_of(Instance(problem))
    assert parts is not None
    cut = parts.cut(np.arange(problem.num_ranks) % len(plans), len(plans), batches)
    streams = []
    for batch, variant, units in cut.streams():
        sends = sends_of(plans[variant], parts, cut.begin[units], cut.end[units])
        streams.append(sends.of_units(units).later(batch))
    sends = together(streams)
    rows = rows_of(problem, sends, cut)
    schedule = None if rows is None else timed(problem, sends, rows)
    if schedule is not None:
        schedule.check()
    return schedule


def time_us(schedule: Schedule | None) -> float:
    assert schedule is not None
    return schedule.makespan_us


def on_line(problem: Problem, algorithm: LineAlgorithm, batches: int = 1) -> Schedule | None:
    return run(problem, GridAlgorithm(np.arange(problem.num_ranks), ((0, algorithm),)), batches=batches)


def whole(problem: Problem, algorithm: LineAlgorithm) -> Schedule | None:
    return run(problem, GridAlgorithm(np.arange(problem.num_ranks), (), ((0, algorithm),)))


# By hand: n chunks over a link take alpha + n * beta; here, mostly, 1 + n.


@pytest.mark.parametrize(
    ("algorithm", "by_hand_us"),
    [
        (RING, 7 * (1 + 1)),
        (RING_BOTH_DIRECTIONS, 7 * (1 + 1)),  # behind a switch, both directions are one
        (DOUBLING, (1 + 1) + (1 + 2) + (1 + 4)),
        (DOUBLING_FAR_FIRST, (1 + 1) + (1 + 2) + (1 + 4)),
        (ALL_PAIRS, 7 * (1 + 1)),
        (BRUCK, (1 + 1) + (1 + 2) + (1 + 4)),
        (PAT, (1 + 1) + (1 + 2) + (1 + 4)),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_an_allgather_on_a_switch_takes_as_long_as_by_hand(
    algorithm: LineAlgorithm, by_hand_us: float
) -> None:
    assert time_us(on_line(problem(switch(8), "allgather"), algorithm)) == pytest.approx(by_hand_us)


@pytest.mark.parametrize(
    ("algorithm", "by_hand_us"),
    [(RING, 7 * 2.0), (RING_BOTH_DIRECTIONS, 4 * 2.0), (DOUBLING, 10.0), (ALL_PAIRS, 2.0), (BRUCK, 10.0)],
    ids=lambda each: getattr(each, "name", None),
)
def test_an_allgather_where_each_pair_has_a_link_takes_as_long_as_by_hand(
    algorithm: LineAlgorithm, by_hand_us: float
) -> None:
    assert time_us(on_line(problem(full(8), "allgather"), algorithm)) == pytest.approx(by_hand_us)


@pytest.mark.parametrize(("ranks", "by_distance"), [(8, {4: 1, 2: 2, 1: 4}), (6, {4: 1, 2: 1, 1: 3})])
def test_pat_is_as_many_steps_as_bruck_and_sends_most_to_its_neighbour(
    ranks: int, by_distance: dict[int, int]
) -> None:
    """Bruck sends one chunk to the neighbour, and half of all to the farthest."""
    schedule = on_line(problem(full(ranks), "allgather"), PAT)
    assert schedule is not None
    assert len(schedule.sends) == ranks * 3
    topology = schedule.problem.topology
    distance = (topology.src - topology.dst)[schedule.link] % ranks
    assert dict(Counter(distance.tolist())) == {far: ranks * many for far, many in by_distance.items()}


@pytest.mark.parametrize(
    ("topology", "algorithm", "by_hand_us"),
    [
        (switch(4), DOUBLING, 2 * (1 + 4)),
        (switch(4), ALL_PAIRS, 3 * (1 + 4)),
        (switch(8), DOUBLING, 3 * (1 + 8)),
        (full(8), ALL_PAIRS, 1 + 8),
        (switch(5), BRUCK, 3 * (1 + 5)),  # 1 + 1, 2 + 2, 4 + 1
        (switch(6), BRUCK, 3 * (1 + 6)),  # 1 + 1, 2 + 2, 4 + 2
        (switch(7), BRUCK, 4 * (1 + 7)),  # 1 + 1, 2 + 1, 3 + 3, 6 + 1 or equivalent
    ],
)
def test_an_allreduce_of_whole_buffers_takes_as_long_as_by_hand(
    topology: LogicalTopology, algorithm: LineAlgorithm, by_hand_us: float
) -> None:
    """Each rank adds up for itself: no root, no way back."""
    assert time_us(whole(problem(topology, "allreduce"), algorithm)) == pytest.approx(by_hand_us)


@pytest.mark.parametrize(
    ("algorithm", "by_hand_us"),
    [(RING, 2 * 7 * 2.0), (DOUBLING, 2 * 10.0), (DOUBLING_FAR_FIRST, 2 * 10.0), (ALL_PAIRS, 2 * 7 * 2.0)],
    ids=lambda each: getattr(each, "name", None),
)
def test_an_allreduce_by_shares_takes_as_long_as_by_hand(algorithm: LineAlgorithm, by_hand_us: float) -> None:
    """The ring, halving-doubling and two-shot AllReduce: a ReduceScatter, and an AllGather of the same."""
    schedule = on_line(problem(switch(8), "allreduce"), algorithm)
    assert time_us(schedule) == pytest.approx(by_hand_us)
    assert schedule is not None and schedule.sums is None


@pytest.mark.parametrize(
    ("topology", "algorithm", "by_hand_us"),
    [
        (switch(8), ALL_PAIRS, 7 * 2.0),
        (full(8), ALL_PAIRS, 2.0),
        (switch(8), DOUBLING, 3 * (1 + 4)),
        (switch(8), BRUCK, 3 * (1 + 4)),
        (ring(4), RING, (1 + 3) + (1 + 2) + (1 + 1)),
        (ring(5, both=True), RING_BOTH_DIRECTIONS, (1 + 2) + (1 + 1)),
    ],
)
def test_an_alltoall_takes_as_long_as_by_hand(
    topology: LogicalTopology, algorithm: LineAlgorithm, by_hand_us: float
) -> None:
    assert time_us(on_line(problem(topology, "alltoall"), algorithm)) == pytest.approx(by_hand_us)


@pytest.mark.parametrize(
    ("name", "algorithm", "by_hand_us"),
    [
        ("broadcast", RING, 7 * (1 + 4)),  # the chain, not pipelined
        ("broadcast", DOUBLING, 3 * (1 + 4)),  # the binomial tree
        ("broadcast", ALL_PAIRS, 7 * (1 + 4)),
        ("scatter", DOUBLING, (1 + 16) + (1 + 8) + (1 + 4)),
        ("gather", DOUBLING, (1 + 4) + (1 + 8) + (1 + 16)),
        ("gather", ALL_PAIRS, 7 * (1 + 4)),
    ],
)
def test_collectives_with_a_root_take_as_long_as_by_hand(
    name: str, algorithm: LineAlgorithm, by_hand_us: float
) -> None:
    assert time_us(on_line(problem(switch(8), name, 4), algorithm)) == pytest.approx(by_hand_us)


def test_a_pipelined_chain_sends_piece_after_piece() -> None:
    small = problem(switch(8), "broadcast", 16)
    assert time_us(on_line(small, RING, batches=16)) == pytest.approx((16 + 6) * 2.0)
    assert time_us(on_line(small, RING, batches=4)) == pytest.approx((4 + 6) * 5.0)


def test_sums_for_one_rank_are_copies_read_backwards() -> None:
    assert all_built(problem(switch(8), "reducescatter"))["recursive doubling"] == pytest.approx(10.0)
    assert all_built(problem(switch(8), "reduce", 4))["Bruck"] == pytest.approx(15.0)


def test_a_double_binary_tree_is_faster_than_a_chain_and_a_binomial_tree() -> None:
    """32 pieces from a root behind a switch to 7 others. The chain, 16 batches of 2: (16 + 6) * 3."""
    times = all_built(problem(switch(8), "broadcast", 32))
    assert times["ring, 16 batches"] == pytest.approx(66.0)
    assert min(time for name, time in times.items() if name.startswith("double binary tree")) < 66.0
    assert time_us(on_line(problem(switch(8), "broadcast", 32), DOUBLING)) == pytest.approx(99.0)


def test_a_broadcast_by_scatter_and_allgather_sends_about_two_buffers() -> None:
    """Halving: 16, 8 and 4 pieces; then doubling: 4, 8 and 16, of which the root lacks none."""
    times = all_built(problem(switch(8), "broadcast", 32))
    name = "scatter (recursive doubling) and AllGather (recursive doubling)"
    assert times[name] == pytest.approx(2 * (17.0 + 9.0 + 5.0))


def test_a_scatter_along_one_axis_saves_alphas_and_a_broadcast_of_all_to_all() -> None:
    """12 ranks as 4 x 3: halving of 2 and 1 pieces, two steps of Bruck with one, doubling with 1 and 2."""
    times = all_built(problem(switch(12), "broadcast", 4))
    name = "scatter along axis 0, then Bruck along axis 1, then recursive doubling along axis 0 of 4x3"
    assert times[name] == pytest.approx((3 + 2) + 2 * 2 + (2 + 3))
    assert times["Bruck"] == pytest.approx(4 * 5)


def test_nothing_is_dealt_out_of_one_piece() -> None:
    assert not any("scatter" in name for name in all_built(problem(switch(12), "broadcast")))


def test_algorithms_are_found_once_for_all_numbers_of_chunks() -> None:
    cuts = [Instance(problem(switch(4), "broadcast", chunks, 8 / chunks)) for chunks in (1, 8)]
    assert list(fastest(cuts, Budget.of_work(200)))
    coarse, fine = (each.once(books_of) for each in cuts)
    assert coarse is not None and fine is not None and coarse.algorithms == fine.algorithms


def test_a_first_schedule_is_what_promises_most_and_is_soon_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    small, options = Instance(problem(switch(8), "alltoall")), SearchOptions(effort=1)
    (update,) = textbook_at_once(small, options, Budget(0.0), None)
    assert update.schedule is not None
    update.schedule.check()
    assert update.schedule.makespan_us == pytest.approx(min(all_built(small.problem).values()))
    monkeypatch.setattr(engine, "TIMED_AT_ONCE", 0)
    assert list(textbook_at_once(small, options, Budget(0.0), None)), "the first is timed if it only copies"
    monkeypatch.setattr(engine, "ONE_TIMED", 0)
    assert not list(textbook_at_once(small, options, Budget(0.0), None))


def test_what_is_too_large_to_be_timed_is_timed_on_the_quotient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of 8: each rank passes on 4 + 3 + 2 + 1 chunks one way, 3 + 2 + 1 the other, in joint sends."""
    requested, options = problem(ring(8, both=True), "alltoall"), SearchOptions(effort=1)
    (whole,) = textbook_at_once(Instance(requested), options, Budget(0.0), None)
    monkeypatch.setattr("taccl.encoding.engines.textbook.books.MOST_ROWS", 50)
    assert not all_built(requested)
    (update,) = textbook_at_once(Instance(requested), options, Budget(0.0), None)
    assert update.schedule is not None and whole.schedule is not None
    update.schedule.check()
    assert update.schedule.makespan_us == whole.schedule.makespan_us


def test_finer_cuts_know_what_was_too_large_for_coarser_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taccl.encoding.engines.textbook.books.MOST_ROWS", 50)
    coarse, fine = (books_of(Instance(problem(ring(8, both=True), "alltoall", chunks))) for chunks in (1, 2))
    assert coarse is not None and fine is not None
    fine.take_algorithms_of(coarse)
    assert coarse.leaves_out and fine.leaves_out


def test_images_are_written_only_of_what_is_better_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    requested, options = problem(ring(8, both=True), "alltoall"), SearchOptions(effort=1)
    monkeypatch.setattr("taccl.encoding.engines.textbook.books.MOST_ROWS", 50)
    slow = next(greedy(requested, options, Budget(0.0), None)).schedule
    assert slow is not None
    (update,) = textbook(requested, options, Budget.of_work(10_000), slow)
    assert update.schedule is not None
    update.schedule.check()
    assert update.schedule.makespan_us < slow.makespan_us
    assert not list(textbook(requested, options, Budget.of_work(10_000), update.schedule))
    assert not list(textbook(requested, options, Budget(0.0), slow))


def test_hierarchical_algorithms_send_shares_across_nodes() -> None:
    """Two nodes of four: 4 chunks wide inside (1 + 2 each), then shares of two chunks across (5 + 20)."""
    small = problem(railed_nodes(2, 4), "allreduce")
    grid = by_nodes(small.topology)
    assert grid is not None
    inside_first = GridAlgorithm(grid, ((1, ALL_PAIRS),), ((0, ALL_PAIRS),))
    assert time_us(run(small, inside_first)) == pytest.approx((1 + 2) + (5 + 20) + (1 + 2))
    shares = GridAlgorithm(grid, ((1, ALL_PAIRS), (0, ALL_PAIRS)))
    assert time_us(run(small, shares)) == pytest.approx((1 + 2) + 2 * (5 + 10) + (1 + 2))
    everything = GridAlgorithm(grid, (), ((1, ALL_PAIRS), (0, ALL_PAIRS)))
    assert time_us(run(small, everything)) == pytest.approx((1 + 8) + (5 + 80))


def test_an_alltoall_over_nodes_goes_in_two_steps() -> None:
    """To the rank of one's node that is at the target's place, then across: 2 chunks, then 4."""
    small = problem(railed_nodes(2, 4), "alltoall")
    grid = by_nodes(small.topology)
    assert grid is not None
    plan = GridAlgorithm(grid, ((1, ALL_PAIRS), (0, ALL_PAIRS)))
    assert time_us(run(small, plan)) == pytest.approx((1 + 2) + (5 + 40))


def test_a_torus_is_used_along_both_axes_at_once() -> None:
    """Buckets along one axis use half of the links at a time; two of them, turned, use all."""
    small = problem(torus(4, 4), "allgather", 2)
    grid = np.arange(16).reshape(4, 4)
    along = [
        GridAlgorithm(grid, ((axis, RING_BOTH_DIRECTIONS), (1 - axis, RING_BOTH_DIRECTIONS)))
        for axis in (0, 1)
    ]
    assert time_us(run(small, along[0])) == pytest.approx(2 * (1 + 2) + (1 + 8) + (1 + 4))
    assert time_us(run(small, *along)) == pytest.approx(2 * (1 + 1) + (1 + 4) + (1 + 2))


def one_way_out() -> LogicalTopology:
    """Two nodes of three ranks, all linked (alpha 1, beta 1); between the nodes 0 - 3 only (5 and 10)."""
    inside = [(a, b, 1.0, 1.0) for a in range(6) for b in range(6) if a != b and a // 3 == b // 3]
    return machine(6, [*inside, (0, 3, 5.0, 10.0), (3, 0, 5.0, 10.0)], node_of=[0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("topology", "name", "by_hand_us"),
    [
        (one_way_out(), "allgather", (1 + 1) + (5 + 30) + (1 + 3)),
        (one_way_out(), "reducescatter", (1 + 3) + (5 + 30) + (1 + 1)),
        (one_way_out(), "allreduce", (1 + 6) + (5 + 60) + (1 + 6)),
        (two_nodes(), "allgather", (1 + 1) + (2 + 20) + (1 + 2)),  # out by 1 and 3, in by 0 and 2
    ],
)
def test_leaders_speak_for_their_nodes(topology: LogicalTopology, name: str, by_hand_us: float) -> None:
    """What one way out carries crosses in one send: up to the leader, across, down."""
    assert all_built(problem(topology, name))["leaders, all-pairs"] == pytest.approx(by_hand_us)


# Links that are missing.


@line_algorithms
def test_nothing_is_built_where_a_link_is_missing(algorithm: LineAlgorithm) -> None:
    """A line has no way back from its end; a ring of five has none across."""
    line = machine(5, [(a, a + 1, 1.0, 1.0) for a in range(4)] + [(a + 1, a, 1.0, 1.0) for a in range(4)])
    if not algorithm.fits(5):
        return
    assert on_line(problem(line, "allgather"), algorithm) is None
    if algorithm in (ALL_PAIRS, BRUCK):
        assert on_line(problem(ring(5, both=True), "allgather"), algorithm) is None


@line_algorithms
def test_nothing_is_built_over_links_that_a_owner_may_not_use(algorithm: LineAlgorithm) -> None:
    topology = full(4)
    for name in ("allgather", "allreduce", *(("alltoall",) if algorithm.route else ())):
        free = problem(topology, name)
        schedule = on_line(free, algorithm)
        assert schedule is not None
        may_use = np.ones((4, topology.num_links), dtype=np.bool_)
        may_use[free.collective.owner[schedule.chunk[0]], schedule.link[0]] = False
        assert on_line(replace(free, limits=RoutingLimits(may_use=may_use)), algorithm) is None


@pytest.mark.parametrize("algorithm", [DOUBLING, DOUBLING_FAR_FIRST])
def test_doubling_is_for_powers_of_two(algorithm: LineAlgorithm) -> None:
    assert [n for n in range(2, 20) if algorithm.fits(n)] == [2, 4, 8, 16]


@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce", "broadcast"])
def test_of_custom_collectives_only_those_that_are_like_a_standard_one_are_answered(name: str) -> None:
    odd = custom(3, [((0, 1), (2,), False), ((0, 1), (1, 2), True)])
    stated = replace(problem(full(3), name), collective=odd)
    assert parts_of(Instance(stated)) is None
    assert not all_built(stated)


@pytest.mark.parametrize("n", range(2, 14))
def test_bruck_sums_up_over_any_number_of_ranks(n: int) -> None:
    schedule = whole(problem(switch(n), "allreduce"), BRUCK)
    assert time_us(schedule) == pytest.approx((len(addition_chain(n)) - 1) * (1 + n))


def test_the_engine_yields_what_is_faster_than_the_incumbent() -> None:
    small = problem(switch(4), "allreduce")
    times = [
        update.schedule.makespan_us
        for update in textbook(small, SearchOptions(), Budget.of_work(60_000), None)
        if update.schedule is not None
    ]
    assert all(later < earlier for earlier, later in pairwise(times))
    # Halves of the buffer with a neighbour, whole halves across, halves back: (1 + 2) + (1 + 2) + (1 + 2).
    assert times[-1] == pytest.approx(9.0)
    best = run(small, GridAlgorithm(np.arange(4).reshape(2, 2), ((1, ALL_PAIRS),), ((0, ALL_PAIRS),)))
    assert time_us(best) == pytest.approx(9.0)
    assert not list(textbook(small, SearchOptions(), Budget.of_work(60_000), best))


def test_of_algorithms_that_look_alike_two_come_before_the_others_have_their_turn() -> None:
    coarse, fine = (books_of(Instance(problem(ring(4), "allreduce", chunks))) for chunks in (1, 2))
    assert coarse is not None and fine is not None
    pool = [
        Candidate(books, coarse.algorithms[0], batches, estimate_us)
        for books, estimate_us, number in ((coarse, 5.0, 3), (fine, 6.0, 1), (coarse, 7.0, 1))
        for batches in range(1, number + 1)
    ]
    in_turn = soonest_first(few_equivalent_first(pool), {})
    turns = [(each.books is coarse, each.estimate_us, each.batches) for each in in_turn]
    assert turns == [(True, 5.0, 1), (True, 5.0, 2), (False, 6.0, 1), (True, 7.0, 1), (True, 5.0, 3)]


def test_what_took_longer_than_its_estimate_is_expected_to_do_so_again() -> None:
    books = books_of(Instance(problem(ring(4), "allreduce")))
    assert books is not None
    one, other = books.algorithms[:2]
    coarse, fine = (Candidate(books, one, batches, 4.0 + batches) for batches in (1, 2))
    third = Candidate(books, other, 1, 8.0)
    off = dict[str, float]()
    in_turn = soonest_first([(0, each) for each in (coarse, fine, third)], off)
    assert next(in_turn) is coarse
    off[one.name] = 1.5  # so the next takes 9 us
    assert list(in_turn) == [third, fine]


def test_what_took_less_than_its_estimate_comes_sooner() -> None:
    books = books_of(Instance(problem(ring(4), "allreduce")))
    assert books is not None
    one, other = books.algorithms[:2]
    coarse, fine = Candidate(books, one, 1, 4.0), Candidate(books, one, 2, 7.0)
    third, off = Candidate(books, other, 1, 6.0), dict[str, float]()
    in_turn = soonest_first([(0, each) for each in (coarse, fine, third)], off)
    assert next(in_turn) is coarse
    off[one.name] = 0.5
    assert list(in_turn) == [fine, third]


def test_what_libraries_run_is_timed_before_what_promises_a_little_more() -> None:
    books = books_of(Instance(problem(torus(4, 4), "allgather")))
    assert books is not None
    theirs, ours = (
        next(each for each in books.algorithms if each.of_libraries is wanted) for wanted in (True, False)
    )
    better, known = Candidate(books, ours, 1, 9.0), Candidate(books, theirs, 1, 10.0)
    best = Candidate(books, ours, 2, 6.0)
    in_turn = soonest_first([(0, each) for each in (better, known, best)], {})
    assert list(in_turn) == [best, known, better]


def test_where_it_takes_little_time_each_algorithm_has_a_turn_with_the_least_work_first() -> None:
    books = books_of(Instance(problem(ring(4), "allreduce", 4)))
    assert books is not None
    one, other = books.algorithms[:2]
    pool = [Candidate(books, one, 4, 1.0), Candidate(books, other, 1, 9.0), Candidate(books, one, 1, 8.0)]
    turns = {candidate: turn for turn, candidate in least_work_first(pool, Budget.of_work(1000))}
    assert [turns[each] for each in pool] == [0, -1, -1]
    turns = {candidate: turn for turn, candidate in least_work_first(pool, Budget.of_work(0))}
    assert set(turns.values()) == {0}


def test_an_algorithm_is_called_by_its_name_on_an_order_of_ranks() -> None:
    small = Instance(problem(full(6), "allreduce", 2))
    order = (0, 2, 4, 1, 3, 5)
    one = by_name(small, "ring", orders=[order])
    assert one is not None and one.makespan_us == pytest.approx(2 * 5 * (1 + 2))
    used = set(zip(one.src.tolist(), one.dst.tolist(), strict=True))
    assert used == {pair for ends in pairwise((*order, order[0])) for pair in (ends, ends[::-1])}
    channels = by_name(small, "ring, sums the same way", orders=[order, order[::-1]])
    assert channels is not None and channels.makespan_us == pytest.approx(2 * 5 * (1 + 1))
    one_shot = by_name(small, "all-pairs of whole buffers")
    assert one_shot is not None and one_shot.makespan_us == pytest.approx(1 + 12)
    tree = by_name(small, "double binary tree", orders=[order])
    assert tree is not None
    tree.check()
    with pytest.raises(KeyError):
        by_name(small, "no algorithm")
    with pytest.raises(KeyError):  # six is no power of two
        by_name(Instance(problem(ring(6), "allgather")), "recursive doubling", orders=[order])
    assert by_name(Instance(problem(ring(6), "allgather")), "ring", orders=[order]) is None


def test_small_machines_are_answered_even_without_any_time() -> None:
    assert all_built(problem(switch(4), "allreduce"), 0.0)
    assert not all_built(problem(full(64), "alltoall", 16), 0.0)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("topology", [switch(4), full(4), ring(4), ring(6, both=True), torus(2, 3)], ids=repr)
def test_no_search_ends_with_something_slower_than_a_textbook_algorithm(
    topology: LogicalTopology, name: str
) -> None:
    small = problem(topology, name, 2)
    times = [
        update.schedule.makespan_us
        for update in solve(small, SearchOptions(effort=200))
        if update.schedule is not None
    ]
    assert times[-1] <= min(all_built(small).values(), default=math.inf) + 1e-6


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(most_ranks=5, limited=True, betas=ENGINE_BETAS), st.booleans())
def test_every_schedule_is_valid_on_random_machines(small: Problem, own_first: bool) -> None:
    if own_first:
        every = np.ones(small.topology.num_links, dtype=np.bool_)
        small = replace(small, limits=replace(small.limits, own_first=every))
    all_built(small)


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(COLLECTIVES),
    st.sampled_from([full(5), switch(4), torus(2, 3), railed_nodes(2, 3), railed_nodes(3, 2), torus(3, 3)]),
    st.integers(1, 4),
    st.integers(1, 7),
    st.integers(0, 3),
)
def test_every_schedule_is_valid_on_machines_that_have_many(
    name: str, topology: LogicalTopology, pieces: int, max_group: int, root: int
) -> None:
    small = problem(topology, name, pieces, max_group=max_group)
    if small.collective.root is not None:
        small = replace(small, collective=make_collective(name, topology.num_ranks, pieces, root))
    assert all_built(small)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(custom_problems(most_ranks=4, betas=ENGINE_BETAS))
def test_every_schedule_of_a_custom_collective_is_valid(small: Problem) -> None:
    all_built(small)


def test_what_lacks_a_link_is_work_too() -> None:
    """Most algorithms need more links than a ring has, and are written down to find that out."""
    books, budget = Instance(problem(ring(16), "broadcast")).once(books_of), Budget.of_work(1_000_000)
    assert books is not None
    before = budget.remaining_s()
    written = {each.algorithm for each in books.candidates(budget)}
    assert 0 < len(written) < len(books.algorithms) / 2
    spent = (before - budget.remaining_s()) * WRITTEN_PER_S
    assert spent >= AN_ESTIMATE_AS_WRITTEN * len(books.algorithms)


@pytest.mark.parametrize(
    ("occupancy", "together_us", "apart_us"),
    [
        # A rank's own chunk leaves before the other is there.
        ("pipelined", 2 * 3.0 + 3 * 1.0, 2 * 3.0 + 2 * 1.0),
        ("serial", 2 * 3.0 + 3 * 1.0, 2 * 3.0 + 3 * 1.0),
    ],
)
def test_chunks_of_a_send_go_one_by_one_where_alpha_keeps_no_port_busy(
    occupancy: Occupancy, together_us: float, apart_us: float
) -> None:
    """Doubling on four ranks with a port each: the second send has what came by the first."""
    links: list[Link] = [(a, b, 3.0, 1.0) for a in range(4) for b in range(4) if a != b]
    out = [[number for number, link in enumerate(links) if link[0] == rank] for rank in range(4)]
    books = Instance(problem(machine(4, links, occupancy, out), "allgather")).once(books_of)
    assert books is not None
    algorithm = next(each for each in books.algorithms if each.name == DOUBLING.name)
    for apart, time_us in ((False, together_us), (True, apart_us)):
        schedule = Candidate(books, algorithm, 1, time_us, apart).schedule(set())
        assert schedule is not None
        schedule.check()
        assert schedule.makespan_us == pytest.approx(time_us)
