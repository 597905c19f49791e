"""A few rows of docs/results/teccl.md that take a moment: TE-CCL's machines, next to its published times."""

from __future__ import annotations

import pytest

from taccl import synthesize
from taccl.synthesis.result import Result


def found(collective: str, topology: str, size: int, chunks: int) -> Result:
    """The search ends with the first schedule that is near enough to its bound; the limit is a way out."""
    return synthesize(
        collective,
        topology=topology,
        size=size,
        chunks=chunks,
        engine="greedy",
        gap=0.002,
        time_limit=60,
        file=False,
    )


@pytest.mark.parametrize(
    ("collective", "topology", "size", "chunks", "published_us"),
    [
        ("allgather", "dgx2-teccl", 4 * 10**6, 2, 33.0),
        ("alltoall", "dgx2-teccl", 10**6, 1, 84.25),
        ("allgather", "ndv2-teccl", 16_000, 1, 5.81),
        ("allgather", "ndv2-teccl", 10**9, 1, 65_000.0),
    ],
)
def test_no_row_is_slower_than_published(
    collective: str, topology: str, size: int, chunks: int, published_us: float
) -> None:
    result = found(collective, topology, size, chunks)
    assert result.lower_bound_us <= result.time_us * (1 + 1e-9)
    assert result.time_us <= published_us * (1 + 1e-9)


@pytest.mark.parametrize(
    ("size", "published_us"), [(16 * 10**6, 124.0), (64 * 10**6, 496.0), (10**9, 7750.0)]
)
def test_where_published_times_leave_alpha_out_ours_is_the_bound(size: int, published_us: float) -> None:
    """31 parts through the one way into an odd GPU take the published time; alpha is 0.7 us more."""
    result = found("allgather", "dgx2-teccl", size, 2)
    assert result.lower_bound_us == pytest.approx(published_us + 0.7)
    assert result.time_us <= 1.002 * (published_us + 0.7)
