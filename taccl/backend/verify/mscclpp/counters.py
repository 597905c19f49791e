"""What counts from call to call: signals and waits of every channel's end, semaphores, members of barriers.

They live on when a kernel ends, so what a call adds it must take; and each end has one block that waits
there and one that signals, for else nobody can say which wait is for which signal. All this is so in every
order, and is read from the acts of one call.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from taccl.backend.machine.report import Collector, Severity
from taccl.backend.verify.mscclpp.acts import Act, Kind, Unfolded


@dataclass(eq=False)
class _Uses:
    """Who counts something up and down, and how often in a call."""

    up: int = 0
    down: int = 0
    ups: dict[int, Act] = field(default_factory=dict)
    downs: dict[int, Act] = field(default_factory=dict)

    def count_up(self, block: int, act: Act) -> None:
        self.up += 1
        self.ups.setdefault(block, act)

    def count_down(self, block: int, act: Act) -> None:
        self.down += 1
        self.downs.setdefault(block, act)


def check_counters(unfolded: Unfolded, seen: set[tuple[object, ...]], collector: Collector) -> None:
    """Findings for whatever is not as it was when a call ends, and for what has several users.

    Parameters
    ----------
    seen : what was reported already, at another size of call; added to.
    """
    teller = _Teller(unfolded, seen, collector)
    ends, semaphores = _uses(unfolded, teller)
    for end, uses in sorted(ends.items()):
        teller.end(end, uses)
    for semaphore, uses in sorted(semaphores.items()):
        teller.semaphore(semaphore, uses)
    _barriers(unfolded, teller)


def _uses(unfolded: Unfolded, teller: _Teller) -> tuple[dict[int, _Uses], dict[int, _Uses]]:
    """Per end of a channel, and per semaphore, its uses; signals to ends that are not there count nowhere."""
    ends: dict[int, _Uses] = defaultdict(_Uses)
    semaphores: dict[int, _Uses] = defaultdict(_Uses)
    for block, acts in enumerate(unfolded.acts):
        waiting: dict[int, int] = {}
        for act in acts:
            if act.kind in (Kind.MEET, Kind.BARRIER):
                waiting.clear()
            signalled = act.ends if act.kind is Kind.SIGNAL else ()
            for end in (*signalled, *(push.end for push in act.pushes if push.signals)):
                partner = unfolded.ends.partner[end]
                if partner >= 0:
                    ends[partner].count_up(block, act)
            if act.kind is Kind.WAIT:
                for lane, end in enumerate(act.ends):
                    ends[end].count_down(block, act)
                    if waiting.setdefault(end, lane) != lane:
                        teller.two_lanes(block, act, end)
            for semaphore in act.semaphores:
                if act.kind is Kind.RELEASE:
                    semaphores[semaphore].count_up(block, act)
                else:
                    semaphores[semaphore].count_down(block, act)
    return ends, semaphores


def _barriers(unfolded: Unfolded, teller: _Teller) -> None:
    calls: dict[tuple[int, int], dict[int, list[Act]]] = defaultdict(dict)
    for block, acts in enumerate(unfolded.acts):
        for act in acts:
            if act.kind is Kind.BARRIER:
                key = unfolded.blocks[block][0], act.barrier[0]
                calls[key].setdefault(block, []).append(act)
    for (_, barrier), of_blocks in calls.items():
        if len({len(of_block) for of_block in of_blocks.values()}) > 1:
            teller.barrier(barrier, of_blocks)


@dataclass(frozen=True, eq=False)
class _Teller:
    """Says what is wrong, once."""

    unfolded: Unfolded
    seen: set[tuple[object, ...]]
    collector: Collector

    def end(self, end: int, uses: _Uses) -> None:
        """The end of a channel where somebody waits or is signalled to."""
        ends = self.unfolded.ends
        name = f"rank {ends.place[end][0]}'s end of {ends.name(end)}"
        self._several(uses.ups, "signals to", name, "shared-channel-end", "a channel for each")
        self._several(uses.downs, "waits at", name, "shared-channel-end", "a channel for each")
        if uses.up == uses.down:
            return
        block, act = next(iter((uses.downs or uses.ups).items()))
        said = f"in each call {name} gets {uses.up} signals, and {uses.down} are waited for"
        if not uses.down:
            self._add(block, act, "unread-signal", f"signals, and nobody waits: {said}", True)
        elif uses.up > uses.down:
            self._add(
                block, act, "unequal-signals", f"waits too seldom: {said}, so the next call goes on too early"
            )
        else:
            self._add(block, act, "unequal-signals", f"waits too often: {said}, so it hangs")

    def two_lanes(self, block: int, act: Act, end: int) -> None:
        """Two threads wait at one end, in no order."""
        name = self.unfolded.ends.name(end)
        message = f"waits on {name} in another lane than before, without a nop between"
        self._add(block, act, "shared-channel-end", f"{message}: which waits for which signal is open")

    def semaphore(self, semaphore: int, uses: _Uses) -> None:
        """A semaphore of a rank."""
        block, act = next(iter((uses.downs or uses.ups).items()))
        rank = self.unfolded.blocks[block][0]
        name = f"semaphore {semaphore - self.unfolded.semaphore[rank]}"
        self._several(uses.downs, "acquires", name, "shared-semaphore", "a semaphore for each that acquires")
        if uses.up == uses.down:
            return
        said = f"in each call {name} is released {uses.up} times and acquired {uses.down} times"
        if not uses.down:
            self._add(block, act, "unequal-releases", f"releases, and nobody acquires: {said}", True)
        else:
            what = "hangs in a later call" if uses.up < uses.down else "goes on too early in the next call"
            message = f"does not return it to its value: {said}, so it {what}"
            self._add(block, act, "unequal-releases", message)

    def barrier(self, barrier: int, calls: dict[int, list[Act]]) -> None:
        """Blocks call a barrier unequally often."""
        block, acts = min(calls.items(), key=lambda each: len(each[1]))
        most = max(map(len, calls.values()))
        message = f"calls barrier {barrier} in {len(acts)} of the {most} times that others do"
        self._add(block, acts[0], "barrier-members", message)

    def _several(self, users: dict[int, Act], verb: str, name: str, rule: str, instead: str) -> None:
        if len(users) > 1:
            block, act = list(users.items())[1]
            other = self.unfolded.place(*next(iter(users.items())))
            message = f"{verb} {name}, and so does {other}: which of them is meant is open"
            self._add(block, act, rule, message, hint=f"use {instead}")

    def _add(
        self,
        block: int,
        act: Act,
        rule: str,
        message: str,
        is_warning: bool = False,
        hint: str = "let a call take off every counter what it adds",
    ) -> None:
        key = (rule, block, act.step, act.inner)
        if key in self.seen:
            return
        self.seen.add(key)
        severity: Severity = "warning" if is_warning else "error"
        self.collector.add(self.unfolded.finding(block, act, rule, message, hint, severity))
