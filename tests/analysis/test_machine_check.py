"""Checks of machines: their bounds, what limits them, and what is said when there are none."""

from functools import cache

import pytest

from taccl import bounds, check_machine
from taccl.analysis.machine_check import COLLECTIVES, SIZES, MachineBound, MachineCheck
from taccl.errors import SolverError, TacclError, UnitError
from taccl.topologies import PhysicalTopology, parse_topology

APART = "name: apart\ngpus: 3\nlinks:\n  - {pairs: [0-1], alpha_us: 1, bandwidth_gbps: 10}\n"
#: Five GPUs, one of which a slow link with a large alpha joins to a GPU that is near it.
FIVE = """
name: five
gpus: 5
links:
  - {pairs: [0-1, 1-2, 2-3, 3-4, 0-3], alpha_us: 0.9, bandwidth_gbps: 22}
  - {pairs: [4-1], alpha_us: 2.5, bandwidth_gbps: 7}
"""
ONE_WAY = "name: chain\ngpus: 2\nlinks:\n  - {pairs: [0-1], one_way: true, alpha_us: 1, bandwidth_gbps: 10}\n"


@cache
def checked_at(name: str, *sizes: str) -> MachineCheck:
    """A check, which takes a second, once for all tests that look at it."""
    return check_machine(name, sizes=sizes)


def test_a_machine_is_checked_at_three_sizes_with_four_collectives():
    checked = check_machine("ring:2")
    assert [(each.size_bytes, each.collective) for each in checked.bounds] == [
        (size, name) for size in (2**10, 2**20, 2**28) for name in COLLECTIVES
    ]
    assert len(SIZES) == 3
    assert not checked.notes


def test_its_bounds_are_those_of_the_command_bound():
    found = checked_at("ring:3", "2", "3MB").bounds
    (each,) = (b for b in found if (b.collective, b.size_bytes) == ("allgather", 3 * 2**20))
    proven = bounds("allgather", topology="ring:3", size="3MB", chunks=1)
    assert each.bound.value_us == pytest.approx(proven[0].value_us)
    assert each.any_chunks.value_us == pytest.approx(
        max(proof.value_us for proof in proven if proof.holds_for_any_chunks)
    )


def test_a_small_size_is_limited_by_latency_and_a_large_one_by_bandwidth():
    by_size = {}
    for each in checked_at("ring:3", "1KB", "1GB").bounds:
        by_size.setdefault(each.size_bytes, set()).add(each.limit)
    assert list(by_size.values()) == [{"latency"}, {"bandwidth"}]


def test_alphas_in_a_bound_for_any_chunk_count_are_not_bandwidth():
    """Of the 2.91 us for any chunk count 2.5 are alphas, so the reason is that of the 4.76 us."""
    checked = check_machine(parse_topology(FIVE), sizes=["37KB"]).bounds
    (each,) = (bound for bound in checked if bound.collective == "allreduce")
    assert each.any_chunks.kind == "timed-flow"
    assert each.any_chunks.value_us > each.bound.value_us / 2
    assert (each.limit, each.witness) == ("latency", each.bound)


def test_busbw_of_a_ring_is_what_its_links_move():
    for each in checked_at("ring:3", "1KB", "1GB").bounds:
        if each.size_bytes > 2**20 and each.collective in ("allgather", "reducescatter", "allreduce"):
            assert each.busbw_gbps == pytest.approx(100, rel=1e-6)


def test_a_size_is_rounded_down_to_equal_parts():
    sizes = [each.size_bytes for each in checked_at("ring:3", "1KB", "1GB").bounds]
    assert sizes[0] == 1008 == 2**10 - 2**10 % (3 * 16)


@pytest.mark.parametrize("text", [APART, ONE_WAY])
def test_parts_without_a_way_there_and_back_are_told_and_have_no_bounds(text):
    checked = check_machine(parse_topology(text))
    assert not checked.is_whole
    assert checked.anomalies[0].kind == "no way"
    assert "2 parts" in checked.anomalies[0].message
    assert not checked.bounds
    assert "no bounds" in checked.notes[0]


def test_gpus_that_only_reach_each_other_past_gpus_are_one_machine():
    assert check_machine("ndv2", sizes=["1MB"], time_limit=1e-6).is_whole


def test_a_size_without_a_byte_for_each_part_is_told_and_the_others_are_bounded():
    small, large = (checked_at("ring:3", "2", "3MB").bounds[i] for i in (0, 4))
    assert small.bound is None
    assert "not one for each of 3 chunks" in small.reason
    assert large.bound.value_us > 0


def test_bounds_that_come_too_late_are_left_out_with_a_note():
    checked = check_machine("torus:4x4", time_limit=1e-6)
    assert all(each.bound is None and each.limit is None for each in checked.bounds)
    assert checked.notes == ("12 of 12 bounds were left out: 1e-06 s were over",)


def test_without_a_bound_of_one_sort_nothing_is_said_to_limit():
    each = checked_at("ring:3", "2", "3MB").bounds[4]
    alone = tuple(proof for proof in each.proved if proof.holds_for_any_chunks)
    assert each.limit == "bandwidth"
    assert MachineBound("allgather", 3 * 2**20, 1.0, alone).limit is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"sizes": ["many"]}, UnitError),
        ({"time_limit": 0}, SolverError),
        ({"nodes": 2}, TacclError),
    ],
)
def test_what_cannot_be_asked_is_refused(words, error):
    with pytest.raises(error):
        check_machine("ring:4", **words)


def test_a_notebook_shows_a_row_for_each_bound():
    html = checked_at("ring:3", "2", "3MB")._repr_html_()
    assert html.count("<tr>") == 1 + 2 * len(COLLECTIVES)


def test_of_many_paths_none_is_found_past_the_time_limit(monkeypatch):
    requested = []
    monkeypatch.setattr(PhysicalTopology, "paths_from", lambda machine, rank: requested.append(rank) or {})
    checked = check_machine("torus:32x32", time_limit=1e-6)
    assert not requested
    assert checked.is_whole
    assert {each.reason for each in checked.bounds} == {"not within the time limit"}


def test_a_machine_that_falls_apart_is_told_without_any_path():
    checked = check_machine(parse_topology(APART), time_limit=1e-6)
    assert not checked.is_whole
    assert not checked.bounds


def test_a_collective_that_is_too_large_is_told_and_nothing_else_is_left_out(monkeypatch):
    monkeypatch.setattr("taccl.support.size_limits.MAX_PLACES", 20)
    checked = check_machine("ring:5", sizes=["4MB"])
    reasons = {each.collective: each.reason for each in checked.bounds}
    assert "too large to build" in reasons["allgather"]
    assert not checked.notes


def test_helpers_are_named():
    links = "[{from: gpus, to: server, alpha_us: 1, bandwidth_gbps: 10}]"
    machine = parse_topology(f"name: star\ngpus: 2\nhelpers: [server]\nlinks: {links}\n")
    assert check_machine(machine, sizes=["1KB"]).to_dict()["helpers"] == ["server"]
