"""Bounds from doubling, by examples worked out by hand and held against exhaustive search."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from brute_force import fastest
from random_problems import random_problem
from small_problems import custom, machine, ndv2_node, problem, ring, two_nodes

from taccl.encoding import bounds
from taccl.encoding.bounds import Proof, View
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.broadcast_time import BROADCAST_TIME
from taccl.encoding.bounds.cuts import Cut
from taccl.encoding.bounds.gather_time import GATHER_TIME
from taccl.encoding.bounds.postal import Layer, cells_to_gather, max_gathered, max_informed
from taccl.encoding.bounds.staged_cut import disjoint_sets, staged_cut_bound, staged_sums_bound
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget

FILLS = (max_informed, max_gathered)
#: What rounding down to ticks may take from a bound, as a part of it.
_TICKS = 5e-3


def is_just_below(value_us: float, exact_us: float) -> bool:
    """Whether a bound counted in ticks is what it is by hand, and never above."""
    return exact_us * (1 - _TICKS) <= value_us <= exact_us * (1 + 1e-9)


def _budget() -> Budget:
    """More work than any proof here takes."""
    return Budget.of_work(1_000_000)


def all_bounds(stated: Problem) -> tuple[Proof, ...]:
    return bounds.all_bounds(stated, _budget())


def lower_bound(stated: Problem) -> Proof:
    return bounds.lower_bound(stated, _budget())


def _best(bound: Bound, view: View, known_us: float) -> Proof:
    return max(bound.prove(view, known_us, _budget()), key=lambda proof: proof.value_us)


def broadcast_time(stated: Problem, known_us: float, backwards: bool = False) -> Proof:
    return _best(BROADCAST_TIME, View(Instance(stated), backwards), known_us)


def gather_time(stated: Problem, known_us: float) -> Proof:
    return _best(GATHER_TIME, View(Instance(stated)), known_us)


def staged_cut(stated: Problem, cut: Cut, known_us: float) -> Proof:
    return staged_cut_bound(View(Instance(stated)), cut, known_us, _budget())


def staged_sums(stated: Problem, cut: Cut, known_us: float) -> Proof:
    return staged_sums_bound(View(Instance(stated)), cut, known_us, _budget())


def one_port(ranks: int, alpha_us: float, beta: float, occupancy: Occupancy = "serial") -> LogicalTopology:
    """A switch: each rank sends through one port and receives through another."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    out = [[i for i, (a, _) in enumerate(pairs) if a == rank] for rank in range(ranks)]
    into = [[i for i, (_, b) in enumerate(pairs) if b == rank] for rank in range(ranks)]
    return machine(ranks, [(a, b, alpha_us, beta) for a, b in pairs], occupancy, [*out, *into])


def pairs_of_nodes(alpha_between: float, beta_between: float) -> LogicalTopology:
    """Two nodes of four ranks behind a switch each; only 0 -> 4 and 4 -> 0 join them."""
    pairs = [(a, b) for n in (0, 4) for a in range(n, n + 4) for b in range(n, n + 4) if a != b]
    links = [(a, b, 1.0, 0.0) for a, b in pairs]
    links += [(0, 4, alpha_between, beta_between), (4, 0, alpha_between, beta_between)]
    out = [[i for i, (a, _) in enumerate(pairs) if a == rank] for rank in range(8)]
    into = [[i for i, (_, b) in enumerate(pairs) if b == rank] for rank in range(8)]
    return machine(8, links, shared=[*out, *into], node_of=[0] * 4 + [1] * 4)


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (4, 2), (5, 3), (8, 3)])
def test_through_one_port_each_the_ranks_that_have_a_chunk_double(ranks: int, rounds: int) -> None:
    copies = problem(one_port(ranks, 1.0, 2.0), "broadcast")
    bound = broadcast_time(copies, known_us=1.0)
    assert is_just_below(bound.value_us, rounds * 3.0)
    assert bound.witness == "spread of chunk 0 (piece 0 of rank 0's part), alone on the network"


def test_where_alpha_keeps_no_port_busy_the_ranks_grow_as_in_the_postal_model() -> None:
    """Sent every 1 us, there 3 us later: 1, 2, 3, 4, 6, 9 ranks at 0, 3, 4, 5, 6, 7 us."""
    copies = problem(one_port(9, 2.0, 1.0, "pipelined"), "broadcast")
    w = max_informed(Instance(copies), [Layer.of(Instance(copies), np.array([0]))], tick_us=1.0, rows=8)[
        :, 0, 0
    ]
    assert w.tolist() == [1, 1, 1, 2, 3, 4, 6, 9]
    assert is_just_below(broadcast_time(copies, 1.0).value_us, 7.0)


