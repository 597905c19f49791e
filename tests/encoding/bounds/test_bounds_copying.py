"""The bound from trees at prices of port time: tables, the trees that they stand for, and what is proved."""

from __future__ import annotations

import math
from collections import deque
from itertools import product

import numpy as np
import pytest
from brute_force import fastest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import custom, full, machine, problem, ring, two_nodes

from taccl import make_problem
from taccl.encoding.bounds import Proof, lower_bound, proofs
from taccl.encoding.bounds.copying import COPYING
from taccl.encoding.bounds.copying_horizon import Horizon, Sizes, cells_of
from taccl.encoding.bounds.copying_loop import (
    ACROSS,
    BACK,
    CLASSES,
    MATE,
    OTHER,
    ROOT,
    Sends,
    Tables,
    follow,
    serve,
)
from taccl.encoding.bounds.copying_setting import Setting
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.views import views
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem
from taccl.support.budget import Budget
from taccl.synthesis.search import search

#: More work than the proofs of these problems take.
_PLENTY = 30_000


def proved(requested: Problem, work: int = _PLENTY) -> dict[bool, float]:
    """What it proves, of any number of chunks and of this one, from the shortest path on."""
    best: dict[bool, float] = {}
    for proof in proofs(Instance(requested), Budget.of_work(work), [LATENCY, COPYING]):
        if proof.kind == COPYING.name:
            key = proof.holds_for_any_chunks
            best[key] = max(best.get(key, 0.0), proof.value_us)
    return best


def one_port(ranks: int, alpha_us: float = 1.0, us_per_mb: float = 1.0, nodes: int = 1) -> LogicalTopology:
    """Links from all to all, one port each way of each rank; between nodes others, twice as slow."""
    node_of = [rank * nodes // ranks for rank in range(ranks)]
    links, ports = [], dict[tuple[int, int, bool], list[int]]()
    for src, dst in product(range(ranks), repeat=2):
        if src != dst:
            is_across = node_of[src] != node_of[dst]
            for end, rank in enumerate((src, dst)):
                ports.setdefault((end, rank, is_across), []).append(len(links))
            links.append((src, dst, alpha_us * (1 + is_across), us_per_mb * (1 + is_across)))
    return machine(
        ranks, links, shared=[users for users in ports.values() if len(users) > 1], node_of=node_of
    )


def random_sends(seed: int, sizes: int, cells: int, classes: list[int]) -> Sends:
    """Sends that cost, last and keep busy whatever comes, over links of some classes."""
    draw = np.random.default_rng(seed)
    lasts = draw.integers(1, 3, (CLASSES, 1)) + np.arange(sizes)
    cost = np.full((CLASSES, sizes, cells), math.inf)
    for each in classes:
        cost[each] = draw.integers(0, 9, (sizes, cells)) + 1.0
        for size in range(sizes):
            cost[each, size, cells + 1 - lasts[each, size] :] = math.inf
    return Sends(
        lasts, np.minimum(lasts, draw.integers(0, 3, lasts.shape)), cost, np.zeros(CLASSES, np.int64)
    )


def tables_of(sends: Sends, ranks: int, nodes: int, first: int) -> Tables:
    cells = sends.cost.shape[2]
    shape = 3, cells + 1, ranks, nodes
    filled = [
        np.full(each, math.inf) for each in (shape, shape, (3, cells + 1, nodes), (2, ranks + 1, nodes))
    ]
    tables = Tables(*filled)
    serve(0, sends=sends, tables=tables, first=first)
    return tables


def cheapest_tree(sends: Sends, ranks: int, nodes: int, first: int) -> float:
    """By trying all: who has the chunk sends it on, over one link inside and one across at a time."""
    cells, sizes = sends.cost.shape[2], sends.cost.shape[1]
    node_of = [rank // ranks for rank in range(ranks * nodes)]
    who = [
        first if rank == 0 else max(first, MATE) if node_of[rank] == 0 else OTHER
        for rank in range(len(node_of))
    ]
    best = math.inf

    def extend(come: dict[int, int], free: dict[tuple[int, bool], int], now: int, paid: float) -> None:
        nonlocal best
        if len(come) == len(node_of):
            best = min(best, paid)
            return
        lacking = [rank for rank in range(len(node_of)) if rank not in come]
        for src, dst, size in product(sorted(come), lacking, range(sizes)):
            is_across = node_of[src] != node_of[dst]
            is_back = is_across and first == ROOT and node_of[dst] == 0
            link = BACK if is_back else who[src] + ACROSS * is_across
            for cell in range(max(now, come[src], free.get((src, is_across), 0)), cells):
                price = sends.cost[link, size, cell]
                if paid + price < best:
                    then = {**come, dst: cell + int(sends.lasts[link, size])}
                    turn = {**free, (src, is_across): cell + int(sends.busy[link, size])}
                    extend(then, turn, cell, paid + price)

    extend({0: 0}, {}, 0, 0.0)
    return best


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([(2, 1), (3, 1), (4, 1), (1, 3)]), st.sampled_from([ROOT, OTHER])
)
def test_on_equal_ranks_the_table_is_the_cheapest_tree(seed: int, shape: tuple[int, int], first: int) -> None:
    ranks, nodes = shape
    classes = [first, max(first, MATE)] if nodes == 1 else [ACROSS + first, ACROSS + OTHER]
    sends = random_sends(seed, 2, 5, classes)
    served = tables_of(sends, ranks, nodes, first).served[first, 0, ranks - 1, nodes - 1]
    assert served == cheapest_tree(sends, ranks, nodes, first)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([ROOT, OTHER]))
