"""Of plans that serve the same calls, the one that is predicted faster comes first."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taccl.deployment.order import LAST, Predict, Predicted, Preferred, preferences
from taccl.deployment.plans import DeployedPlan, read_plans

(REAL,) = read_plans([Path(__file__).parents[1] / "data" / "mscclpp" / "napkin-allreduce_2.json"])


def plan(name: str, low: int = 1024, high: int = 2**20, **changes: object) -> DeployedPlan:
    named = replace(REAL, plan=replace(REAL.plan, name=name), in_place=(True,))
    return replace(named, min_bytes=low, max_bytes=high, **changes)


def affine(times: dict[str, tuple[float, float]]) -> Predict:
    """Times of this many microseconds, and this many for each KB."""

    def predict(requested: DeployedPlan, sizes: Sequence[int]) -> list[Predicted]:
        alpha, beta = times[requested.name]
        return [Predicted(requested.name, size, alpha + beta * size / 1024, 0.0, "") for size in sizes]

    return predict


def first_at(rows: Sequence[Preferred], size: int) -> str:
    return next(row.names[0] for row in rows if size <= row.up_to_bytes)


def test_the_order_changes_where_the_times_cross() -> None:
    """2 us and 1 us/KB against 12 us and 0.5 us/KB are equal at 20 KB."""
    rows, times = preferences(
        [plan("slow start"), plan("low latency")], affine({"slow start": (12, 0.5), "low latency": (2, 1)})
    )
    assert first_at(rows, 20 * 1024 - 1) == "low latency"
    assert first_at(rows, 20 * 1024 + 2) == "slow start"
    assert {each.name for each in times} == {"slow start", "low latency"}


def test_without_times_the_first_given_comes_first() -> None:
    rows, times = preferences([plan("b"), plan("a")], None)
    assert {row.names for row in rows} == {("b", "a")}
    assert any(row.is_choice for row in rows)
    assert times == ()


@pytest.mark.parametrize(
    "other",
    [
        plan("b", low=2**21, high=2**22),
        plan("b", in_place=(False,)),
        plan("b", ranks_per_node=1),
    ],
    ids=["sizes", "places", "nodes"],
)
def test_plans_for_other_calls_are_not_compared(other: DeployedPlan) -> None:
    def predict(requested: DeployedPlan, sizes: Sequence[int]) -> list[Predicted]:
        raise AssertionError("a time was requested")

    rows, _ = preferences([plan("a"), other], predict)
    assert [(row.up_to_bytes, row.names, row.is_choice) for row in rows] == [(LAST, ("a", "b"), False)]


@given(
    windows=st.lists(st.tuples(st.integers(10, 18), st.integers(0, 6)), min_size=2, max_size=4),
    costs=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=4, max_size=4),
    size=st.integers(10, 24).map(lambda k: 3 * 2**k // 2),
)
@example(
    [(11, 6), (11, 6)], [(1, 2), (2, 1), (1, 1), (1, 1)], 3072
)  # they meet at 64 KB, where times are taken
def test_whoever_fits_a_size_and_is_fastest_there_comes_before_all_that_fit(
    windows: list[tuple[int, int]], costs: list[tuple[int, int]], size: int
) -> None:
    plans = [plan(f"p{n}", 2**low, 2 ** (low + more)) for n, (low, more) in enumerate(windows)]
    times = {f"p{n}": (float(alpha), beta / 64) for n, (alpha, beta) in enumerate(costs)}
    rows, _ = preferences(plans, affine(times))
    fitting = [each.name for each in plans if each.min_bytes <= size <= each.max_bytes]
    if fitting:
        names = next(row.names for row in rows if size <= row.up_to_bytes)
        taken = next(name for name in names if name in fitting)
        time = {name: times[name][0] + times[name][1] * size / 1024 for name in fitting}
        assert time[taken] <= min(time.values()) * (1 + 1e-3)


def test_where_a_plan_has_no_times_the_order_given_decides() -> None:
    """Nothing predicts what a switch does, so a plan that uses one is neither first nor last for it."""

    def predict(requested: DeployedPlan, sizes: Sequence[int]) -> list[Predicted]:
        times = affine({"fast": (1, 1), "slow": (9, 9)})
        return [] if requested.name == "in switch" else list(times(requested, sizes))

    rows, _ = preferences([plan("slow"), plan("in switch"), plan("fast")], predict)
    assert {row.names for row in rows} == {("slow", "in switch", "fast")}
