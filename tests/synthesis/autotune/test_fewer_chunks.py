"""Refusals of plans that are too large: the number of chunks that they name fits when it is tried."""

import re
from types import SimpleNamespace

import pytest

from taccl import synthesize
from taccl.encoding.core.options import SearchOptions
from taccl.errors import CheckError, ProgramLimitError
from taccl.support.budget import Budget
from taccl.synthesis.autotune.chunks import chunks_that_fit
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.result import Result
from tests.synthesis.autotune.test_choose import machine

WAY = Configuration("Simple", 1)


def fits_up_to(most: int, chunks: int, units: int = 1000, each: float = 0.0) -> int:
    """What is named where this many chunks fit, and a search and a file take `each` units of work."""
    budget = Budget.of_work(units)

    def search_of(number: int) -> object:
        return lambda *_: SimpleNamespace(found=SimpleNamespace(schedule=number))

    def lower(number: object, configuration: Configuration) -> None:
        budget.spend(each)
        if number > most:
            raise ProgramLimitError("too large")

    return chunks_that_fit(chunks, search_of, lower, WAY, SearchOptions(), budget)


@pytest.mark.parametrize(
    ("most", "chunks", "named"), [(5, 16, 4), (15, 16, 8), (2, 7, 1), (0, 16, 0), (1, 1, 0)]
)
def test_the_largest_of_halves_and_quarters_is_named_that_fits(most: int, chunks: int, named: int) -> None:
    assert fits_up_to(most, chunks) == named


def test_what_there_is_no_time_to_try_is_not_named() -> None:
    assert fits_up_to(16, 32, units=1000, each=250) == 2
    assert fits_up_to(16, 32, units=0) == 0


def allgather(chunks: int, **changes: object) -> Result:
    requested = {"protocol": "Simple", "instances": 1, "thread_blocks": "two-way", "effort": 1000} | changes
    return synthesize(
        "allgather",
        topology=machine(thread_blocks=2),
        size="3MB",
        chunks=chunks,
        engine="greedy",
        target="mscclpp",
        **requested,
    )


@pytest.mark.parametrize("changes", [{}, {"protocol": None}])
def test_the_named_number_of_chunks_has_a_plan(changes: dict[str, object]) -> None:
    with pytest.raises(CheckError, match=r"fewer chunks: \d+ fit") as caught:
        allgather(16, **changes)
    (number,) = re.findall(r"--chunks (\d+)", str(caught.value.hint))
    assert 1 <= int(number) < 16
    assert allgather(int(number), **changes).files