def test_no_tree_over_nodes_costs_less_than_the_table(seed: int, first: int) -> None:
    """Also where a node is entered twice, by whoever is first."""
    sends = random_sends(seed, 1, 5, list(range(CLASSES)))
    served = tables_of(sends, 2, 2, first).served[first, 0, 1, 1]
    assert served <= cheapest_tree(sends, 2, 2, first)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([(4, 1), (2, 3), (3, 2), (1, 4)]), st.sampled_from([ROOT, OTHER])
)
def test_the_sends_of_a_tree_cost_what_the_table_says(seed: int, shape: tuple[int, int], first: int) -> None:
    ranks, nodes = shape
    sends = random_sends(seed, 2, 14, list(range(CLASSES)))
    tables = tables_of(sends, ranks, nodes, first)
    stack, rows = np.zeros((4 * ranks * nodes + 4, 5), np.int64), np.zeros((ranks * nodes, 3), np.int64)
    for cell in range(14):
        served = tables.served[first, cell, ranks - 1, nodes - 1]
        if math.isfinite(served):
            many = follow(0, sends=sends, tables=tables, first=first, cell=cell, stack=stack, rows=rows)
            assert many == ranks * nodes - 1
            assert sum(sends.cost[tuple(row)] for row in rows[:many]) == pytest.approx(served)


@pytest.mark.parametrize("name", ["allgather", "broadcast"])
def test_what_ports_are_busy_at_prices_is_what_sends_cost(name: str) -> None:
    view = views(Instance(problem(two_nodes(2), name, 2)))[0]
    setting = Setting.of(view)
    assert setting is not None
    sizes = Sizes.of(setting.chunks, divisible=False)
    width_us, cells, edges_us = cells_of(setting, sizes, 40.0, 40, 8)
    horizon = Horizon(setting, sizes, 40.0, width_us, cells, edges_us)
    prices = np.random.default_rng(1).random((len(setting.ports), len(edges_us) - 1))
    sends, chosen = horizon.sends(prices)
    link, size, cell = (each[:20] for each in np.nonzero(np.isfinite(sends.cost)))
    use = [
        horizon.use(*(np.array([each]) for each in row), chosen[row][None])
        for row in zip(link.tolist(), size.tolist(), cell.tolist(), strict=True)
    ]
    paid = [float((each * prices).sum()) for each in use]
    assert paid == pytest.approx(sends.cost[link, size, cell].tolist())


def test_an_allgather_behind_one_port_each_doubles() -> None:
    """Four ranks, chunks that take as long as alpha: 1 + 1 and 1 + 2 us, and three by themselves take 6."""
    best = proved(problem(one_port(4), "allgather", 1))
    assert 4.95 < best[False] <= 5.0 == fastest(problem(one_port(4), "allgather", 1)).makespan_us


def test_nodes_gather_while_they_cross() -> None:
    """More than any bound knew of two nodes of four before, and no more than the fastest schedule takes."""
    requested = make_problem("allgather", topology="dgx2", nodes=2, size="1MB", chunks=1).problem
    before = 12.02  # `staged-cut`
    assert before * 1.1 < lower_bound(requested, Budget.of_work(4_000), [LATENCY, COPYING]).value_us <= 14.92


