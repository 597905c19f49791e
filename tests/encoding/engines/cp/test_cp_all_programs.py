"""Problems with sums, decided among all programs: what is found, what is proved, and what is left alone.

Each optimum stands next to its proof: the engine's bound says that no program ends a tick earlier.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from brute_force import TooLarge, fastest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model
from registered import all_programs, greedy, reducing, serves
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
from solving import solved
from studies import examples

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.engines.cp.sums_model import build, divisions
from taccl.encoding.engines.cp.sums_parts import splits, subsets
from taccl.encoding.engines.cp.sums_read import add_hint
from taccl.encoding.engines.cp.sums_smaller import bundles
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.model.schedule.partial_sums import disjoint_union, set_of
from taccl.support.budget import Budget

#: Of an exhaustive search; what takes more of these takes hundreds of thousands.
_MOST_SENDS = 1_000
some = settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def switch(ranks: int, alpha_us: float, beta: float) -> LogicalTopology:
    """A link between any two ranks; each rank has one way out and one way in."""
    pairs = list(itertools.permutations(range(ranks), 2))
    out = [[link for link, (a, _) in enumerate(pairs) if a == rank] for rank in range(ranks)]
    into = [[link for link, (_, b) in enumerate(pairs) if b == rank] for rank in range(ranks)]
    return machine(ranks, [(a, b, alpha_us, beta) for a, b in pairs], shared=[*out, *into])


def sums(topology: LogicalTopology, chunks: int, **more: object) -> Problem:
    """This many chunks, each summed over all ranks for all ranks."""
    everyone = list(range(topology.num_ranks))
    collective = custom(topology.num_ranks, [(everyone, everyone, True)] * chunks)
    return Problem(topology, collective, 1.0, **more)


def first(small: Problem) -> Schedule:
    """A schedule to begin with, in which each sum is made once."""
    update = next(reducing(greedy)(small, SearchOptions(), Budget(0.0), None))
    assert update.schedule is not None
    return update.schedule


def decided(small: Problem, seconds: float = 60.0, best: Schedule | None = None) -> tuple[Schedule, float]:
    """The best schedule and bound that the engine ends with, with all that it says checked on the way."""
    best, bound_us = best or first(small), 0.0
    assert serves("all-programs", small)
    for update in all_programs(small, SearchOptions(), Budget.of_work(round(1000 * seconds)), best):
        if update.schedule is not None:
            update.schedule.check()
            assert update.schedule.makespan_us < best.makespan_us
            best = update.schedule
        if update.lower_bound_us:
            assert update.bound_source.startswith("all programs, by CP-SAT")
            bound_us = max(bound_us, update.lower_bound_us)
        assert bound_us <= best.makespan_us * (1 + 1e-9)
    return best, bound_us


def optimum(small: Problem) -> float:
    """The time of the fastest program, found and proved."""
    best, bound_us = decided(small)
    assert bound_us == pytest.approx(best.makespan_us, rel=1e-9)
    return best.makespan_us


def test_recursive_doubling_is_found_behind_a_switch_of_four_and_proved() -> None:
    """Two rounds; with the sum made once it would take four."""
    assert optimum(sums(switch(4, 100.0, 1.0), 1)) == pytest.approx(2 * (100 + 1))


def test_three_ranks_behind_a_switch_take_two_rounds() -> None:
    assert optimum(problem(switch(3, 100.0, 1.0), "allreduce")) == pytest.approx(2 * (100 + 3))


def test_one_shot_is_found_where_all_are_linked_and_proved() -> None:
    assert optimum(problem(full(4, 100.0, 1.0), "allreduce")) == pytest.approx(100 + 4)


def test_where_bandwidth_counts_each_sum_is_made_once() -> None:
    """Three ranks all linked, two pieces each: each of six chunks takes four of the six links."""
    small = problem(full(3, 1.0, 100.0), "allreduce")
    assert optimum(small) == pytest.approx(first(small).makespan_us)
    assert decided(small)[0].sums is None


def test_on_a_ring_of_one_direction_groups_mix_parts_and_wholes() -> None:
    """Two chunks; with sums made once, and groups of parts or of wholes, it takes 14."""
    links: list[Link] = [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (2, 0, 3.0, 2.0)]
    small = sums(machine(3, links), 2)
    assert optimum(small) == pytest.approx(13.0)
    assert fastest(small, 200_000).makespan_us <= 14.0


def test_copies_travel_beside_sums() -> None:
    """Rank 0 has a chunk for all, and a sum is wanted by all: both go in one send where they can."""
    both = custom(3, [([0, 1, 2], [0, 1, 2], True), ([0], [1, 2], False)])
    apart = Problem(full(3, 10.0, 1.0), both, 1.0, max_group=1)
    together = Problem(full(3, 10.0, 1.0), both, 1.0)
    assert optimum(together) == pytest.approx(10 + 2)
    assert optimum(apart) == pytest.approx(2 * (10 + 1))


def test_where_alpha_keeps_no_port_busy_nothing_is_gained_by_sharing_it() -> None:
    pipelined = sums(ring(3, 5.0, 1.0, occupancy="pipelined"), 2)
    assert optimum(pipelined) == pytest.approx(2 * 5 + 3 * 1)


def test_an_order_that_a_sketch_asks_for_takes_nothing_off_the_bound() -> None:
    topology = full(3, 100.0, 1.0)
    own_first = RoutingLimits(own_first=np.ones(topology.num_links, dtype=np.bool_))
    requested = problem(topology, "allreduce", limits=own_first)
    updates = list(all_programs(requested, SearchOptions(), Budget.of_work(2_000), first(requested)))
    assert all(update.schedule is None for update in updates)
    assert max(update.lower_bound_us for update in updates) <= 103.0


def test_measured_costs_are_rounded_down() -> None:
    odd = sums(ring(3, np.pi, np.e, both=True), 1)
    best, bound_us = decided(odd)
    assert best.makespan_us == pytest.approx(np.pi + np.e)
    assert best.makespan_us * (1 - 1e-4) < bound_us <= best.makespan_us


def test_a_node_of_two_and_a_slow_way_between_nodes() -> None:
    """Each node sends its sum over while the other does: 12 us after 2, and 2 more to spread it."""
    assert optimum(sums(two_nodes(), 1)) == pytest.approx(2 + 12 + 2)


def test_on_a_ring_of_both_directions_each_link_carries_one_chunk_in_each_of_three_rounds() -> None:
    assert optimum(problem(ring(4, 1.0, 1.0, both=True), "allreduce")) == pytest.approx(3 * 2)


def known_solution(small: Problem, schedule: Schedule) -> bool:
    """Whether a schedule is a solution of the model, as its hint says it."""
    ticks = ticks_of(small, schedule.makespan_us)
    model = build(Instance(small), ticks, (0, ticks.at_most(schedule.makespan_us)))
    add_hint(model, schedule)
    _, status = solved(model.cp, fix_variables_to_their_hinted_value=True, num_workers=1)
    return status == cp_model.OPTIMAL


def doubled(small: Problem) -> Schedule:
    """Every rank exchanges all that it has with the rank across each bit, all chunks in one send."""
    chunks, topology = tuple(range(small.num_chunks)), small.topology
    lasts = float(topology.duration_us(np.array([0]), len(chunks) * small.chunk_mb)[0])
    sends = []
    for step, size in enumerate((1, 2)):
        for rank in range(4):
            have = set_of(other for other in range(4) if other // size == rank // size)
            link = topology.link_index[rank, rank ^ size]
            sends.append(Send(chunks, link, step * lasts, sums=(have,) * len(chunks)))
    return schedule_from_sends(small, sends)


def test_a_known_schedule_is_a_whole_hint() -> None:
    behind_switch = sums(switch(4, 3.0, 1.0), 2)
    assert known_solution(behind_switch, doubled(behind_switch))
    on_a_ring = sums(ring(3, 1.0, 1.0), 2)
    assert known_solution(on_a_ring, first(on_a_ring))


def test_a_sum_that_one_rank_wants_is_for_the_compact_form() -> None:
    assert not serves("all-programs", problem(full(3), "reducescatter"))
    assert not serves("all-programs", problem(full(3), "allgather"))
    assert serves("all-programs", problem(full(3), "allreduce"))


def test_too_many_contributors_are_left_to_other_engines() -> None:
    assert serves("all-programs", sums(ring(6), 1))
    assert not serves("all-programs", sums(ring(9), 1))
    assert not serves("all-programs", problem(full(6), "allreduce"))


def test_no_time_means_no_answer() -> None:
    small = problem(full(3), "allreduce")
    assert list(all_programs(small, SearchOptions(), Budget(0.0), first(small))) == []


def bell_number(count: int) -> int:
    return len(list(divisions(count)))


def test_all_divisions_are_counted() -> None:
    assert [bell_number(count) for count in range(6)] == [1, 1, 2, 5, 15, 52]


@given(st.integers(1, 31), st.integers(0, 4))
def test_disjoint_pieces_make_a_part_in_one_way(part: int, rank: int) -> None:
    """Each family of disjoint pieces that makes a part is built by exactly one chain of splits."""

    def families(whole: int) -> list[tuple[int, ...]]:
        more = [(piece, *others) for piece, rest in splits(whole, rank) for others in families(rest)]
        return [(whole,), *more]

    built = [tuple(sorted(family)) for family in families(part)]
    assert len(set(built)) == len(built) == bell_number(part.bit_count())
    assert all(disjoint_union(part, family) is not None for family in built)


@given(st.integers(1, 63))
def test_subsets_stand_after_what_is_in_them(whole: int) -> None:
    found = subsets(whole)
    assert len(found) == 2 ** whole.bit_count() - 1
    assert all(one & ~other or one == other for k, one in enumerate(found) for other in found[:k])


def test_bundles_are_all_chunks_first_and_then_fewer() -> None:
    sizes = [len(together[0]) for _, together in bundles(Instance(problem(full(4), "allreduce")))]
    assert sizes == [4, 2]
    limited = problem(full(4), "allreduce", max_group=2)
    assert [len(together[0]) for _, together in bundles(Instance(limited))] == [2]


def agrees_with_an_exhaustive_search(small: Problem) -> None:
    if not serves("all-programs", small):
        return
    try:
        best_us = fastest(small, _MOST_SENDS).makespan_us
    except TooLarge:
        return
    known = first(small)
    if not len(known):
        return
    best, bound_us = decided(small, 0.5, known)
    assert bound_us <= best_us * (1 + 1e-9) + 1e-9
    assert best.makespan_us >= best_us - 1e-6


@some
@given(problems(most_ranks=4, names=("allreduce",), limited=True, betas=ENGINE_BETAS))
def test_what_is_proved_of_an_allreduce_agrees_with_an_exhaustive_search(small: Problem) -> None:
    agrees_with_an_exhaustive_search(small)


@some
@given(custom_problems(most_ranks=3, betas=ENGINE_BETAS))
def test_what_is_proved_of_sums_and_copies_agrees_with_an_exhaustive_search(small: Problem) -> None:
    agrees_with_an_exhaustive_search(small)


def test_a_port_that_carries_nothing_asks_for_no_time() -> None:
    """Rank 2 adds to the sum and wants none of it: the slow links to and from it are nobody's way."""
    links: list[Link] = [(0, 1, 0.0, 2.0), (0, 2, 0.0, 1.0), (1, 0, 0.0, 1.0), (1, 2, 0.0, 1.0)]
    links += [(2, 0, 0.0, 1.0), (2, 1, 0.0, 1.0)]
    assert optimum(Problem(machine(3, links), custom(3, [([1, 2], [0, 1], True)]), 1.0)) == 1.0


@pytest.mark.parametrize("costs", [(1.0, 1.0), (1.0, 3.0), (3.0, 1.0)])
def test_on_rings_the_fastest_program_is_that_of_an_exhaustive_search(costs: Sequence[float]) -> None:
    small = sums(ring(3, *costs), 2)
    assert optimum(small) == pytest.approx(fastest(small, 200_000).makespan_us)
