"""Where sums are made, and which ways chunks take: the busiest port against napkin optima."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from engine_runs import comes_within
from hypothesis import given, settings
from small_problems import custom, featured_problems, helped_switch, machine

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.routes.columns import Routes
from taccl.encoding.engines.routes.load_program import by_load_program, one_by_one, serves_load_program
from taccl.encoding.engines.routes.orders import Open
from taccl.encoding.portfolio.solve import solve
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

BOTH, SUM_FACE, COPY_FACE = (True, True), (True, False), (False, True)
#: GB/s of a way of an H100 below its NVSwitch, from GPU to GPU and by multimem.
DIRECT, MULTIMEM = 370.8, 309.0


def problem(topology: LogicalTopology, name: str, pieces: int, root: int | None = None) -> Problem:
    """1 MB, as nccl-tests counts."""
    collective = make_collective(name, topology.num_members, pieces, root)
    collective = collective.with_helpers(topology.num_helpers)
    return Problem(topology, collective, 1.0 / collective.chunks_per_size)


def found(requested: Problem, straight: float = 1e-2) -> Routes:
    assert serves_load_program(requested)
    routes = by_load_program(requested, straight, Budget.of_work(10_000))
    assert routes is not None
    return routes


def busiest_us(requested: Problem) -> float:
    """How long the busiest port is busy; all orders of the routes are valid schedules."""
    opened = Open(requested, found(requested))
    opened.pipeline(0.3, 0.0, 1).schedule().check()
    return float(opened.load_us.max())


def nvls(gpus: int) -> LogicalTopology:
    return helped_switch(gpus, [SUM_FACE, COPY_FACE], 1 / DIRECT, 1 / MULTIMEM, reads_itself=True)


@pytest.mark.parametrize("servers", [0, 1, 2, 4, 8])
def test_of_servers_next_to_gpus_it_reaches_what_byteps_proves(servers: int) -> None:
    """2 n (n - 1) / (n^2 + k n - 2 k) of the size, n = 8: for k = 8 all sums are made at servers."""
    n, k = 8, servers
    requested = problem(helped_switch(n, [BOTH] * k, own_ports=True), "allreduce", 110)
    assert busiest_us(requested) == pytest.approx(2 * n * (n - 1) / (n * n + k * n - 2 * k), rel=0.005)


@pytest.mark.parametrize("gpus", [5, 6, 7, 8])
def test_of_a_switch_that_sums_to_one_each_way_carries_the_size_and_an_nth(gpus: int) -> None:
    assert busiest_us(problem(nvls(gpus), "allreduce", 4)) == pytest.approx((1 + 1 / gpus) / MULTIMEM)


@pytest.mark.parametrize("gpus", [2, 3, 4])
def test_of_few_gpus_none_sends_through_the_switch(gpus: int) -> None:
    requested = problem(nvls(gpus), "allreduce", 4)
    assert (requested.topology.dst[found(requested).link] < gpus).all()
    assert busiest_us(requested) == pytest.approx(2 * (gpus - 1) / gpus / DIRECT)


def test_a_switch_that_sums_and_copies_in_one_pass_has_all_sums() -> None:
    requested = problem(helped_switch(4, [BOTH]), "allreduce", 2)
    routes = found(requested)
    assert busiest_us(requested) == pytest.approx(1.0)
    assert Counter(zip(routes.chunk.tolist(), routes.is_sum.tolist(), strict=True)) == {
        (chunk, is_sum): 4 for chunk in range(8) for is_sum in (False, True)
    }


def test_a_hub_in_the_middle_sums_and_copies_all() -> None:
    links = [link for rank in range(4) for link in ((rank, 4, 1.0, 1.0), (4, rank, 1.0, 1.0))]
    star = machine(5, links)
    hub = replace(star, is_helper=np.arange(5) == 4)
    assert busiest_us(problem(hub, "allreduce", 1)) == pytest.approx(4 * (1.0 + 0.25))


@pytest.mark.parametrize(
    ("name", "root"), [("broadcast", 0), ("reduce", 0), ("allgather", None), ("reducescatter", None)]
)
@pytest.mark.parametrize("helpers", [[SUM_FACE, COPY_FACE], [BOTH]])
def test_what_only_sums_or_only_copies_goes_through_a_switch_once(
    name: str, root: int | None, helpers: list[tuple[bool, bool]]
) -> None:
    """No way in or out carries more than the size, or than it does without helpers."""
    requested = problem(helped_switch(4, helpers, 1.0, 1.0), name, 4, root)
    assert busiest_us(requested) <= 1.0 + 1e-9


def test_it_declines_copies_of_what_starts_at_several_ranks() -> None:
    collective = custom(4, [((0, 1), (2, 3), False)]).with_helpers(1)
    assert not serves_load_program(Problem(helped_switch(4, [BOTH]), collective, 1.0))


@settings(max_examples=60)
@given(featured_problems(able=True))
def test_its_schedules_of_random_machines_are_valid(requested: Problem) -> None:
    if "helpers" not in requested.features or not serves_load_program(requested):
        return
    routes = by_load_program(requested, 1e-2, Budget.of_work(10_000))
    if routes is not None and len(routes):
        Open(requested, routes).pipeline(0.3, 0.0, 1).schedule().check()


@pytest.mark.parametrize(("pieces", "most"), [(8, 1 + 1 / 8), (32, 1 + 1 / 32)])
def test_waves_of_sums_next_to_copies_take_a_wave_longer_than_the_busiest_port(
    pieces: int, most: float
) -> None:
    requested = problem(helped_switch(8, [BOTH] * 8, own_ports=True), "allreduce", pieces)
    updates = solve(requested, SearchOptions(engine="routes", effort=2000))
    assert comes_within(updates, most * (1 + 1e-6))


def test_of_what_one_gpu_reads_and_sends_on_all_that_waits_counts() -> None:
    """Each sum is read by one GPU, and all others wait for what it sends."""
    requested = problem(nvls(72), "allreduce", 1)
    routes = next(one_by_one(requested, found(requested)))
    assert len(np.unique(routes.turn)) == 72
    opened = Open(requested, routes)
    least_us = float(opened.load_us.max())
    plain, behind = (opened.pipeline(0.6, 0.0, 1, behind=part) for part in (0.0, 1.0))
    behind.schedule().check()
    assert behind.makespan_us < 1.1 * least_us < plain.makespan_us


def test_what_needs_both_ways_of_a_gpu_is_not_kept_waiting_by_what_needs_one() -> None:
    """With alpha the two are never free at the same moment: 1.2 times the busiest port's time without."""
    topology = nvls(72)
    topology = replace(topology, alpha_us=np.full(topology.num_links, 3e-4), occupancy="pipelined")
    requested = replace(problem(topology, "allreduce", 2), chunk_mb=5.0)
    opened = Open(requested, next(one_by_one(requested, found(requested))))
    assert opened.pipeline(0.6, 0.0, 1, behind=1.0).makespan_us < 1.1 * float(opened.load_us.max())
