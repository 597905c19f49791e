"""A Gather is what an AllGather brings to one rank, and a Scatter the same backwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_problems import problem
from textbook_machines import railed_nodes, torus

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines import hierarchical
from taccl.encoding.engines.part_of_all import part_of, serves_part_of
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

serves = serves_part_of(hierarchical.serves)


def last(run: hierarchical.Run, stated: Problem) -> Schedule:
    updates = run(Instance(stated), SearchOptions(effort=100), Budget.of_work(100), None)
    return [update.schedule for update in updates if update.schedule is not None][-1]


@pytest.mark.parametrize(("nodes", "size", "chunks"), [(2, 4, 1), (3, 2, 2), (4, 4, 2)])
def test_a_gather_takes_no_longer_than_the_allgather_and_a_scatter_as_long(
    nodes: int, size: int, chunks: int
) -> None:
    machine = railed_nodes(nodes, size)
    whole = last(hierarchical.hierarchical, problem(machine, "allgather", chunks))
    part = part_of(hierarchical.hierarchical)
    gather, scatter = (last(part, problem(machine, name, chunks)) for name in ("gather", "scatter"))
    for schedule in (gather, scatter):
        schedule.check()
    assert gather.makespan_us <= whole.makespan_us
    assert scatter.makespan_us == pytest.approx(gather.makespan_us)
    assert len(gather) < len(whole)


def test_nothing_is_yielded_that_is_no_faster_than_what_there_is() -> None:
    stated, part = problem(railed_nodes(2, 4), "gather"), part_of(hierarchical.hierarchical)
    known = last(part, stated)
    assert not list(part(Instance(stated), SearchOptions(effort=100), Budget.of_work(100), known))


def test_it_is_for_equal_parts_of_one_root_where_the_allgather_is_served() -> None:
    machine = railed_nodes(2, 4)
    assert serves(Instance(problem(machine, "gather")))
    assert serves(Instance(problem(machine, "scatter", 2)))
    for name in ("alltoall", "broadcast", "allgather"):
        assert "one rank" in serves(Instance(problem(machine, name))).reason
    assert "clusters" in serves(Instance(problem(torus(2, 2), "gather"))).reason
    unequal = replace(problem(machine, "gather"), sizes=tuple([1.0] * 7 + [2.0]))
    assert "unequal" in serves(Instance(unequal)).reason
