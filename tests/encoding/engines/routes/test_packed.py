"""Loads for links, trees within them, the order of what they carry, and the engine of the three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from small_problems import ENGINE_BETAS, full, machine, ndv2_node, networks, problem, ring, two_nodes

from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.ordering import Ordering
from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.routes.capacity import link_capacities
from taccl.encoding.engines.routes.choice import by_phases
from taccl.encoding.engines.routes.columns import Grouping
from taccl.encoding.engines.routes.orders import Open
from taccl.encoding.engines.routes.packed import packing
from taccl.encoding.engines.routes.packing import Tree, packed
from taccl.encoding.instance import Instance
from taccl.model import units
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def torus(side: int, beta: float = 20.0) -> LogicalTopology:
    links = []
    for rank in range(side * side):
        row, column = divmod(rank, side)
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            links.append((rank, (row + down) % side * side + (column + right) % side, 0.1, beta))
    return machine(side * side, links)


def switch(out_us: Sequence[float], in_us: Sequence[float]) -> LogicalTopology:
    """Ranks around one switch; each link is as slow as the slower of its two sides."""
    ranks = range(len(out_us))
    links = [(a, b, 0.01, max(out_us[a], in_us[b])) for a in ranks for b in ranks if a != b]
    ports = tuple((a, len(out_us) + b) for a, b, *_ in links)
    names = tuple(f"{way} {rank}" for way in ("out", "in") for rank in ranks)
    return replace(machine(len(out_us), links, "pipelined"), ports=ports, port_names=names)


MACHINES = {
    "ring": ring(4, both=True),
    "ndv2": ndv2_node(),
    "torus": torus(4),
    "nodes": two_nodes(),
    "measured": machine(
        3, [(a, b, 0.731852941, 1.0 + (3 * a + b) / 7.0) for a in range(3) for b in range(3) if a != b]
    ),
    "unequal switch": switch([1.0, 2.0, 1.0, 3.0], [1.0, 1.5, 1.0489130434782609, 1.0]),
}
every_machine = pytest.mark.parametrize("topology", MACHINES.values(), ids=MACHINES)


def everywhere(problem: Problem) -> np.ndarray:
    return np.ones(problem.topology.num_links, dtype=np.bool_)


def busiest_us(problem: Problem, loads: np.ndarray) -> float:
    """How long the busiest port is busy with this many chunks over each link."""
    link, port = problem.topology.incidence
    busy = problem.topology.port_busy_us(np.arange(problem.topology.num_pairs), problem.chunk_mb)
    return float(np.bincount(port, busy * loads[link]).max())


def loads_and_trees(problem: Problem) -> tuple[np.ndarray, list[Tree]]:
    loads = link_capacities(Instance(problem), everywhere(problem), Budget.of_work(10_000))
    assert loads is not None
    copies = problem.collective.pre.sum(axis=0)
    usable = np.ones((problem.num_ranks, problem.topology.num_links), dtype=np.bool_)
    duration = problem.topology.duration_us(np.arange(problem.topology.num_links), problem.chunk_mb)
    found = packed(problem.topology, loads, copies, usable, duration, Budget.of_work(10_000))
    assert found is not None
    return loads, found


def first(problem: Problem) -> Schedule:
    """The best of a few orders of packed trees, checked."""
    routes = by_phases(packing, Instance(problem), Budget.of_work(10_000))
    assert routes is not None
    opened = Open(problem, routes)
    orders = [
        opened.matching(Grouping(1), 0.0, 0),
        opened.pipeline(0.03, 0.0, 1),
        opened.pipeline(0.3, 0.0, 4),
    ]
    for order in orders:
        order.schedule().check()
    return min(orders, key=lambda each: each.makespan_us).schedule()


@every_machine
def test_trees_reach_every_rank_and_use_no_link_more_often_than_planned(topology: LogicalTopology) -> None:
    gather = problem(topology, "allgather", 4)
    loads, found = loads_and_trees(gather)
    used = np.zeros(topology.num_links, dtype=np.int64)
    copies = np.zeros(gather.num_ranks, dtype=np.int64)
    for tree in found:
        reached = {tree.root}
        for link in tree.links:
            assert int(topology.src[link]) in reached, "parents come first"
            assert int(topology.dst[link]) not in reached
            reached.add(int(topology.dst[link]))
        assert len(reached) == gather.num_ranks
        used[tree.links] += tree.count
        copies[tree.root] += tree.count
    assert (used <= loads).all()
    assert (copies == 4).all()


@pytest.mark.parametrize(
    ("topology", "chunks", "optimum_us"),
    [
        (ring(4), 2, 6.0),  # 6 chunks into each rank over one link
        (ring(4, both=True), 2, 3.0),
        (ndv2_node(), 6, 7 * 46.0),  # 42 into each rank over links of 23, 23, 46, 46
        (torus(4), 4, 15 * 20.0),  # 60 into each rank over four links
        (two_nodes(), 1, 20.0),  # 2 into each node over the link between them
        (switch([1.0] * 4, [1.0] * 4), 3, 9.0),
        (switch([1.0] * 4, [1.0, 1.0, 1.0, 2.0]), 1, 6.0),
    ],
)
def test_loads_meet_the_throughput_bound(topology: LogicalTopology, chunks: int, optimum_us: float) -> None:
    """Bandwidth alone counts: alpha is pure latency here, and costs no port any time."""
    gather = problem(replace(topology, occupancy="pipelined"), "allgather", chunks)
    loads, _ = loads_and_trees(gather)
    assert busiest_us(gather, loads) == pytest.approx(optimum_us, rel=1e-3)


def test_no_loads_where_a_rank_cannot_be_reached() -> None:
    gather = problem(machine(3, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 0, 1.0, 1.0)]), "allgather")
    assert link_capacities(Instance(gather), everywhere(gather), Budget.of_work(5_000)) is None


def test_trees_that_do_not_fit_are_none() -> None:
    topology = ring(3)
    usable = np.ones((3, 3), dtype=np.bool_)
    one = np.ones(3, dtype=np.int64)
    assert packed(topology, one, one, usable, np.ones(3), Budget.of_work(5_000)) is None
    assert packed(topology, 2 * one, one, usable, np.ones(3), Budget.of_work(5_000)) is not None


def test_where_capacity_allows_trees_are_shallow() -> None:
    topology = full(5)
    roomy = np.full(topology.num_links, 5, dtype=np.int64)
    usable = np.ones((5, topology.num_links), dtype=np.bool_)
    found = packed(topology, roomy, np.ones(5, dtype=np.int64), usable, np.ones(20), Budget.of_work(5_000))
    assert found is not None
    assert all((topology.src[tree.links] == tree.root).all() for tree in found)


def test_sends_through_a_switch_are_matched_so_that_no_port_waits_idly() -> None:
    """Three ranks send to each other: a perfect order has two rounds, with all ports busy in both."""
    gather = problem(switch([1.0] * 3, [1.0] * 3), "allgather")
    direct = [Decision((int(src),), link) for link, src in enumerate(gather.topology.src)]
    ordering = Ordering.of(gather, direct)
    schedule = ordering.schedule(ordering.matched())
    schedule.check()
    assert schedule.makespan_us == pytest.approx(2.01)


@every_machine
@pytest.mark.parametrize("name", ["allgather", "broadcast", "reducescatter", "allreduce"])
def test_every_schedule_is_valid_and_no_faster_than_its_bound(topology: LogicalTopology, name: str) -> None:
    small = problem(topology, name, 2)
    assert lower_bound(small, Budget.of_work(1_000)).value_us <= first(small).makespan_us + 1e-6


def test_one_ndv2_node_comes_near_its_171_gb_per_s() -> None:
    """Links of 25 and 50 GB/s: the loads reach the throughput bound, and the order loses little of it."""
    node = ndv2_node()
    beta = np.where(node.beta_us_per_mb > 30.0, 2**20 / 25e3, 2**20 / 50e3)
    gather = problem(replace(node, beta_us_per_mb=beta, occupancy="pipelined"), "allgather", 24, chunk_mb=5.0)
    loads, _ = loads_and_trees(gather)
    assert units.bandwidth_gbps(gather.size_bytes, busiest_us(gather, loads)) == pytest.approx(1200 / 7)
    assert first(gather).algbw_gbps > 0.96 * 1200 / 7


def test_chunks_keep_to_the_links_that_they_may_use() -> None:
    topology = full(3)
    may_use = np.ones((3, 6), dtype=np.bool_)
    may_use[0, topology.link_index[0, 1]] = False
    kept = problem(topology, "allgather", 4, limits=RoutingLimits(may_use=may_use))
    schedule = first(kept)
    assert may_use[kept.collective.owner[schedule.chunk], schedule.link].all()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks(most_ranks=5, betas=ENGINE_BETAS))
def test_on_any_network_the_loads_are_no_less_than_what_trees_need(topology: LogicalTopology) -> None:
    gather = problem(topology, "allgather", 2)
    _, found = loads_and_trees(gather)
    assert sum(tree.count for tree in found) == gather.num_chunks
