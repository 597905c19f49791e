"""What happens in one node: a small problem with late inputs, decided exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taccl.encoding.core.ticks import Ticks
from taccl.encoding.sending_model.in_node import decide, least_us
from taccl.encoding.sending_model.node_parts import Around, Inside, Item, Leaving, backwards
from taccl.support.budget import Budget

#: Three ranks in a line, each way: places 0 - 1 - 2.
LINE = tuple(Inside(a, b, 1.0, 1.0, (k,)) for k, (a, b) in enumerate(((0, 1), (1, 0), (1, 2), (2, 1))))


def around() -> Around:
    return Around(LINE, True, [True] * len(LINE), 99, Ticks(1.0, True))


def test_items_are_spread_in_groups_where_that_is_sooner() -> None:
    both = [Item((chunk,), ((0, 5.0),), frozenset({1, 2})) for chunk in range(2)]
    decided = decide(around(), both, 50.0, 0, Budget.of_work(1_000))
    assert decided is not None
    assert decided.end_us == pytest.approx(5.0 + 6.0)


def test_what_leaves_is_there_before_its_group() -> None:
    items = [Item((place,), ((place, 0.0),), frozenset(), frozenset({1})) for place in range(3)]
    leaving = Leaving(0, (1, 2), {(0, 1): 16.0, (1, 1): 10.0})
    decided = decide(around(), items, 50.0, 0, Budget.of_work(1_000), leaving)
    assert decided is not None
    assert decided.end_us == pytest.approx(16.0)
    assert sorted(decided.group.items()) == [(0, 0), (1, 1), (2, 1)]


def test_nothing_is_found_where_there_is_no_time() -> None:
    far = [Item((0,), ((0, 0.0),), frozenset({2}))]
    assert decide(around(), far, 3.5, 0, Budget.of_work(1_000)) is None


def test_no_spread_in_a_node_is_sooner_than_the_least() -> None:
    """Two chunks down a line of two hops: 2 us for one, a turn of 2 us each, and 3 us for both as a group."""
    both = [Item((chunk,), ((0, 0.0),), frozenset({2})) for chunk in range(2)]
    assert least_us(around(), both, 20.0, 0, Budget.of_work(1_000)) == pytest.approx(6.0)
    assert least_us(around(), both, 5.0, 0, Budget.of_work(1_000)) == 5.0


def test_a_node_that_is_itself_turned_round_gathers_as_it_spreads() -> None:
    same, turned = backwards(around())
    assert same == around()
    assert list(turned) == [1, 0, 3, 2]
    one_way = replace(around(), links=[*LINE[:3], replace(LINE[3], alpha_us=2.0)])
    back, links = backwards(one_way)
    assert back.links == [link.reversed for link in one_way.links]
    assert list(links) == [0, 1, 2, 3]
