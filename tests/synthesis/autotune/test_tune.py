"""A search leaves time for the file."""

from __future__ import annotations

import pytest

from taccl.encoding.core.options import SearchOptions
from taccl.synthesis.autotune import tune
from taccl.synthesis.autotune.tune import leaving_time_for_a_file
from taccl.synthesis.job import Job, formulate
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request


def allgather(*, file: bool) -> Job:
    """Four ranks, four chunks: 16 outputs."""
    request = Request("allgather", topology="ring:4", size="4MB", chunks=1)
    return formulate(request, OutputOptions(file=file))


@pytest.mark.parametrize(("limit_s", "left_s"), [(10.0, 8.4), (2.0, 1.0)])
def test_of_a_time_limit_a_file_has_what_it_takes_and_half_at_most(
    monkeypatch: pytest.MonkeyPatch, limit_s: float, left_s: float
) -> None:
    monkeypatch.setattr(tune, "TUNE_FILE_S_AN_OUTPUT", 0.1)
    options = SearchOptions(time_limit_s=limit_s)
    assert leaving_time_for_a_file(allgather(file=True), options).time_limit_s == pytest.approx(left_s)
    assert leaving_time_for_a_file(allgather(file=False), options) is options


def test_where_work_counts_or_nothing_is_said_the_search_is_as_it_was() -> None:
    for options in (SearchOptions(effort=100), SearchOptions()):
        assert leaving_time_for_a_file(allgather(file=True), options) is options
