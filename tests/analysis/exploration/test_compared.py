"""A result next to the fastest algorithm that libraries have, in the same model."""

from collections.abc import Iterator

import pytest

from taccl import Request, synthesize
from taccl.analysis.exploration.compared import Compared, compared, shares_of
from taccl.analysis.exploration.curves import Curve
from taccl.analysis.exploration.library import Library
from taccl.analysis.exploration.library_table import library
from taccl.analysis.exploration.tuning import COMPARED_S
from taccl.errors import TacclError
from taccl.support.budget import Budget
from taccl.synthesis.output_options import OutputOptions


def test_the_baseline_is_the_fastest_of_the_table_of_libraries() -> None:
    words = {"collective": "allgather", "topology": "ring:4"}
    result = synthesize(**words, size="1MB", chunks=1, effort=500, file=False)
    found = compared(result, Request(**words), OutputOptions(file=False), Budget.of_work(5_000))
    table = library("all", **words, sizes="1MB")
    assert found.time_us == result.time_us
    assert found.baseline_us == pytest.approx(min(curve.times_us[0] for curve in table.curves))
    assert found.speedup == pytest.approx(found.baseline_us / result.time_us)


def test_where_files_are_predicted_a_file_stands_next_to_one_of_its_own_configuration() -> None:
    words = {"collective": "allgather", "topology": "full:4", "target": "mscclpp"}
    result = synthesize(**words, size="64KB", effort=500)
    assert result.execution is not None
    found = compared(result, Request(**words), OutputOptions(), Budget.of_work(20_000))
    assert found.is_whole
    assert found.time_us == result.execution.time_us
    # All-pairs is what the search finds, too, and its file is made in the same way.
    assert found.baseline_us == pytest.approx(result.execution.time_us, rel=0.01)


def test_where_time_is_short_one_is_tried_and_nothing_is_said_of_all() -> None:
    words = {"collective": "allgather", "topology": "full:4", "target": "mscclpp"}
    result = synthesize(**words, size="64KB", effort=500)
    found = compared(result, Request(**words), OutputOptions(), Budget.of_work(1))
    assert found.tried == 1
    assert not found.is_whole
    assert "of 1 algorithm of libraries that were tried; there was no time for others" in found.line


@pytest.mark.parametrize(
    ("fault", "line"), [(KeyboardInterrupt(), "it was interrupted"), (TacclError("broke down"), "broke down")]
)
def test_what_goes_wrong_is_the_reason_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch, fault: BaseException, line: str
) -> None:
    def fails(self: Library) -> Iterator[Curve]:
        raise fault

    words = {"collective": "allgather", "topology": "ring:3"}
    result = synthesize(**words, size="3KB", chunks=1, effort=100, file=False)
    monkeypatch.setattr(Library, "__iter__", fails)
    found = compared(result, Request(**words), OutputOptions(file=False), Budget.of_work(100))
    assert found.line == line
    assert found.speedup is None


def test_what_is_no_faster_is_not_worth_deploying() -> None:
    def line(time_us: float) -> str:
        return Compared(time_us, "ring", 10.0, 3, is_whole=True).line

    of_all = "ring (10.00 us), the fastest of 3 algorithms of libraries"
    assert line(8.0) == f"1.25 times as fast as {of_all}"
    assert line(9.95) == f"as fast as {of_all}: use what you have"
    assert line(40.0) == f"4.00 times as long as {of_all}: use what you have"
    assert Compared(8.0, None, None, 0, is_whole=True).line == "libraries have no algorithm for this"


def test_the_comparison_takes_a_part_of_the_time_once_the_search_has_ended() -> None:
    limit_s, units, begin = shares_of(10.0, 1000)
    assert limit_s is not None and units is not None
    assert 0 < limit_s < 10
    assert begin().counts_work
    assert units + 1000 * begin().remaining_s() == pytest.approx(1000, abs=2)
    assert shares_of(None, None)[:2] == (None, None)


def test_the_time_of_a_comparison_does_not_pass_during_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("taccl.support.budget.time.monotonic", lambda: now[0])
    begin = shares_of(None, None)[2]
    now[0] = 1000.0
    assert begin().remaining_s() == COMPARED_S


def test_without_any_time_nothing_is_said_of_all() -> None:
    words = {"collective": "allgather", "topology": "ring:4"}
    result = synthesize(**words, size="1MB", chunks=1, effort=200, file=False)
    assert not compared(result, Request(**words), OutputOptions(file=False), Budget(0.0)).is_whole
