"""Trees of least price, and whom they pass."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.encoding.engines.routes.branching import least_tree

NONE = np.inf


def wanted(ranks: int, *some: int) -> np.ndarray:
    return np.isin(np.arange(ranks), some)


def priced(ranks: int, ways: dict[tuple[int, int], float]) -> np.ndarray:
    price = np.full((ranks, ranks), NONE)
    for (one, other), each in ways.items():
        price[one, other] = each
    return price


def test_a_circle_of_cheap_ways_is_entered_where_that_costs_least() -> None:
    """1 and 2 have each other cheaply; from 0 it is 5 to 1 and 3 to 2."""
    price = priced(3, {(0, 1): 5.0, (0, 2): 3.0, (1, 2): 1.0, (2, 1): 1.0})
    assert sorted(least_tree(price, 0, wanted(3, 1, 2), wanted(3))) == [(0, 2), (2, 1)]


def test_a_copier_is_passed_where_that_is_cheaper_than_to_send_to_all() -> None:
    """Rank 3 copies to three for 2 each, once it has the chunk for 2; from rank 0 it is 3 to each."""
    ways = {(0, 4): 2.0} | {(0, r): 3.0 for r in (1, 2, 3)} | {(4, r): 2.0 for r in (1, 2, 3)}
    tree = least_tree(priced(5, ways), 0, wanted(5, 1, 2, 3), wanted(5, 4))
    assert sorted(tree) == [(0, 4), (4, 1), (4, 2), (4, 3)]
    tree = least_tree(priced(5, ways), 0, wanted(5, 1), wanted(5, 4))
    assert tree == [(0, 1)], "for one it is not worth the way"


def test_who_leads_to_nobody_is_left_out() -> None:
    ways = {(0, 1): 1.0, (0, 2): 0.0, (2, 3): 0.0}
    assert least_tree(priced(4, ways), 0, wanted(4, 1), wanted(4, 2, 3)) == [(0, 1)]


def test_there_is_none_where_somebody_is_not_reached() -> None:
    assert least_tree(priced(3, {(0, 1): 1.0}), 0, wanted(3, 1, 2), wanted(3)) == []
    ways = {(0, 1): 1.0, (1, 2): 1.0}
    assert least_tree(priced(4, ways), 0, wanted(4, 2), wanted(4, 1, 3)) == [(0, 1), (1, 2)], "3 is cut off"


@settings(max_examples=100)
@given(st.lists(st.integers(0, 9), min_size=20, max_size=20), st.integers(0, 4))
def test_of_all_trees_over_all_ranks_it_is_the_cheapest(prices: list[int], root: int) -> None:
    price = np.full((5, 5), NONE)
    price[~np.eye(5, dtype=np.bool_)] = prices
    others = [rank for rank in range(5) if rank != root]

    def leads_back(parents: dict[int, int], rank: int) -> bool:
        for _ in others:
            rank = parents.get(rank, root)
        return rank == root

    least = min(
        sum(price[parent, rank] for rank, parent in parents.items())
        for choice in itertools.product(range(5), repeat=4)
        for parents in [dict(zip(others, choice, strict=True))]
        if all(rank != parent for rank, parent in parents.items())
        and all(leads_back(parents, rank) for rank in others)
    )
    tree = least_tree(price, root, np.ones(5, dtype=np.bool_), np.zeros(5, dtype=np.bool_))
    assert sum(price[pair] for pair in tree) == pytest.approx(least)
