"""What each partial sum of a schedule is made of: the rows that brought its parts to its sender.

It knows the rows, and when they arrive. It judges nothing: what cannot be made is left for `checks` to say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from taccl.errors import ScheduleError
from taccl.schedule.columns import Schedule
from taccl.schedule.partial_sums import OWN, Holdings, contributors, ranks_of
from taccl.tolerance import over_us


@dataclass(frozen=True, eq=False)
class Derivation:
    """Where sums come from; rows and outputs of chunks that are not reduced are left out.

    Parameters
    ----------
    rows : for each row, the rows that its sum is made of, and `OWN` for the sender's contribution.
    outputs : the same for each (chunk, rank) that wants the sum.
    impossible : rows whose senders cannot make what they send by then, in the order of their starts.
    missing : for each (chunk, rank) that never gets the sum, the contributions that never come near it.
    """

    rows: dict[int, tuple[int, ...]]
    outputs: dict[tuple[int, int], tuple[int, ...]]
    impossible: list[int]
    missing: dict[tuple[int, int], list[int]]


def derive(schedule: Schedule) -> Derivation:
    """What every row and output of a schedule with `sums` is made of."""
    collective = schedule.problem.collective
    holdings, whole = Holdings(schedule.problem), contributors(collective)
    sets = sets_of_rows(schedule, whole)
    rows: dict[int, tuple[int, ...]] = {}
    summed = np.flatnonzero(collective.reduces[schedule.chunk])
    order = np.lexsort((schedule.end_us[summed], schedule.start_us[summed]))
    waiting = summed[order].tolist()
    chunk, src, dst = schedule.chunk.tolist(), schedule.src.tolist(), schedule.dst.tolist()
    arrives_us: list[float] = over_us(schedule.end_us, schedule.end_us - schedule.start_us).tolist()
    # One pass is enough, but for links that take no time: there a row may stand before what it takes on.
    before = len(waiting) + 1
    while len(waiting) < before:
        before, later = len(waiting), []
        for row in waiting:
            by_us = float(schedule.start_us[row])
            made_of = holdings.sources(chunk[row], src[row], sets[row], by_us)
            if made_of is None:
                later.append(row)
                continue
            rows[row] = made_of
            holdings.receive(chunk[row], dst[row], sets[row], row, arrives_us[row])
        waiting = later
    outputs: dict[tuple[int, int], tuple[int, ...]] = {}
    missing: dict[tuple[int, int], list[int]] = {}
    for c, rank in zip(collective.outputs.chunk.tolist(), collective.outputs.rank.tolist(), strict=True):
        if collective.reduces[c]:
            made_of = holdings.sources(c, rank, whole[c])
            if made_of is None:
                missing[c, rank] = ranks_of(whole[c] & ~holdings.known(c, rank))
            else:
                outputs[c, rank] = made_of
    return Derivation(rows, outputs, waiting, missing)


def sets_of_rows(schedule: Schedule, whole: list[int]) -> list[int]:
    """The set of each row; of a copy, all contributions to its chunk. `whole` is `contributors`."""
    if schedule.sums is None:
        return _gathered(schedule, whole)
    named = schedule.sums.sets()
    return [own or whole[chunk] for own, chunk in zip(named, schedule.chunk.tolist(), strict=True)]


def compacted(schedule: Schedule) -> Schedule:
    """The same schedule in the compact form, if each of its sums is made once."""
    if schedule.sums is None:
        return schedule
    compact = replace(schedule, sums=None)
    try:
        compact.check()
    except ScheduleError:
        return schedule
    whole = contributors(schedule.problem.collective)
    return compact if sets_of_rows(compact, whole) == sets_of_rows(schedule, whole) else schedule


def _gathered(schedule: Schedule, whole: list[int]) -> list[int]:
    """The sets of a valid compact schedule: a partial sum carries all that met at its sender."""
    into: dict[tuple[int, int], list[int]] = defaultdict(list)
    chunk, src, dst = schedule.chunk.tolist(), schedule.src.tolist(), schedule.dst.tolist()
    adds = np.flatnonzero(schedule.reduce).tolist()
    for row in adds:
        into[chunk[row], dst[row]].append(row)
    sets = [0 if adding else whole[c] for adding, c in zip(schedule.reduce.tolist(), chunk, strict=True)]
    for row in _leaves_first(adds, [into[chunk[row], src[row]] for row in adds], len(schedule)):
        sets[row] = whole[chunk[row]] & (1 << src[row])
        for part in into[chunk[row], src[row]]:
            sets[row] |= sets[part]
    return sets


def _leaves_first(rows: list[int], made_of: list[list[int]], num_rows: int) -> Iterable[int]:
    """The rows, each after those that it is made of."""
    missing = [0] * num_rows
    users: dict[int, list[int]] = defaultdict(list)
    for row, parts in zip(rows, made_of, strict=True):
        missing[row] = len(parts)
        for part in parts:
            users[part].append(row)
    ready = [row for row in rows if not missing[row]]
    for row in ready:
        for user in users[row]:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return ready


__all__ = ["OWN", "Derivation", "compacted", "derive", "sets_of_rows"]
