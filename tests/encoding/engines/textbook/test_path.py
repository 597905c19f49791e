"""Paths: sides of a mesh, whose ends are not linked."""

from __future__ import annotations

import pytest

from taccl.api import make_problem
from taccl.encoding.engines.textbook.books import books_of
from taccl.encoding.engines.textbook.engine import by_name
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule


def on_mesh(collective: str, name: str, machine: str = "mesh:3x4", chunks: int = 1) -> Schedule:
    problem = make_problem(collective, topology=machine, size="1MB", chunks=chunks).problem
    schedule = by_name(Instance(problem), name)
    assert schedule is not None
    schedule.check()
    return schedule


@pytest.mark.parametrize(
    ("collective", "chunks_in_turn"),
    [
        ("allgather", [1, 1, 1, 4, 4]),  # along rows of four, then what a row has along columns of three
        ("alltoall", [9, 6, 3, 8, 4]),
    ],
)
def test_data_goes_straight_along_one_side_and_then_along_the_other(
    collective: str, chunks_in_turn: list[int]
) -> None:
    schedule = on_mesh(collective, "path along axis 1, then path along axis 0 of 3x4")
    a_chunk_us = schedule.problem.chunk_mb * 20.97152
    assert schedule.makespan_us == pytest.approx(sum(0.5 + chunks * a_chunk_us for chunks in chunks_in_turn))


@pytest.mark.parametrize("collective", ["allgather", "alltoall", "scatter", "gather", "allreduce"])
@pytest.mark.parametrize("machine", ["mesh:2x3", "mesh:3x4", "mesh:3x3"])
def test_paths_are_valid_on_meshes_of_all_sides(machine: str, collective: str) -> None:
    problem = make_problem(collective, topology=machine, size="1MB", chunks=2).problem
    books = Instance(problem).once(books_of)
    assert books is not None
    paths = [each for each in books.algorithms if "path" in each.name]
    made = [schedule for each in paths if (schedule := books.schedule(each, 1, set())) is not None]
    assert made
    for schedule in made:
        schedule.check()


def test_next_to_a_path_two_ranks_are_one_too_so_that_both_sides_are_used_at_once() -> None:
    along = [f"path along axis {axis}" for axis in range(2)]
    both = on_mesh("alltoall", f"2 routes: {along[0]}, then {along[1]} of 2x4", "mesh:2x4", 2)
    one = on_mesh("alltoall", f"{along[1]}, then {along[0]} of 2x4", "mesh:2x4", 2)
    assert both.makespan_us < one.makespan_us


def test_where_a_link_goes_round_there_are_rings_and_no_paths() -> None:
    for machine in ("torus:3x4", "full:8", "switch:8"):
        books = Instance(make_problem("alltoall", topology=machine, size="1MB").problem).once(books_of)
        assert books is not None
        assert not any("path" in each.name for each in books.algorithms)
