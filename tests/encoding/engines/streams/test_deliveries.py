"""Scatter and Gather: which way each part takes, in which groups it goes, and how long all take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_problems import machine
from textbook_machines import railed_nodes, switch

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.streams import across_chunks, serves, streams
from taccl.encoding.engines.streams.deliveries import Deliveries, Groups
from taccl.encoding.engines.streams.paths import paths_of
from taccl.encoding.instance import Instance
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def parted(name: str, topology: LogicalTopology, chunks: int, part_mb: float = 1.0) -> Problem:
    """Each rank's part is of `part_mb`, cut into `chunks`."""
    return Problem(topology, make_collective(name, topology.num_ranks, chunks), part_mb / chunks)


def fastest_us(problem: Problem, effort: int = 2000) -> float:
    updates = streams(Instance(problem), SearchOptions(effort=effort), Budget.of_work(effort), None)
    schedules = [update.schedule for update in updates if update.schedule is not None]
    schedules[-1].check()
    return schedules[-1].makespan_us


def slow_nics(relays: int) -> LogicalTopology:
    """Rank 0 behind a fast port reaches relays, and over their ten times slower NICs one rank behind each."""
    links = [(0, 1 + relay, 1.0, 1.0) for relay in range(relays)]
    links += [(1 + relay, 1 + relays + relay, 1.0, 10.0) for relay in range(relays)]
    node_of = [0] * (relays + 1) + [1] * relays
    return machine(2 * relays + 1, links, shared=[list(range(relays))], node_of=node_of)


# Groups.


@pytest.mark.parametrize(
    ("groups", "lengths", "cut"),
    [
        (Groups(4, 1, 1), [4, 4, 4], [4, 4, 4]),  # a rank's chunks each
        (
            Groups(1, 2, 1),
            [8, 8],
            [1, 2, 5, 8],
        ),  # small ones first; what is left of a rank goes with the last
        (Groups(1, 1, 1), [4], [1, 1, 1, 1]),
        (Groups(4, 2, 4), [4, 4, 4, 4, 4], [4, 8, 8]),  # then several ranks together
        (Groups(8, 2, 2), [4, 4, 4, 4, 4], [8, 8, 4]),  # two at most
    ],
)
def test_groups_grow_and_hold_part_of_a_rank_or_several_ranks(
    groups: Groups, lengths: list[int], cut: list[int]
) -> None:
    assert list(groups.cut(lengths, 100)) == cut


@given(
    st.integers(1, 9),
    st.sampled_from([1.0, 1.5, 3.0]),
    st.integers(1, 4),
    st.lists(st.integers(1, 16), min_size=1, max_size=9),
    st.integers(1, 20),
)
def test_groups_hold_every_chunk_once_and_no_more_than_a_send_may(
    first: int, growth: float, ranks: int, lengths: list[int], most: int
) -> None:
    cut = list(Groups(first, growth, ranks).cut(lengths, most))
    assert sum(cut) == sum(lengths)
    assert all(0 < each <= most for each in cut)


# Ways.


def test_ways_leave_a_node_by_all_its_nics() -> None:
    problem = parted("scatter", railed_nodes(2, 4), 1)
    far_us = Instance(problem).distances_us[0]
    paths = paths_of(problem, far_us, 1, 0.0)
    across = [link for each in paths.values() for way in each for link in way]
    node_of, topology = problem.topology.node_of, problem.topology
    across = [link for link in across if node_of[topology.src[link]] != node_of[topology.dst[link]]]
    assert sorted(np.bincount(across)[np.unique(across)].tolist()) == [1, 1, 1, 1]


def test_parts_ride_along_where_an_alpha_counts() -> None:
    # Twelve ranks behind a switch want little: the root's port pays eleven alphas, or fewer of larger sends.
    problem = parted("scatter", switch(12), 1, 0.1)
    far_us = Instance(problem).distances_us[0]
    sends = [
        len({paths[0][0] for paths in paths_of(problem, far_us, 1, rides).values()}) for rides in (0.0, 0.5)
    ]
    assert sends[0] == 11 and sends[1] < 11


# Schedules.


def test_relays_are_fed_in_turn_so_that_all_are_busy_until_the_end() -> None:
    # One after another: 9 us each, and the last one's NIC has 81 us then.
    whole_us = fastest_us(parted("scatter", slow_nics(4), 1, 8.0))
    assert whole_us == pytest.approx(4 * 9.0 + 81.0)
    # A quarter of each first: the last NIC begins after 4 x 3 us, and has the rest after 4 x 7 us more.
    assert fastest_us(parted("scatter", slow_nics(4), 4, 8.0)) <= 4 * 3.0 + 4 * 7.0 + 61.0


def test_what_is_for_the_farthest_leaves_first() -> None:
    line = machine(4, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (2, 3, 1.0, 1.0)])
    problem = parted("scatter", line, 1)
    schedule = Deliveries(problem, paths_of(problem, Instance(problem).distances_us[0], 1, 0.0)).schedule(
        Groups(1, 1.0, 1)
    )
    leaves = schedule.chunk[schedule.src == 0][np.argsort(schedule.start_us[schedule.src == 0])]
    assert problem.collective.destination[leaves].tolist() == [3, 2, 1]
    assert schedule.makespan_us == pytest.approx(3 * 2.0)


@pytest.mark.parametrize("topology", [railed_nodes(3, 3), switch(6)], ids=["rails", "switch"])
@pytest.mark.parametrize("chunks", [1, 4])
def test_a_gather_is_a_scatter_read_backwards(topology: LogicalTopology, chunks: int) -> None:
    times = [fastest_us(parted(name, topology, chunks, 4.0)) for name in ("scatter", "gather")]
    assert times[0] == pytest.approx(times[1])


def test_all_cuts_share_their_ways_and_the_best_cut_is_found() -> None:
    instances = [Instance(parted("scatter", slow_nics(4), chunks, 8.0)) for chunks in (1, 2, 4, 8)]
    schedules = list(across_chunks(instances, Budget.of_work(2000)))
    assert schedules[-1].problem.collective.chunks_per_rank > 1
    assert schedules[-1].makespan_us <= min(fastest_us(each.problem) for each in instances) + 1e-9


def test_unequal_parts_and_machines_with_ranks_out_of_reach_are_for_others() -> None:
    cut_off = machine(3, [(0, 1, 1.0, 1.0), (2, 1, 1.0, 1.0)])
    assert "out of reach" in serves(Instance(parted("scatter", cut_off, 2))).reason
