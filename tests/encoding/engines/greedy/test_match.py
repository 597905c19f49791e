from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from small_problems import (
    ENGINE_BETAS,
    WORK_FOR_BOUNDS,
    machine,
    problem,
    problems,
    ring,
    two_nodes,
)
from studies import examples

from taccl import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.list_scheduling import RoutingInstance
from taccl.encoding.engines.greedy.match import MatchPolicy, is_for_matching, match
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import symmetry_group
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def routing_of(given: Problem) -> RoutingInstance:
    usable = np.array([given.usable(chunk) for chunk in range(given.num_chunks)])
    nothing_left = np.zeros((given.num_chunks, given.num_ranks))
    return RoutingInstance(
        given, symmetry_group(given), *Instance(given).distances_by_limits, usable, nothing_left
    )


def matched(given: Problem, policy: MatchPolicy | None = None, seed: int = 0) -> Schedule:
    schedule = match(routing_of(given), policy or MatchPolicy(), np.random.default_rng(seed))
    assert schedule is not None
    schedule.check()
    return schedule


def switch(ranks: int, alpha_us: float = 0.5) -> LogicalTopology:
    """Each rank has one way in to the switch and one way out of it; pipelined."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    return LogicalTopology(
        name="switch",
        node_of=np.zeros(ranks, dtype=np.int64),
        src=np.array([a for a, _ in pairs]),
        dst=np.array([b for _, b in pairs]),
        alpha_us=np.full(len(pairs), alpha_us),
        beta_us_per_mb=np.ones(len(pairs)),
        ports=tuple((a, ranks + b) for a, b in pairs),
        port_names=tuple([f"in {r}" for r in range(ranks)] + [f"out {r}" for r in range(ranks)]),
        occupancy="pipelined",
    )


@settings(max_examples=examples(33), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(names=("allgather", "broadcast"), limited=True, betas=ENGINE_BETAS), WORK_FOR_BOUNDS)
def test_every_pass_is_a_valid_schedule_no_faster_than_its_bound(small: Problem, units: int) -> None:
    if is_for_matching(Instance(small)):
        bound = lower_bound(small, Budget.of_work(units))
        assert matched(small).makespan_us >= bound.value_us - 1e-6


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(names=("allgather", "broadcast"), limited=True, betas=ENGINE_BETAS))
def test_patience_of_one_keeps_no_chunk_from_a_rank(small: Problem) -> None:
    if is_for_matching(Instance(small)):
        assert len(matched(small, MatchPolicy(patience=1.0))) == (~small.collective.pre).sum()


def test_a_pass_leaves_its_problem_and_its_terrain_as_they_were() -> None:
    """One chunk: its tables are rows and columns at once, so a view would be taken for a copy."""
    given = problem(ring(3), "broadcast")
    routing = routing_of(given)
    before = given.collective.pre.copy(), routing.remaining_us.copy(), routing.usable.copy()
    match(routing, MatchPolicy(), np.random.default_rng(0))
    assert (given.collective.pre == before[0]).all()
    assert (routing.remaining_us == before[1]).all()
    assert (routing.usable == before[2]).all()


@pytest.mark.parametrize(("ranks", "chunks"), [(3, 1), (4, 3), (7, 2), (8, 4)])
def test_no_way_out_of_a_switch_is_idle_while_its_rank_lacks_chunks(ranks: int, chunks: int) -> None:
    given = problem(switch(ranks), "allgather", chunks)
    assert matched(given).makespan_us == pytest.approx((ranks - 1) * chunks + 0.5)


def test_sends_of_a_moment_make_room_for_each_other() -> None:
    """Rank 0 can be served by 2 and 3, rank 1 by 2 alone: whoever comes first, both are served at once."""
    links = [(2, 0, 0, 2), (3, 0, 1, 2), (2, 1, 0, 3), (0, 2, 4, 5), (0, 3, 6, 7), (1, 3, 8, 9)]
    topology = machine(4, [(src, dst, 0.0, 1.0 if dst < 2 else 9.0) for src, dst, *_ in links])
    paired = replace(
        topology,
        ports=tuple((first, last) for *_, first, last in links),
        port_names=tuple(map(str, range(10))),
    )
    for seed in range(10):
        sends = matched(problem(paired, "allgather"), seed=seed)
        assert set(sends.dst[sends.start_us == 0].tolist()) >= {0, 1}


def test_a_slow_link_between_nodes_carries_each_chunk_once() -> None:
    sends = matched(problem(two_nodes(occupancy="pipelined"), "allgather", 4))
    assert sends.problem.topology.internode[sends.link].sum() == sends.problem.num_chunks


def test_teccls_dgx2_is_filled_to_its_bound() -> None:
    """31 parts of 0.25 MB pass the one way into an odd GPU, at 125 GB/s: 31 x 2 us, and 0.7 us of alpha."""
    given = make_problem("allgather", topology="dgx2-teccl", size=8 * 10**6, chunks=2).problem
    best = min((matched(given, seed=seed) for seed in range(3)), key=lambda each: each.makespan_us)
    assert best.makespan_us == pytest.approx(62.7)
    assert lower_bound(given).value_us == pytest.approx(62.7)


def test_a_pass_stops_when_the_time_is_up() -> None:
    routing = routing_of(problem(ring(4), "allgather"))
    assert match(routing, MatchPolicy(), np.random.default_rng(0), Budget(0.0)) is None


def test_a_seed_repeats_a_pass() -> None:
    given = problem(switch(5), "allgather", 3)
    one, same = (matched(given, MatchPolicy(noise=3.0), seed=7) for _ in range(2))
    assert (one.chunk == same.chunk).all() and (one.start_us == same.start_us).all()


def test_symmetry_own_chunks_first_single_destinations_and_size_are_left_to_others() -> None:
    gather = problem(ring(4), "allgather")
    assert is_for_matching(Instance(gather))
    assert is_for_matching(Instance(problem(ring(4), "broadcast")))
    assert not is_for_matching(Instance(problem(ring(4), "alltoall")))
    assert not is_for_matching(Instance(problem(ring(4), "reducescatter")))
    assert not is_for_matching(Instance(problem(ring(4), "allgather", symmetry=[[1, 2, 3, 0]])))
    assert not is_for_matching(Instance(problem(ring(200), "allgather"))), "too large"
    own_first = RoutingLimits(own_first=np.ones(4, dtype=np.bool_))
    assert not is_for_matching(Instance(replace(gather, limits=own_first)))
