"""What a search notes of its engines: on which part each worked, and how long it took by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from small_problems import problem, ring, two_nodes

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import EngineRun, Journal
from taccl.encoding.portfolio.solve import solve
from taccl.support.budget import Budget

#: Milliseconds that a turn itself costs, where work is counted.
A_TURN_S = 0.002


def busy(budget: Budget, *units: float) -> Iterator[Update]:
    """An engine that works so much before each update."""
    for each in units:
        budget.spend(each)
        yield Update("busy")


def seconds(journal: Journal) -> dict[tuple[str, str], float]:
    return {(run.part, run.name): run.seconds for run in journal.runs}


def test_the_seconds_of_an_engine_are_without_those_of_engines_that_it_asks() -> None:
    """Two streams are read in turns, as those of the phases are: while one waits, it takes no time."""
    journal, budget = Journal(), Budget.of_work(10_000)
    whole = Instance(problem(ring(4), "allreduce"))
    sums, copies = whole.phases.reduce_phase, whole.phases.broadcast_phase
    assert sums is not None
    assert copies is not None

    def outer() -> Iterator[Update]:
        first = journal.kept("inner", sums, budget, busy(budget, 100, 200))
        second = journal.kept("inner", copies, budget, busy(budget, 1000, 2000))
        for stream in (first, second, first, second):
            budget.spend(10)
            yield next(stream)
        assert next(first, None) is None
        assert next(second, None) is None

    began_s = budget.read_s()
    for _ in journal.kept("outer", whole, budget, outer()):
        budget.spend(5000)  # whoever listens takes his time, which is no engine's
    assert seconds(journal) == pytest.approx(
        {
            ("whole", "outer"): 0.04 + 2 * A_TURN_S,
            ("reduce phase", "inner"): 0.3,
            ("broadcast phase", "inner"): 3.0,
        }
    )
    assert budget.read_s() - began_s == pytest.approx(3.34 + 4 * 5.0 + 3 * A_TURN_S)


def test_telling_what_was_spent_spends_nothing() -> None:
    budget = Budget.of_work(10)
    for _ in range(100):
        budget.read_s()
    assert budget.remaining_s() > 0


@pytest.mark.parametrize("machine", [ring(4), two_nodes()], ids=["ring", "two nodes"])
def test_both_phases_of_an_allreduce_have_rows_of_their_own_which_add_up_to_no_more_than_the_search(
    machine: object,
) -> None:
    journal, budget = Journal(), Budget.of_work(3_000)
    began_s = budget.read_s()
    small = problem(machine, "allreduce")
    *_, _ = solve(small, SearchOptions(engine="greedy", effort=3_000), journal, budget)
    rows = {(run.part, run.name): run for run in journal.runs}
    assert len(rows) == len(journal.runs)
    assert {("whole", "phases"), ("reduce phase", "greedy"), ("broadcast phase", "greedy")} <= set(rows)
    whole, parts = (
        rows["whole", "phases"],
        [rows[part, "greedy"] for part in ("reduce phase", "broadcast phase")],
    )
    assert whole.seconds > 0
    assert all(run.seconds >= 0 for run in parts)  # 0: the first schedule met the bound
    assert sum(run.seconds for run in journal.runs) <= budget.read_s() - began_s


def test_a_problem_without_sums_is_whole() -> None:
    journal = Journal()
    list(solve(problem(two_nodes(), "allgather"), SearchOptions(engine="greedy", effort=1_000), journal))
    assert {run.part for run in journal.runs} == {"whole"}


def test_a_bound_for_schedules_with_a_symmetry_alone_is_told_of_no_part() -> None:
    journal, budget = Journal(), Budget.of_work(100)
    small = Instance(problem(ring(4), "allreduce")).quotient_instance
    assert small is not None
    part = small.phases.reduce_phase
    assert part is not None
    for _ in journal.kept("engine", part, budget, iter([Update("sure", None, 7.0, "by symmetry")])):
        pass
    assert [replace(run, seconds=0.0) for run in journal.runs] == [
        EngineRun("engine", 0.0, part="reduce phase")
    ]
