"""Flows, the paths that they are made of, whole chunks for the paths, and the engine of the three."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_problems import ENGINE_BETAS, full, machine, ndv2_node, networks, problem, ring, two_nodes
from studies import examples

from taccl.encoding.bounds import lower_bound
from taccl.encoding.bounds.flow import flows
from taccl.encoding.bounds.flow_prices import even_prices
from taccl.encoding.bounds.waits import Toll, Waits
from taccl.encoding.core.flow import least_busy_flow
from taccl.encoding.core.flow_paths import FlowPath, paths_of, whole_chunks
from taccl.encoding.engines.routes.columns import Grouping
from taccl.encoding.engines.routes.flow import flow
from taccl.encoding.engines.routes.orders import Open
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import symmetry_group
from taccl.model import units
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

MACHINES = {
    "ring": ring(4, both=True),
    "one way": ring(5),
    "ndv2": ndv2_node(),
    "nodes": two_nodes(),
    "full": full(4),
    "measured": machine(
        3, [(a, b, 0.731852941, 1.0 + (3 * a + b) / 7.0) for a in range(3) for b in range(3) if a != b]
    ),
}
every_machine = pytest.mark.parametrize("topology", MACHINES.values(), ids=MACHINES)


def free_of_alpha(topology: LogicalTopology) -> LogicalTopology:
    return replace(topology, alpha_us=np.zeros(topology.num_links))


def flow_us(stated: Problem) -> float:
    """How long ports are busy with the flow alone, at the best of the prices that are known."""
    found = flows(Instance(stated), Budget.of_work(1_000_000))
    return found[0].alone_us if found else 0.0


def even_flow_us(stated: Problem) -> float:
    """The same at even prices alone."""
    instance, budget = Instance(stated), Budget.of_work(1_000)
    tolls = (Toll.of(instance, price) for price in even_prices(stated.topology))
    return max((Waits(instance, toll, budget).alone_us for toll in tolls), default=0.0)


def best(small: Problem) -> Schedule:
    """The best of a few orders of the flow's paths, checked."""
    routes = flow(Instance(small), Budget.of_work(10_000))
    assert routes is not None
    opened = Open(small, routes)
    orders = [opened.matching(Grouping(size), 0.0, 0) for size in (1, 2, 4)]
    orders += [opened.pipeline(0.0, power, 1) for power in (0.0, 1.0, 8.0)]
    for order in orders:
        order.schedule().check()
    return min(orders, key=lambda each: each.makespan_us).schedule()


@pytest.mark.parametrize(
    ("topology", "name", "optimum_us"),
    [
        (ring(4), "alltoall", 6.0),  # 1 + 2 + 3 hops for each of 4 sources, over 4 links
        (ring(4, both=True), "alltoall", 2.0),
        (full(5), "alltoall", 1.0),
        (two_nodes(), "alltoall", 40.0),  # 4 MB out of a node at 10 us each
        (full(4), "scatter", 1.0),
        (ring(4, both=True), "gather", 1.5),
    ],
)
def test_the_busiest_port_of_a_flow(topology: LogicalTopology, name: str, optimum_us: float) -> None:
    small = problem(topology, name)
    least = least_busy_flow(small, symmetry_group(small), topology.beta_us_per_mb, 10.0)
    assert least is not None
    assert least.busiest_us == pytest.approx(optimum_us, rel=1e-6)
    assert flow_us(small) == pytest.approx(optimum_us, rel=1e-6)


def test_a_little_weight_on_busy_times_keeps_flow_off_detours() -> None:
    """One chunk over a fast link; round the other side nothing is busy, but nothing is gained either."""
    topology = machine(3, [(0, 1, 0.0, 1.0), (0, 2, 0.0, 0.1), (2, 1, 0.0, 0.1), (1, 2, 0.0, 5.0)])
    small = problem(topology, "scatter")
    least = least_busy_flow(small, symmetry_group(small), topology.beta_us_per_mb, 10.0, 1e-3)
    assert least is not None
    assert least.mb[0, 3] == pytest.approx(0.0, abs=1e-9)
    assert least.mb[1:].sum() == 0.0


def test_a_flow_comes_apart_into_paths_that_carry_what_is_wanted() -> None:
    small = problem(ring(4, both=True), "scatter")
    link = small.topology.link_index
    mb = np.zeros(small.topology.num_links)
    mb[[link[0, 1], link[1, 2], link[0, 3], link[3, 2]]] = 1.5, 0.5, 1.5, 0.5
    paths = paths_of(small, 0, mb, np.array([0, 1, 1, 1]))
    assert {pair: sum(path.chunks for path in each) for pair, each in paths.items()} == {
        (0, 1): 1.0,
        (0, 2): 1.0,
        (0, 3): 1.0,
    }
    assert {path.links for path in paths[0, 2]} == {(link[0, 1], link[1, 2]), (link[0, 3], link[3, 2])}


