"""The judge is judged: programs worked out by hand, and another search for what only copies."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import brute_force_trees
import numpy as np
import pytest
from brute_force import TooLarge, _Row, _Search, _State, fastest, program_before
from brute_force_program import Program
from brute_force_tables import NEVER
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_helped_problem, random_problem
from small_problems import custom, featured_problems, full, machine, ring
from studies import examples
from within_reach import fastest_within_reach

from taccl.encoding.bounds import all_bounds
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.routes import routes
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Send, schedule_from_sends
from taccl.model.schedule.partial_sums import set_of
from taccl.support.budget import Budget

_EVERYONE = (0, 1, 2, 3)


class _Plain(_Search):
    """The search without shortcuts: all that is new to its receiver, in every order, bounded by routes."""

    def _is_news(self, state: _State, row: _Row, link: int, dst: int, start: int, end: int) -> bool:
        return end < state.families[row[0] * self.num_ranks + dst][row[1]]

    def _is_out_of_turn(self, state: _State, link: int, start: int) -> bool:
        return False

    def _least_end(self, state: _State) -> int:
        least = 0
        for chunk in self.chunks:
            families = state.families[chunk * self.num_ranks : (chunk + 1) * self.num_ranks]
            known = [self._first_known(family) for family in families]
            for rank in self.wanting[chunk]:
                if families[rank][-1] < NEVER:
                    least = max(least, families[rank][-1])
                    continue
                for times in zip(*known, strict=True):
                    least = max(least, min(t + self.away[chunk][r][rank] for r, t in enumerate(times)))
        return least


def one_sum(topology_of_four: object) -> Problem:
    return Problem(topology_of_four, custom(4, [(_EVERYONE, _EVERYONE, True)]), 1.0)


def test_everyone_sends_its_input_to_everyone() -> None:
    """One hop of 1 + 1 us where all are linked: nobody makes the sum for the others."""
    program = fastest(one_sum(full(4)))
    program.check()
    assert program.makespan_us == pytest.approx(2.0)
    assert len(program.steps) == 12


def test_recursive_doubling_through_one_port_each() -> None:
    """A switch of four: two rounds of 2 us, in each of which every rank sends its sum and gets one."""
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    out = [[i for i, (a, _) in enumerate(pairs) if a == rank] for rank in range(4)]
    into = [[i for i, (_, b) in enumerate(pairs) if b == rank] for rank in range(4)]
    program = fastest(one_sum(machine(4, [(a, b, 1.0, 1.0) for a, b in pairs], shared=[*out, *into])))
    program.check()
    assert program.makespan_us == pytest.approx(4.0)
    assert any(len(ranks) == 2 for step in program.steps for _, ranks in step.rows)


def test_round_a_ring_partial_sums_meet_after_three_hops() -> None:
    program = fastest(one_sum(ring(4)))
    program.check()
    assert program.makespan_us == pytest.approx(6.0)


def test_a_send_may_mix_a_partial_sum_with_a_whole_one() -> None:
    """Round a ring of 3 at 0.5 + 3 us a chunk: 13 us, and 14 if each sum is made once and nothing mixes."""
    two = Problem(ring(3, 0.5, 3.0), custom(3, [((0, 1, 2), (0, 1, 2), True)] * 2), 1.0, max_group=2)
    program = fastest(two)
    program.check()
    assert program.makespan_us == pytest.approx(13.0)
    assert brute_force_trees.fastest(two).makespan_us == pytest.approx(14.0)


def test_a_program_that_adds_a_contribution_twice_or_lacks_one_is_refused() -> None:
    program = fastest(one_sum(full(4)))
    step = program.steps[0]
    (chunk, ranks), *_ = step.rows
    for wrong in (ranks | {(min(ranks) + 1) % 4}, frozenset({(min(ranks) + 1) % 4})):
        steps = (replace(step, rows=((chunk, frozenset(wrong)),)), *program.steps[1:])
        with pytest.raises(AssertionError):
            replace(program, steps=steps).check()


def test_a_program_that_uses_a_port_twice_at_once_is_refused() -> None:
    program = fastest(Problem(ring(2), custom(2, [((0,), (1,), False)] * 2), 1.0, max_group=1))
    first, second = program.steps
    length = first.end_us - first.start_us
    together = (first, replace(second, start_us=first.start_us, end_us=first.start_us + length))
    with pytest.raises(AssertionError, match="two sends at once"):
        replace(program, steps=together).check()


def test_nothing_is_found_before_the_optimum_and_the_optimum_right_after_it() -> None:
    sums = one_sum(ring(4))
    assert program_before(sums, 6.0) is None
    found = program_before(sums, 6.01)
    assert isinstance(found, Program)
    assert found.makespan_us == pytest.approx(6.0)


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_what_the_search_leaves_out_makes_no_program_faster(seed: int, sums: bool) -> None:
    small = random_problem(random.Random(seed), sums)
    try:
        program = fastest(small, 1_000)
        plain = _Plain(small, 3_000).run(NEVER)
    except TooLarge:
        assume(False)
        return
    assert plain is not None
    plain.check()
    assert program.makespan_us == pytest.approx(plain.makespan_us, abs=1e-5)


@settings(max_examples=examples(13), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_copies_take_as_long_as_another_exhaustive_search_says(seed: int) -> None:
    copies = random_problem(random.Random(seed), sums=False)
    try:
        program = fastest(copies, 1_000)
        other = brute_force_trees.fastest(copies, 2_000)
    except (TooLarge, brute_force_trees.TooLarge):
        assume(False)
        return
    program.check()
    program.schedule().check()
    assert program.makespan_us == pytest.approx(other.makespan_us, abs=1e-5)


@settings(max_examples=examples(13), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_sums_take_no_longer_than_where_each_is_made_once(seed: int) -> None:
    sums = random_problem(random.Random(seed), sums=True)
    try:
        program = fastest(sums, 1_000)
        other = brute_force_trees.fastest(sums, 2_000)
    except (TooLarge, brute_force_trees.TooLarge):
        assume(False)
        return
    program.check()
    assert program.makespan_us <= other.makespan_us + 1e-5


# -- sizes, ready times, tails, and ranks that may not sum ---------------------------------------


def test_a_late_contribution_is_added_last_and_a_tail_is_served_first() -> None:
    """On a line 0 -> 1 -> 2, each hop 1 + 1 us: rank 1's contribution is there at 7, so the sum is at 9."""
    line = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)])
    one = Problem(line, custom(3, [((0, 1, 2), (2,), True)]), 1.0, ready_us=[0.0, 7.0, 0.0], tail_us=[3.0])
    program = fastest(one)
    program.check()
    assert program.makespan_us == pytest.approx(12.0)
    two = custom(2, [((0,), (1,), False), ((0,), (1,), False)])
    uneven = Problem(machine(2, [(0, 1, 1.0, 1.0)]), two, 1.0, sizes=[3.0, 1.0], tail_us=[0.0, 4.0])
    program = fastest(uneven)
    program.check()
    assert [step.rows[0][0] for step in program.steps] == [1, 0]
    assert program.makespan_us == pytest.approx(6.0)


