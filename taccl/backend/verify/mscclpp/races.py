"""Races of plans: two accesses to a cell, one of them a write, that nothing orders.

Accesses are by hosts, by threads of blocks, and by transfers of ports; every access is compared with the
write before it, and every write with the reads since then (see `verify.conflicts`). Threads of a block are
in no order until they meet, but one thread does what it does in order: two accesses of one segment that
begin at the same cell and are equally wide give each byte to the same thread. Packets of one call in one
place hold the same, and need no order; only ports, which do not wait for them, must come after. What was
only read may be overwritten once the read is known to be done; what was written must also be visible.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.machine.conflicts import conflicting
from taccl.backend.machine.order import DATA, PACKETS, RELAXED, Order
from taccl.backend.machine.report import Collector, Severity
from taccl.backend.verify.mscclpp.accesses import NO_THREAD, Access, Actor, Record, Who
from taccl.backend.verify.mscclpp.acts import Unfolded
from taccl.model.collective import BoolArray, IntArray

Seen = set[tuple[object, ...]]


def check_races(unfolded: Unfolded, order: Order, record: Record, seen: Seen, collector: Collector) -> int:
    """Findings for pairs that nothing orders, and how many of them are errors.

    Parameters
    ----------
    seen : pairs that were reported already, which are not stated again; added to.
    """
    access = record.columns()
    first, second = _conflicts(access)
    left = _unordered(access, order, first, second, DATA)
    first, second = first[left], second[left]
    plain = ~access.packets[second]
    needs_data = access.writes[first] & plain
    reported = _Teller(unfolded, record, access, seen, collector)

    rows = np.flatnonzero(needs_data)
    open_ = _unordered(access, order, first[rows], second[rows], RELAXED)
    relaxed = np.ones(len(rows), dtype=np.bool_)
    relaxed[open_] = False
    reported.relaxed(first[rows[relaxed]], second[rows[relaxed]])
    racing = [rows[open_]]

    rows = np.flatnonzero(~needs_data)
    rows = rows[_unordered(access, order, first[rows], second[rows], PACKETS)]
    alone = np.flatnonzero(access.element[first[rows]])
    reached = order.reaches(access.moment[first[rows[alone]]], access.moment[second[rows[alone]]])
    keep = np.ones(len(rows), dtype=np.bool_)
    keep[alone[reached]] = False
    racing.append(rows[keep])

    found = np.concatenate(racing)
    return reported.racing(first[found], second[found])


def _conflicts(access: Access) -> tuple[IntArray, IntArray]:
    """Pairs of accesses that must be ordered.

    Packets of one call in one place need no order. So what comes after the last of them must also come after
    the others, and after whoever read them.
    """
    first, second = conflicting(access.cell, np.arange(len(access)), access.writes)
    rewritten = _same_packet(access, first, second) & access.writes[second]
    earlier: dict[int, list[int]] = {}
    for u, v in zip(first[rewritten].tolist(), second[rewritten].tolist(), strict=True):
        earlier.setdefault(v, []).append(u)
    more = [
        (u, v)
        for last, v in zip(first.tolist(), second.tolist(), strict=True)
        if last in earlier
        for u in _all_before(last, earlier)
    ]
    added = np.array(more, dtype=np.int64).reshape(-1, 2)
    return np.concatenate([first, added[:, 0]]), np.concatenate([second, added[:, 1]])


def _all_before(row: int, earlier: dict[int, list[int]]) -> set[int]:
    found, ahead = set[int](), [row]
    while ahead:
        for each in earlier.get(ahead.pop(), ()):
            if each not in found:
                found.add(each)
                ahead.append(each)
    return found


def _same_packet(access: Access, first: IntArray, second: IntArray) -> BoolArray:
    """Whether the second writes what is there already, or waits for it, as transfers of ports do not."""
    same: BoolArray = np.equal(access.call[first], access.call[second])
    same &= access.writes[second] | (access.width[second] != NO_THREAD)
    return np.logical_and(same, access.packets[first] & access.packets[second])


def _unordered(access: Access, order: Order, first: IntArray, second: IntArray, level: int) -> IntArray:
    """Rows of the pairs of which the second does not know, at this level, that the first is done."""
    same_thread = (
        (access.segment[first] == access.segment[second])
        & (access.width[first] == access.width[second])
        & (access.width[first] != NO_THREAD)
        & (access.start[first] == access.start[second])
    )
    rows = np.flatnonzero(~same_thread & ~_same_packet(access, first, second))
    u, v = first[rows], second[rows]
    known = order.knows(level, access.moment[v], access.column[u], access.tick[u])
    return rows[~known]


class _Teller:
    """Says what races, once per pair of operations."""

    def __init__(
        self, unfolded: Unfolded, record: Record, access: Access, seen: Seen, collector: Collector
    ) -> None:
        self.unfolded, self.record, self.access = unfolded, record, access
        self.seen, self.collector = seen, collector

    def relaxed(self, first: IntArray, second: IntArray) -> None:
        """Data that only relaxed signals speak of."""
        for u, v in self._pairs(first, second):
            a, b = self._actors(u, v)
            place, mine = self._cell(v), self._name(a)
            if b.who is Who.HOST:
                self._add(
                    a,
                    b,
                    "relaxed-data",
                    "warning",
                    f"writes {place}; when its kernel ends, that rank knows of it by relaxed signals only, "
                    "which do not say that data have arrived",
                    "close with signal and wait",
                )
            else:
                self._add(
                    b,
                    a,
                    "relaxed-data",
                    "warning",
                    f"touches {place} after {mine}, of which it knows by relaxed signals only; they order "
                    "execution, not data",
                    "use signal and wait",
                )

    def racing(self, first: IntArray, second: IntArray) -> int:
        """Pairs without any order; how many are errors."""
        errors = 0
        for u, v in self._pairs(first, second):
            a, b = self._actors(u, v)
            place, reads = self._cell(v), not self.access.writes[u]
            severity: Severity = "error"
            if b.who is Who.HOST and a.who is Who.TRANSFER and reads:
                rule, severity, subject, other = "unflushed-source", "warning", a, b
                message = f"may still be reading {place} when the kernel ends and the host rewrites it"
                hint = "use pwsf, or wait for a signal that the other end sends when it has the data"
            elif b.who is Who.HOST:
                rule, subject, other = "outstanding-at-end", a, b
                message = f"may still touch {place} when the kernel of that rank ends and its host goes on"
                hint = "signal afterwards, and let a block of that rank wait for it"
            elif a.who is Who.HOST:
                rule, subject, other = "before-start", b, a
                message = f"may touch {place} before the kernel of that rank has started"
                hint = "let that rank signal first, and wait for it here (and meet: nop)"
            else:
                rule, subject, other = "race", b, a
                message, hint = self._race(u, v, a, b, place)
            if self._add(subject, other, rule, severity, message, hint):
                errors += severity == "error"
        return errors

    def _race(self, u: int, v: int, a: Actor, b: Actor, place: str) -> tuple[str, str]:
        mine = self._name(a)
        if a is b or self.access.actor[u] == self.access.actor[v]:
            return (
                f"writes {place} while other threads of it read or write it",
                "use ranges that do not overlap, or are the same",
            )
        verbs = ("writes", "wrote") if self.access.writes[v] else ("reads", "writes")
        did = verbs[1] if self.access.writes[u] else "reads"
        said = f"{verbs[0]} {place}, which {mine} {'writes' if did == 'wrote' else did}"
        if self.access.segment[u] == self.access.segment[v]:
            return f"{said}, without a nop between them", "put a nop between them"
        if a.call != b.call:
            said += f" in call {a.call + 1}, and this is call {b.call + 1}"
        return (
            f"{said}, and nothing says which comes first",
            "let the one that has to come second wait for a signal (or semaphore) of the other, with a nop "
            "before the signal and after the wait",
        )

    def _pairs(self, first: IntArray, second: IntArray) -> list[tuple[int, int]]:
        """Each two actors once."""
        if not len(first):
            return []
        actor = self.access.actor
        key = actor[first] * len(self.record.actors) + actor[second]
        _, kept = np.unique(key, return_index=True)
        kept = np.sort(kept)
        return list(zip(first[kept].tolist(), second[kept].tolist(), strict=True))

    def _actors(self, u: int, v: int) -> tuple[Actor, Actor]:
        actors = self.record.actors
        return actors[int(self.access.actor[u])], actors[int(self.access.actor[v])]

    def _cell(self, row: int) -> str:
        return self.unfolded.layout.name(int(self.access.cell[row]))

    def _name(self, actor: Actor) -> str:
        if actor.act is None:
            return f"the host of rank {actor.rank}"
        place = self.unfolded.place(actor.block, actor.act)
        return f"the transfer of {place}" if actor.who is Who.TRANSFER else place

    def _add(
        self, subject: Actor, other: Actor, rule: str, severity: Severity, message: str, hint: str
    ) -> bool:
        """Whether it is news."""
        assert subject.act is not None
        key = (rule, *_place(subject), *_place(other))
        if key in self.seen:
            return False
        self.seen.add(key)
        self.collector.add(self.unfolded.finding(subject.block, subject.act, rule, message, hint, severity))
        return True


def _place(actor: Actor) -> tuple[object, ...]:
    if actor.act is None:
        return (actor.who, actor.rank)
    return (actor.who, actor.block, actor.act.step, actor.act.inner)