def test_a_circle_of_flow_is_on_no_path() -> None:
    small = problem(ring(4, both=True), "scatter")
    link = small.topology.link_index
    mb = np.zeros(small.topology.num_links)
    mb[[link[1, 2], link[2, 1]]] = 3.0
    mb[link[0, 1]] = 1.0
    assert paths_of(small, 0, mb, np.array([0, 1, 0, 0])) == {(0, 1): [FlowPath((link[0, 1],), 1.0)]}


def test_a_pair_that_no_flow_reaches_is_left_out() -> None:
    small = problem(ring(3), "scatter")
    assert paths_of(small, 0, np.zeros(3), np.array([0, 1, 0])) == {}


def test_halves_of_single_chunks_are_dealt_so_that_the_ports_stay_even() -> None:
    """Four pairs, each half over one link and half over the other: two chunks end up on each link."""
    small = problem(full(2), "alltoall", 1)
    routes = {(0, target): [FlowPath((0,), 0.5), FlowPath((1,), 0.5)] for target in range(4)}
    counts = whole_chunks(small, routes, dict.fromkeys(routes, 1), Budget(60.0))
    assert all(sum(each) == 1 for each in counts.values())
    assert np.sum(list(counts.values()), axis=0).tolist() == [2, 2]


def test_chunks_are_moved_off_the_busiest_port() -> None:
    """Whole parts that are uneven by themselves: three over the first link and one over the second."""
    small = problem(full(2), "alltoall", 1)
    routes = {(0, target): [FlowPath((0,), 1.0), FlowPath((1,), 0.0)] for target in range(3)}
    routes[0, 3] = [FlowPath((1,), 1.0)]
    counts = whole_chunks(small, routes, dict.fromkeys(routes, 1), Budget(60.0))
    assert sum(each[0] for pair, each in counts.items() if pair != (0, 3)) == 2
    assert counts[0, 3] == [1]


def test_without_time_all_chunks_are_dealt_out_and_none_is_moved() -> None:
    small = problem(full(2), "alltoall", 1)
    routes = {(0, target): [FlowPath((0,), 1.0), FlowPath((1,), 0.0)] for target in range(4)}
    counts = whole_chunks(small, routes, dict.fromkeys(routes, 1), Budget(0.0))
    assert list(counts.values()) == [[1, 0]] * 4


@every_machine
@pytest.mark.parametrize("name", ["alltoall", "gather", "scatter"])
def test_every_schedule_is_valid_and_no_faster_than_its_bound(topology: LogicalTopology, name: str) -> None:
    small = problem(topology, name, 2)
    assert lower_bound(small, Budget.of_work(1_000)).value_us <= best(small).makespan_us + 1e-6


def test_one_ndv2_node_reaches_its_75_gb_per_s() -> None:
    """Links of 25 and 50 GB/s, no alphas: six chunks a pair fill them without a gap."""
    node = free_of_alpha(ndv2_node())
    beta = np.where(node.beta_us_per_mb > 30.0, 2**20 / 25e3, 2**20 / 50e3)
    small = problem(replace(node, beta_us_per_mb=beta), "alltoall", 6, chunk_mb=1.0)
    assert units.bandwidth_gbps(small.size_bytes, flow_us(small)) == pytest.approx(75.0, rel=1e-6)
    assert best(small).algbw_gbps == pytest.approx(75.0, rel=0.02)


def test_where_alpha_is_dear_chunks_of_a_path_travel_together() -> None:
    """Four chunks from 0 to 1 with an alpha of 100: one send pays it once."""
    topology = machine(2, [(0, 1, 100.0, 1.0), (1, 0, 100.0, 1.0)])
    assert best(problem(topology, "alltoall", 4)).makespan_us == pytest.approx(104.0)


@settings(max_examples=examples(13), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks(most_ranks=5, betas=ENGINE_BETAS))
def test_on_any_network_the_paths_carry_every_chunk_once(topology: LogicalTopology) -> None:
    small = problem(topology, "alltoall", 2)
    schedule = best(small)
    assert lower_bound(small, Budget.of_work(1_000)).value_us <= schedule.makespan_us + 1e-6


@settings(max_examples=20, deadline=None)
@given(networks(), st.sampled_from(["alltoall", "gather", "scatter"]), st.integers(1, 2))
def test_the_bound_at_even_prices_is_no_higher_than_the_program(topology, name, chunks) -> None:
    small = problem(topology, name, chunks)
    assert even_flow_us(small) <= flow_us(small) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("topology", "bound"),
    [
        (ring(4, alpha_us=0.0, both=True), 16 / 8),  # 1 + 2 + 1 links from each rank, on 8 links of 1 us
        (full(4, alpha_us=0.0), 1.0),
    ],
)
def test_where_all_links_are_alike_even_prices_are_best(topology, bound) -> None:
    assert even_flow_us(problem(topology, "alltoall")) == pytest.approx(bound)
