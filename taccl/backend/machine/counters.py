"""What counts from call to call: signals and waits of every channel's end, semaphores, members of barriers.

They live on when a kernel ends, so what a call adds it must take; and each end has one block that waits
there and one that signals, for else nobody can say which wait is for which signal. All this is so in every
order, and is read from the acts of one call.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from taccl.backend.machine.acts import Acts, Kind, Machine
from taccl.backend.machine.report import Collector, Severity


@dataclass(eq=False)
class _Uses:
    """Who counts something up and down, and how often in a call; of each block its first act that does."""

    up: int = 0
    down: int = 0
    ups: dict[int, int] = field(default_factory=dict)
    downs: dict[int, int] = field(default_factory=dict)


def check_counters(machine: Machine, seen: set[tuple[object, ...]], collector: Collector) -> None:
    """Findings for whatever is not as it was when a call ends, and for what has several users.

    Parameters
    ----------
    seen : what was reported already, at another size of call; added to.
    """
    teller = _Teller(machine, seen, collector)
    for act in _waits_in_two_lanes(machine.acts):
        teller.two_lanes(act)
    for (is_semaphore, counter), uses in sorted(_uses(machine.acts).items()):
        if is_semaphore:
            teller.semaphore(counter, uses)
        else:
            teller.end(counter, uses)
    _barriers(machine.acts, teller)


def _uses(acts: Acts) -> dict[tuple[bool, int], _Uses]:
    """Per counter of signals, and then of semaphores; signals to ends that are not there count nowhere."""
    uses: dict[tuple[bool, int], _Uses] = defaultdict(_Uses)
    signals = acts.where(Kind.SIGNAL, Kind.PUSH, Kind.WAIT)
    for is_semaphore, rows in ((False, signals), (True, acts.where(Kind.RELEASE, Kind.ACQUIRE))):
        columns = (column[rows].tolist() for column in (acts.block, acts.gives, acts.takes))
        for act, block, gives, takes in zip(rows.tolist(), *columns, strict=True):
            if gives >= 0:
                here = uses[is_semaphore, gives]
                here.up += 1
                here.ups.setdefault(block, act)
            if takes >= 0:
                here = uses[is_semaphore, takes]
                here.down += 1
                here.downs.setdefault(block, act)
    return uses


def _waits_in_two_lanes(acts: Acts) -> list[int]:
    """Waits at an end where another lane has waited before, with no meeting between."""
    found, waiting, wait = [], dict[tuple[int, int], int](), int(Kind.WAIT)
    rows = acts.where(Kind.WAIT, Kind.MEET, Kind.BARRIER)
    columns = (column[rows].tolist() for column in (acts.kind, acts.block, acts.takes, acts.lane))
    for act, kind, block, takes, lane in zip(rows.tolist(), *columns, strict=True):
        if kind != wait:
            waiting.clear()
        elif waiting.setdefault((block, takes), lane) != lane:
            found.append(act)
    return found


def _barriers(acts: Acts, teller: _Teller) -> None:
    calls: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for act in acts.where(Kind.BARRIER).tolist():
        calls[int(acts.gives[act])][int(acts.block[act])].append(act)
    for of_blocks in calls.values():
        if len({len(of_block) for of_block in of_blocks.values()}) > 1:
            teller.barrier(of_blocks)


@dataclass(frozen=True, eq=False)
class _Teller:
    """Says what is wrong, once."""

    machine: Machine
    seen: set[tuple[object, ...]]
    collector: Collector

    def end(self, end: int, uses: _Uses) -> None:
        """The end of a channel where somebody waits or is signalled to."""
        name = self.machine.names.counter(end)
        self._several(uses.ups, "signals to", name, "shared-channel-end", "a channel for each")
        self._several(uses.downs, "waits at", name, "shared-channel-end", "a channel for each")
        if uses.up == uses.down:
            return
        act = next(iter((uses.downs or uses.ups).values()))
        said = f"in each call {name} gets {uses.up} signals, and {uses.down} are waited for"
        if not uses.down:
            self._add(act, "unread-signal", f"signals, and nobody waits: {said}", "warning")
        elif uses.up > uses.down:
            self._add(act, "unequal-signals", f"waits too seldom: {said}, so the next call goes on too early")
        else:
            self._add(act, "unequal-signals", f"waits too often: {said}, so it hangs")

    def two_lanes(self, act: int) -> None:
        """Two threads wait at one end, in no order."""
        name = self.machine.names.counter(int(self.machine.acts.takes[act]))
        message = f"waits at {name} in another lane than before, without a nop between"
        self._add(act, "shared-channel-end", f"{message}: which waits for which signal is open")

    def semaphore(self, semaphore: int, uses: _Uses) -> None:
        """A semaphore of a rank."""
        act = next(iter((uses.downs or uses.ups).values()))
        name = self.machine.names.counter(semaphore)
        self._several(uses.downs, "acquires", name, "shared-semaphore", "a semaphore for each that acquires")
        if uses.up == uses.down:
            return
        said = f"in each call {name} is released {uses.up} times and acquired {uses.down} times"
        if not uses.down:
            self._add(act, "unequal-releases", f"releases, and nobody acquires: {said}", "warning")
        else:
            what = "hangs in a later call" if uses.up < uses.down else "goes on too early in the next call"
            message = f"does not return it to its value: {said}, so it {what}"
            self._add(act, "unequal-releases", message)

    def barrier(self, calls: dict[int, list[int]]) -> None:
        """Blocks call a barrier unequally often."""
        acts = min(calls.values(), key=len)
        name = self.machine.names.counter(int(self.machine.acts.gives[acts[0]]))
        most = max(map(len, calls.values()))
        self._add(
            acts[0], "barrier-members", f"calls {name} in {len(acts)} of the {most} times that others do"
        )

    def _several(self, users: dict[int, int], verb: str, name: str, rule: str, instead: str) -> None:
        if len(users) > 1:
            first, second, *_ = users.values()
            other = self.machine.names.act(first)
            message = f"{verb} {name}, and so does {other}: which of them is meant is open"
            self._add(second, rule, message, hint=f"use {instead}")

    def _add(
        self,
        act: int,
        rule: str,
        message: str,
        severity: Severity = "error",
        hint: str = "let a call take off every counter what it adds",
    ) -> None:
        key = (rule, self.machine.names.place(act))
        if key not in self.seen:
            self.seen.add(key)
            self.collector.add(self.machine.names.finding(act, rule, message, hint, severity))
