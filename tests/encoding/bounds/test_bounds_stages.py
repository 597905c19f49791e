"""Staged cuts at exact times: steps instead of ticks, groups that share a node, and what comes last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registered import greedy, reducing
from small_problems import custom, machine, ndv2_node, networks, problem

from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.cuts import node_cuts
from taccl.encoding.bounds.first_times import OutOfBudget, Steps, gathered, informed
from taccl.encoding.bounds.late import LATE
from taccl.encoding.bounds.port_turns import Routes, StepTable, least_end_us
from taccl.encoding.bounds.postal import (
    Distances,
    Layer,
    held_at_start,
    max_gathered,
    max_informed,
    nearest_us,
)
from taccl.encoding.bounds.staged_cut import STAGED_CUT, Entries
from taccl.encoding.bounds.stages import STAGES
from taccl.encoding.bounds.views import views
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def _plenty() -> Budget:
    """More work than any proof here takes."""
    return Budget.of_work(1_000_000)


def best(bound: Bound, stated: Problem, known_us: float) -> Proof:
    """The best that a bound proves of a problem in any of its views."""
    proofs = [proof for view in views(Instance(stated)) for proof in bound.prove(view, known_us, _plenty())]
    return max(proofs, key=lambda proof: proof.value_us)


def behind_one_link(
    inside: int, alpha_inside: float, beta_inside: float, alpha_across: float = 4.0, beta_across: float = 1.0
) -> LogicalTopology:
    """Two nodes whose ranks have a port out and a port in each; only their first ranks are joined."""
    ranks = 2 * inside
    node_of = [rank // inside for rank in range(ranks)]
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and node_of[a] == node_of[b]]
    links = [(a, b, alpha_inside, beta_inside) for a, b in pairs]
    shared = [[i for i, pair in enumerate(pairs) if pair[end] == r] for end in (0, 1) for r in range(ranks)]
    across = [(0, inside, alpha_across, beta_across), (inside, 0, alpha_across, beta_across)]
    return machine(ranks, [*links, *across], shared=shared, node_of=node_of)


@given(networks(alphas=(0.0, 1.0, 2.0), betas=(1.0, 2.0, 3.0)), st.sampled_from([1, 2, 71]))
@settings(max_examples=20, deadline=None)
def test_the_steps_are_what_the_tables_over_ticks_count(topology: LogicalTopology, most: int) -> None:
    """With ticks that divide all costs there is nothing to round, so both are the same at each tick."""
    instance = Instance(problem(topology, "allgather", max_group=most))
    layer = Layer.of(instance, np.arange(topology.num_ranks))
    tick_us, rows, horizon_us = 0.25, 60, 15.0
    w = informed(instance.problem, layer, instance.once(Distances).over(layer.uses()), horizon_us, _plenty())
    k = gathered(
        *(instance.problem, layer, held_at_start(instance, layer), horizon_us, _plenty()),
        nearest_us(instance, layer),
    )
    informed_then = max_informed(instance, [layer], tick_us, rows)[:, 0]
    gathered_then = max_gathered(instance, [layer], tick_us, rows)[:, 0]
    for rank in range(topology.num_ranks):
        moments = [tick * tick_us + 1e-9 for tick in range(rows)]
        assert [w[rank].at(moment) for moment in moments] == informed_then[:, rank].tolist()
        assert [k[rank].at(moment) for moment in moments] == gathered_then[:, rank].tolist()


def test_a_count_is_first_reached_with_the_step_that_passes_it() -> None:
    steps = Steps([0.0, 2.0, 5.0], [1, 3, 4])
    assert [steps.at(moment) for moment in (-1.0, 0.0, 1.9, 2.0, 9.0)] == [0, 1, 1, 3, 4]
    assert [steps.first(count) for count in (1, 2, 3, 4, 5)] == [0.0, 2.0, 2.0, 5.0, None]


def test_turns_end_when_groups_that_leave_in_time_are_worth_enough() -> None:
    """One chunk takes 3 us, two take 5 and are there to be sent from 1 us on, and each serves one at once."""
    table = StepTable.of([Steps([0.0], [1])])
    takes, counts, none = np.array([3.0, 5.0]), np.array([1, 2]), np.zeros(2, dtype=np.int64)
    routes = Routes(np.array([0.0, 1.0]), takes, takes, counts, counts, counts, none, none, (table, table), 9)
    ends = [least_end_us([routes], need, 0.5, 40.0, _plenty()) for need in (1, 2, 3, 4)]
    assert ends == pytest.approx([3.0, 6.0, 8.0, 11.0])
    assert least_end_us([routes, routes], 4, 0.5, 40.0, _plenty()) == pytest.approx(6.0)
    assert least_end_us([routes], 2, 7.0, 40.0, _plenty()) == 0.0, "no better than what is known"
    assert least_end_us([routes], 9, 1.0, 10.0, _plenty()) == 10.0, "it looks no further"


def test_chunks_that_come_as_a_group_share_the_node_that_they_are_spread_in() -> None:
    """One hop of 11 us to gather two MB, and 60 us across as a group: sooner than twice, 50 us each time.

    Then the other rank has to get both through its one port. That takes 21 us; one by itself would take 11.
    """
    stated = problem(behind_one_link(2, 1.0, 10.0, alpha_across=40.0, beta_across=10.0), "allgather")
    proof = best(STAGES, stated, 80.0)
    assert proof.value_us == pytest.approx(11.0 + 60.0 + 21.0)
    assert proof.witness == "2 chunks into node 0 through 2-0, all of a group gathered and spread at once"


def test_sums_that_cross_as_a_group_are_collected_and_spread_at_once() -> None:
    """Four sums cross in one group: their other parts come in one hop, and the sums go on in one hop."""
    stated = problem(behind_one_link(2, 1.0, 1.0, alpha_across=40.0), "allreduce")
    proof = best(STAGES, stated, 46.0)
    assert proof.value_us == pytest.approx(5.0 + 44.0 + 5.0)
    assert proof.witness == "4 sums into node 0 through 2-0, all of a group gathered and spread at once"


def test_what_comes_last_is_gathered_in_growing_groups() -> None:
    """Each of four ranks lets in one chunk at the end, and no rank of the other four lets in any.

    Of these, each gathers four chunks: 1, 1 and 2 of them, since who has two had to get the other one first.
    """
    ranks, late = 16, [(8 + r, r, 4.0, 1.0) for r in range(4)]
    pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
    shared = [[i for i, pair in enumerate(pairs) if pair[end] == r] for end in (0, 1) for r in range(8)]
    links = [*((a, b, 1.0, 0.0625) for a, b in pairs), *late]
    topology = machine(ranks, links, shared=shared, node_of=[0] * 8 + [1] * 8)
    wanted = [([8 + r], list(range(8)), False) for r in range(4)]
    proof = best(LATE, Problem(topology, custom(ranks, wanted), 1.0), 6.0)
    assert proof.value_us == pytest.approx(5.0 + 3 * 1.0 + 4 * 0.0625)
    assert proof.witness == "4 chunks into node 0 through 4 ports, the last gathered"


def test_a_budget_that_is_over_proves_nothing_and_breaks_nothing() -> None:
    stated = problem(behind_one_link(2, 1.0, 10.0), "allgather")
    instance = Instance(stated)
    layer = Layer.of(instance, np.arange(4))
    with pytest.raises(OutOfBudget):
        gathered(stated, layer, held_at_start(instance, layer), 100.0, Budget.of_work(0))
    for bound in (STAGES, LATE):
        proofs = [proof for view in views(instance) for proof in bound.prove(view, 30.0, Budget.of_work(3))]
        assert max(proof.value_us for proof in proofs) == 0.0


def test_in_an_ndv2_node_eight_chunks_from_one_rank_take_what_a_search_proves() -> None:
    """A search proves 0.9369 us for a broadcast of 8 chunks of 1 KB; the chunks alone would take 0.6674."""
    instance = Instance(problem(ndv2_node(), "broadcast", chunks_per_rank=8, chunk_mb=2**-10))
    layer = Layer.of(instance, np.arange(8))
    held = held_at_start(instance, layer)
    k = gathered(instance.problem, layer, held, 3.0, _plenty())
    all_there = [steps.first(8) for steps in k]
    assert None not in all_there
    assert max(all_there) == pytest.approx(0.936914, rel=1e-6)


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["allgather", "reducescatter", "alltoall", "allreduce"]),
    st.sampled_from([(1.0, 1.0), (0.5, 4.0), (2.0, 0.25)]),
    st.sampled_from([(1.0, 3.0), (4.0, 1.0), (2.0, 0.5)]),
    st.sampled_from([1, 2, 71]),
    st.integers(1, 2),
)
def test_neither_is_above_a_schedule_of_two_nodes(
    name: str, inside: tuple[float, float], across: tuple[float, float], most: int, ranks: int
) -> None:
    """`test_bounds_brute_force` holds all bounds against all programs of smaller machines."""
    stated = problem(behind_one_link(ranks, *inside, *across), name, max_group=most)
    update = next(reducing(greedy)(stated, SearchOptions(), Budget.of_work(1), None))
    assert update.schedule is not None
    found_us = update.schedule.makespan_us
    for bound in (STAGES, LATE):
        assert best(bound, stated, found_us / 2).value_us <= found_us * (1 + 1e-9)


def test_no_closer_look_is_taken_at_a_cut_that_proved_far_less_than_is_known() -> None:
    instance = Instance(problem(behind_one_link(3, 1.0, 1.0), "allgather", 2))
    (view,) = views(instance)
    (cut, *_) = node_cuts(view.instance)
    entered_us = max(proof.value_us for proof in STAGED_CUT.prove(view, 1.0, _plenty()))
    assert view.instance.once(Entries).may_come_to(cut, 1.1 * entered_us)
    assert not view.instance.once(Entries).may_come_to(cut, 2 * entered_us)
    for bound in (STAGES, LATE):
        known, far_more = (list(bound.prove(view, time_us, _plenty())) for time_us in (1.0, 2 * entered_us))
        assert len(known) > len(far_more)
