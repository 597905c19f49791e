"""How many transfers there must be at least."""

import pytest
from small_problems import full, machine, problem, ring

from taccl.encoding.core.distance import least_transfers


@pytest.mark.parametrize(
    ("topology", "collective", "chunks", "transfers"),
    [
        (ring(4), "alltoall", 1, 4 * (1 + 2 + 3)),
        (ring(4, both=True), "alltoall", 2, 2 * 4 * (1 + 2 + 1)),
        (full(4), "alltoall", 1, 12),
        (ring(4), "gather", 3, 3 * (1 + 2 + 3)),
        (ring(4), "allgather", 1, 0),  # its chunks go to several ranks, and are not counted
    ],
)
def test_every_chunk_takes_the_links_of_its_shortest_way(topology, collective, chunks, transfers) -> None:
    assert least_transfers(problem(topology, collective, chunks), 1000) == transfers


def test_counting_ends_when_there_are_enough() -> None:
    assert least_transfers(problem(ring(8), "alltoall"), 57) == 57


def test_a_chunk_without_a_way_does_not_count() -> None:
    chain = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)])
    assert least_transfers(problem(chain, "alltoall"), 1000) == 1 + 1 + 2
