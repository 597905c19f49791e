"""What files say of a schedule, as plain values: the problem that it answers, and its columns."""

from __future__ import annotations

import numpy as np

from taccl.model.problem import Problem
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import PartialSums, contributors
from taccl.model.schedule.problem_codec import PROBLEM_KEYS, problem_values

FORMAT, VERSION = "taccl-schedule", 2

TRANSFERS = ("chunk", "src", "dst", "link", "start_us", "end_us", "reduce", "group")
#: What is said of the problem and of what is proved of it.
DESCRIPTION = ("lower_bound_us", "bound_source", *PROBLEM_KEYS)
#: Since version 2: `sums` has the contributors of each partial sum that occurs, `transfers.sum` the place
#: there of what each row carries, -1 for a copy. Both are null where each sum is made once and the table
#: would have more entries than this; then a row carries all that met at its sender.
_MOST_CONTRIBUTIONS = 2_000_000


def schedule_values(
    schedule: Transfers, lower_bound_us: float = 0.0, bound_source: str = ""
) -> dict[str, object]:
    """What `schedule_to_json` writes, as plain values."""
    sums, sum_of_row = _sums(schedule)
    return {
        "format": FORMAT,
        "version": VERSION,
        **described(schedule.problem, lower_bound_us, bound_source),
        "sums": sums,
        "transfers": {**{name: getattr(schedule, name).tolist() for name in TRANSFERS}, "sum": sum_of_row},
    }


def described(problem: Problem, lower_bound_us: float, bound_source: str) -> dict[str, object]:
    """The values of `DESCRIPTION`, and what else the problem uses."""
    return {
        "lower_bound_us": float(lower_bound_us),
        "bound_source": bound_source,
        **problem_values(problem),
    }


def transfer_columns(schedule: Transfers) -> dict[str, object]:
    """The columns of a schedule by name, the ranks at both ends of a link among them.

    Where the schedule has `sums`, `contributions` has the ranks whose contributions a row carries.
    """
    columns: dict[str, object] = {name: getattr(schedule, name) for name in TRANSFERS}
    if schedule.sums is not None:
        members = [tuple(np.flatnonzero(member).tolist()) for member in schedule.sums.members]
        of_row = schedule.sums.of_row.tolist()
        columns["contributions"] = [members[number] if number >= 0 else None for number in of_row]
    return columns


def _sums(schedule: Transfers) -> tuple[list[list[int]] | None, list[int] | None]:
    """The contributors of each partial sum, and which of them each row carries."""
    problem, rows = schedule.problem, int(schedule.reduce.sum())
    if schedule.sums is None and rows * problem.num_ranks > _MOST_CONTRIBUTIONS:
        return None, None
    sets = sets_of_rows(schedule, contributors(problem.collective))
    adding = [own if adds else 0 for own, adds in zip(sets, schedule.reduce.tolist(), strict=True)]
    sums = PartialSums.of_sets(adding, problem.num_ranks)
    return sums_listed(sums), sums.of_row.tolist()


def sums_listed(sums: PartialSums) -> list[list[int]]:
    """The contributors of each partial sum that occurs."""
    return [np.flatnonzero(row).tolist() for row in sums.members]
