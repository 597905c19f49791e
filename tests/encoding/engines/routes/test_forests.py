"""Forests: a spanning tree for each chunk, sums and copies in one pipeline; and the engine on them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_runs import assert_keeps_its_symmetry, assert_waits_for_no_compiler, checked, comes_within
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import WORK_FOR_BOUNDS, full, machine, networks, problem, ring, two_nodes
from studies import examples

from taccl import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.routes import routes
from taccl.encoding.engines.routes.choice import Choice
from taccl.encoding.engines.routes.columns import Grouping, Routes
from taccl.encoding.engines.routes.engine import choosers_of
from taccl.encoding.engines.routes.forests import _Planting, serves_forests
from taccl.encoding.engines.routes.orders import Open, Order
from taccl.encoding.engines.routes.promise import Promise, _mean_depth, promise_of
from taccl.encoding.engines.routes.search import RouteSearch
from taccl.encoding.engines.routes.spanning import TreeShape, _turns, shape_of
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

SPREADING = ["allgather", "reducescatter", "allreduce", "broadcast", "reduce"]


def schedules(requested: Problem, effort: int = 150, seed: int = 0) -> list[Schedule]:
    return checked(routes(Instance(requested), SearchOptions(seed=seed), Budget.of_work(effort), None))


def fastest(requested: Problem, effort: int = 150) -> Schedule:
    return schedules(requested, effort)[-1]


def of(name: str, collective: str, chunks: int, nodes: int | None = None, size: str = "64MB") -> Problem:
    return make_problem(collective, topology=name, nodes=nodes, size=size, chunks=chunks).problem


def least_prices(search: _Planting) -> TreeShape:
    """Trees as deep as they like."""
    return shape_of(search.arcs, search.costs, search.problem.chunk_mb, 0.3, np.inf, True)


@settings(max_examples=examples(15), deadline=None)
@given(
    networks(),
    st.sampled_from(SPREADING),
    st.integers(1, 3),
    st.sampled_from([1, 2, 71]),
    st.integers(0, 9),
    WORK_FOR_BOUNDS,
)
def test_every_schedule_is_valid_and_no_faster_than_the_bounds(
    topology, name, chunks, most, seed, units
) -> None:
    requested = problem(topology, name, chunks, max_group=most)
    bound = lower_bound(requested, Budget.of_work(units)).value_us
    found = schedules(requested, 20, seed)
    assert found
    assert found[-1].makespan_us >= bound * (1 - 1e-9)
    assert max(schedule.sends.count.max() for schedule in found) <= most


def test_a_ring_of_three_sums_and_copies_on_all_links_at_once() -> None:
    # Twice two transfers of each of three chunks over six links: two of them on each link, back to back.
    assert fastest(problem(ring(3, both=True), "allreduce")).makespan_us == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("name", "nodes", "collective", "chunks", "part"),
    [
        ("torus:3x3", None, "allreduce", 12, 0.97),
        ("mesh:2x3", None, "allreduce", 24, 0.9),
        ("ndv2", 1, "allreduce", 16, 0.9),
        ("a100", 2, "allreduce", 32, 0.93),
        ("mesh:3x3", None, "allgather", 16, 0.9),
        ("torus:3x3", None, "reducescatter", 8, 0.95),
    ],
)
def test_large_messages_come_near_the_bandwidth_of_the_machine(name, nodes, collective, chunks, part) -> None:
    requested = of(name, collective, chunks, nodes, "1GB")
    bound_us = lower_bound(requested, Budget.of_work(1000)).value_us
    updates = routes(Instance(requested), SearchOptions(), Budget.of_work(800), None)
    assert comes_within(updates, bound_us / part)


def test_no_port_carries_much_more_than_others() -> None:
    search = _Planting(Instance(problem(full(4), "allreduce", 8)), 0)
    trees = search._trees(search._batches(Grouping(1)), least_prices(search), 0, None)
    assert trees is not None
    assert trees.load_us.max() <= 1.1 * trees.load_us.mean()


def test_trees_are_the_same_however_often_the_budget_is_looked_at(monkeypatch) -> None:
    search = _Planting(Instance(problem(full(4), "allreduce", 8)), 0)
    batches = search._batches(Grouping(1))
    at_once = search._trees(batches, least_prices(search), 0, None)
    monkeypatch.setattr("taccl.encoding.engines.routes.spanning.CHOOSE_ARCS_BETWEEN_LOOKS", 1)
    looking = search._trees(batches, least_prices(search), 0, Budget.of_work(10_000))
    assert np.array_equal(at_once.arc, looking.arc)
    assert (
        search._trees(batches, least_prices(search), 0, Budget.of_work(1)) is None
    )  # not all were chosen in time


def test_shallow_trees_are_rooted_in_the_middle_and_hardly_deeper_than_they_must_be() -> None:
    search = _Planting(Instance(of("mesh:5x5", "allreduce", 2)), 0)
    batches = search._batches(Grouping(1))
    shallow = shape_of(search.arcs, search.costs, search.problem.chunk_mb, 0.3, 0.25, True)
    assert shallow.central.tolist() == [12]  # 4 links from all corners
    trees, deep = (search._trees(batches, shape, 0, None) for shape in (shallow, least_prices(search)))
    assert trees is not None
    assert deep is not None
    assert set(trees.root.tolist()) == {12}
    assert 4 <= _mean_depth(trees, search.arcs) <= 5 < _mean_depth(deep, search.arcs)


@settings(max_examples=30, deadline=None)
@given(networks(), st.sampled_from(SPREADING), st.sampled_from([0.0, 0.2, 1.0]), st.integers(0, 9))
def test_trees_of_any_slack_span_all_ranks(topology, name, slack, seed) -> None:
    requested = problem(topology, name, 2)
    if not serves_forests(Instance(requested)):
        return
    search = _Planting(Instance(requested), seed)
    shape = shape_of(search.arcs, search.costs, requested.chunk_mb, 0.3, slack, True)
    trees = search._trees(search._batches(Grouping(1)), shape, seed, None)
    assert trees is not None
    assert ((trees.arc >= 0).sum(axis=1) == requested.num_ranks - 1).all()


def test_sums_for_one_rank_each_take_no_longer_than_copies_to_all() -> None:
    copies, sums = (fastest(of("mesh:4x3", name, 2), 100) for name in ("allgather", "reducescatter"))
    assert sums.makespan_us == pytest.approx(copies.makespan_us)


def test_it_begins_nothing_that_takes_longer_than_what_is_left() -> None:
    instance = Instance(of("mesh:3x3", "allgather", 2))
    search = RouteSearch(instance, choosers_of(instance), 0)
    budget = Budget.of_work(1000)
    candidates = search.schedules(budget, np.inf)
    next(candidates)
    search.takes_s = 2.0
    assert next(candidates, None) is None


def test_a_first_order_that_is_too_long_by_its_rows_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """None was timed yet; but where others wait for a first schedule it is made."""
    instance = Instance(of("mesh:3x3", "allgather", 2))
    monkeypatch.setattr("taccl.encoding.engines.routes.search.LONG_S", 0.0)
    search = RouteSearch(instance, choosers_of(instance), 0)
    assert not list(search.schedules(Budget(0.0), 100.0))
    waited_for = RouteSearch(instance, choosers_of(instance), 0, must_end=True)
    assert list(waited_for.schedules(Budget(0.0), np.inf))


def test_without_time_no_routes_of_many_chunks_are_chosen_where_there_is_a_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To choose them takes seconds; a first schedule is waited for."""
    monkeypatch.setattr("taccl.encoding.engines.routes.engine.MOST_TWICE", 1)
    requested = of("mesh:3x3", "allgather", 2)
    known = fastest(requested, 100)
    chosen: list[Instance] = []

    def noted(instance: Instance) -> list[Any]:
        chosen.append(instance)
        return choosers_of(instance)

    monkeypatch.setattr("taccl.encoding.engines.routes.engine.choosers_of", noted)
    assert not list(routes(Instance(requested), SearchOptions(effort=1), Budget.of_work(0), known))
    monkeypatch.setattr("taccl.encoding.engines.routes.engine.CHOSEN_PER_S", requested.num_chunks / 2)
    longer_s = Budget.of_work(1000).remaining_s()
    assert longer_s < 2.0
    assert not list(routes(Instance(requested), SearchOptions(effort=1), Budget.of_work(1000), known))
    assert not chosen
    assert list(routes(Instance(requested), SearchOptions(effort=1), Budget.of_work(0), None))


