"""A schedule as a Parquet file: one row per transfer, and in the file's metadata the problem that it answers.

`codec` describes the problem. Bytes come from anybody, so each column is looked at before it is believed.
pyarrow is loaded where a file is written or read, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from taccl.errors import FileError, ScheduleError
from taccl.model.collective import IntArray
from taccl.model.schedule.codec import (
    SavedSchedule,
    checked,
    members_of_sums,
    refuse_other_ends,
)
from taccl.model.schedule.fields import Fields
from taccl.model.schedule.partial_sums import PartialSums
from taccl.model.schedule.problem_codec import OPTIONAL_PROBLEM_KEYS, read_problem
from taccl.model.schedule.schedule import Schedule
from taccl.model.schedule.values import DESCRIPTION, described, sums_listed

#: How such a file begins.
MAGIC = b"PAR1"
#: What a description says that it is, and the key under which it stands in the file's metadata.
FORMAT, VERSION, _KEY = "taccl-schedule-columns", 1, b"taccl-schedule"

#: A few bytes can spell rows without end. AllReduce over 4,096 ranks in one chunk each has half as many.
_MOST_ROWS = 2**26
#: Bytes of a description.
_MOST_DESCRIBED = 2**29
#: Rows that are compressed together.
_CUT = 2**20
_WHOLE, _TIMES, _FLAG = ("chunk", "src", "dst", "link", "group"), ("start_us", "end_us"), "reduce"
_COLUMNS = (*_WHOLE, *_TIMES, _FLAG)
#: Where partial sums name their contributions: the set of each row, -1 for a copy.
_SUM = "sum"


def schedule_to_parquet(schedule: Schedule, *, lower_bound_us: float = 0.0, bound_source: str = "") -> bytes:
    """The file that `schedule_from_parquet` reads back, value for value.

    Parameters
    ----------
    lower_bound_us, bound_source : what is proven about every schedule of the same problem.

    Raises
    ------
    ScheduleError : a number of the problem is not finite, or it takes too long a text to describe.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: _stored(getattr(schedule, name)) for name in _COLUMNS}
    if schedule.sums is not None:
        columns[_SUM] = _stored(schedule.sums.of_row)
    text = _description(schedule, lower_bound_us, bound_source)
    table, sink = pa.table(columns), pa.BufferOutputStream()
    # The schema that Arrow would add is no more than the columns' types are.
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", store_schema=False, write_page_checksum=True
    ) as writer:
        writer.add_key_value_metadata({_KEY: text})
        writer.write_table(table, row_group_size=_CUT)
    return bytes(sink.getvalue().to_pybytes())


def schedule_from_parquet(data: bytes, path: str | Path | None = None) -> SavedSchedule:
    """The schedule in the bytes of a Parquet file, checked.

    Parameters
    ----------
    path : where the bytes come from, for messages.

    Raises
    ------
    FileError : no Parquet file, a damaged one or one of something else, or a value that is missing, of the
        wrong type, out of range, or at odds with another.
    CollectiveError, TopologyError : a collective or a topology that cannot be.
    ScheduleError : the file can be read, and the schedule in it, or its bound, is not valid.
    """
    table = _Table.opened(data, None if path is None else str(path))
    fields = table.description
    if fields.values.get("format") != FORMAT:
        table.fail(f"this is not a schedule: its format is not {FORMAT!r}")
    if type(fields.values.get("version")) is not int or fields.values["version"] != VERSION:
        table.fail(f"its version is not {VERSION}", "a newer taccl, or making the file again")
    fields.expect(("format", "version", *DESCRIPTION, "sums"), optional=OPTIONAL_PROBLEM_KEYS)
    named = fields.values["sums"] is not None
    table.expect((*_COLUMNS, _SUM) if named else _COLUMNS)

    def schedule() -> Schedule:
        problem = read_problem(fields, table.num_rows)
        made = Schedule(
            problem,
            chunk=table.whole("chunk", 0, problem.num_chunks),
            link=table.whole("link", 0, problem.topology.num_links),
            start_us=table.times("start_us"),
            end_us=table.times("end_us"),
            reduce=table.column(_FLAG).astype(np.bool_),
            group=table.whole("group", 0, 2**62),
        )
        refuse_other_ends(fields, made, table.whole("src", 0, 2**31), table.whole("dst", 0, 2**31))
        if not named:
            return made
        members = members_of_sums(fields, problem.num_ranks)
        return replace(made, sums=PartialSums(table.whole(_SUM, -1, len(members)), members))

    return checked(schedule, fields)


