"""Neighbours on a busy link put into one send, in whatever order the rest then goes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from engine_runs import checked_gain
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_problems import custom, machine, networks
from strategies import random_schedule

from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.milp.merging import merged
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

_PLENTY = 100_000


def anew(schedule: Schedule, units: int = _PLENTY) -> Schedule | None:
    """The schedule with sends merged, and checked."""
    return checked_gain(schedule, merged(schedule, Budget.of_work(units)))


def lines(how_many: int, pieces: int, max_group: int = 71) -> Problem:
    """Each 0 -> 1 -> 2, pieces of 1 us to the middle, and of 5 us and an alpha of 1 from there."""
    ends = [(3 * line, 3 * line + 1, 3 * line + 2) for line in range(how_many)]
    links = [link for a, b, c in ends for link in ((a, b, 0.0, 1.0), (b, c, 1.0, 5.0))]
    chunks = [((a,), (c,), False) for a, _, c in ends for _ in range(pieces)]
    return Problem(machine(3 * how_many, links), custom(3 * how_many, chunks), 1.0, max_group=max_group)


def one_by_one(stated: Problem, links: Sequence[int]) -> Schedule:
    """All chunks of each line by themselves over its links."""
    pieces = stated.num_chunks // (len(links) // 2)
    sends = [Decision((link // 2 * pieces + each,), link) for link in links for each in range(pieces)]
    return in_order(stated, sends)


@pytest.mark.parametrize("how_many", [1, 2])
def test_all_but_the_first_piece_leave_together_in_each_of_lines_that_are_alike(how_many: int) -> None:
    """By themselves 1 + 4 * 6 = 25 us; with the first alone 1 + 6 + 16 = 23; with the first too 4 + 21."""
    better = anew(one_by_one(lines(how_many, 4), range(2 * how_many)))
    assert better is not None
    assert better.makespan_us == pytest.approx(23.0)


def test_no_send_gets_more_chunks_than_the_limit() -> None:
    better = anew(one_by_one(lines(1, 4, max_group=2), range(2)))
    assert better is not None
    assert better.sends.count.max() == 2
    assert better.makespan_us == pytest.approx(1 + 6 + 11 + 6)


def test_what_one_send_leads_to_does_not_join_it() -> None:
    """Chunk 1 comes to rank 0 in a group with chunk 0, which rank 0 has sent before."""
    topology = machine(4, [(0, 1, 5.0, 5.0), (1, 2, 0.0, 0.01), (2, 3, 0.0, 0.01), (3, 0, 0.0, 0.01)])
    stated = Problem(topology, custom(4, [((0,), (1, 3), False), ((2,), (1,), False)]), 1.0)
    sends = [((0,), 0), ((0,), 1), ((0, 1), 2), ((1,), 3), ((1,), 0)]
    assert anew(in_order(stated, [Decision(*send) for send in sends])) is None


def test_without_work_to_spend_or_sends_to_merge_nothing_comes_back() -> None:
    assert anew(one_by_one(lines(1, 4), range(2)), units=1) is None
    assert anew(one_by_one(lines(1, 1), range(2))) is None


#: Alphas are much of the time on these, so that of three random schedules one has sends worth merging.
_SLOW_TO_BEGIN = networks(most_ranks=3, alphas=(3.0, 10.0), betas=(0.5, 1.0))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_SLOW_TO_BEGIN, st.sampled_from(list(COLLECTIVES)), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_any_valid_schedule_is_valid_and_faster_or_left_alone(
    topology: LogicalTopology, name: str, chunks: int, seed: int
) -> None:
    asked = make_collective(name, topology.num_ranks, chunks)
    anew(random_schedule(asked, topology, random.Random(seed)))
