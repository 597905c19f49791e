"""Schedules in files: which format a name asks for, and which one the bytes of a file are in.

`codec` and `parquet` read and write what stands in each.
"""

from __future__ import annotations

import re
from pathlib import Path

from taccl.errors import FileError
from taccl.model.schedule.codec import SavedSchedule, schedule_from_json, schedule_to_json
from taccl.model.schedule.parquet import MAGIC, schedule_from_parquet, schedule_to_parquet
from taccl.model.schedule.values import FORMAT
from taccl.support.reading import bytes_of

#: The ending of a name that asks for columns; every other one is JSON.
PARQUET = ".parquet"
#: A value of JSON that is neither an object nor a list.
_JSON_WORD = re.compile(rb'\s*(null|true|false|-?[0-9][0-9.eE+-]*|"[^"]*")\s*')


def schedule_file(path: str | Path, saved: SavedSchedule) -> str | bytes:
    """What a file of this name holds: Parquet if the name ends so, else JSON.

    Raises
    ------
    ScheduleError : a number is not finite, which no file can hold.
    """
    write = schedule_to_parquet if Path(path).suffix.lower() == PARQUET else schedule_to_json
    return write(saved.schedule, lower_bound_us=saved.lower_bound_us, bound_source=saved.bound_source)


def read_schedule(path: str | Path) -> SavedSchedule:
    """The schedule in a file, JSON or Parquet whatever its name is, checked.

    Raises
    ------
    FileError : the file cannot be read; and whatever `schedule_from_json` and `schedule_from_parquet` raise.
    """
    data = bytes_of(path)
    if data.startswith(MAGIC):
        return schedule_from_parquet(data, path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileError("this is not a text file", path=path) from None
    return schedule_from_json(text, path)


def begins_as_json(content: bytes) -> bool:
    """Whether bytes begin as an object or a list of JSON does, or are another value of JSON."""
    begin = content[:64].removeprefix(b"\xef\xbb\xbf")
    if begin.lstrip().startswith((b"{", b"[")):
        return True
    return _JSON_WORD.fullmatch(content.removeprefix(b"\xef\xbb\xbf")) is not None


def begins_as_schedule(content: bytes) -> bool:
    """Whether bytes are a saved schedule's: Parquet, or JSON that names the format."""
    return content.startswith(MAGIC) or (begins_as_json(content) and f'"{FORMAT}"'.encode() in content)