def _description(schedule: Schedule, lower_bound_us: float, bound_source: str) -> bytes:
    values = {
        "format": FORMAT,
        "version": VERSION,
        **described(schedule.problem, lower_bound_us, bound_source),
        "sums": None if schedule.sums is None else sums_listed(schedule.sums),
    }
    try:
        text = json.dumps(values, allow_nan=False).encode()
    except ValueError as fault:
        raise _cannot_be_written("a number is not finite") from fault
    if len(text) > _MOST_DESCRIBED:
        raise _cannot_be_written(f"its problem takes {len(text)} bytes to describe: {_MOST_DESCRIBED} fit")
    return text


def _cannot_be_written(why: str) -> ScheduleError:
    return ScheduleError("the schedule cannot be written as Parquet", findings=[why])


def _stored(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in half the room where they fit: a column of a schedule has millions."""
    if column.dtype.kind != "i" or column.min(initial=0) < -(2**31) or column.max(initial=0) >= 2**31:
        return column
    return column.astype(np.int32)


@dataclass(frozen=True, eq=False)
class _Table:
    """A Parquet file that is believed as far as its description; its columns are looked at one by one."""

    file: Any
    description: Fields
    path: str | None

    @staticmethod
    def opened(data: bytes, path: str | None) -> _Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with _reported(path):
            file = pq.ParquetFile(
                pa.BufferReader(data),
                page_checksum_verification=True,
                thrift_string_size_limit=_MOST_DESCRIBED,
            )
            rows, text = file.metadata.num_rows, (file.metadata.metadata or {}).get(_KEY)
        if text is None:
            hint = "taccl synthesize --schedule FILE.parquet"
            raise FileError("this is a Parquet file, and no schedule", path=path, hint=hint)
        if not 0 <= rows <= _MOST_ROWS:
            raise FileError(f"it has {rows} rows, and a schedule {_MOST_ROWS} at most", path=path)
        try:
            return _Table(file, Fields.parse(text.decode(), path), path)
        except UnicodeDecodeError:
            raise FileError("its description is not text", path=path) from None
        except FileError as fault:  # its line is none of this file's
            raise FileError(f"its description is damaged: {fault.message}", path=path) from None

    @property
    def num_rows(self) -> int:
        return int(self.file.metadata.num_rows)

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        raise FileError(message, path=self.path, hint=hint)

    def expect(self, names: tuple[str, ...]) -> None:
        """Fail unless these are the columns, in any order, each of a type that fits its values."""
        with _reported(self.path):
            schema = self.file.schema_arrow
            given = {field.name: str(field.type) for field in schema}
            many = len(schema)
        for name in names:
            if name not in given:
                self.fail(f"the column {name} is missing")
            fitting = ("double",) if name in _TIMES else ("bool",) if name == _FLAG else ("int32", "int64")
            if given[name] not in fitting:
                self.fail(f"the column {name} must have the type {' or '.join(fitting)}, not {given[name]}")
        unknown = [name for name in given if name not in names]
        if unknown or many > len(given):
            self.fail(f"unknown column {unknown[0]}" if unknown else "a column is given twice")

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column; a row of it without one is refused."""
        with _reported(self.path):
            column = self.file.read(columns=[name], use_threads=False).column(0)
            missing = column.null_count
            values = column.to_numpy() if not missing else np.empty(0)
        if missing:
            self.fail(f"{missing} values of {name} are missing")
        if len(values) != self.num_rows:
            self.fail(f"the column {name} has {len(values)} values, and the file {self.num_rows} rows")
        return np.asarray(values)

    def whole(self, name: str, least: int, limit: int) -> IntArray:
        """A column of whole numbers from `least` up to, not including, `limit`."""
        values = self.column(name).astype(np.int64)
        if len(values) and not (least <= values.min() and values.max() < limit):
            row = int(np.flatnonzero((values < least) | (values >= limit))[0])
            self.fail(f"{name}[{row}] is {values[row]}, which is outside {least} .. {limit - 1}")
        return values

    def times(self, name: str) -> NDArray[np.float64]:
        """A column of finite numbers."""
        values = self.column(name).astype(np.float64)
        if not np.isfinite(values).all():
            self.fail(f"a value of {name} is out of range", "times are finite numbers")
        return values


@contextmanager
def _reported(path: str | None) -> Iterator[None]:
    """What the library says of damaged bytes, as a `FileError`."""
    import pyarrow as pa

    try:
        yield
    except MemoryError:
        raise FileError("this Parquet file takes more memory than there is", path=path) from None
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as fault:
        text = (str(fault).splitlines() or [type(fault).__name__])[0]
        raise FileError(f"this is not a Parquet file that can be read: {text}", path=path) from None
