"""A result next to the fastest algorithm that libraries have, in the same model."""

import pytest

from taccl import Request, synthesize
from taccl.exploration.compared import Compared, compared, shares_of
from taccl.exploration.library_table import library
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


def test_where_files_are_predicted_a_file_stands_next_to_a_file() -> None:
    words = {"collective": "allgather", "topology": "full:4", "target": "mscclpp"}
    result = synthesize(**words, size="64KB", effort=500)
    assert result.execution is not None
    for units in (1, 5_000):  # one file is compared however little time there is
        found = compared(result, Request(**words), OutputOptions(), Budget.of_work(units))
        assert found.time_us == result.execution.time_us
        assert found.baseline is not None


def test_what_is_no_faster_is_not_worth_deploying() -> None:
    assert Compared(10.0, "ring", 10.0).line == (
        "no faster than ring (10.00 us), the fastest known of libraries: use what you have"
    )
    assert Compared(8.0, "ring", 10.0).line.startswith("1.25 times as fast as ring (10.00 us)")
    assert Compared(8.0, None, None).line.startswith("libraries have no algorithm")


def test_the_comparison_takes_a_part_of_the_time() -> None:
    limit_s, units, _ = shares_of(10.0, 1000)
    assert limit_s is not None and units is not None
    assert 0 < limit_s < 10
    assert 0 < units < 1000
    assert shares_of(None, None)[:2] == (None, None)