@pytest.mark.parametrize("best_us", [np.inf, 100.0])
def test_an_order_that_has_no_time_left_ends_its_routes(
    best_us: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a large order does, which looks at the clock; other routes were chosen without end once."""
    instance, chosen = Instance(of("mesh:3x3", "allgather", 2)), []
    monkeypatch.setattr(Open, "pipeline", lambda self, *_, **__: self.look())

    def endless(*asked: Any) -> Iterator[Choice]:
        choice = next(iter(choosers_of(instance)[0](*asked)))
        while True:
            chosen.append(choice)
            assert len(chosen) <= 2, "one for each chooser at most"
            yield choice

    search = RouteSearch(instance, [endless, endless], 0)
    assert list(search.schedules(Budget(0.0), best_us)) == []
    assert len(chosen) == (2 if best_us == np.inf else 1), "where there is a schedule, the first alone"


def test_without_time_no_routes_are_begun_where_there_is_a_schedule_and_ranks_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To choose them takes a second, that is; where they are few, a moment."""
    instance = Instance(of("mesh:3x3", "allgather", 2))
    few = RouteSearch(instance, choosers_of(instance), 0)
    assert list(few.schedules(Budget.of_work(0), 1e9))
    monkeypatch.setattr("taccl.encoding.engines.routes.search.CHOSEN_SOON", 161)  # of 18 chunks at 9 ranks
    many = RouteSearch(instance, choosers_of(instance), 0)
    assert not list(many.schedules(Budget.of_work(0), 1e9))
    assert list(many.schedules(Budget.of_work(0), np.inf))


def test_an_order_that_others_wait_for_ends_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first schedule is asked for with no time at all, and a large order looks at the clock."""
    instance = Instance(of("mesh:3x3", "allgather", 2))
    pipeline = Open.pipeline

    def looking(self: Open, *asked: Any, **words: Any) -> Any:
        self.look()
        return pipeline(self, *asked, **words)

    monkeypatch.setattr(Open, "pipeline", looking)
    search = RouteSearch(instance, choosers_of(instance)[:1], 0, must_end=True)
    assert len(list(search.schedules(Budget(0.0), np.inf))) == 1


def test_a_link_with_nothing_to_do_takes_a_copy_beside_the_tree() -> None:
    requested = problem(full(3), "allreduce")
    # A chain for each chunk: r, r + 1, r + 2. The last could have its copy from the root at once.
    rows = []
    for root in range(3):
        chain = [root, (root + 1) % 3, (root + 2) % 3]
        for up, down in ((1, 0), (2, 1)):
            rows += [(root, chain[up], chain[down], True), (root, chain[down], chain[up], False)]
    chunk = np.array([row[0] for row in rows])
    link = np.array([requested.topology.link_index[a, b] for _, a, b, _ in rows])
    chains = Routes(chunk, link, np.array([row[3] for row in rows]), chunk, chunk / 3)
    schedule = Open(requested, chains, detours=True).pipeline(0.0, 0.0, 1).schedule()
    schedule.check()
    copies = schedule.link[~schedule.reduce]
    alongside = [requested.topology.link_index[root, (root + 2) % 3] for root in range(3)]
    assert np.isin(copies, alongside).any()


def pipelined(requested: Problem, size: int = 1) -> Order:
    """A pipeline with this many chunks in a send."""
    planting = _Planting(Instance(requested), 0)
    routes = planting.routes(Grouping(size), least_prices(planting), 0, None)
    assert routes is not None
    return Open(requested, routes, detours=True).pipeline(0.6, 0.0, size)


@settings(max_examples=10, deadline=None)
@given(networks(), st.integers(1, 3), st.sampled_from([1, 2]))
def test_a_pipeline_scheduled_again_from_its_end_is_valid_each_time(topology, chunks, size) -> None:
    requested = problem(topology, "allreduce", chunks, max_group=size)
    if not serves_forests(Instance(requested)) or not topology.reads_backwards:
        return
    pipeline = pipelined(requested, size)
    for _ in range(3):
        pipeline = pipeline.again(size)
        schedule = pipeline.schedule()
        schedule.check()
        assert schedule.makespan_us == pytest.approx(pipeline.makespan_us)


def test_scheduling_again_from_the_end_shortens_a_pipeline_that_ends_as_a_trickle() -> None:
    pipeline = pipelined(of("mesh:4x4", "allreduce", 4))
    assert pipeline.again(1).again(1).makespan_us < 0.98 * pipeline.makespan_us


def test_sums_and_copies_of_a_chunk_may_go_on_trees_of_their_own() -> None:
    schedule = pipelined(of("mesh:4x4", "allreduce", 4)).again(1).again(1).schedule()
    back = {(c, b, a) for c, a, b in zip(*(column[schedule.reduce].tolist() for column in (
        schedule.chunk, schedule.src, schedule.dst)), strict=True)}  # fmt: skip
    forth = {(c, a, b) for c, a, b in zip(*(column[~schedule.reduce].tolist() for column in (
        schedule.chunk, schedule.src, schedule.dst)), strict=True)}  # fmt: skip
    assert back != forth


def test_roots_that_may_be_any_rank_are_spread_over_the_ranks() -> None:
    planting = _Planting(Instance(of("mesh:4x4", "allreduce", 4)), 0)
    trees = planting._trees(planting._batches(Grouping(1)), least_prices(planting), 0, None)
    assert trees is not None
    assert len(np.unique(trees.root)) > 10


def test_batches_that_are_alike_use_the_same_trees_by_turns() -> None:
    root, mb = np.array([0, 1, 0, 1, 0, 1, 0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    turns = _turns(np.zeros(7, dtype=np.int64), root, mb, 6)
    assert turns.tolist() == [0, 1, 2, 3, 0, 1, 4]
    for tree in set(turns.tolist()):
        assert len(set(zip(root[turns == tree], mb[turns == tree], strict=True))) == 1


def test_large_sends_promise_more_the_more_alpha_counts() -> None:
    sizes = [1, 2, 4, 8]
    best = {
        alpha_us: min(
            sizes, key=lambda size: Promise(100 * alpha_us, 100.0, alpha_us, 8.0).time_us(1.0, size)
        )
        for alpha_us in (0.0, 0.2, 5.0)
    }
    assert best == {0.0: 1, 0.2: 2, 5.0: 8}


def test_a_few_trees_promise_what_all_keep_a_port_busy() -> None:
    # A ring of 4: 3 of 8 links up and the 3 next to them down for each chunk, alpha 1 us and 1 us per MB.
    requested = problem(ring(4, both=True), "allreduce")
    search = _Planting(Instance(requested), 0)
    trees = search._trees(search._batches(Grouping(1)), least_prices(search), 0, None)
    assert trees is not None
    promise = promise_of(trees, search.arcs, search.costs, 1.0, 2 * requested.num_chunks)
    assert promise.alpha_us == promise.us_per_mb == trees.load_us.max()
    assert promise.way_alpha_us == promise.way_us_per_mb <= 6


def test_chunks_that_share_a_tree_share_sends_and_alphas() -> None:
    requested = problem(ring(4, alpha_us=50.0, both=True), "allreduce", 8)
    assert fastest(requested).sends.count.max() > 1


def test_rules_on_who_may_use_which_link_are_kept() -> None:
    topology = full(3)
    may_use = np.ones((3, topology.num_links), dtype=np.bool_)
    forbidden = [topology.link_index[0, 1], topology.link_index[1, 0]]
    may_use[2, forbidden] = False
    requested = problem(topology, "allreduce", 2, limits=RoutingLimits(may_use=may_use))
    schedule = fastest(requested)
    of_rank_2 = requested.collective.owner[schedule.chunk] == 2
    assert not np.isin(schedule.link[of_rank_2], forbidden).any()


def test_a_symmetry_that_is_asked_for_is_kept() -> None:
    turn = [[1, 2, 3, 0]]
    schedule = fastest(problem(ring(4, both=True), "allreduce", 2, symmetry=turn))
    assert_keeps_its_symmetry(schedule)


@pytest.mark.parametrize(
    ("requested", "reason"),
    [
        (problem(full(3), "alltoall"), "some go elsewhere"),
        (problem(ring(3), "allreduce"), "two-way links do not join all ranks"),
        (problem(two_nodes(), "allreduce"), "two-way links do not join all ranks"),
    ],
)
def test_what_forests_do_not_serve_is_told(requested: Problem, reason: str) -> None:
    assert reason in serves_forests(Instance(requested)).reason


def test_the_same_seed_and_effort_give_the_same_schedule() -> None:
    requested = of("mesh:2x3", "allreduce", 4)
    first, again = fastest(requested, 60), fastest(requested, 60)
    assert np.array_equal(first.start_us, again.start_us)
    assert np.array_equal(first.link, again.link)


def test_without_time_to_compile_it_says_so(monkeypatch) -> None:
    monkeypatch.setattr("taccl.encoding.engines.routes.engine.is_compiled", lambda: False)
    requested = problem(ring(3, both=True), "allreduce")
    assert_waits_for_no_compiler(routes(Instance(requested), SearchOptions(), Budget(1.0), None))


def test_a_transfer_waits_for_no_chunk_of_its_batch() -> None:
    # One link each way: the first chunk leaves alone, and those that waited meanwhile follow together.
    pair = machine(2, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0)])
    requested = problem(pair, "allgather", 4)
    search = _Planting(Instance(requested), 0)
    planted = search.routes(Grouping(4), least_prices(search), 0, None)
    assert planted is not None
    schedule = Open(requested, planted, detours=True).pipeline(0.0, 0.0, 4).schedule()
    assert schedule.sends.count.tolist() == [4, 4]


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(0, 99)), max_size=40))
def test_a_heap_in_columns_gives_what_a_heap_of_tuples_gives(members) -> None:
    base = 3
    keys, items = np.zeros(base + len(members)), np.zeros(base + len(members), dtype=np.int64)
    heap: list[tuple[float, int]] = []
    for size, (key, item) in enumerate(members):
        push(keys, items, base, size, key, item)
        heapq.heappush(heap, (key, item))
    for size in range(len(members), 0, -1):
        assert (keys[base], items[base]) == heapq.heappop(heap)
        pop(keys, items, base, size)


def test_ports_that_are_never_busy_have_no_events_to_wait_for() -> None:
    # Every link and the port that all share take no time, so all that is ready goes at one moment.
    links = [(a, b, 1.0, 0.0) for a in range(5) for b in range(5) if a != b]
    free = machine(5, links, "pipelined", shared=[range(len(links))] * 3)
    schedule = fastest(problem(free, "allreduce", 8, max_group=1))
    assert len(schedule) == 2 * 4 * 40
    assert schedule.makespan_us == pytest.approx(2.0)