@pytest.mark.parametrize("name", ["allgather", "broadcast", "reduce", "reducescatter"])
@pytest.mark.parametrize("topology", [one_port(3), one_port(2, 0.5, nodes=2), ring(3)])
def test_no_program_is_faster(name: str, topology: LogicalTopology) -> None:
    requested = problem(topology, name, 1)
    most_us = fastest(requested).makespan_us + 1e-9
    assert all(value_us <= most_us for value_us in proved(requested).values())


def test_what_comes_back_into_the_node_of_the_root_may_leave_it_again() -> None:
    """0 sends to 2, which sends back to 1, which enters the other node three times: 10 us of eight chunks."""
    pairs = [(0, 2, 1.0), (2, 1, 1.0), (1, 3, 1.0), (1, 4, 1.0), (1, 5, 1.0), (0, 1, 1000.0)]
    links = [(src, dst, 0.01 if us < 2 else us, 1.0) for src, dst, us in pairs]
    network = machine(6, links, node_of=[0, 0, 1, 1, 1, 0])
    requested = Problem(network, custom(6, [((0,), tuple(range(1, 6)), False)] * 8), 1.0, max_group=1)
    assert 8.0 < max(proved(requested).values()) < 10.1


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(3, 2), (2, 3)]), st.sampled_from(["serial", "pipelined"]))
def test_no_schedule_on_six_ranks_is_faster(seed: int, shape: tuple[int, int], occupancy: Occupancy) -> None:
    """Links of random costs, some missing, some ports shared, next to what a search finds."""
    draw, nodes = np.random.default_rng(seed), shape[1]
    links = [
        (src, dst, *draw.choice([0.1, 0.5, 2.0], 2).tolist())
        for src, dst in product(range(6), repeat=2)
        if src != dst and (draw.random() < 0.7 or dst == (src + 1) % 6)
    ]
    ends = [[i for i, link in enumerate(links) if link[end] == rank] for end in (0, 1) for rank in range(6)]
    shared = [users for users in ends if len(users) > 1 and draw.random() < 0.6]
    network = machine(6, links, occupancy, shared, [rank * nodes // 6 for rank in range(6)])
    name = str(draw.choice(["allgather", "broadcast", "reduce", "reducescatter"]))
    requested = problem(network, name, int(draw.integers(1, 4)), max_group=int(draw.choice([1, 71])))
    found = search(requested, SearchOptions(engine="greedy", effort=100))
    assert max(proved(requested, 1_000).values(), default=0.0) <= found.schedule.makespan_us * (1 + 1e-9)


def test_the_same_work_proves_the_same() -> None:
    requested = problem(one_port(6, nodes=2), "broadcast", 4)
    assert proved(requested, 2_000) == proved(requested, 2_000)


def test_cut_short_it_goes_on_where_it_stopped() -> None:
    instance = Instance(problem(one_port(8, nodes=2), "allgather", 2))
    reached = []
    for _ in range(4):
        last = deque(proofs(instance, Budget.of_work(60), [LATENCY, COPYING]), maxlen=1)
        reached.append((instance.bound_us, last[-1].kind))
    assert [value_us for value_us, _ in reached] == sorted(value_us for value_us, _ in reached)
    assert reached[-1][0] > reached[0][0]


@pytest.mark.parametrize(
    "requested",
    [
        pytest.param(problem(full(3), "gather"), id="to one rank"),
        pytest.param(problem(full(3), "allreduce"), id="sums for all"),
        pytest.param(
            Problem(full(3), custom(3, [((0,), (1, 2), False), ((1,), (0, 2), False)]), 1.0), id="two roots"
        ),
        pytest.param(
            Problem(machine(3, [(0, 1, 1.0, 1.0)]), custom(3, [((0,), (0,), False)]), 1.0), id="nothing to do"
        ),
    ],
)
def test_it_says_nothing_of_others(requested: Problem) -> None:
    assert not any(proved(requested).values())


def test_its_witness_names_the_machine() -> None:
    found: list[Proof] = list(
        proofs(Instance(problem(one_port(4), "allgather", 1)), Budget.of_work(_PLENTY), [LATENCY, COPYING])
    )
    assert found[-1].witness.startswith("copies of ")
    assert found[-1].witness.endswith(" for 4 ranks take more time of ports than there is")