def test_a_rank_that_may_not_sum_passes_on_what_comes() -> None:
    """Rank 1 between 0 and 2 takes both contributions on by themselves, one after the other."""
    links = [(0, 1, 1.0, 1.0), (3, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)]
    unable = replace(machine(4, links), may_sum=np.array([True, False, True, True]))
    requested = Problem(unable, custom(4, [((0, 3), (2,), True)]), 1.0)
    program = fastest(requested)
    program.check()
    assert program.makespan_us == pytest.approx(6.0)
    assert len(program.steps) == 4
    assert fastest(replace(requested, topology=machine(4, links))).makespan_us == pytest.approx(4.0)


def test_a_helper_that_may_not_copy_passes_each_chunk_on_once() -> None:
    """Two ranks behind a helper want what a third has, 2 us a hop."""
    star = machine(4, [(0, 3, 1.0, 1.0), (3, 1, 1.0, 1.0), (3, 2, 1.0, 1.0), (1, 2, 1.0, 1.0)])
    helped = replace(star, is_helper=np.arange(4) == 3)
    one = Problem(helped, custom(3, [((0,), (1, 2), False)]).with_helpers(1), 1.0)
    assert fastest(one).makespan_us == pytest.approx(4.0)
    unable = replace(one, topology=replace(helped, may_copy=np.arange(4) != 3))
    program = fastest(unable)
    program.check()
    assert program.makespan_us == pytest.approx(6.0), "to one of them, and from there to the other"


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(most_ranks=3, names=["allgather", "alltoall", "broadcast", "gather", "scatter"]))
def test_the_fastest_program_of_copies_is_a_valid_schedule_that_no_bound_and_no_engine_beats(
    requested: Problem,
) -> None:
    program = fastest_within_reach(requested, 1_000)
    schedule = program.schedule()
    schedule.check()
    assert schedule.makespan_us == pytest.approx(program.makespan_us, rel=1e-6)
    _nothing_is_faster(requested, program)


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(most_ranks=3, names=["reducescatter", "reduce", "allreduce"]))
def test_no_bound_and_no_engine_beats_the_fastest_program_with_sums(requested: Problem) -> None:
    requested = replace(requested, topology=replace(requested.topology, may_copy=None))
    _nothing_is_faster(requested, fastest_within_reach(requested, 1_000))


def _nothing_is_faster(requested: Problem, program: Program) -> None:
    slack = 1e-5
    for bound in all_bounds(requested):
        assert bound.value_us <= program.makespan_us + slack, bound
    for update in routes(Instance(requested), SearchOptions(), Budget.of_work(examples(100)), None):
        assert update.schedule is not None
        update.schedule.check()
        assert update.schedule.makespan_us >= program.makespan_us - slack


def test_a_part_of_a_sum_leaves_a_rank_that_may_not_copy_once() -> None:
    """Two ranks joined by one that sums and may not copy: it swaps their parts, or sums them for one."""
    star = machine(3, [(a, b, 0.0, 1.0) for r in range(2) for a, b in ((r, 2), (2, r))])
    one = Problem(
        replace(star, is_helper=np.arange(3) == 2, may_copy=np.arange(3) < 2),
        custom(2, [((0, 1), (0, 1), True)]).with_helpers(1),
        1.0,
    )
    program = fastest(one)
    program.check()
    assert program.makespan_us == pytest.approx(2.0)
    assert not any(len(ranks) == 2 for step in program.steps for _, ranks in step.rows)


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_programs_through_helpers_are_valid_schedules(seed: int) -> None:
    stated = replace(random_helped_problem(random.Random(seed), True), max_group=1)
    try:
        program = program_before(stated, math.inf, 1_500)
    except TooLarge:
        program = None
    assume(program is not None)
    assert program is not None
    program.check()
    sends = []
    for step in program.steps:
        ((chunk, ranks),) = step.rows
        whole = frozenset(np.flatnonzero(stated.collective.pre[chunk]).tolist())
        is_part = bool(stated.collective.reduces[chunk]) and ranks != whole
        part = set_of(ranks) if is_part else 0
        sends.append(Send((chunk,), step.link, step.start_us, reduce=is_part, sums=(part,)))
    schedule = schedule_from_sends(stated, sends)
    schedule.check()
    assert schedule.makespan_us == pytest.approx(program.makespan_us)
