import io
import json
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies_schedule import machine, schedules
from strategies_sums import named_sums
from studies import examples

from taccl.errors import FileError, ScheduleError, TacclError
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import (
    SavedSchedule,
    Schedule,
    Send,
    begins_as_schedule,
    read_schedule,
    schedule_file,
    schedule_from_parquet,
    schedule_from_sends,
    schedule_to_json,
    schedule_to_parquet,
)
from taccl.testing import assert_same_schedule

RANDOM = settings(max_examples=examples(7), deadline=None, suppress_health_check=list(HealthCheck))
COLUMNS = ("chunk", "link", "start_us", "end_us", "reduce", "group")


def broadcast() -> Schedule:
    """Rank 0's chunk to rank 1 and on to rank 2."""
    problem = Problem(machine(3, [(0, 1), (1, 2)]), make_collective("broadcast", 3), chunk_mb=1.0)
    return schedule_from_sends(problem, [Send((0,), 0, 0.0), Send((0,), 1, 3.0)])


@lru_cache
def written() -> bytes:
    return schedule_to_parquet(broadcast(), lower_bound_us=6.0, bound_source="latency")


def remade(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def with_column(name: str, values: object) -> bytes:
    """The file of `broadcast()` with another column in that place."""
    table = pq.read_table(io.BytesIO(written()))
    return remade(table.set_column(table.column_names.index(name), name, pa.array(values)))


def described_by(**changes: object) -> bytes:
    """The file of `broadcast()` with other values in its description."""
    table = pq.read_table(io.BytesIO(written()))
    values = json.loads(table.schema.metadata[b"taccl-schedule"]) | changes
    return remade(table.replace_schema_metadata({"taccl-schedule": json.dumps(values)}))


def assert_read_back(schedule: Schedule, bound_us: float, source: str) -> None:
    data = schedule_to_parquet(schedule, lower_bound_us=bound_us, bound_source=source)
    saved = schedule_from_parquet(data)
    assert (saved.lower_bound_us, saved.bound_source) == (bound_us, source)
    assert_same_schedule(saved.schedule, schedule)
    for name in COLUMNS:
        read, column = getattr(saved.schedule, name), getattr(schedule, name)
        assert read.dtype == column.dtype
        assert np.array_equal(read, column)
    read, sums = saved.schedule.sums, schedule.sums
    assert (read is None) == (sums is None)
    if read is not None and sums is not None:
        assert np.array_equal(read.of_row, sums.of_row)
        assert np.array_equal(read.members, sums.members)


@RANDOM
@given(schedules(), st.floats(0, 1), st.text(max_size=20))
def test_a_schedule_written_is_read_back(schedule: Schedule, share: float, source: str) -> None:
    assert_read_back(schedule, share * schedule.makespan_us, source)


@RANDOM
@given(named_sums())
def test_sums_with_names_are_read_back(schedule: Schedule) -> None:
    assert_read_back(schedule, 0.0, "")


def test_other_programs_find_the_transfers_by_name() -> None:
    table = pq.read_table(io.BytesIO(written()))
    assert table.column("src").to_pylist() == [0, 1]
    assert table.column("dst").to_pylist() == [1, 2]
    assert table.column("end_us").to_pylist() == [3.0, 6.0]


def test_the_name_asks_for_a_format_and_the_content_says_which_it_is(tmp_path) -> None:
    saved = SavedSchedule(broadcast(), 6.0, "latency")
    assert isinstance(schedule_file("a.json", saved), str)
    path = tmp_path / "called.json"
    path.write_bytes(schedule_file("a.PARQUET", saved))
    assert begins_as_schedule(path.read_bytes())
    assert_same_schedule(read_schedule(path).schedule, broadcast())
    path = tmp_path / "called.parquet"
    path.write_text(schedule_to_json(broadcast()))
    assert begins_as_schedule(path.read_bytes())
    assert_same_schedule(read_schedule(path).schedule, broadcast())


@RANDOM
@given(st.integers(0, 2**20), st.integers(1, 255))
def test_a_damaged_byte_is_told_or_changes_nothing(place: int, by: int) -> None:
    data = bytearray(written())
    data[place % len(data)] ^= by
    try:
        read = schedule_from_parquet(bytes(data), "a.parquet")
    except TacclError as fault:
        assert str(fault).startswith("a.parquet: ")
        return
    for name in COLUMNS:  # the damage was in the description, or where nothing is stored
        assert np.array_equal(getattr(read.schedule, name), getattr(broadcast(), name))


@pytest.mark.parametrize("length", [4, 5, 100, -1])
def test_a_file_that_ends_too_soon_is_told(length: int) -> None:
    with pytest.raises(FileError, match=r"a\.parquet: this is not a Parquet file that can be read"):
        schedule_from_parquet(written()[:length], "a.parquet")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: remade(pa.table({"chunk": [1]})), "this is a Parquet file, and no schedule"),
        (lambda: described_by(format="other"), "this is not a schedule"),
        (lambda: described_by(version=2), "its version is not 1"),
        (lambda: described_by(version=True), "its version is not 1"),
        (lambda: described_by(more=1), "unknown key more"),
        (lambda: described_by(lower_bound_us=-1), "must not be negative"),
        (lambda: described_by(sums=[[0]]), "the column sum is missing"),
        (lambda: described_by(chunk_mb=0), "chunk_mb must be positive"),
        (lambda: with_column("chunk", ["a", "b"]), "chunk must have the type int32 or int64, not string"),
        (lambda: with_column("chunk", [0.0, 0.0]), "not double"),
        (lambda: with_column("chunk", [[0], [0]]), "the column chunk must have the type"),
        (lambda: with_column("chunk", [0, None]), "1 values of chunk are missing"),
        (lambda: with_column("chunk", [0, 9]), r"chunk\[1\] is 9, which is outside 0 .. 0"),
        (lambda: with_column("link", [-1, 1]), r"link\[0\] is -1, which is outside 0 .. 1"),
        (lambda: with_column("src", [0, 0]), r"transfers.src\[1\] is 0, but its link 1 is"),
        (lambda: with_column("end_us", [3.0, float("nan")]), "a value of end_us is out of range"),
        (lambda: with_column("reduce", [0, 0]), "the column reduce must have the type bool"),
    ],
)
def test_what_is_wrong_is_told(data, message: str) -> None:
    with pytest.raises(FileError, match=message) as fault:
        schedule_from_parquet(data(), "a.parquet")
    assert fault.value.path == "a.parquet"


