"""Along shortest ways: what goes over a link in a step goes at once, also where few ranks are linked."""

from __future__ import annotations

import pytest
from small_problems import full, machine, problem, ring
from textbook_machines import all_built, torus

from taccl.encoding.engines.textbook.engine import by_name
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem

NAME = "along shortest ways"


def hub(ranks: int) -> LogicalTopology:
    """Rank 0 linked to and from all others; alpha 1, beta 1."""
    links = [(0, rank, 1.0, 1.0) for rank in range(1, ranks)]
    return machine(ranks, links + [(dst, src, *cost) for src, dst, *cost in links])


def time_us(stated: Problem) -> float:
    schedule = by_name(Instance(stated), NAME)
    assert schedule is not None
    schedule.check()
    return schedule.makespan_us


@pytest.mark.parametrize("ranks", [5, 40])
def test_on_a_hub_each_spoke_sends_once_up_and_the_hub_once_down(ranks: int) -> None:
    """Alpha is 1, and a chunk takes 0.001; what the hub has itself goes ahead in a send of its own step."""
    exchanged = problem(hub(ranks), "alltoall", chunk_mb=1e-3, max_group=10_000)
    others_us = 1 + 1e-3 * (ranks - 2)
    assert 2 * others_us <= time_us(exchanged) <= 2 * others_us + 1.001 + 1e-9
    gathered = problem(hub(ranks), "allgather", chunk_mb=1e-3, max_group=10_000)
    assert time_us(gathered) == pytest.approx(1.001 + others_us)


@pytest.mark.parametrize("collective", ["alltoall", "allgather"])
@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("topology", [ring(4), torus(3, 3), hub(4)], ids=["ring", "torus", "hub"])
def test_schedules_are_valid(collective: str, chunks: int, topology: LogicalTopology) -> None:
    assert time_us(problem(topology, collective, chunks)) > 0


def test_sums_for_one_rank_each_are_made_backwards() -> None:
    assert NAME in {name.partition(", ")[0] for name in all_built(problem(hub(5), "reducescatter"))}


def test_what_is_direct_anyway_is_in_other_books() -> None:
    with pytest.raises(KeyError):
        time_us(problem(hub(5), "gather"))


@pytest.mark.parametrize("topology", [full(4), ring(12)], ids=["direct", "long"])
def test_where_all_are_linked_or_ways_are_long_others_do_better(topology: LogicalTopology) -> None:
    assert NAME not in {name.partition(", ")[0] for name in all_built(problem(topology, "alltoall"))}


def test_of_two_ways_the_faster_one_is_taken_though_it_has_more_links() -> None:
    slow = [(0, 2, 9.0, 1.0), (0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)]
    triangle = machine(
        4, [*slow, *((b, a, *cost) for a, b, *cost in slow), (2, 3, 1.0, 1.0), (3, 2, 1.0, 1.0)]
    )
    (made,) = [by_name(Instance(problem(triangle, "alltoall", chunk_mb=1e-3)), NAME)]
    assert made is not None
    used = {(int(src), int(dst)) for src, dst in zip(made.src, made.dst, strict=True)}
    assert (0, 2) not in used and (0, 1) in used and (1, 2) in used
