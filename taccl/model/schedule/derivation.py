"""What each partial sum of a schedule is made of: the rows that brought its parts to its sender.

What cannot be made is left for `checks` to report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.numbering import different
from taccl.model.schedule.partial_sums import OWN, Holdings, contributors, ranks_of
from taccl.model.tolerance import over_us


@dataclass(frozen=True, eq=False)
class Derivation:
    """Where sums come from; rows and outputs of chunks that are not reduced are left out.

    Parameters
    ----------
    kinds : which chunks have the same rows.
    made : for each row of the first chunk of a kind, the rows that its sum is made of, and `OWN` for the
        sender's contribution.
    gathered : the same for each (chunk, rank) that wants such a sum, or the sum of a chunk of that kind.
    wanted : the (chunk, rank) that want a sum and get it.
    impossible : rows whose senders cannot make what they send by then, in the order of their starts.
    missing : for each (chunk, rank) that never gets the sum, the contributions that never come near it.
    """

    kinds: _Kinds
    made: dict[int, tuple[int, ...]]
    gathered: dict[tuple[int, int], tuple[int, ...]]
    wanted: list[tuple[int, int]]
    impossible: list[int]
    missing: dict[tuple[int, int], list[int]]

    @cached_property
    def rows(self) -> dict[int, tuple[int, ...]]:
        """For each row, the rows that its sum is made of, and `OWN` for the sender's contribution."""
        kinds, impossible = self.kinds, set(self.impossible)
        chunk, first_row = kinds.chunk.tolist(), kinds.first_row.tolist()
        ordered = (row for row in kinds.ordered.tolist() if row not in impossible)
        return {row: kinds.rows_for(self.made[first_row[row]], chunk[row]) for row in ordered}

    @cached_property
    def outputs(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """The same for each (chunk, rank) that wants the sum."""
        kinds, first = self.kinds, self.kinds.first_chunk.tolist()
        return {(c, rank): kinds.rows_for(self.gathered[first[c], rank], c) for c, rank in self.wanted}


def derive(schedule: Transfers) -> Derivation:
    """What every row and output of a schedule with `sums` is made of.

    Chunks whose rows are the same, as of those that always travel together, are looked at once.
    """
    collective = schedule.problem.collective
    whole = contributors(collective)
    sets = sets_of_rows(schedule, whole)
    kinds = _Kinds.of(schedule, sets, whole)
    others = np.flatnonzero(kinds.first_chunk != np.arange(len(whole)))
    holdings = Holdings(schedule.problem, without=set(others.tolist()))
    of_first = kinds.ordered[kinds.first_row[kinds.ordered] == kinds.ordered]
    made = _made_of(schedule, holdings, of_first.tolist(), sets)
    is_made = np.zeros(len(schedule.chunk), dtype=np.bool_)
    is_made[np.fromiter(made, np.int64, len(made))] = True
    impossible: list[int] = kinds.ordered[~is_made[kinds.first_row[kinds.ordered]]].tolist()
    of_sums = np.flatnonzero(collective.reduces[collective.outputs.chunk])
    wants, at = collective.outputs.chunk[of_sums], collective.outputs.rank[of_sums]
    gathered: dict[tuple[int, int], tuple[int, ...]] = {}
    lacks: dict[tuple[int, int], list[int]] = {}
    ranks = schedule.problem.num_ranks
    cells = kinds.first_chunk[wants] * ranks + at
    for first, rank in zip(*(each.tolist() for each in divmod(different(cells)[0], ranks)), strict=True):
        made_of = holdings.sources(first, rank, whole[first])
        if made_of is None:
            lacks[first, rank] = ranks_of(whole[first] & ~holdings.known(first, rank))
        else:
            gathered[first, rank] = made_of
    firsts = zip(kinds.first_chunk[wants].tolist(), wants.tolist(), at.tolist(), strict=True)
    missing = {(c, rank): lacks[first, rank] for first, c, rank in firsts if lacks and (first, rank) in lacks}
    wanted = [cell for cell in zip(wants.tolist(), at.tolist(), strict=True) if cell not in missing]
    return Derivation(kinds, made, gathered, wanted, impossible, missing)


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


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Chunks with the same contributors and the same rows, but for their own number, are of one kind.

    Parameters
    ----------
    chunk : shape (num_rows,); of each row.
    ordered : the rows of sums, in the order of their starts.
    by_chunk : the same by chunks; those of chunk c begin at `begin[c]`.
    place : shape (num_rows,); the number of each among those of its chunk.
    first_chunk : shape (num_chunks,); the first chunk of the kind of each.
    first_row : shape (num_rows,); of each row of a sum, the row at its place of that chunk.
    """

    chunk: IntArray
    ordered: IntArray
    by_chunk: IntArray
    begin: IntArray
    place: IntArray
    first_chunk: IntArray
    first_row: IntArray

    @staticmethod
    def of(schedule: Transfers, sets: list[int], whole: list[int]) -> _Kinds:
        """The kinds of the chunks that are summed; `sets` of each row, `whole` of each chunk."""
        chunk, start_us, end_us = schedule.chunk, schedule.start_us, schedule.end_us
        summed = np.flatnonzero(schedule.problem.collective.reduces[chunk])
        ordered = summed[np.lexsort((end_us[summed], start_us[summed]))]
        by_chunk = ordered[np.argsort(chunk[ordered], kind="stable")]
        many = np.bincount(chunk[by_chunk], minlength=len(whole))
        begin = np.cumsum(many) - many
        place = np.zeros(len(chunk), dtype=np.int64)
        place[by_chunk] = np.arange(len(by_chunk)) - begin[chunk[by_chunk]]
        named = _numbers(sets) if schedule.sums is None else schedule.sums.of_row
        times = (each.astype(np.float64).view(np.int64) for each in (start_us, end_us))
        columns = schedule.link.astype(np.int64), *times, named
        rows = np.stack([column[by_chunk] for column in columns], axis=1)
        differ = bool(schedule.problem.ready_at)  # then own contributions are there at different times
        seen: dict[tuple[int, int, bytes], int] = {}
        first_chunk = np.arange(len(whole))
        for c in np.flatnonzero(schedule.problem.collective.reduces).tolist():
            key = whole[c], c if differ else -1, rows[begin[c] : begin[c] + many[c]].tobytes()
            first_chunk[c] = seen.setdefault(key, c)
        first_row = np.full(len(chunk), -1)
        first_row[by_chunk] = by_chunk[begin[first_chunk[chunk[by_chunk]]] + place[by_chunk]]
        return _Kinds(chunk, ordered, by_chunk, begin, place, first_chunk, first_row)

    def rows_for(self, parts: tuple[int, ...], chunk: int) -> tuple[int, ...]:
        """Rows of the first chunk of a kind as rows of another chunk of that kind."""
        if self.first_chunk[chunk] == chunk:
            return parts
        begin, place, by_chunk = self.begin[chunk], self.place, self.by_chunk
        return tuple([OWN if part == OWN else int(by_chunk[begin + place[part]]) for part in parts])


def _numbers(sets: list[int]) -> IntArray:
    """A number for each row that is the same for the same set."""
    number: dict[int, int] = {}
    return np.array([number.setdefault(each, len(number)) for each in sets], dtype=np.int64)


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
