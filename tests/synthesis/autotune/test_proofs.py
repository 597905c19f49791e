"""What one search proved counts for what another found, where it holds for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import taccl
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.stream import NOTHING
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.synthesis.autotune.file_choice import Searched
from taccl.synthesis.autotune.proofs import Gathered, gathered_of
from taccl.synthesis.autotune.trials import ChunksTried
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.search import Found
from taccl.topologies import load_topology
from tests.backend.small_schedules import executor_of

MACHINE = load_topology("ring:4")


@pytest.fixture(scope="module")
def found() -> Found:
    """In one chunk a rank; nothing is proved of it that would be better than what a test says."""
    made = taccl.synthesize("allgather", topology=MACHINE, size="4MB", chunks=1, file=False, effort=300).found
    return replace(made, lower_bound_us=1.0, bound_source="weak", any_chunks=NOTHING)


def searched(found: Found) -> Searched:
    formulated = Formulated(found.schedule.problem, MACHINE, None)
    return Searched(Configuration("Simple", 1), formulated, found, ((formulated, found),))


def problem_of(found: Found, network: LogicalTopology | None = None) -> Problem:
    problem = found.schedule.problem
    return replace(problem, topology=network or problem.topology)


def any_chunks(part: float, found: Found) -> Proof:
    return Proof(part * found.schedule.makespan_us, "any", "cut", holds_for_any_chunks=True)


def row(chunks: int, time_us: float) -> ChunksTried:
    return ChunksTried(chunks, 1024, time_us, 1.0, "weak", 0.0, "not faster so far")


def test_a_bound_that_another_search_proved_of_the_same_costs_is_one_of_the_schedule(found: Found) -> None:
    better = replace(found, lower_bound_us=0.6 * found.schedule.makespan_us, bound_source="strong")
    gathered = gathered_of(problem_of(found), [searched(found), searched(better)])
    assert gathered.of(found).lower_bound_us == better.lower_bound_us
    assert gathered.of(found).bound_source == "strong"


def test_what_holds_for_any_number_of_chunks_holds_for_each(found: Found) -> None:
    of_any = any_chunks(0.7, found)
    gathered = gathered_of(problem_of(found), [searched(found), searched(replace(found, any_chunks=of_any))])
    told = gathered.of(found)
    assert told.any_chunks is of_any and told.lower_bound_us == of_any.value_us
    slow = 2 * found.schedule.makespan_us
    assert [each.lower_bound_us for each in gathered.of_rows([row(1, slow), row(8, slow)])] == [
        of_any.value_us,
        of_any.value_us,
    ]


def test_a_bound_that_a_schedule_refutes_is_none_of_it_and_is_told(found: Found) -> None:
    wrong = any_chunks(1.2, found)
    told = Gathered(wrong, {1: wrong}).of(found)
    assert (told.lower_bound_us, told.any_chunks) == (found.lower_bound_us, found.any_chunks)
    (failure,) = told.failures
    assert failure.name == "bound cut" and "stands above a valid schedule" in failure.text
    fast, slow = Gathered(wrong).of_rows([row(1, found.schedule.makespan_us), row(2, 2 * wrong.value_us)])
    assert fast.lower_bound_us == 1.0 and slow.lower_bound_us == wrong.value_us


def test_bounds_by_higher_costs_hold_for_nothing_that_is_cheaper_and_the_other_way_round(
    found: Found,
) -> None:
    links = problem_of(found).topology
    slower = problem_of(found, replace(links, alpha_us=2 * links.alpha_us))
    assert gathered_of(problem_of(found), [searched(found)]).of_number[1].value_us == found.lower_bound_us
    assert gathered_of(slower, [searched(found)]).of_number[1].value_us == found.lower_bound_us
    assert not gathered_of(slower, [searched(found)]).fastest_us  # a time by lower costs is no time here
    faster = problem_of(found, replace(links, alpha_us=links.alpha_us / 2))
    assert not gathered_of(faster, [searched(found)]).of_number


def test_a_bound_for_schedules_that_keep_a_symmetry_is_none_for_others(found: Found) -> None:
    turned = replace(problem_of(found), symmetry=(np.array([1, 2, 3, 0]),))
    assert not gathered_of(turned, [searched(found)]).of_number
    same = replace(problem_of(found), symmetry=())
    assert gathered_of(same, [searched(found)]).of_number


def test_a_row_has_the_fastest_time_that_any_search_found_for_its_number(found: Found) -> None:
    gathered = gathered_of(problem_of(found), [searched(found)])
    (one,) = gathered.of_rows([row(1, 3 * found.schedule.makespan_us)])
    assert one.time_us == found.schedule.makespan_us


@pytest.mark.parametrize("chunks", [1, "auto"])
def test_no_bound_for_the_number_that_is_chosen_is_below_one_for_any(chunks: int | str) -> None:
    """Which of the searches found the schedule that gives the fastest file does not matter."""
    machine = replace(load_topology("switch:4"), executor=executor_of())
    result = taccl.synthesize("alltoall", topology=machine, size="4MB", chunks=chunks, file=False, effort=900)
    assert result.any_chunks.value_us > 0
    assert result.lower_bound_us >= result.any_chunks.value_us
    assert all(each.lower_bound_us >= result.any_chunks.value_us for each in result.chunks_tried)
