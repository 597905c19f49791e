"""Parts of the time, and that what the table says of them is what the search does."""

from __future__ import annotations

import pytest
from small_problems import full, ndv2_node, problem, ring, two_nodes

from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.shares import Case, fixed, percent, usually
from taccl.encoding.portfolio.stages import EACH_PHASE, WHOLE, Stage
from taccl.model.problem import Problem

SMALL = Instance(problem(ring(3), "allgather"))


def test_the_usual_part_counts_where_no_case_holds() -> None:
    share = usually(0.2, Case(0.1, "at night", lambda _: False))
    assert share(SMALL) == 0.2
    assert share.in_words == "20%; 10% at night"


def test_of_cases_that_hold_the_last_counts() -> None:
    first, last = (Case(part, "now", lambda _: True) for part in (0.1, 1.0))
    assert usually(0.2, first, last)(SMALL) == 1.0
    assert usually(0.2, last, first)(SMALL) == 0.1


def test_a_row_that_has_all_that_is_left_has_the_rest() -> None:
    assert fixed(1.0).in_words == "the rest"
    assert fixed(0.15).in_words == "15%"
    assert fixed(0.15)(SMALL) == 0.15


@pytest.mark.parametrize(
    "asked",
    [
        problem(two_nodes(), "allgather", 2),
        problem(ndv2_node(), "allgather", chunk_mb=0.001),
        problem(ring(4), "allreduce"),
        problem(full(3), "alltoall"),
    ],
    ids=["pieces", "small messages", "sums", "pairs"],
)
@pytest.mark.parametrize("stage", [*WHOLE, *EACH_PHASE], ids=lambda stage: stage.engine)
def test_a_part_that_a_row_has_is_one_that_the_table_names(stage: Stage, asked: Problem) -> None:
    part, words = stage.share(Instance(asked)), stage.share.in_words
    assert 0.0 < part <= 1.0
    if "combining's" in words or "alpha's" in words:
        return  # it depends on how small messages are; its factors are in the words
    assert words == "the rest" if part == 1.0 else percent(part) in words
