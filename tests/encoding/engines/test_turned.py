"""A Scatter is answered as the Gather that it is backwards, where nothing else is requested of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from small_problems import full, problem, ring
from textbook_machines import railed_nodes, torus

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines import greedy, textbook
from taccl.encoding.engines.engine import Engine, Run, everything
from taccl.encoding.engines.turned import turned
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.support.budget import Budget

OPTIONS = SearchOptions(effort=100)


def engine(run: Run) -> Engine:
    """One that is turned, with the answers of textbooks for several cuts and for files."""
    return turned(
        Engine(
            *("tested", "for tests", frozenset(), everything, run),
            across_chunks=textbook.fastest,
            several=textbook.fastest_valid,
        )
    )


def last(run: Run, stated: Problem) -> Schedule:
    updates = run(Instance(stated), OPTIONS, Budget.of_work(100), None)
    schedules = [update.schedule for update in updates if update.schedule is not None]
    for schedule in schedules:
        schedule.check()
        assert schedule.problem is stated
    return schedules[-1]


@pytest.mark.parametrize("run", [greedy.greedy, textbook.textbook])
@pytest.mark.parametrize("machine", [ring(5), torus(3, 3), railed_nodes(2, 4)])
def test_a_scatter_takes_as_long_as_the_gather(run: Run, machine: object) -> None:
    scatter = last(engine(run).run, problem(machine, "scatter"))
    assert scatter.makespan_us == pytest.approx(last(run, problem(machine, "gather")).makespan_us)


def test_other_demands_and_what_is_requested_besides_go_as_they_are() -> None:
    seen = list[Instance]()

    def run(instance: Instance, *_: object) -> Iterator[Update]:
        seen.append(instance)
        yield Update("seen", lower_bound_us=1.0)

    machine = ring(4)
    symmetric = problem(machine, "scatter", symmetry=[[0, 3, 2, 1]])
    plain = [problem(machine, name) for name in ("gather", "broadcast", "alltoall")]
    ordered = replace(plain[0], collective=problem(machine, "scatter").collective, sizes=np.arange(1.0, 5.0))
    for stated in (*plain, symmetric, ordered):
        instance = Instance(stated)
        (update,) = engine(run).run(instance, OPTIONS, Budget.of_work(1), None)
        assert (seen.pop() is instance, update.lower_bound_us) == (True, 1.0)


def test_a_copy_that_nobody_needs_is_no_part_of_what_an_engine_begins_with() -> None:
    """Read backwards it would be a chunk that its sender never had."""
    stated, known = problem(full(3), "scatter"), list[Schedule]()

    def run(
        instance: Instance, options: SearchOptions, budget: Budget, schedule: Schedule
    ) -> Iterator[Update]:
        schedule.check()
        known.append(schedule)
        yield from ()

    link = stated.topology.link_index
    sends = [Send((1,), link[0, 1], 0.0), Send((1,), link[1, 2], 2.0), Send((2,), link[0, 2], 0.0)]
    incumbent = schedule_from_sends(stated, sends)
    incumbent.check()
    assert not list(engine(run).run(Instance(stated), OPTIONS, Budget.of_work(1), incumbent))
    assert [len(schedule) for schedule in known] == [2]


def test_several_cuts_and_several_schedules_are_answered_backwards_too() -> None:
    cuts = [Instance(problem(torus(3, 3), "scatter", chunks)) for chunks in (1, 2)]
    across, several = engine(textbook.textbook).across_chunks, engine(textbook.textbook).several
    assert across is not None
    assert several is not None
    found = [*across(cuts, Budget.of_work(100)), *several(cuts[0], Budget.of_work(100), 3)]
    assert {id(schedule.problem) for schedule in found} <= {id(cut.problem) for cut in cuts}
    for schedule in found:
        schedule.check()
