"""Pipelines of one root: which chunk goes where and when, and how long all take."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_problems import random_network
from small_problems import full, machine, problem, ring, two_nodes
from studies import examples
from textbook_machines import railed_nodes, switch, torus

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import as_sums
from taccl.encoding.core.sequence import of_columns
from taccl.encoding.engines.registry import first_engines
from taccl.encoding.engines.streams import across_chunks, serves, streams, streams_at_once
from taccl.encoding.engines.streams.dissemination import Style, disseminated
from taccl.encoding.engines.streams.net import net_of
from taccl.encoding.engines.streams.tuning import MOST_KINDS
from taccl.encoding.instance import Instance
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def rooted(name: str, topology: LogicalTopology, chunks: int, size_mb: float = 1.0) -> Problem:
    return Problem(topology, make_collective(name, topology.num_ranks, chunks), size_mb / chunks)


def found(problem: Problem, effort: int = 200) -> list[Schedule]:
    updates = streams(Instance(problem), SearchOptions(effort=effort), Budget.of_work(effort), None)
    return [update.schedule for update in updates if update.schedule is not None]


def crossing(schedule: Schedule) -> np.ndarray:
    """The chunks that go from node to node, once for each time."""
    node_of = schedule.problem.topology.node_of
    return schedule.chunk[node_of[schedule.src] != node_of[schedule.dst]]


# Which chunk goes where.


@pytest.mark.parametrize(("ranks", "chunks"), [(4, 8), (8, 16), (16, 32)])
def test_behind_one_switch_chunks_take_about_a_step_each_and_as_many_as_doubling_needs(
    ranks: int, chunks: int
) -> None:
    large = replace(rooted("broadcast", switch(ranks), chunks, float(chunks)), max_group=1)
    step_us, fewest = 2.0, chunks - 1 + int(np.log2(ranks))
    steps = found(large)[-1].makespan_us / step_us
    assert fewest <= steps <= 1.15 * fewest + 1


@pytest.mark.parametrize("once", [False, True])
def test_a_roots_node_may_send_out_what_is_new_before_it_sends_anything_out_again(once: bool) -> None:
    """Three other nodes want each chunk: an idle NIC sends one again, if it may not wait for the next."""
    problem = rooted("broadcast", railed_nodes(4, 4), 32, 32.0)
    net = net_of(problem, Instance(problem).distances_us, root=0)
    chunk, link, start_us, _, _ = disseminated(
        net, 32, 0, Style(True, 0.01, 1, once, -np.inf, seed=0), math.inf
    )
    leaves = net.leaves[link]
    chunks, first = np.unique(chunk[leaves], return_index=True)
    assert chunks.tolist() == list(range(32))
    before = chunk[leaves][start_us[leaves] < start_us[leaves][first].max()]
    assert (len(before) == len(np.unique(before))) == once


def test_a_node_fetches_each_chunk_once_and_spreads_it_inside() -> None:
    for schedule in found(rooted("broadcast", railed_nodes(3, 4), 16)):
        chunks, times = np.unique(crossing(schedule), return_counts=True)
        assert (len(chunks), set(times)) == (16, {2})


def test_a_busy_root_sends_each_chunk_out_once_and_another_node_brings_it_back() -> None:
    # Every rank has one way out and one way in; 0 and 1 are a node, 2 and 3 another one, a little farther.
    node_of = [0, 0, 1, 1]
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    links = [(a, b, 1.0 if node_of[a] == node_of[b] else 1.2, 1.0) for a, b in pairs]
    ports = [
        [at for at, pair in enumerate(pairs) if pair[end] == rank] for end in (0, 1) for rank in range(4)
    ]
    large = rooted("broadcast", machine(4, links, shared=ports, node_of=node_of), 64, 64.0)
    fastest = found(large)[-1]
    assert (fastest.src == 0).sum() <= 1.1 * 64  # twice, if 1 had all from its neighbour
    assert {node_of[rank] for rank in fastest.src[fastest.dst == 1]} == {0, 1}


def test_the_first_chunk_into_each_part_of_a_torus_comes_before_all_that_is_spread_there() -> None:
    fastest = found(rooted("broadcast", torus(4, 4), 64, 64.0))[-1]
    order = np.argsort(fastest.start_us, kind="stable")
    first = fastest.chunk[order][fastest.src[order] == 0][:4]
    assert len(set(first.tolist())) == 4  # four new ones, over the four links


def test_chunks_that_only_their_receiver_waits_for_go_as_one_where_alphas_are_large() -> None:
    # Two ranks of which the second has a leaf: what feeds the leaf goes alone, what ends there may wait.
    chain = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 4.0, 1.0)])
    fastest = found(rooted("broadcast", chain, 16, 16.0))[-1]
    groups = {end: np.bincount(fastest.group[fastest.dst == end]).max() for end in (1, 2)}
    assert groups[1] == 1
    assert groups[2] > 1


@pytest.mark.parametrize("name", ["broadcast", "reduce", "scatter", "gather"])
def test_nics_that_have_nothing_better_to_do_help_another_node_at_the_end(name: str) -> None:
    """Two nodes of eight: the first is there after 5, and would take three steps more; with help, two."""
    pairs = [(a, b) for a in range(16) for b in range(16) if a != b and (a // 8 == b // 8 or a % 8 == b % 8)]
    links = [(a, b, 1.0 if a // 8 == b // 8 else 5.0, 1.0) for a, b in pairs]
    ports = [
        [at for at, pair in enumerate(pairs) if pair[end] == rank and pair[0] // 8 == pair[1] // 8]
        for end, rank in product((0, 1), range(16))
    ]
    nodes = machine(16, links, shared=ports, node_of=[rank // 8 for rank in range(16)])
    small = replace(problem(nodes, name, chunk_mb=1e-4), max_group=100)
    assert found(small)[-1].makespan_us == pytest.approx(5 + 2, abs=0.1)


def test_no_send_is_larger_than_the_machine_lets_it_be() -> None:
    chain = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 4.0, 1.0)])
    for schedule in found(replace(rooted("broadcast", chain, 16, 16.0), max_group=2)):
        schedule.check()


def test_long_ways_take_time_at_every_rank_so_many_chunks_are_left_alone() -> None:
    """Each chunk comes nearer to each of 300 ranks up to 150 times; what one takes tells what 64 do."""
    long = ring(300, both=True)
    assert found(rooted("broadcast", long, 1), effort=100)
    assert not found(rooted("broadcast", long, 64), effort=100)


def test_data_of_one_root_begins_with_one_pipeline_where_that_is_soon_there() -> None:
    """On a ring of 400 one chunk takes a moment; 256 would take minutes, and others have to begin."""

    def at_once(chunks: int) -> list[Schedule | None]:
        instance = Instance(rooted("reduce", ring(400, both=True), chunks))
        assert next(first_engines(instance)).name == "streams"
        updates = streams_at_once(instance, SearchOptions(), Budget.of_work(1), None)
        return [update.schedule for update in updates]

    (first,) = at_once(1)
    assert first is not None
    first.check()
    assert not at_once(256)


def test_one_machine_code_serves_copies_and_parts() -> None:
    """Another type of an argument would be compiled anew, which takes most of a short time limit."""
    assert found(rooted("broadcast", ring(4), 2)) and found(rooted("scatter", ring(4), 1))
    assert {str(types[-1]) for types in disseminated.signatures} == {"float64"}


def test_a_pipeline_that_takes_too_many_looks_is_left_off() -> None:
    mesh = Instance(rooted("broadcast", torus(8, 8), 64))
    net = net_of(mesh.problem, mesh.distances_us, 0)
    style = Style(False, 0.0, 1, False, -math.inf, 0)
    chunk, *_, looks = disseminated(net, 64, 0, style, math.inf)
    assert len(chunk) == 64 * 63
    cut_short, *_, took = disseminated(net, 64, 0, style, looks / 4)
    assert not len(cut_short) and took < looks / 2


def test_without_time_for_a_first_pipeline_there_is_none() -> None:
    assert not found(rooted("broadcast", ring(64, both=True), 64), effort=1)


def test_parts_on_ways_of_more_links_than_calls_may_be_nested_are_left_out() -> None:
    assert found(rooted("scatter", ring(190), 1), effort=2000)
    assert not found(rooted("scatter", ring(210), 1), effort=2000)


def test_ports_that_take_no_time_may_all_be_free_again_at_one_moment() -> None:
    """Twelve links out of the root have two such ports each, next to one of their own."""
    links = [(0, rank, 1.0, 1.0) for rank in range(1, 13)] + [(rank, 0, 1.0, 1.0) for rank in range(1, 13)]
    shared = [list(range(12))] * 2
    star = machine(13, links, "pipelined", shared, rates=[0.0, 0.0])
    (*_, best) = found(rooted("broadcast", star, 1))
    best.check()
    assert best.makespan_us == pytest.approx(2.0)


def test_there_is_no_pipeline_to_a_rank_out_of_reach() -> None:
    cut_off = machine(3, [(0, 1, 1.0, 1.0), (2, 1, 1.0, 1.0)])
    assert "out of reach" in serves(Instance(rooted("broadcast", cut_off, 4))).reason


def test_the_same_seed_makes_the_same_schedule() -> None:
    times = [[each.makespan_us for each in found(rooted("broadcast", full(5), 16))] for _ in range(2)]
    assert times[0] == times[1]


# Schedules.


@pytest.mark.parametrize(
    ("topology", "ways_out"),
    [(ring(6), 1), (torus(4, 4), 4), (full(5), 4)],
    ids=["ring:6", "torus:4x4", "full:5"],
)
def test_many_chunks_take_little_longer_than_the_root_needs_to_send_them_out(
    topology: LogicalTopology, ways_out: int
) -> None:
    large = rooted("broadcast", topology, 128, 128.0)
    fastest = found(large)[-1]
    fastest.check()
    hop_us = float(topology.duration_us(np.array([0]), large.chunk_mb)[0])
    # All chunks leave by all ways, and the last one goes round.
    assert fastest.makespan_us <= (128 / ways_out + topology.num_ranks) * hop_us + 1e-6


def test_a_reduce_is_a_broadcast_read_backwards() -> None:
    times = [found(rooted(name, ring(4), 32))[-1].makespan_us for name in ("broadcast", "reduce")]
    assert times[0] == pytest.approx(times[1])


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([1, 3]))
def test_sums_take_as_long_as_copies_whose_ports_are_busy_to_the_end(
    seed: int, chunks: int, most: int
) -> None:
    """Also where ports are faster than links, so that these copies would not be a schedule."""
    small = rooted("reduce", random_network(random.Random(seed)), chunks)
    assume((small.topology.pair_betas > 0).all())  # else one moment has several orders
    turned = Instance(small).copying
    far_us, kind = turned.distances_by_limits
    net = net_of(turned.problem, far_us[kind[0]], 0, to_the_end=True)
    style = Style(counts_root=False, even=0.0, most=most, once=False, help_us=-np.inf, seed=seed)
    chunk, link, start_us, send, _ = disseminated(net, chunks, 0, style, math.inf)
    starts_us = start_us[np.flatnonzero(np.diff(send, prepend=-1))]
    copies = of_columns(turned.problem, chunk, link, starts_us, np.zeros(len(chunk), np.bool_), send)
    sums = as_sums(small, copies)
    sums.check()
    assert sums.makespan_us <= copies.makespan_us + TOLERANCE_US


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 31, 32, 33, 70]), st.sampled_from([0.0, 50.0]))
def test_which_chunks_a_link_looks_at_changes_nothing(seed: int, chunks: int, help_us: float) -> None:
    """Links of a kind look at the chunks that no holder is nearer with; in one kind, they look at more."""
    small = rooted("broadcast", random_network(random.Random(seed)), chunks)
    net = net_of(small, Instance(small).distances_us, root=0)
    alike = net._replace(kind=np.zeros_like(net.kind), kind_us=np.zeros(1))
    style = Style(counts_root=False, even=0.01, most=2, once=False, help_us=help_us, seed=seed)
    columns, same = (disseminated(each, chunks, 0, style, math.inf)[:4] for each in (net, alike))
    assert all((one == other).all() for one, other in zip(columns, same, strict=True))


def test_links_that_take_about_as_long_are_of_one_kind() -> None:
    many = machine(40, [(0, rank, 1.0 + rank, 1.0) for rank in range(1, 40)])
    small = rooted("broadcast", many, 1)
    net = net_of(small, Instance(small).distances_us, root=0)
    assert 1 < len(net.kind_us) <= MOST_KINDS < 39
    assert (net.kind_us[net.kind] <= net.hop_us).all()


@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall", "reducescatter"])
def test_it_is_for_one_root(name: str) -> None:
    verdict = serves(Instance(problem(ring(4), name)))
    assert not verdict
    assert "of one rank, or for one rank" in verdict.reason


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(0, 10_000), st.sampled_from(["broadcast", "reduce", "scatter", "gather"]), st.integers(1, 9)
)
def test_every_schedule_is_valid(seed: int, name: str, chunks: int) -> None:
    small = rooted(name, random_network(random.Random(seed)), chunks)
    if serves(Instance(small)):
        for schedule in found(small):
            schedule.check()


def test_the_best_number_of_chunks_is_found_without_a_trial_of_each() -> None:
    numbers = (1, 2, 4, 8, 16, 32, 64)
    instances = [Instance(rooted("broadcast", two_nodes(), number, 64.0)) for number in numbers]
    schedules = list(across_chunks(instances, Budget.of_work(400)))
    alone = {number: found(rooted("broadcast", two_nodes(), number, 64.0)) for number in numbers}
    least_us = min(each[-1].makespan_us for each in alone.values())
    assert schedules[-1].makespan_us <= 1.05 * least_us
