"""Routes for several numbers of chunks, as textbooks have them: where bytes count, and time allows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from small_problems import full, problem, ring, two_nodes

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.needs import heavy_cuts
from taccl.encoding.engines.routes import across_chunks, routes
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: Units of work: some seconds.
_ENOUGH = 4_000


def _cuts(topology: LogicalTopology, name: str, size_mb: float) -> list[Instance]:
    """One size in 1, 2, 4 and 8 chunks, not in order."""
    return [Instance(problem(topology, name, cut, chunk_mb=size_mb / cut)) for cut in (4, 1, 8, 2)]


def _found(cuts: list[Instance], units: int = _ENOUGH) -> list[Schedule]:
    return list(across_chunks(cuts, Budget.of_work(units)))


@pytest.mark.parametrize("name", ["alltoall", "scatter", "gather", "allgather", "allreduce"])
def test_each_schedule_is_valid_and_faster_than_those_before(name: str) -> None:
    found = _found(_cuts(two_nodes(), name, 8.0))
    assert found
    for schedule in found:
        schedule.check()
    assert all(later.makespan_us < before.makespan_us for before, later in pairwise(found))


def test_the_best_number_is_as_good_as_a_search_of_it_alone() -> None:
    cuts = _cuts(ring(5, both=True), "alltoall", 16.0)
    alone = [
        update.schedule.makespan_us
        for cut in cuts
        for update in routes(cut, SearchOptions(), Budget.of_work(_ENOUGH), None)
        if update.schedule is not None
    ]
    assert _found(cuts)[-1].makespan_us <= 1.05 * min(alone)


def test_finer_numbers_are_left_alone_once_they_are_no_faster() -> None:
    """Every chunk has a link of its own: to cut it adds alphas."""
    found = _found(_cuts(full(4), "alltoall", 8.0))
    assert {schedule.problem.collective.chunks_per_rank for schedule in found} == {1}


@pytest.mark.parametrize(
    ("name", "size_mb"), [("broadcast", 64.0), ("reduce", 64.0), ("alltoall", 1e-3), ("allreduce", 1e-3)]
)
def test_copies_of_one_root_and_small_messages_are_left_to_others(name: str, size_mb: float) -> None:
    cuts = _cuts(two_nodes(), name, size_mb)
    assert not any(map(heavy_cuts, cuts))


def test_without_time_nothing_is_begun() -> None:
    assert not _found(_cuts(two_nodes(), "alltoall", 8.0), units=1)
