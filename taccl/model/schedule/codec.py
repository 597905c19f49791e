"""A schedule as a JSON file, whole: the problem that it answers, its columns, and what is proven of it.

Every column is on a line of its own. Floats are written so that they are read back exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from taccl.errors import CollectiveError, ScheduleError, TopologyError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.model.schedule.fields import Fields
from taccl.model.schedule.partial_sums import PartialSums
from taccl.model.schedule.problem_codec import (
    OPTIONAL_PROBLEM_KEYS,
    read_problem,
)
from taccl.model.schedule.schedule import Schedule, compacted
from taccl.model.schedule.values import DESCRIPTION, FORMAT, TRANSFERS, VERSION, schedule_values
from taccl.model.tolerance import contradicts

_FILE = ("format", "version", *DESCRIPTION, "transfers")


@dataclass(frozen=True, eq=False)
class SavedSchedule:
    """What a schedule file holds.

    Parameters
    ----------
    schedule : it passed `Schedule.check()` when it was read.
    lower_bound_us : what the file claims: no schedule of `schedule.problem` is faster, microseconds; 0 for
        no claim. Anybody can write one into a file; `taccl.bounds` and `taccl show` prove their own.
    bound_source : why, in the file's words.
    """

    schedule: Schedule
    lower_bound_us: float = 0.0
    bound_source: str = ""


def schedule_to_json(schedule: Schedule, *, lower_bound_us: float = 0.0, bound_source: str = "") -> str:
    """The text that `schedule_from_json` reads back, value for value.

    Parameters
    ----------
    lower_bound_us, bound_source : what is proven about every schedule of the same problem.

    Raises
    ------
    ScheduleError : a number is not finite, which no JSON file can hold.
    """
    try:
        return _lines(schedule_values(schedule, lower_bound_us, bound_source)) + "\n"
    except ValueError as fault:
        raise ScheduleError(
            "the schedule cannot be written as JSON", findings=["a number is not finite"]
        ) from fault


def schedule_from_json(text: str, path: str | Path | None = None) -> SavedSchedule:
    """The schedule in a JSON text, checked.

    Parameters
    ----------
    path : where the text comes from, for messages.

    Raises
    ------
    FileError : not such a file, another version, or a value that is missing, unknown, of the wrong
        type, out of range, or at odds with another.
    CollectiveError, TopologyError : a collective or a topology that cannot be.
    ScheduleError : the file can be read, and the schedule in it, or its bound, is not valid.
    """
    fields = Fields.parse(text, path)
    if fields.values.get("format") != FORMAT:
        fields.fail(
            f"this is not a schedule: its format is not {FORMAT!r}", "taccl synthesize --schedule FILE"
        )
    version = fields.values.get("version")
    if type(version) is not int or version not in (1, VERSION):
        fields.fail(f"its version is neither 1 nor {VERSION}", "a newer taccl, or making the file again")
    if version == 1:
        fields.expect(_FILE)
    else:
        fields.expect((*_FILE, "sums"), optional=OPTIONAL_PROBLEM_KEYS)

    def schedule() -> Schedule:
        problem = read_problem(fields, rows=len(fields.inner("transfers").sequence("chunk")))
        rows = fields.inner("transfers")
        rows.expect(TRANSFERS if version == 1 else (*TRANSFERS, "sum"))
        made = _schedule(rows, problem)
        if fields.values.get("sums") is None:
            return made
        return compacted(replace(made, sums=_read_sums(fields, rows, made)))

    return checked(schedule, fields)


def checked(schedule: Callable[[], Schedule], fields: Fields) -> SavedSchedule:
    """What `schedule` makes of a file's values, with the bound that stands next to it, if both can be.

    Raises
    ------
    FileError : the bound is none.
    CollectiveError, TopologyError, ScheduleError : as `schedule_from_json`, with the file's path.
    """
    try:
        made = schedule()
        bound, source = fields.number("lower_bound_us"), fields.text("bound_source")
        if bound < 0:
            fields.fail(f"lower_bound_us must not be negative, and it is {bound}")
        made.check()
        _bound_can_be(made, bound)
    except (TopologyError, CollectiveError) as fault:
        raise type(fault)(fault.message, path=fields.path, hint=fault.hint) from None
    except ScheduleError as fault:
        raise ScheduleError(
            fault.message, findings=fault.findings, path=fields.path, hint=fault.hint
        ) from None
    return SavedSchedule(made, bound, source)


def _lines(content: dict[str, object], indent: str = "") -> str:
    """JSON with each key on a line of its own, and each column on one line."""
    deeper = indent + "  "
    rows = [
        f"{deeper}{json.dumps(key)}: "
        + (_lines(value, deeper) if isinstance(value, dict) else json.dumps(value, allow_nan=False))
        for key, value in content.items()
    ]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def _read_sums(fields: Fields, rows: Fields, schedule: Schedule) -> PartialSums:
    members = members_of_sums(fields, schedule.problem.num_ranks)
    of_row = rows.shifts("sum", len(schedule))
    bad = np.flatnonzero((of_row < -1) | (of_row >= len(members)))
    if len(bad):
        rows.fail(f"transfers.sum[{bad[0]}] is {of_row[bad[0]]}, which is outside -1 .. {len(members) - 1}")
    return PartialSums(of_row, members)


def members_of_sums(fields: Fields, num_ranks: int) -> BoolArray:
    """`PartialSums.members`, from the lists that `sums_listed` made."""
    lists = fields.integer_lists("sums")
    members = np.zeros((len(lists), num_ranks), dtype=np.bool_)
    for row, ranks in enumerate(lists):
        if len(ranks) and ranks.max() >= num_ranks:
            fields.fail(f"sums[{row}] has rank {ranks.max()}, which is none")
        members[row, ranks] = True
    return members


def _schedule(fields: Fields, problem: Problem) -> Schedule:
    chunk = fields.integers("chunk", limit=problem.num_chunks)
    rows = len(chunk)
    schedule = Schedule(
        problem=problem,
        chunk=chunk,
        link=fields.integers("link", rows, problem.topology.num_links),
        start_us=fields.floats("start_us", rows),
        end_us=fields.floats("end_us", rows),
        reduce=fields.booleans("reduce", rows),
        group=fields.integers("group", rows),
    )
    refuse_other_ends(fields, schedule, fields.integers("src", rows), fields.integers("dst", rows))
    return schedule


def refuse_other_ends(fields: Fields, schedule: Schedule, src: IntArray, dst: IntArray) -> None:
    """Fail where the ranks that a file gives for a row are not those that its link joins."""
    for name, given, column in (("src", src, schedule.src), ("dst", dst, schedule.dst)):
        differs = np.flatnonzero(given != column)
        if len(differs):
            row = int(differs[0])
            link = int(schedule.link[row])
            fields.fail(
                f"transfers.{name}[{row}] is {given[row]}, but its link {link} "
                f"is {schedule.problem.topology.describe_link(link)}"
            )


def _bound_can_be(schedule: Schedule, bound_us: float) -> None:
    time_us = schedule.makespan_us
    if contradicts(bound_us, time_us):
        raise ScheduleError(
            "the lower bound is not valid",
            findings=[f"it is {bound_us:.6f} us, and this valid schedule takes {time_us:.6f} us"],
        )
