"""An AlltoAll in steps of any offsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.api import make_problem
from taccl.encoding.engines.textbook.books import books_of
from taccl.encoding.engines.textbook.engine import by_name, of_libraries
from taccl.encoding.engines.textbook.offsets import fewest, in_steps, offsets_of, subsets
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget


@st.composite
def lines(draw: st.DrawFn) -> tuple[int, int]:
    """Numbers of ranks, and of steps."""
    n = draw(st.integers(4, 90))
    return n, draw(st.integers((n - 1).bit_length(), n - 1))


@given(lines())
def test_a_subset_of_offsets_makes_each_distance(line: tuple[int, int]) -> None:
    n, steps = line
    offsets = offsets_of(n, steps)
    subset = subsets(n, offsets)
    np.testing.assert_array_equal(offsets @ subset % n, np.arange(n))
    assert subset.sum() >= fewest(n, steps)


@given(lines())
def test_each_block_moves_from_where_it_is_to_its_end(line: tuple[int, int]) -> None:
    n, steps = line
    begin, end = np.divmod(np.arange(n * n), n)
    step, src, dst, block = in_steps(n, steps).route(n, begin, end)  # type: ignore[misc]
    at = begin.copy()
    for each in range(steps):
        now = step == each
        np.testing.assert_array_equal(at[block[now]], src[now])
        assert len(set(((dst[now] - src[now]) % n).tolist())) <= 1
        at[block[now]] = dst[now]
    np.testing.assert_array_equal(at, end)


@pytest.mark.parametrize(
    ("n", "steps", "sent", "by_radices"),
    [(32, 6, 66, 72), (64, 8, 146, 160), (72, 8, 171, 186), (72, 9, 163, 180), (16, 4, 32, 32)],
)
def test_fewer_blocks_are_sent_than_by_radices(n: int, steps: int, sent: int, by_radices: int) -> None:
    assert in_steps(n, steps).mean_hops(n) * n == pytest.approx(sent)
    assert fewest(n, steps) <= sent <= by_radices


def test_behind_a_switch_each_rank_pays_an_alpha_a_step_and_sends_no_more_than_that() -> None:
    problem = make_problem("alltoall", topology="switch:12", size="96KB", chunks=1).problem
    schedule = by_name(Instance(problem), "5 offsets")
    assert schedule is not None
    schedule.check()
    topology, sent = problem.topology, in_steps(12, 5).mean_hops(12) * 12
    block_us = problem.chunk_mb * topology.beta_us_per_mb[0]
    assert schedule.makespan_us == pytest.approx(5 * topology.alpha_us[0] + sent * block_us)


@pytest.mark.parametrize(
    ("machine", "collective"),
    [
        ("switch:12", "allgather"),
        ("switch:12", "scatter"),
        ("torus:3x4", "alltoall"),
        ("switch:3", "alltoall"),
    ],
)
def test_it_is_for_an_alltoall_on_ranks_that_are_all_linked(machine: str, collective: str) -> None:
    books = books_of(Instance(make_problem(collective, topology=machine, size="96KB", chunks=1).problem))
    assert books is not None
    assert not [each.name for each in books.algorithms if "offsets" in each.name]


def test_libraries_do_not_have_it() -> None:
    problem = make_problem("alltoall", topology="switch:12", size="96KB", chunks=1).problem
    books = books_of(Instance(problem))
    assert books is not None
    assert any("offsets" in each.name for each in books.algorithms)
    names = [name for name, _ in of_libraries(Instance(problem), Budget.of_work(20_000))]
    assert names
    assert not [name for name in names if "offsets" in name]
