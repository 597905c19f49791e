"""The bound from what is passed on inside a node until the end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from brute_force import fastest, program_before
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import full, machine, problem

from taccl import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.bounds.cut import CUT
from taccl.encoding.bounds.relay import RELAY, Ports, Way
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.hierarchical import hierarchical
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget


def chain(size_mb: float, alpha_us: float, ranks: int = 2) -> float:
    """What is proved of MB that take a microsecond each, into ranks that pass them on to each other."""
    entry, inside = Ports(1, alpha_us, 1.0), Ports(ranks - 1, alpha_us, 1.0)
    return Way(size_mb, ranks, (entry,), (inside,)).least_us()


def test_it_comes_last_where_sums_are_made_and_spread() -> None:
    late = {name: RELAY.is_late(problem(full(3), name)) for name in ("allreduce", "broadcast", "reduce")}
    assert late == {"allreduce": True, "broadcast": False, "reduce": False}


def test_without_alphas_a_pipeline_is_filled_at_once() -> None:
    assert chain(100.0, 0.0) == pytest.approx(100.0)


@pytest.mark.parametrize("ranks", [2, 3, 50])
def test_of_equal_chunks_no_number_is_faster_and_the_best_is_near(ranks: int) -> None:
    """100 MB in N chunks over two links: N + 1 steps of 1 + 100 / N each, 121 us with N = 10."""
    best_us = min((many + 1) * (1 + 100 / many) for many in range(1, 101))
    assert 113 < chain(100.0, 1.0, ranks) <= best_us == pytest.approx(121)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 9)), min_size=1, max_size=6),
    st.floats(0, 2),
    st.floats(0.1, 3),
    st.integers(2, 9),
    st.floats(0.1, 30),
)
def test_no_groups_in_turns_serve_or_pass_on_more(
    groups: list[tuple[float, float]], alpha_us: float, us_per_mb: float, ranks: int, lasting_us: float
) -> None:
    """From the end: idle time, then a group; of one that begins before the last time only what lies in it."""
    left_us = served = passed_on = 0.0
    for idle_us, size_mb in groups:
        left_us += idle_us
        within_mb = min(size_mb, (lasting_us - left_us - alpha_us) / us_per_mb)
        if within_mb <= 0:
            break
        served += within_mb * (1 + (ranks - 1) * left_us / lasting_us)
        left_us += alpha_us + within_mb * us_per_mb
        passed_on += within_mb * (1 - left_us / lasting_us)
    ports = Ports(1, alpha_us, us_per_mb)
    assert served <= ports.served(lasting_us, ranks) * (1 + 1e-9) + 1e-12
    assert passed_on <= ports.passed_on(lasting_us) * (1 + 1e-9) + 1e-12


def test_what_comes_in_twice_at_the_end_leaves_time_to_pass_on_the_rest() -> None:
    """Of 4 chunks two come to both ranks, and two only to the one that passes them on meanwhile, slowly."""
    links = [(0, 1, 0.01, 1.0), (0, 2, 0.01, 1.0), (1, 2, 0.01, 2.5)]
    requested = problem(machine(3, links, shared=[[0, 1]], node_of=[0, 1, 1]), "broadcast", 4)
    proof = lower_bound(requested, bounds=[RELAY])
    assert proof.kind == RELAY.name
    assert 4.9 < proof.value_us <= fastest(requested).makespan_us == pytest.approx(6.04)


def test_it_says_nothing_where_all_that_want_something_are_alone() -> None:
    assert lower_bound(problem(full(3), "allgather", 1), bounds=[RELAY]).kind != RELAY.name


def test_a_root_behind_one_port_is_a_line_too() -> None:
    """One DGX of MI300X: seven links out of the root, and 42 between the others."""
    requested = make_problem("broadcast", topology="mi300x", nodes=1, size="64MB", executor=False).problem
    proof = lower_bound(requested, bounds=[RELAY])
    assert proof.holds_for_any_chunks and "7 ports" in proof.witness
    assert proof.value_us > 1.1 * 64 / 7 * requested.topology.beta_us_per_mb.min()


def test_a_switch_that_copies_passes_nothing_on_faster_than_ranks_can_get_it() -> None:
    """Of what GPUs pass on, only links to those who want it count, and none into the switch.

    Alphas of the ways through it are half as long, and these count.
    """
    with_it, without_it = (
        lower_bound(
            make_problem("allgather", topology="dgx-h100", nodes=3, size="1GB", without=names).problem,
            bounds=[RELAY],
        ).value_us
        for names in (None, "nvswitch")
    )
    assert without_it * (1 - 5e-3) < with_it <= without_it


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(["allgather", "reducescatter", "allreduce"]),
    st.sampled_from([("dgx-h100", 3), ("a100", 2), ("ndv2", 3)]),
    st.sampled_from(["64KB", "64MB"]),
    st.sampled_from([1, 2]),
)
def test_no_schedule_is_faster(name: str, machine: tuple[str, int], size: str, chunks: int) -> None:
    without = "nvswitch" if machine[0] == "dgx-h100" else None
    keywords = {"topology": machine[0], "nodes": machine[1], "without": without}
    requested = make_problem(name, size=size, chunks=chunks, **keywords).problem
    (update,) = hierarchical(Instance(requested), SearchOptions(), Budget.of_work(50), None)
    assert update.schedule is not None
    assert 0 < lower_bound(requested, bounds=[RELAY]).value_us <= update.schedule.makespan_us


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["broadcast", "reduce"]),
    st.sampled_from(["switch:3", "full:3", "ring:3"]),
    st.sampled_from(["16KB", "256KB", "1MB"]),
    st.integers(1, 3),
    st.sampled_from(["serial", "pipelined"]),
)
def test_no_pipeline_of_one_root_is_faster(
    name: str, machine: str, size: str, chunks: int, occupancy: str
) -> None:
    requested = make_problem(name, topology=machine, size=size, chunks=chunks).problem
    requested = replace(requested, topology=replace(requested.topology, occupancy=occupancy))
    proved_us = lower_bound(requested, bounds=[RELAY]).value_us
    assert proved_us > 0
    assert program_before(requested, proved_us - 1e-6) is None


def test_it_says_more_than_the_cut_where_inside_is_hardly_faster() -> None:
    keywords = {"topology": "dgx-h100", "nodes": 12, "without": "nvswitch"}
    requested = make_problem("allgather", size="96MB", chunks=2, **keywords).problem
    assert (
        lower_bound(requested, bounds=[RELAY]).value_us > 1.02 * lower_bound(requested, bounds=[CUT]).value_us
    )