def test_what_has_come_no_way_at_all_is_not_counted_twice() -> None:
    """In an NDv2 node 8 counts are there after 46.6 us, but not the 8 ranks: the farthest is 69.6 us away."""
    copies = problem(ndv2_node(), "allgather")
    assert is_just_below(broadcast_time(copies, 60.0).value_us, 69.6)


def test_a_rank_that_gathers_through_one_port_needs_an_alpha_for_each_doubling() -> None:
    """1, 2, 4 chunks come in groups as large as what their senders hold: 3 alphas and 7 bodies."""
    copies = problem(one_port(8, 10.0, 1.0), "allgather")
    bound = gather_time(copies, known_us=10.0)
    assert is_just_below(bound.value_us, 3 * 10.0 + 7 * 1.0)
    assert bound.witness == "some rank comes to hold 8 chunks, in growing groups"


def test_groups_that_may_not_be_larger_than_one_chunk_do_not_double() -> None:
    copies = problem(one_port(4, 10.0, 1.0), "allgather", max_group=1)
    assert is_just_below(gather_time(copies, 10.0).value_us, 3 * 11.0)
    assert lower_bound(copies).value_us <= fastest(copies).makespan_us


def test_a_rank_holds_no_more_than_shortest_paths_can_have_brought() -> None:
    copies = problem(ring(4), "allgather")
    held = max_gathered(Instance(copies), [Layer.of(Instance(copies), np.arange(4))], tick_us=1.0, rows=8)[
        :, 0, 0
    ]
    assert held.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


def test_chunks_that_may_not_use_a_link_do_not_come_by_it() -> None:
    """Rank 2's chunk must take its own dear link to rank 1, though 2 -> 0 -> 1 is fast."""
    links = [(0, 1, 1.0, 1.0), (2, 0, 1.0, 1.0), (2, 1, 10.0, 1.0), (1, 2, 1.0, 1.0)]
    may_use = np.ones((3, 4), dtype=np.bool_)
    may_use[2, 0] = False
    kept = problem(machine(3, links), "allgather", limits=RoutingLimits(may_use=may_use))
    held = max_gathered(Instance(kept), [Layer.of(Instance(kept), np.arange(3))], tick_us=1.0, rows=13)[
        :, 0, 1
    ]
    assert held.tolist() == [1, 1] + [2] * 9 + [3, 3]


def test_what_enters_a_node_late_has_no_time_left_to_double_there() -> None:
    """4 chunks in one send, at 2 us the earliest: 2 + (10 + 4) us on the link, then two doublings of 1 us."""
    copies = problem(pairs_of_nodes(10.0, 1.0), "allgather")
    bound = staged_cut(copies, Cut(frozenset({4, 5, 6, 7}), "into node 1"), known_us=15.0)
    assert is_just_below(bound.value_us, 2.0 + 14.0 + 2.0)
    assert bound.witness == "4 chunks into node 1 through 0-4, gathered before and spread after"
    assert lower_bound(copies) == max(all_bounds(copies), key=lambda each: each.value_us)


def test_a_dear_alpha_is_paid_again_only_if_waiting_costs_more() -> None:
    """With an alpha of 1 us, each chunk as it comes: the last of four leaves at 2 us or later."""
    copies = problem(pairs_of_nodes(1.0, 4.0), "allgather")
    bound = staged_cut(copies, Cut(frozenset({4, 5, 6, 7}), "into node 1"), 10.0)
    together, apart = 2.0 + (1.0 + 16.0) + 2.0, (1.0 + 4.0) + (1.0 + 12.0) + 2.0
    assert is_just_below(bound.value_us, min(together, apart))


def test_the_entry_bound_of_two_pairs_of_ranks_is_met() -> None:
    """Chunk 2 is late at rank 3, so both it and chunk 3 pay an alpha: 12 + 12 us, then 2 us to rank 1."""
    copies = problem(two_nodes(), "allgather")
    bound = staged_cut(copies, Cut(frozenset({0, 1}), "into node 0"), 10.0)
    assert is_just_below(bound.value_us, 26.0)
    assert fastest(copies).makespan_us == pytest.approx(26.0)


def test_chunks_from_one_rank_to_different_ranks_spread_like_one_chunk() -> None:
    everyone = np.ones(4, dtype=np.bool_)
    scattered = problem(ring(4), "alltoall", 2)
    sets = disjoint_sets(Instance(scattered), np.arange(scattered.num_chunks), everyone)
    wanted = scattered.collective.post
    for number in np.unique(sets):
        assert wanted[sets == number].sum(axis=0).max() == 1
    assert len(np.unique(sets)) == 4 * 2
    gathered = problem(ring(4), "allgather", 2)
    assert len(np.unique(disjoint_sets(Instance(gathered), np.arange(8), everyone))) == 8


