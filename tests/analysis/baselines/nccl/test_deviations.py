"""Measured rows of NCCL next to what its model expects of them."""

from __future__ import annotations

from taccl.analysis.baselines.measured import measured_tables
from taccl.analysis.baselines.nccl import release_named
from taccl.analysis.baselines.nccl.deviations import deviations, near

RELEASE = release_named("2.30")


def test_every_row_of_nccl_is_there_but_those_from_point_to_point() -> None:
    rows = [
        row
        for table in measured_tables()
        if table.library == "NCCL" and table.collective != "alltoall"
        for row in table.rows
    ]
    assert len(deviations(RELEASE)) == len(rows)


def test_a_row_with_an_algorithm_is_held_against_that_algorithm() -> None:
    rings = [each for each in deviations(RELEASE) if each.table.algorithm == "Ring"]
    assert rings
    assert {each.estimate.algorithm for each in rings} == {"Ring"}


def test_sources_name_the_pick_or_a_ring_that_was_requested() -> None:
    stated = [each for each in deviations(RELEASE) if each.table.algorithm]
    assert sum(each.is_pick for each in stated) == len(stated) - 2
    assert {each.table.algorithm for each in stated if not each.is_pick} == {"Ring"}


def test_from_1_gb_on_the_model_is_within_20_percent() -> None:
    large = [each for each in deviations(RELEASE) if each.row.size_bytes >= 2**30]
    assert large
    assert all(0.8 <= each.ratio <= 1.2 for each in large)


def test_near_rows_are_at_most_four_times_as_large_or_small() -> None:
    sizes = {each.row.size_bytes for each in near(RELEASE, "allreduce", 2**20, "Ampere")}
    assert min(sizes) == 2**18
    assert max(sizes) == 2**22
    assert near(RELEASE, "broadcast", 2**20, "Ampere") == ()


def test_near_rows_are_of_the_same_generation_or_of_any_where_it_has_none() -> None:
    for generation in ("Hopper", "Blackwell"):
        assert {each.generation for each in near(RELEASE, "allreduce", 2**20, generation)} == {generation}
    assert len({each.generation for each in near(RELEASE, "allreduce", 2**20, "Volta")}) == 3
