"""A Gather is what an AllGather brings to one rank, a Broadcast what an AllReduce does with its part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_problems import full, problem
from textbook_machines import railed_nodes, torus

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines import hierarchical, textbook
from taccl.encoding.engines.part_of_all import across_part_of, part_of, serves_part_of
from taccl.encoding.engines.registry import first_engines
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

serves = serves_part_of(hierarchical.serves)


def last(run: hierarchical.Run, stated: Problem) -> Schedule:
    updates = run(Instance(stated), SearchOptions(effort=100), Budget.of_work(100), None)
    return [update.schedule for update in updates if update.schedule is not None][-1]


def there_and_back(
    build: hierarchical.Run, machine: LogicalTopology, names: tuple[str, str], chunks: int
) -> Schedule:
    """The part of what is built for a whole; it is valid, and so is the same backwards, as long."""
    part, back = (last(part_of(build), problem(machine, name, chunks)) for name in names)
    part.check()
    back.check()
    assert back.makespan_us == pytest.approx(part.makespan_us)
    return part


@pytest.mark.parametrize(("nodes", "size", "chunks"), [(2, 4, 1), (3, 2, 2), (4, 4, 2)])
def test_a_gather_takes_no_longer_than_the_allgather_and_a_scatter_as_long(
    nodes: int, size: int, chunks: int
) -> None:
    machine = railed_nodes(nodes, size)
    whole = last(hierarchical.hierarchical, problem(machine, "allgather", chunks))
    gather = there_and_back(hierarchical.hierarchical, machine, ("gather", "scatter"), chunks)
    assert gather.makespan_us <= whole.makespan_us
    assert len(gather) < len(whole)


@pytest.mark.parametrize(
    ("machine", "chunks"), [(railed_nodes(2, 4), 8), (railed_nodes(3, 2), 12), (torus(3, 3), 9)]
)
def test_a_broadcast_takes_no_longer_than_the_allreduce_and_a_reduce_as_long(
    machine: LogicalTopology, chunks: int
) -> None:
    whole = last(textbook.textbook, problem(machine, "allreduce", chunks // machine.num_ranks))
    broadcast = there_and_back(textbook.textbook, machine, ("broadcast", "reduce"), chunks)
    assert broadcast.makespan_us <= whole.makespan_us
    assert len(broadcast) == chunks * (machine.num_ranks - 1)


def test_of_sums_that_go_all_ways_the_first_copy_to_come_is_kept() -> None:
    """Of two ranks that exchange whole buffers, rank 0 sends what it has, and rank 1 nothing."""
    stated = problem(full(2), "broadcast", 2)
    schedule = last(part_of(textbook.textbook), stated)
    assert schedule.src.tolist() == [0, 0]
    assert schedule.makespan_us == pytest.approx(1 + 2)


def test_several_numbers_of_chunks_are_served_where_ranks_divide_them() -> None:
    machine = railed_nodes(2, 2)
    cuts = [Instance(problem(machine, "broadcast", chunks, chunk_mb=8 / chunks)) for chunks in (1, 4, 6, 8)]
    across = across_part_of(textbook.serves, textbook.fastest)
    found = list(across(cuts, Budget.of_work(1000)))
    assert {schedule.problem.num_chunks for schedule in found} <= {4, 8}
    times_us = [schedule.makespan_us for schedule in found]
    assert times_us and times_us == sorted(times_us, reverse=True)
    for schedule in found:
        schedule.check()


def test_nothing_is_yielded_that_is_no_faster_than_what_there_is() -> None:
    stated, part = problem(railed_nodes(2, 4), "gather"), part_of(hierarchical.hierarchical)
    known = last(part, stated)
    assert not list(part(Instance(stated), SearchOptions(effort=100), Budget.of_work(100), known))


def test_it_is_for_equal_parts_of_one_root_where_the_whole_is_served() -> None:
    machine = railed_nodes(2, 4)
    assert serves(Instance(problem(machine, "gather")))
    assert serves(Instance(problem(machine, "scatter", 2)))
    assert serves(Instance(problem(machine, "broadcast", 8)))
    assert serves(Instance(problem(machine, "reduce", 16)))
    assert "unequal parts" in serves(Instance(problem(machine, "broadcast", 4))).reason
    for name in ("alltoall", "allreduce", "allgather"):
        assert "one rank" in serves(Instance(problem(machine, name))).reason
    assert "clusters" in serves(Instance(problem(torus(2, 2), "gather"))).reason
    own_first = RoutingLimits(own_first=np.ones(machine.num_links, dtype=np.bool_))
    for name, chunks in (("gather", 1), ("broadcast", 8)):
        assert "order" in serves(Instance(problem(machine, name, chunks, limits=own_first))).reason
    unequal = replace(problem(machine, "gather"), sizes=tuple([1.0] * 7 + [2.0]))
    assert "unequal" in serves(Instance(unequal)).reason


def test_the_first_schedule_of_large_parts_on_many_nodes_is_that_of_an_allgather() -> None:
    """List scheduling is first where it is quick, and what all have or want is no such part."""
    nodes = railed_nodes(16, 8)
    first = {
        name: [engine.name for engine in first_engines(Instance(problem(nodes, name)))]
        for name in ("gather", "scatter", "broadcast")
    }
    assert first["gather"].index("part-of-all") < first["gather"].index("textbook")
    assert first["scatter"].index("part-of-all") < first["scatter"].index("textbook")
    assert "part-of-all" not in first["broadcast"][: first["broadcast"].index("textbook")]
