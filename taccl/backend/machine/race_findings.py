"""Races in words, once per pair of operations."""

from __future__ import annotations

from taccl.backend.machine.acts import Machine
from taccl.backend.machine.contents import Contents
from taccl.backend.machine.order import Order
from taccl.backend.machine.races import Pairs, conflicts, unordered_threads
from taccl.backend.machine.report import Collector, Severity
from taccl.backend.machine.steps import Steps
from taccl.backend.machine.touches import Touches, Who

Seen = set[tuple[object, ...]]
_HINT = (
    "let the one that has to come second wait for a signal (or semaphore) of the other, with a nop "
    "before the signal and after the wait"
)
_FUSED = "fused steps pass on each chunk before they have the next, so the first may return too early"


def check_races_of_threads(
    machine: Machine,
    contents: Contents,
    order: Order,
    touches: Touches,
    seen: Seen,
    collector: Collector,
) -> int:
    """Findings for what threads, transfers and hosts touch in no order, and how many of them are errors.

    Parameters
    ----------
    seen : pairs that were reported already, which are not stated again; added to.
    """
    found = unordered_threads(order, conflicts(touches), contents.rewritten)
    teller = _Teller(machine, touches, seen, collector, ())
    teller.relaxed(found.relaxed)
    teller.rewritten(found.rewritten)
    return teller.racing(found.racing)


def check_races_of_steps(
    machine: Machine,
    steps: Steps,
    order: Order,
    pairs: Pairs,
    collector: Collector,
    runtimes: tuple[str, ...] = (),
) -> int:
    """Findings for pairs of steps that nothing orders, chunk by chunk; how many.

    Parameters
    ----------
    pairs : all that have to be ordered. runtimes : those that the findings concern; none for all.
    """
    teller = _Teller(machine, pairs.accesses.touches, set(), collector, runtimes)
    return teller.racing(steps.unordered(order, pairs), steps)


class _Teller:
    """Says what races."""

    def __init__(
        self,
        machine: Machine,
        touches: Touches,
        seen: Seen,
        collector: Collector,
        runtimes: tuple[str, ...],
    ) -> None:
        self.machine, self.names, self.touches = machine, machine.names, touches
        self.seen, self.collector, self.runtimes = seen, collector, runtimes

    def relaxed(self, pairs: Pairs) -> None:
        """Data that only relaxed signals speak of."""
        pairs = pairs.once()
        for u, v, cell in zip(*(touch.tolist() for touch in pairs.touches), pairs.cell.tolist(), strict=True):
            place = self.machine.layout.name(cell)
            if self.touches.who[v] == Who.HOST:
                message = (
                    f"writes {place}; when its kernel ends, that rank knows of it by relaxed signals only, "
                    "which do not say that data have arrived"
                )
                self._add(u, v, "relaxed-data", "warning", message, "close with signal and wait")
            else:
                message = (
                    f"touches {place} after {self._name(u)}, of which it knows by relaxed signals only; they "
                    "order execution, not data"
                )
                self._add(v, u, "relaxed-data", "warning", message, "use signal and wait")

    def rewritten(self, pairs: Pairs) -> None:
        """Writes of the same, ordered by packets only: the first may be visible after the second."""
        pairs = pairs.once()
        for u, v, cell in zip(*(touch.tolist() for touch in pairs.touches), pairs.cell.tolist(), strict=True):
            message = (
                f"writes {self.machine.layout.name(cell)}, where {self._name(u)} has put the same; only "
                "packets order the two, and they do not say that data have arrived"
            )
            hint = "let the block that wrote it first go on with it, or use signal and wait"
            self._add(v, u, "packet-ordered", "warning", message, hint)

    def racing(self, pairs: Pairs, steps: Steps | None = None) -> int:
        """Pairs without any order; how many are errors."""
        errors, pairs, who = 0, pairs.once(), self.touches.who
        for u, v, cell in zip(*(touch.tolist() for touch in pairs.touches), pairs.cell.tolist(), strict=True):
            place, reads = self.machine.layout.name(cell), not self.touches.writes[u]
            severity: Severity = "error"
            subject, other = v, u
            if who[v] == Who.HOST and who[u] == Who.TRANSFER and reads:
                rule, severity, subject, other = "unflushed-source", "warning", u, v
                message = f"may still be reading {place} when the kernel ends and the host rewrites it"
                hint = "use pwsf, or wait for a signal that the other end sends when it has the data"
            elif who[v] == Who.HOST:
                rule, subject, other = "outstanding-at-end", u, v
                message = f"may still touch {place} when the kernel of that rank ends and its host goes on"
                hint = "signal afterwards, and let a block of that rank wait for it"
            elif who[u] == Who.HOST:
                rule = "before-start"
                message = f"may touch {place} before the kernel of that rank has started"
                hint = "let that rank signal first, and wait for it here (and meet: nop)"
            elif steps is not None:
                rule, (message, hint) = "race", self._race_of_steps(u, v, place, steps)
            else:
                rule, (message, hint) = "race", self._race(u, v, place)
            errors += self._add(subject, other, rule, severity, message, hint) and severity == "error"
        return errors

    def _race(self, u: int, v: int, place: str) -> tuple[str, str]:
        touches = self.touches
        if touches.actor[u] == touches.actor[v]:
            return (
                f"writes {place} while other threads of it read or write it",
                "use ranges that do not overlap, or are the same",
            )
        said = self._both_touch(u, v, place)
        if touches.segment[u] == touches.segment[v]:
            return f"{said}, without a nop between them", "put a nop between them"
        if touches.call[u] != touches.call[v]:
            said += f" in call {touches.call[u] + 1}, and this is call {touches.call[v] + 1}"
        return f"{said}, and nothing says which comes first", _HINT

    def _race_of_steps(self, u: int, v: int, place: str, steps: Steps) -> tuple[str, str]:
        why = "nothing says which comes first"
        if steps.is_upstream(int(self.touches.act[u]), int(self.touches.act[v])):
            why = (
                "fused steps pass on each chunk before they have the next, so the first may return too early"
            )
        said = f"{self.machine.layout.mode}, {self._both_touch(u, v, place)}, and {why}"
        return f": {said}", self.names.how_to_order()

    def _both_touch(self, u: int, v: int, place: str) -> str:
        first, second = self.touches.writes[u], self.touches.writes[v]
        verbs = ["writes" if write else "reads" for write in (second, first)]
        return f"{verbs[0]} {place}, which {self._name(u)} {verbs[1]}"

    def _name(self, touch: int) -> str:
        act, who = int(self.touches.act[touch]), self.touches.who[touch]
        if who == Who.HOST:
            return f"the host of rank {self.touches.rank[touch]}"
        place = self.names.act_and_line(act)
        return f"the transfer of {place}" if who == Who.TRANSFER else place

    def _key(self, touch: int) -> tuple[object, ...]:
        who, act = int(self.touches.who[touch]), int(self.touches.act[touch])
        return (who, int(self.touches.rank[touch])) if act < 0 else (who, *self.names.place(act))

    def _add(self, subject: int, other: int, rule: str, severity: Severity, message: str, hint: str) -> bool:
        """Whether it is news."""
        key = (rule, *self._key(subject), *self._key(other))
        if key in self.seen:
            return False
        self.seen.add(key)
        act = int(self.touches.act[subject])
        self.collector.add(self.names.finding(act, rule, message, hint, severity, runtimes=self.runtimes))
        return True
