"""Which engines take part, and in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_problems import machine, problem, ring

from taccl import make_problem
from taccl.encoding.engines.engine import Need, no
from taccl.encoding.engines.registry import ENGINES, engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.contenders import contenders_for
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.lineup import Lineup, explained, has_two_levels, lineup_for
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem

SMALL = Instance(problem(ring(3), "allgather"))
LARGE = Instance(make_problem("allgather", topology="dgx2", nodes=2, size="32MB", chunks=2).problem)


def names(lineup: Lineup, instance: Instance) -> list[str]:
    return [engine.name for engine in lineup.in_turn(instance)]


def roles(lineup: Lineup, instance: Instance) -> list[str]:
    return [engine.role for engine in lineup.in_turn(instance)]


def test_all_engines_take_part_in_auto() -> None:
    assert set(names(lineup_for(None), SMALL)) == {engine.name for engine in ENGINES}


def test_builders_come_first_and_a_search_of_all_schedules_last_but_where_a_proof_is_near() -> None:
    auto = lineup_for(None)
    in_order = {"first": 0, "improve": 1, "prove": 2}
    assert sorted(roles(auto, LARGE), key=in_order.__getitem__) == roles(auto, LARGE)
    in_order = {"first": 0, "prove": 1, "improve": 2}
    assert sorted(roles(auto, SMALL), key=in_order.__getitem__) == roles(auto, SMALL)


def test_who_is_asked_for_has_its_parts_and_what_runs_always_beside_it() -> None:
    assert names(lineup_for(engine_named("combining")), SMALL) == [
        "textbook",
        "combining",
        "exchange",
        "owners",
    ]
    assert names(lineup_for(engine_named("textbook")), SMALL) == ["textbook", "part-of-books"]


def test_what_an_engine_needs_counts_only_where_it_was_not_asked_for() -> None:
    greedy = replace(engine_named("greedy"), needs=(Need("luck", lambda _: no("no luck")),))
    assert lineup_for(None).verdict(greedy, SMALL).reason == "no luck"
    assert lineup_for(greedy).verdict(greedy, SMALL)


@pytest.mark.parametrize(
    ("collective", "levels"), [("allgather", False), ("reducescatter", False), ("allreduce", True)]
)
def test_engines_that_only_copy_have_rounds_of_their_own_where_there_are_two_phases(
    collective: str, levels: bool
) -> None:
    instance = Instance(problem(ring(3), collective))
    assert has_two_levels(instance) is levels
    parts = {row.part for row in explained(instance, lineup_for(None))}
    assert parts == ({"whole", "reduce phase", "broadcast phase"} if levels else {"whole"})


def test_without_helpers_all_engines_run_on_a_problem_that_has_some() -> None:
    ends = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)]
    topology = replace(machine(4, [(a, b, 1.0, 1.0) for a, b in ends]), is_helper=np.arange(4) == 3)
    requested = Problem(topology, make_collective("allreduce", 3).with_helpers(1), 1.0)
    instance = Instance(requested)
    rows = {(row.part, row.engine): row.reason for row in explained(instance, lineup_for(None))}
    assert not rows["members", "textbook"] and not rows["reduce phase", "greedy"]
    assert "knows no helpers" in rows["whole", "textbook"]
    contenders = contenders_for(instance, lineup_for(None), Journal())
    assert contenders[-1].name == "members"
    assert contenders[-1].weight == len(contenders) - 1  # half of the time


def test_a_row_says_why_an_engine_does_not_run() -> None:
    rows = {row.engine: row for row in explained(SMALL, lineup_for(None))}
    assert not rows["greedy"].reason
    assert "a node is all there is" in rows["hierarchical"].reason
