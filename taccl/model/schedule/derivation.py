"""What each partial sum of a schedule is made of: the rows that brought its parts to its sender.

What cannot be made is left for `checks` to report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.partial_sums import OWN, Holdings, contributors, ranks_of
from taccl.model.tolerance import over_us


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


def derive(schedule: Transfers) -> Derivation:
    """What every row and output of a schedule with `sums` is made of.

    Chunks whose rows are the same, as of those that always travel together, are looked at once.
    """
    collective = schedule.problem.collective
    holdings, whole = Holdings(schedule.problem), contributors(collective)
    sets = sets_of_rows(schedule, whole)
    summed = np.flatnonzero(collective.reduces[schedule.chunk])
    ordered: list[int] = summed[np.lexsort((schedule.end_us[summed], schedule.start_us[summed]))].tolist()
    equivalent = _Equivalent(schedule, ordered, sets, whole)
    made = _made_of(schedule, holdings, [row for row in ordered if equivalent.is_first(row)], sets)
    rows = {}
    for row in ordered:
        first = equivalent.first_row[row]
        if first in made:
            rows[row] = made[first] if first == row else equivalent.carried_over(made[first], row)
    outputs: dict[tuple[int, int], tuple[int, ...]] = {}
    missing: dict[tuple[int, int], list[int]] = {}
    for c, rank in zip(collective.outputs.chunk.tolist(), collective.outputs.rank.tolist(), strict=True):
        if not collective.reduces[c]:
            continue
        first = equivalent.first_chunk[c]
        made_of = holdings.sources(first, rank, whole[c])
        if made_of is None:
            missing[c, rank] = ranks_of(whole[c] & ~holdings.known(first, rank))
        else:
            outputs[c, rank] = made_of if first == c else equivalent.rows_for(made_of, c)
    return Derivation(rows, outputs, [row for row in ordered if row not in rows], missing)


def _made_of(
    schedule: Transfers, holdings: Holdings, waiting: list[int], sets: list[int]
) -> dict[int, tuple[int, ...]]:
    """What each of some rows is made of, as far as it can be; `waiting` : in the order of their starts."""
    rows: dict[int, tuple[int, ...]] = {}
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
    return rows


class _Equivalent:
    """Chunks with the same contributors and the same rows, but for their own number.

    `first_chunk` and `first_row` name for each chunk the first that is like it, and for each of its rows that
    one's row.
    """

    def __init__(self, schedule: Transfers, ordered: list[int], sets: list[int], whole: list[int]) -> None:
        link, chunk = schedule.link.tolist(), schedule.chunk.tolist()
        start_us, end_us = schedule.start_us.tolist(), schedule.end_us.tolist()
        self._rows: list[list[int]] = [[] for _ in whole]
        for row in ordered:
            self._rows[chunk[row]].append(row)
        self._chunk, self._place = chunk, dict[int, int]()
        self.first_chunk, self.first_row = list(range(len(whole))), dict[int, int]()
        seen: dict[tuple[object, ...], int] = {}
        differ = bool(schedule.problem.ready_at)  # then own contributions are there at different times
        for c, rows in enumerate(self._rows):
            key = (whole[c], c if differ else -1, *[(link[i], start_us[i], end_us[i], sets[i]) for i in rows])
            first = seen.setdefault(key, c)
            self.first_chunk[c] = first
            self.first_row.update(zip(rows, self._rows[first], strict=True))
            if first == c:
                self._place.update((row, place) for place, row in enumerate(rows))

    def is_first(self, row: int) -> bool:
        """Whether a row is of a chunk that is the first of its kind."""
        return self.first_row[row] == row

    def carried_over(self, parts: tuple[int, ...], row: int) -> tuple[int, ...]:
        """Rows of the first chunk of a kind as rows of the chunk of `row`."""
        return self.rows_for(parts, self._chunk[row])

    def rows_for(self, parts: tuple[int, ...], chunk: int) -> tuple[int, ...]:
        """Rows of the first chunk of a kind as rows of another chunk."""
        rows = self._rows[chunk]
        return tuple([OWN if part == OWN else rows[self._place[part]] for part in parts])


def sets_of_rows(schedule: Transfers, whole: list[int]) -> list[int]:
    """The set of each row; of a copy, all contributions to its chunk. `whole` is `contributors`."""
    if schedule.sums is None:
        return _gathered(schedule, whole)
    named = schedule.sums.sets()
    return [own or whole[chunk] for own, chunk in zip(named, schedule.chunk.tolist(), strict=True)]


def _gathered(schedule: Transfers, whole: list[int]) -> list[int]:
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


__all__ = ["OWN", "Derivation", "derive", "sets_of_rows"]
