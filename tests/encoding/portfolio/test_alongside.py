"""Bounds next to a search: what is there at once, and whose turn it is when there is time for some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from small_problems import full, problem, two_nodes

from taccl.encoding.bounds import Bound, Proof, View, soonest, times_asked
from taccl.encoding.bounds.volume import VOLUME
from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio import alongside
from taccl.encoding.portfolio.alongside import BoundsAlongside
from taccl.encoding.portfolio.journal import Journal
from taccl.support.budget import Budget


def best(updates: Iterator[Update]) -> Update:
    return max(updates, key=lambda update: update.lower_bound_us)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two bounds, each of which takes ten units of work; whose turn it was, in order."""
    turns: list[str] = []

    def takes_ten(name: str, goes_on: bool = False) -> Bound:
        def prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
            turns.append(name)
            budget.spend(10)
            yield Proof(known_us + 1.0, name, name)

        return Bound(name, "an example", "none", prove, goes_on=goes_on)

    def known(on_fault: object = None) -> Sequence[Bound]:
        return [takes_ten("first"), takes_ten("second", goes_on=True)]

    monkeypatch.setattr(alongside, "known_bounds", known)
    return turns


def test_what_is_there_at_once_needs_no_time() -> None:
    instance = Instance(problem(two_nodes(), "allgather", 2))
    at_once = best(BoundsAlongside(instance, Journal()).at_once())
    largest = max(proof.value_us for proof in soonest(instance))
    assert at_once.lower_bound_us == pytest.approx(largest)
    assert at_once.lower_bound_us < largest


def test_a_bound_that_says_the_same_later_has_its_words_heard() -> None:
    instance = Instance(problem(full(4), "alltoall", 3))
    bounds = BoundsAlongside(instance, Journal())
    at_once, quick = best(bounds.at_once()), best(bounds.quick(Budget.of_work(10**6)))
    assert at_once.bound_source.endswith("4 ranks through 12 ports")
    assert quick.lower_bound_us > at_once.lower_bound_us
    assert quick.lower_bound_us == pytest.approx(at_once.lower_bound_us)
    assert quick.bound_source != at_once.bound_source


def test_a_bound_that_had_no_time_comes_before_one_that_had_some(asked: list[str]) -> None:
    instance = Instance(problem(full(3), "allgather"))
    list(BoundsAlongside(instance, Journal()).within(Budget.of_work(13)))
    assert asked == ["first"]
    list(BoundsAlongside(instance, Journal()).within(Budget.of_work(41)))
    assert asked == ["first", "second", "first"]


def test_a_bound_that_was_cut_after_a_small_part_of_the_time_keeps_its_place(asked: list[str]) -> None:
    instance = Instance(problem(full(3), "allgather"))
    list(BoundsAlongside(instance, Journal()).within(Budget.of_work(5)))
    list(BoundsAlongside(instance, Journal()).within(Budget.of_work(25)))
    assert asked == ["first", "first", "second"]


def test_a_bound_that_goes_on_has_another_turn_where_it_was_cut_short(asked: list[str]) -> None:
    bounds = BoundsAlongside(Instance(problem(full(3), "allgather")), Journal())
    for _ in range(3):
        list(bounds.within(Budget.of_work(10)))
    assert asked == ["first", "second", "second"]


def test_a_bound_that_goes_on_was_cut_short_if_little_of_its_time_was_left(asked: list[str]) -> None:
    instance = Instance(problem(full(3), "allgather"))
    for work in (10, 13, 11):  # the second has the last two, 3 and 1 more than it takes
        list(BoundsAlongside(instance, Journal()).within(Budget.of_work(work)))
    assert asked == ["first", "second", "second"]


def test_without_time_none_is_asked(asked: list[str]) -> None:
    instance = Instance(problem(full(3), "allgather"))
    list(BoundsAlongside(instance, Journal()).within(Budget.of_work(0)))
    assert not asked and times_asked(instance, VOLUME, 0.0) == 0


@pytest.mark.parametrize(("then", "times"), [(99, 1), (1001, 2)])
def test_a_bound_that_ended_soon_is_asked_again_with_ten_times_the_time(
    asked: list[str], then: int, times: int
) -> None:
    instance = Instance(problem(full(3), "allgather"))
    list(BoundsAlongside(instance, Journal()).within(Budget.of_work(110)))
    list(BoundsAlongside(instance, Journal()).within(Budget.of_work(then)))
    assert asked.count("second") == times