def test_what_has_collected_little_and_what_has_no_time_left_to_spread_is_worth_little() -> None:
    """A switch of four: each of 4 sums comes from 3 ranks to one port, 4 at a time, in 2 rounds of 1.08."""
    sums = problem(one_port(4, 1.0, 0.02), "allreduce")
    for ranks in ((0,), (1, 2, 3)):
        bound = staged_sums(sums, Cut(frozenset(ranks), "there"), known_us=2.0)
        assert is_just_below(bound.value_us, 2 * (1.0 + 4 * 0.02)), "as long as recursive doubling takes"
        assert bound.witness.startswith("4 sums there through ")
    copies = problem(two_nodes(), "allgather")
    assert staged_sums(copies, Cut(frozenset({0, 1}), "into node 0"), 3.0).value_us == 0.0


def test_a_sum_of_two_nodes_is_doubled_inside_crosses_and_is_spread_inside() -> None:
    """Four ranks behind a switch each, joined at 0 and 4: 2 rounds of 1 us, 10 + 1 us between, 2 rounds."""
    everyone = tuple(range(8))
    one = Problem(pairs_of_nodes(10.0, 1.0), custom(8, [(everyone, everyone, True)]), 1.0)
    bound = lower_bound(one)
    assert is_just_below(bound.value_us, 2.0 + 11.0 + 2.0)
    assert bound.kind == "staged-cut"


def test_a_port_that_is_busy_at_the_beginning_of_a_send_is_busy_at_its_end_backwards() -> None:
    """A sum for rank 0, whose port in serves 3 for 1 us from 0 us on, and then 2, with what 1 sent it: 3 us.

    Copies from rank 0 on the reversed links take 4: its port out is busy with 3 first, or 3 is served late.
    """
    links = [(1, 2, 0.0, 1.0), (2, 0, 0.0, 2.0), (3, 0, 2.0, 1.0)]
    sums = Problem(
        machine(4, links, "pipelined", shared=[(1, 2)]), custom(4, [((0, 1, 2, 3), (0,), True)]), 1.0
    )
    assert not sums.topology.reads_backwards
    assert fastest(sums).makespan_us == pytest.approx(3.0)
    assert fastest(sums.reversed()).makespan_us == pytest.approx(4.0)
    assert is_just_below(broadcast_time(sums.reversed(), 3.0).value_us, 4.0)
    assert is_just_below(broadcast_time(sums.reversed(), 3.0, backwards=True).value_us, 3.0)
    assert is_just_below(lower_bound(sums).value_us, 3.0)


def test_with_one_alpha_on_each_port_backwards_is_counted_as_forwards() -> None:
    pipelined = problem(one_port(5, 1.0, 2.0, "pipelined"), "broadcast")
    layer = Layer.of(Instance(pipelined), np.arange(1))
    forwards, backwards = (max_informed(Instance(pipelined), [layer], 1.0, 30, way) for way in (False, True))
    assert (forwards == backwards).all()
    gather = problem(pipelined.topology, "allgather")
    every = Layer.of(Instance(gather), np.arange(5))
    forwards, backwards = (max_gathered(Instance(gather), [every], 1.0, 30, way) for way in (False, True))
    assert (forwards == backwards).all()


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_are_filled_together_are_what_they_are_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = random_problem(random.Random(seed), sums=False)
    single_us = stated.topology.duration_us(np.arange(stated.topology.num_links), stated.chunk_mb)
    tick_us = float(single_us.min()) / 3.5 or 1.0
    instance = Instance(replace(stated, max_group=2))
    layers = [Layer.of(instance, chunks) for chunks in (np.arange(1), np.arange(stated.num_chunks))]

    def tables() -> list[list[object]]:
        filled = (fill(instance, layers, tick_us, 60, way) for fill in FILLS for way in (False, True))
        return [table.tolist() for table in filled]

    many_at_once = tables()
    monkeypatch.setattr("taccl.encoding.bounds.ticks.TICKS_CELLS_AT_ONCE", 1)
    assert tables() == many_at_once


def test_links_that_take_no_time_leave_nothing_to_count_in_ticks() -> None:
    free = machine(3, [(0, 1, 0.0, 0.0), (1, 2, 1.0, 1.0), (2, 0, 1.0, 1.0)])
    kinds = {bound.kind: bound.value_us for bound in all_bounds(problem(free, "allgather"))}
    assert kinds["broadcast-time"] == kinds["gather-time"] == 0.0


def test_a_table_that_is_too_large_to_fill_costs_as_much_as_the_shortest_paths_that_take_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six links of three ranks carry groups of up to three chunks: 18 cells a row, or 3 of the paths."""
    stated = problem(one_port(3, 1.0, 1.0), "allgather", max_group=8)
    layer = Layer.of(Instance(stated), np.arange(3))
    assert cells_to_gather(stated, layer, 10) == 18 * 10
    monkeypatch.setattr("taccl.encoding.bounds.postal.POSTAL_MOST_CELLS", 18 * 10 - 1)
    assert cells_to_gather(stated, layer, 10) == 3 * 10
