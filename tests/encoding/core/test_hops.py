"""How many transfers there must be at least."""

import pytest
from small_problems import full, machine, problem, ring

from taccl.encoding.core.distance import least_transfers
from taccl.encoding.core.tuning import DISTANCE_SPARSE


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


def test_few_links_are_followed_one_by_one_with_the_same_count() -> None:
    large, half = ring(40, both=True), sum(range(1, 20))
    assert large.num_links * DISTANCE_SPARSE < large.num_ranks**2
    assert least_transfers(problem(large, "alltoall"), 10**6) == 40 * (2 * half + 20)
    assert least_transfers(problem(large, "alltoall"), 57) == 57
    chain = machine(40, [(rank, rank + 1, 1.0, 1.0) for rank in range(39)])
    assert least_transfers(problem(chain, "alltoall"), 10**6) == sum(k * (40 - k) for k in range(1, 40))


def test_counting_ends_when_there_are_enough() -> None:
    assert least_transfers(problem(ring(8), "alltoall"), 57) == 57


def test_a_chunk_without_a_way_does_not_count() -> None:
    chain = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)])
    assert least_transfers(problem(chain, "alltoall"), 1000) == 1 + 1 + 2