def test_columns_that_are_missing_unknown_or_twice_are_told() -> None:
    table = pq.read_table(io.BytesIO(written()))
    for other, message in (
        (table.drop_columns(["group"]), "the column group is missing"),
        (table.append_column("more", pa.array([1, 2])), "unknown column more"),
        (table.append_column("chunk", table.column("chunk")), "a column is given twice"),
    ):
        with pytest.raises(FileError, match=message):
            schedule_from_parquet(remade(other))


def test_a_schedule_that_breaks_a_rule_or_its_bound_is_refused() -> None:
    with pytest.raises(ScheduleError, match="the schedule is not valid") as fault:
        schedule_from_parquet(with_column("start_us", [0.0, 1.0]), "a.parquet")
    assert fault.value.path == "a.parquet"
    with pytest.raises(ScheduleError, match="the lower bound is not valid"):
        schedule_from_parquet(described_by(lower_bound_us=7))


def test_more_rows_than_any_schedule_has_are_refused_before_they_are_read(monkeypatch) -> None:
    monkeypatch.setattr("taccl.model.schedule.parquet._MOST_ROWS", 1)
    with pytest.raises(FileError, match="it has 2 rows, and a schedule 1 at most"):
        schedule_from_parquet(written())


def test_a_number_that_is_not_finite_is_not_written() -> None:
    with pytest.raises(ScheduleError, match="cannot be written as Parquet"):
        schedule_to_parquet(broadcast(), lower_bound_us=float("inf"))
