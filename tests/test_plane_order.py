"""What brings more cannot take less time: which times of a machine could be better by its other times."""

from __future__ import annotations

import pytest

from benchmarks.plane_order import could_be_faster

TIMES_US = {
    "allgather": 4.0,
    "reducescatter": 4.0,
    "allreduce": 8.0,
    "alltoall": 5.0,
    "broadcast": 6.0,
    "reduce": 6.0,
    "gather": 3.0,
    "scatter": 3.0,
}


def test_times_that_fit_together_are_not_named() -> None:
    assert not list(could_be_faster(TIMES_US))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"gather": 4.5}, {("gather", ("allgather",)), ("gather", ("scatter",))}),
        ({"allreduce": 9.0}, {("allreduce", ("reducescatter", "allgather"))}),
        ({"broadcast": 6.5}, {("broadcast", ("reduce",))}),
        (
            {"reduce": 8.5, "broadcast": 8.5},
            {("reduce", ("allreduce",)), ("broadcast", ("allreduce",))}
            | {("reduce", ("reducescatter", "gather")), ("broadcast", ("scatter", "allgather"))},
        ),
    ],
)
def test_what_takes_longer_than_what_contains_it_is_named(
    changed: dict[str, float], named: set[tuple[str, tuple[str, ...]]]
) -> None:
    found = {(each.collective, each.others) for each in could_be_faster({**TIMES_US, **changed})}
    assert found == named


def test_what_is_missing_says_nothing() -> None:
    assert not list(could_be_faster({"gather": 9.0, "broadcast": 3.0}))
