"""The one list scheduler, on sends that are small enough to follow by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from small_problems import machine, problem, ring

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.scheduler import (
    Detours,
    SendGraph,
    Sends,
    durations_us,
    graph_of,
    matched,
    pipelined,
    sends_of_rows,
    sends_that_wait,
    starts_in_sequence,
    tails_us,
)
from taccl.support.jit import ahead_of_time


@pytest.fixture(params=["as it stands", "machine code"], autouse=True)
def _both(request: pytest.FixtureRequest):
    """Every loop says the same compiled and as it stands."""
    if request.param == "as it stands":
        yield
        return
    with ahead_of_time():
        yield


def sends(
    links: Sequence[int], before: Sequence[Sequence[int]], ready: Sequence[float] | None = None
) -> Sends:
    """Sends of 1 MB each."""
    many = len(links)
    ready_us = np.zeros(many) if ready is None else np.array(ready)
    return sends_that_wait(np.array(links), np.ones(many), ready_us, before)


def own_ports(num_links: int) -> Costs:
    """A one-way ring, whose links share no port: a chunk of 1 MB takes 1 us."""
    return costs_of(ring(num_links, 0.0))


def starts(graph: SendGraph, costs: Costs, key: Sequence[float], **how: object) -> list[float]:
    return pipelined(graph, costs, np.array(key), **how).start_us.tolist()


def test_in_sequence_each_send_waits_for_its_port_and_for_what_it_needs() -> None:
    line = sends([0, 0, 1, 1], [[], [], [1], [0]])
    assert starts_in_sequence(line, own_ports(3)).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_of_two_that_want_a_link_the_less_key_goes_first() -> None:
    graph = graph_of(sends([0, 0, 1], [[], [], []]))
    assert starts(graph, own_ports(3), [5.0, 3.0, 4.0]) == [1.0, 0.0, 0.0]


def test_a_send_may_wait_for_the_start_of_another() -> None:
    """Two links with ports of their own; the last send follows the start, not the end, of the first."""
    both = sends([0, 1], [[], [2]])._replace(num_cells=4)
    graph = graph_of(both, signals=[[2], [3]])
    assert starts(graph, own_ports(3), [0.0, 1.0]) == [0.0, 0.0]


def test_nothing_leaves_before_its_input_is_ready() -> None:
    graph = graph_of(sends([0, 0], [[], []], [4.0, 0.0]))
    assert starts(graph, own_ports(3), [0.0, 1.0]) == [4.0, 0.0]
    assert matched(graph, own_ports(3), np.ones(2)).start_us.tolist() == [4.0, 0.0]
    assert starts_in_sequence(graph.sends, own_ports(3)).tolist() == [4.0, 5.0]


def test_tails_are_the_longest_way_that_follows_with_what_follows_the_last() -> None:
    graph = graph_of(sends([0, 1, 2], [[], [0], [0]]), np.array([0.0, 0.0, 7.0]))
    assert tails_us(graph, durations_us(graph.sends, own_ports(3))).tolist() == [9.0, 1.0, 8.0]


def test_those_of_a_line_that_wait_go_as_one() -> None:
    """Three wait for a link; of the two that share a line one leads, and alpha is paid once."""
    costs = costs_of(ring(3, 1.0))
    graph = graph_of(sends([0, 0, 0], [[], [], []]))
    timed = pipelined(graph, costs, np.arange(3.0), most=2, line=np.array([0, 1, 0]))
    assert timed.start_us.tolist() == [0.0, 3.0, 0.0]
    assert timed.end_us.tolist() == [3.0, 5.0, 3.0]
    assert timed.leader.tolist() == [0, 1, 0]


def test_a_copy_takes_another_link_where_its_own_is_busy() -> None:
    """Two chunks go 0 -> 1, and from there to 2, slowly, and to 3: the second comes to 2 from 3."""
    topology = machine(4, [(0, 1, 0.0, 1.0), (1, 2, 0.0, 3.0), (1, 3, 0.0, 1.0), (3, 2, 0.0, 1.0)])
    copied = problem(topology, "broadcast", 2)
    chunk, link = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    columns, cells = sends_of_rows(copied, chunk, link, np.zeros(6, dtype=np.bool_))
    into = np.full((2, 4), -1)
    into[chunk, topology.dst[link]] = np.arange(6)
    detours = Detours(
        cells.chunk,
        cells.rank,
        np.zeros(len(cells.chunk)),
        chunk,
        into,
        there=np.zeros((2, 4), np.bool_),
        following=np.full(2, -1),
        kind=np.zeros(2, np.int64),
        allowed=np.ones((1, 4), np.bool_),
        first_out=np.array([0, 1, 3, 3, 4]),
        out=np.arange(4),
        src=np.array(topology.src),
        dst=np.array(topology.dst),
    )
    timed = pipelined(graph_of(columns), costs_of(topology), np.arange(6.0), detours=detours)
    assert timed.via.tolist() == [0, 1, 2, 0, 3, 2]
    assert timed.end_us.tolist() == [1.0, 4.0, 2.0, 2.0, 4.0, 3.0]


def test_what_meets_at_a_rank_is_summed_before_it_goes_on_and_copied_after() -> None:
    """An AllReduce of a line of three ranks, at rank 0: sums 2 -> 1 -> 0, copies 0 -> 1 -> 2."""
    topology = machine(3, [(2, 1, 0.0, 1.0), (1, 0, 0.0, 1.0), (0, 1, 0.0, 1.0), (1, 2, 0.0, 1.0)])
    reduced = problem(topology, "allreduce")
    rows = np.zeros(4, np.int64), np.arange(4), np.array([True, True, False, False])
    columns, _ = sends_of_rows(reduced, *rows)
    assert starts(graph_of(columns), costs_of(topology), [0.0] * 4) == [0.0, 1.0, 2.0, 3.0]
    backwards, _ = sends_of_rows(reduced, rows[0], rows[1], ~rows[2], backwards=True)
    assert starts(graph_of(backwards), costs_of(topology), [0.0] * 4) == [3.0, 2.0, 1.0, 0.0]


def test_as_many_go_together_as_can() -> None:
    """Ranks 0 and 1 send to 2 and 3, each through one port: 0 may send to both, 1 only to 2."""
    topology = machine(4, [(0, 2, 0.0, 1.0), (0, 3, 0.0, 1.0), (1, 2, 0.0, 1.0)])
    switched = replace(
        topology,
        ports=((0, 2), (0, 3), (1, 2)),
        port_betas=((1.0, 1.0),) * 3,
        port_names=("out of 0", "out of 1", "into 2", "into 3"),
    )
    graph = graph_of(sends([0, 1, 2], [[], [], []]))
    timed = matched(graph, costs_of(switched), np.array([3.0, 2.0, 1.0]))
    assert timed.start_us.tolist() == [1.0, 0.0, 0.0]


def test_sizes_count_in_every_order() -> None:
    unequal = replace(problem(ring(2, 0.0), "alltoall"), sizes=np.array([1.0, 3.0, 5.0, 1.0]))
    columns, _ = sends_of_rows(unequal, np.array([1]), np.array([0]), np.zeros(1, dtype=np.bool_))
    graph, costs = graph_of(columns), costs_of(unequal.topology)
    for timed in (pipelined(graph, costs, np.zeros(1)), matched(graph, costs, np.ones(1))):
        assert timed.end_us.tolist() == [3.0 * unequal.chunk_mb]


def test_a_long_pipeline_stops_to_look_and_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taccl.encoding.core.scheduler.pipeline.PIPELINE_LOOKS", 3)
    in_a_row = graph_of(sends([0] * 40, [[]] * 40))
    looks: list[int] = []
    with ahead_of_time():
        assert starts(in_a_row, own_ports(3), range(40), look=lambda: looks.append(1)) == [*range(40)]
        assert len(looks) > 5
        with pytest.raises(ZeroDivisionError):
            starts(in_a_row, own_ports(3), range(40), look=lambda: 1 // 0)
