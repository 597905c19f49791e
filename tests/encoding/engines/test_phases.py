"""Sums from copies read backwards, and both joined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from registered import OnProblem, cp, greedy, reducing
from small_problems import (
    ENGINE_BETAS,
    custom,
    custom_problems,
    full,
    machine,
    networks,
    problem,
    problems,
    random_schedules,
    ring,
    two_nodes,
)
from studies import examples

from taccl import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import Phases, merged, mirrored, overlapped
from taccl.encoding.core.timing import decisions_of, in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.instance import Instance
from taccl.encoding.quotient import quotient
from taccl.errors import TacclError
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def phases(stated: Problem) -> Phases[Problem]:
    """The phases of a problem, as problems."""
    parts = Instance(stated).phases
    return Phases(
        *(None if part is None else part.problem for part in (parts.reduce_phase, parts.broadcast_phase))
    )


def first_of(part: Problem | None) -> Schedule | None:
    """The first greedy schedule of a half."""
    if part is None:
        return None
    schedule = next(greedy(part, SearchOptions(), Budget(0.0), None)).schedule
    assert schedule is not None
    schedule.check()
    return schedule


@settings(max_examples=60, deadline=None)
@given(random_schedules(["allgather"]))
def test_an_allgather_read_backwards_is_a_reduce_scatter_that_takes_as_long(gathered: Schedule) -> None:
    scattered = gathered.problem.reversed()
    schedule = in_order(scattered, mirrored(gathered))
    schedule.check()
    assert schedule.reduce.all()
    if scattered.topology.reads_backwards:
        assert schedule.makespan_us <= gathered.makespan_us + TOLERANCE_US


@settings(max_examples=60, deadline=None)
@given(random_schedules(["broadcast"]))
def test_a_broadcast_read_backwards_is_a_reduce(broadcast: Schedule) -> None:
    reduced = broadcast.problem.reversed()
    schedule = in_order(reduced, mirrored(broadcast))
    schedule.check()
    assert reduced.collective.name == "reduce"
    assert len(schedule) == len(broadcast)


def test_on_serial_ports_the_mirror_image_of_a_tight_schedule_takes_exactly_as_long() -> None:
    gathered = first_of(problem(ring(4), "allgather", 2))
    assert gathered is not None
    scattered = gathered.problem.reversed()
    assert in_order(scattered, mirrored(gathered)).makespan_us == pytest.approx(gathered.makespan_us)


@settings(max_examples=examples(13), deadline=None)
@given(networks(betas=ENGINE_BETAS))
def test_a_joined_all_reduce_is_never_later_than_its_halves_in_sequence(topology: LogicalTopology) -> None:
    allreduce = problem(topology, "allreduce", 2)
    parts = phases(allreduce)
    sums, spread = first_of(parts.reduce_phase), first_of(parts.broadcast_phase)
    assert sums is not None and spread is not None
    schedule = merged(allreduce, sums, spread)
    schedule.check()
    alone = in_order(allreduce, mirrored(sums))
    assert schedule.makespan_us <= alone.makespan_us + spread.makespan_us + TOLERANCE_US


def test_copies_of_an_all_reduce_start_before_all_sums_are_made() -> None:
    """Sums made inside a node spread there while others still cross: no barrier is between the halves."""
    allreduce = problem(two_nodes(), "allreduce")
    parts = phases(allreduce)
    schedule = merged(allreduce, first_of(parts.reduce_phase), first_of(parts.broadcast_phase))
    schedule.check()
    last_sum = schedule.end_us[schedule.reduce].max()
    assert schedule.start_us[~schedule.reduce].min() < last_sum


def test_a_problem_of_copies_is_its_own_spread() -> None:
    copies = problem(ring(3), "alltoall")
    assert phases(copies).reduce_phase is None
    assert phases(copies).broadcast_phase is copies


def test_a_sum_for_one_rank_has_nothing_to_spread() -> None:
    parts = phases(problem(ring(3), "reducescatter"))
    assert parts.broadcast_phase is None
    assert parts.reduce_phase is not None
    assert parts.reduce_phase.collective.name == "allgather"
    assert parts.reduce_phase.topology.src.tolist() == ring(3).dst.tolist()


def test_an_all_reduce_is_a_gather_read_backwards_and_a_gather() -> None:
    parts = phases(problem(ring(3), "allreduce"))
    assert parts.reduce_phase is not None and parts.broadcast_phase is not None
    for part in (parts.reduce_phase, parts.broadcast_phase):
        assert not part.collective.is_reduction
        assert (part.collective.pre == np.eye(3, dtype=bool)).all()
        assert part.collective.post.all()


def test_own_chunks_first_says_nothing_of_the_sums() -> None:
    own_first = RoutingLimits(own_first=np.ones(3, dtype=np.bool_))
    parts = phases(problem(ring(3), "allreduce", limits=own_first))
    assert parts.reduce_phase is not None and parts.broadcast_phase is not None
    assert parts.reduce_phase.limits.own_first is None
    assert parts.broadcast_phase.limits.own_first is not None


def test_a_custom_collective_that_copies_and_sums_has_both_halves() -> None:
    """Chunk 0 is copied from 0 to 1 and 2; chunk 1 is the sum over all for 1 and 2."""
    both = custom(3, [((0,), (1, 2), False), ((0, 1, 2), (1, 2), True)])
    parts = phases(Problem(ring(3), both, 1.0))
    assert parts.reduce_phase is not None and parts.broadcast_phase is not None
    assert parts.reduce_phase.collective.pre.tolist() == [[True, False, False], [False, True, False]]
    assert parts.reduce_phase.collective.post.tolist() == [[True, False, False], [True, True, True]]
    assert parts.broadcast_phase.collective.pre.tolist() == [[True, False, False], [False, True, False]]
    assert parts.broadcast_phase.collective.post.tolist() == both.post.tolist()


@settings(max_examples=examples(27), deadline=None)
@given(custom_problems(most_ranks=4, betas=ENGINE_BETAS))
def test_every_mix_of_copies_and_sums_gets_a_valid_schedule(mixed: Problem) -> None:
    update = next(reducing(greedy)(mixed, SearchOptions(), Budget(0.0), None))
    assert update.schedule is not None
    update.schedule.check()


@settings(max_examples=examples(20), deadline=None)
@given(problems(names=("allreduce", "reduce", "reducescatter"), betas=ENGINE_BETAS))
def test_every_collective_with_sums_gets_a_valid_schedule_at_once(summing: Problem) -> None:
    update = next(reducing(greedy)(summing, SearchOptions(), Budget(0.0), None))
    assert update.schedule is not None
    update.schedule.check()
    assert update.schedule.problem is summing


def test_an_engine_that_finds_nothing_leaves_nothing_to_join() -> None:
    silent = reducing(OnProblem(lambda *_: iter(())))
    for name in ("allreduce", "reducescatter"):
        assert not list(silent(problem(ring(3), name), SearchOptions(), Budget.of_work(1_000), None))


def test_overlapping_only_yields_faster_valid_schedules() -> None:
    allreduce = problem(full(4), "allreduce", 2)
    parts = phases(allreduce)
    best = merged(allreduce, first_of(parts.reduce_phase), first_of(parts.broadcast_phase))
    for schedule in overlapped(best, seed=1, budget=Budget.of_work(300)):
        schedule.check()
        assert schedule.makespan_us < best.makespan_us
        best = schedule
    assert len(best)


def test_without_time_nothing_is_overlapped() -> None:
    allreduce = problem(full(3), "allreduce")
    parts = phases(allreduce)
    first = merged(allreduce, first_of(parts.reduce_phase), first_of(parts.broadcast_phase))
    assert list(overlapped(first, seed=1, budget=Budget(0.0))) == []


def test_a_quotients_sums_are_decided_once_and_stay_valid() -> None:
    """A ring of five, both directions: the same of every rank, and no slower than what the halves take."""
    small = problem(ring(5, both=True), "allreduce", 2)
    small_quotient = quotient(small)
    assert small_quotient is not None
    first = next(reducing(greedy)(small, SearchOptions(), Budget(0.0), None)).schedule
    assert first is not None
    first.check()
    assert lower_bound(small).value_us <= first.makespan_us + 1e-6
    part = next(reducing(greedy)(small_quotient.problem, SearchOptions(), Budget(0.0), None)).schedule
    assert part is not None
    part.check()
    lifted = small_quotient.lifted(part)
    lifted.check()
    assert lifted.makespan_us == first.makespan_us


def test_what_is_proved_of_a_mirror_image_that_no_schedule_read_backwards_is_does_not_count() -> None:
    """Rank 0 takes from rank 1 with alpha 10 and from rank 2, which waits for rank 3, through one port.

    Pipelined, both can end at 11: 1's part keeps the port from 0 to 1, and 2's from 10 to 11. Read backwards
    both would start at 0, but of two copies out of one port the second starts at 1 and ends at 12.
    """
    links = [(1, 0, 10.0, 1.0), (2, 0, 0.0, 1.0), (3, 2, 9.0, 1.0)]
    reduced = problem(machine(4, links, "pipelined", shared=[(0, 1)]), "reduce")
    assert not reduced.topology.reads_backwards
    updates = list(reducing(cp)(reduced, SearchOptions(), Budget.of_work(2_000), None))
    assert min(each.schedule.makespan_us for each in updates if each.schedule) == pytest.approx(11.0)
    assert max(each.lower_bound_us for each in updates) <= 11.0
    assert lower_bound(reduced).value_us <= 11.0


def test_single_sends_of_both_phases_are_merged_also_where_none_were_there_at_the_same_time() -> None:
    """Groups make a phase faster, and keep ports busy that the other phase could use."""
    made = make_problem("allreduce", topology="mesh:2x3", size="6MB", chunks=1).problem
    slower = replace(made.topology, alpha_us=made.topology.alpha_us + 0.001 * (np.arange(14) == 0))
    # Of a quotient there would be two more phases, and of a mirror image one.
    requested = replace(made, topology=slower, symmetry=(np.arange(6),))
    single: dict[str, Schedule] = {}

    def in_turn(
        instance: Instance, options: SearchOptions, budget: Budget, best: Schedule | None
    ) -> Iterator[Update]:
        """Single sends, then a group; of copies, one after the other before that."""
        first = first_of(instance.problem)
        assert first is not None and len(first.sends) == len(first)
        single[instance.problem.collective.name] = first
        together = grouped(first)
        if instance.problem.collective.name == "broadcast phase":
            yield Update("together", together)
        yield Update("single", first)
        yield Update("together", together)

    *_, last = by_phases(in_turn)(Instance(requested), SearchOptions(), Budget.of_work(1_000), None)
    assert last.schedule is not None and len(single) == 2
    last.schedule.check()
    sums, copies = (single[name] for name in ("reduce phase-reversed", "broadcast phase"))
    assert last.schedule.makespan_us <= merged(requested, sums, copies).makespan_us + TOLERANCE_US


def grouped(schedule: Schedule) -> Schedule:
    """The same with two chunks over one link as one send, where one of them could wait for the other."""
    decisions = decisions_of(schedule)
    for early, first in enumerate(decisions):
        for late in range(early + 1, len(decisions)):
            if decisions[late].link == first.link:
                both = replace(first, chunks=(*first.chunks, *decisions[late].chunks))
                trial = [*decisions[:early], *decisions[early + 1 : late], both, *decisions[late + 1 :]]
                with suppress(TacclError, ValueError, KeyError):
                    found = in_order(schedule.problem, trial)
                    found.check()
                    return found
    raise AssertionError("no two chunks go over one link")


def test_sums_that_take_long_to_read_backwards_are_left_as_they_are(monkeypatch) -> None:
    requested = problem(ring(3), "reducescatter")
    first = first_of(Instance(requested).phases.reduce_phase.problem)
    known = merged(requested, first, None)

    def begun(*_: object) -> Iterator[Update]:
        began.append(True)
        yield from ()

    began: list[bool] = []
    for most, expected in ((0, []), (20_000, [True])):
        monkeypatch.setattr("taccl.encoding.engines.by_phases.BY_PHASES_MANY_ROWS", most)
        monkeypatch.setattr("taccl.encoding.engines.by_phases.BY_PHASES_MIRRORED_PER_S", 0.001)
        assert (
            list(by_phases(begun)(Instance(requested), SearchOptions(), Budget.of_work(1_000), known)) == []
        )
        assert began == expected
