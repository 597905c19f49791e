"""Routes of chunks that go from one rank to one: paths at prices and flows, in pipelines and matchings."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import assert_keeps_its_symmetry, assert_waits_for_no_compiler, checked, comes_within
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import WORK_FOR_BOUNDS, full, machine, networks, problem, ring
from studies import examples

from taccl import make_problem
from taccl.encoding.bounds import all_bounds, lower_bound
from taccl.encoding.bounds.cut import CUT
from taccl.encoding.bounds.flow import FLOW
from taccl.encoding.bounds.volume import VOLUME
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import first_engines
from taccl.encoding.engines.routes import engine as routes_engine
from taccl.encoding.engines.routes import routes, routes_at_once, serves
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def schedules(requested: Problem, effort: int = 300, seed: int = 0) -> list[Schedule]:
    return checked(routes(Instance(requested), SearchOptions(seed=seed), Budget.of_work(effort), None))


def fastest(requested: Problem, effort: int = 300) -> Schedule:
    return schedules(requested, effort)[-1]


def of(name: str, chunks: int = 1, nodes: int | None = None, collective: str = "alltoall") -> Problem:
    return make_problem(collective, topology=name, nodes=nodes, size="1GB", chunks=chunks).problem


@settings(max_examples=examples(7), deadline=None)
@given(
    networks(),
    st.sampled_from(["alltoall", "gather", "scatter"]),
    st.integers(1, 3),
    st.sampled_from([1, 2, 71]),
    st.integers(0, 9),
    WORK_FOR_BOUNDS,
)
def test_every_schedule_is_valid_and_no_faster_than_the_bounds(
    topology, name, chunks, most, seed, units
) -> None:
    requested = problem(topology, name, chunks, max_group=most)
    assert serves(Instance(requested))
    found = schedules(requested, 20, seed)
    assert found
    bound = lower_bound(requested, Budget.of_work(units)).value_us
    assert found[-1].makespan_us >= bound * (1 - 1e-9)
    assert max(schedule.sends.count.max() for schedule in found) <= most
    times = [schedule.makespan_us for schedule in found]
    assert times == sorted(times, reverse=True)


def test_large_parts_of_unequal_sizes_share_the_ports_of_a_node_evenly() -> None:
    # GPU 0 has parts of 3, 2 and 2 MB for the other node, GPU 1 has one of 5 MB: 7 MB on its own NIC, at most
    # 5 on any if another GPU of the node takes a part. A NIC takes 21.8 us per MB.
    sizes = np.zeros((16, 16), dtype=np.int64)
    sizes[0, 8:11] = np.array([3, 2, 2]) * 2**20
    sizes[1, 11] = 5 * 2**20
    requested = make_problem(
        "alltoall", topology="dgx-h100", nodes=2, sizes=sizes, without="nvswitch"
    ).problem
    assert fastest(requested, 1000).makespan_us < 5.5 * 21.85


def test_two_ways_round_a_ring_of_four_are_used_alike() -> None:
    # 1 us for each of four chunks to a neighbour in each direction, and two to the opposite rank: 16 us of
    # transfers on 8 links.
    assert fastest(problem(ring(4, alpha_us=0.0, both=True), "alltoall", 2)).makespan_us == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("name", "nodes", "part"),
    [
        ("torus:4x4", None, 0.9),
        ("torus:2x3x4", None, 0.85),
        ("mesh:4x4", None, 0.85),
        ("dgx-h100", 2, 0.98),
        ("a100", 3, 0.97),
    ],
)
def test_large_messages_come_near_the_bandwidth_of_the_machine(name, nodes, part) -> None:
    requested = of(name, 2, nodes)
    (bound, *_) = all_bounds(requested, bounds=(CUT, VOLUME, FLOW), any_chunks=True)
    updates = routes(Instance(requested), SearchOptions(), Budget.of_work(150), None)
    assert comes_within(updates, bound.value_us / part)


def test_chunks_for_one_node_share_the_sends_that_enter_it() -> None:
    # Two nodes of two; alphas of 100 us between the nodes, 1 us inside.
    inside = [(0, 1), (1, 0), (2, 3), (3, 2)]
    between = [(a, b) for a in (0, 1) for b in (2, 3)] + [(b, a) for a in (0, 1) for b in (2, 3)]
    links = [(a, b, 1.0, 1.0) for a, b in inside] + [(a, b, 100.0, 1.0) for a, b in between]
    routes_out = [[i for i, link in enumerate(links) if link[0] == r and link[2] == 100.0] for r in range(4)]
    routes_in = [[i for i, link in enumerate(links) if link[1] == r and link[2] == 100.0] for r in range(4)]
    topology = machine(4, links, shared=[*routes_out, *routes_in], node_of=[0, 0, 1, 1])
    schedule = fastest(problem(topology, "alltoall"))
    assert schedule.makespan_us < 2 * 100.0
    assert topology.internode[schedule.sends.link].sum() == 4


def test_what_is_busy_is_gone_round() -> None:
    # From 0 to 1 straight or past 2, which is as fast: half of the chunks take each way.
    topology = machine(3, [(0, 1, 0.0, 2.0), (0, 2, 0.0, 1.0), (2, 1, 0.0, 1.0), (1, 0, 0.0, 1.0)])
    schedule = fastest(problem(topology, "scatter", 8))
    into_1 = schedule.link[schedule.dst == 1]
    assert 0 < (into_1 == 0).sum() < len(into_1)


def test_rules_on_who_may_use_which_link_are_kept() -> None:
    topology = full(3)
    may_use = np.ones((3, topology.num_links), dtype=np.bool_)
    forbidden = topology.link_index[2, 1]
    may_use[2, forbidden] = False
    requested = problem(topology, "alltoall", 2, limits=RoutingLimits(may_use=may_use))
    schedule = fastest(requested)
    of_rank_2 = requested.collective.owner[schedule.chunk] == 2
    assert of_rank_2.any()
    assert (schedule.link[of_rank_2] != forbidden).all()


def test_a_symmetry_that_is_asked_for_is_kept() -> None:
    schedule = fastest(problem(ring(4, both=True), "alltoall", 2, symmetry=[[1, 2, 3, 0]]))
    assert_keeps_its_symmetry(schedule)


@pytest.mark.parametrize(
    ("requested", "reason"),
    [
        (
            problem(full(3), "alltoall", limits=RoutingLimits(own_first=np.ones(6, dtype=np.bool_))),
            "own chunks leave first",
        ),
        (problem(full(1), "alltoall"), "nothing has to move"),
    ],
)
def test_what_it_does_not_serve_it_says_with_the_reason(requested, reason) -> None:
    assert reason in serves(Instance(requested)).reason


def test_a_chunk_without_a_way_leaves_no_schedule() -> None:
    assert schedules(problem(machine(2, [(0, 1, 1.0, 1.0)]), "alltoall")) == []


def test_without_time_to_compile_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_engine, "is_compiled", lambda: False)
    requested = problem(ring(3), "alltoall")
    assert_waits_for_no_compiler(routes(Instance(requested), SearchOptions(), Budget(1.0), None))


def test_the_same_seed_gives_the_same_schedule() -> None:
    one, other = (fastest(of("torus:3x3"), 60) for _ in range(2))
    assert np.array_equal(one.start_us, other.start_us)
    assert np.array_equal(one.link, other.link)


def test_the_first_schedule_takes_no_budget() -> None:
    for requested in (of("torus:3x3"), problem(machine(2, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 3.0)]), "alltoall")):
        updates = list(routes_at_once(Instance(requested), SearchOptions(), Budget(0.0), None))
        assert len(updates) == 1
        assert updates[0].schedule is not None
        updates[0].schedule.check()


def test_a_problem_of_very_many_chunks_begins_with_it() -> None:
    many = make_problem("alltoall", topology="torus:8x12x8", size="768MB", chunks=1).problem
    assert next(first_engines(Instance(many))).name == "routes"


@settings(max_examples=examples(7), deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 5), WORK_FOR_BOUNDS)
def test_unequal_chunks_that_come_late_and_have_tails_are_served(seed: int, ranks: int, units: int) -> None:
    random = np.random.default_rng(seed)
    plain = problem(ring(ranks), "alltoall")
    chunks, inputs, outputs = (
        plain.num_chunks,
        len(plain.collective.inputs),
        len(plain.collective.outputs),
    )
    unequal = Problem(
        plain.topology,
        plain.collective,
        plain.chunk_mb,
        sizes=random.integers(1, 9, chunks).astype(float),
        ready_us=random.integers(0, 20, inputs).astype(float),
        tail_us=random.integers(0, 20, outputs).astype(float),
    )
    best = fastest(unequal, 50)
    assert best.makespan_us >= lower_bound(unequal, Budget.of_work(units)).value_us * (1 - 1e-9)
