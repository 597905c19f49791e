"""Sums that a schedule names one by one: which values a rank has of them, and what each is made of.

`layout` decides where they lie in memory, and `expand` when they are added up.

What arrives is a value of its own, and so is each sum that a rank makes. A sum is made of the largest
values that are there by then, earlier sums among them, so that every step of a recursive doubling adds one
message to one sum. Where a message is there for one sum alone, the sum is made in the cells in which it lands
(its *base*).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from taccl.backend.program import Op
from taccl.errors import ScheduleError
from taccl.model.collective import Collective
from taccl.model.schedule import TOLERANCE_US
from taccl.model.schedule.partial_sums import contributors, disjoint_union

#: (rank, chunk)
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SumMessage:
    """A set of contributions to a chunk on its way; `send` is the number of the send that carries it."""

    send: int
    chunk: int
    src: int
    dst: int
    contributions: int
    start_us: float
    end_us: float


@dataclass(frozen=True, slots=True)
class MadeSum:
    """A sum that a rank makes.

    Parameters
    ----------
    value : its number among the values of its rank.
    parts : the values that it is made of; at least two.
    base : the part in whose cells it is made; None if it has cells of its own.
    """

    value: int
    parts: tuple[int, ...]
    base: int | None = None


@dataclass(frozen=True, eq=False)
class MadeSums:
    """What happens with named sums at all ranks.

    Parameters
    ----------
    own : by (rank, chunk), the value that is the rank's own contribution.
    landed, sent : the value that a send brings, or takes along, of a chunk, by (send, chunk).
    final : by (rank, chunk), the value that is the whole sum, where a rank wants it.
    made : by (rank, value).
    sources : for each send, those that must have arrived before it can leave.
    """

    own: dict[Cell, int]
    landed: dict[tuple[int, int], int]
    sent: dict[tuple[int, int], int]
    final: dict[Cell, int]
    made: dict[tuple[int, int], MadeSum]
    sources: dict[int, set[int]]

    @cached_property
    def on_base(self) -> dict[tuple[int, int], int]:
        """By (rank, value): the sum that is made in the cells in which this value lands."""
        return {
            (rank, each.base): each.value for (rank, _), each in self.made.items() if each.base is not None
        }

    @cached_property
    def users(self) -> dict[tuple[int, int], list[int]]:
        """By (rank, value): the sums that the value is a part of."""
        users: dict[tuple[int, int], list[int]] = defaultdict(list)
        for (rank, value), each in self.made.items():
            for part in each.parts:
                users[rank, part].append(value)
        return users

    def without_bases(self, apart: Collection[tuple[int, int]]) -> MadeSums:
        """The same, but these (rank, value) are made in cells of their own."""
        made = {key: replace(each, base=None) if key in apart else each for key, each in self.made.items()}
        return replace(self, made=made)

    def lands_as(self, send: int, rank: int, chunk: int) -> int:
        """The value in whose cells a message lands: its own, or the sum whose base it is."""
        value = self.landed[send, chunk]
        return self.on_base.get((rank, value), value)


NO_SUMS = MadeSums({}, {}, {}, {}, {}, {})


@dataclass(frozen=True, slots=True)
class _Held:
    value: int
    ready_us: float
    sends: frozenset[int]  # the messages that it is made of


def make_sums(
    collective: Collective, messages: Iterable[SumMessage], number: Callable[[int, int], int]
) -> MadeSums:
    """The values of all messages, and the sums between them.

    Parameters
    ----------
    messages : of the chunks that are reduced.
    number : the number of the k-th value (0: the rank's own contribution) of a chunk at a rank.

    Raises
    ------
    ScheduleError : a sender cannot make what it sends.
    """
    making = _Making(collective, number)
    waiting = sorted(messages, key=lambda message: (message.start_us, message.end_us))
    sender = {message.send: message.src for message in waiting}
    before = len(waiting) + 1
    while waiting and len(waiting) < before:
        before = len(waiting)
        waiting = [message for message in waiting if not making.happens(message)]
    if waiting:
        raise ScheduleError("the schedule cannot be lowered", findings=["a sum is sent that is not there"])
    making.finish()
    return making.result(sender)


class _Making:
    def __init__(self, collective: Collective, number: Callable[[int, int], int]) -> None:
        self.collective, self.number = collective, number
        self.whole = contributors(collective)
        self.held: dict[Cell, dict[int, _Held]] = {}
        self.count: dict[Cell, int] = {}
        self.sums = MadeSums({}, {}, {}, {}, {}, {})
        self.ready_us: dict[tuple[int, int], float] = {}  # of landed values, by (rank, value)
        own = zip(collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True)
        for chunk, rank in own:
            if collective.reduces[chunk]:
                self.held[rank, chunk] = {1 << rank: _Held(number(chunk, 0), 0.0, frozenset())}
                self.sums.own[rank, chunk] = number(chunk, 0)

    def happens(self, message: SumMessage) -> bool:
        """Let a message leave and arrive; False if its sender cannot make it yet."""
        chunk, by_us = message.chunk, message.start_us + TOLERANCE_US
        sent = self._made((message.src, chunk), message.contributions, by_us)
        if sent is None:
            return False
        self.sums.sent[message.send, chunk] = sent.value
        self.sums.sources.setdefault(message.send, set()).update(sent.sends)
        at = message.dst, chunk
        value = self._next(at)
        self.sums.landed[message.send, chunk] = value
        self.ready_us[message.dst, value] = message.end_us
        held = self.held.setdefault(at, {})
        arrived = _Held(value, message.end_us, frozenset({message.send}))
        there = held.get(message.contributions)
        if there is None or arrived.ready_us < there.ready_us:
            held[message.contributions] = arrived
        return True

    def finish(self) -> None:
        """Make what the outputs want."""
        collective = self.collective
        for chunk, rank in zip(
            collective.outputs.chunk.tolist(), collective.outputs.rank.tolist(), strict=True
        ):
            if collective.reduces[chunk]:
                final = self._made((rank, chunk), self.whole[chunk], float("inf"))
                if final is None:
                    raise ScheduleError(
                        "the schedule cannot be lowered", findings=[f"rank {rank} never gets chunk {chunk}"]
                    )
                self.sums.final[rank, chunk] = final.value

    def _made(self, at: Cell, contributions: int, by_us: float) -> _Held | None:
        held = self.held.get(at, {})
        there = held.get(contributions)
        if there is not None and there.ready_us <= by_us:
            return there
        parts = disjoint_union(contributions, [each for each, one in held.items() if one.ready_us <= by_us])
        if parts is None:
            return None
        chosen = [held[part] for part in parts]
        value = self._next(at)
        made = _Held(
            value,
            max(one.ready_us for one in chosen),
            frozenset().union(*(one.sends for one in chosen)),
        )
        held[contributions] = made
        self.sums.made[at[0], value] = MadeSum(value, tuple(one.value for one in chosen))
        return made

    def _next(self, at: Cell) -> int:
        self.count[at] = self.count.get(at, 0) + 1
        return self.number(at[1], self.count[at])

    def result(self, sender: dict[int, int]) -> MadeSums:
        """The sums, each on its base: of the messages that are there for it alone, the first.

        `sender` is the rank from which each send leaves.
        """
        sums = self.sums
        uses = Counter((sender[send], value) for (send, _), value in sums.sent.items())
        uses.update((rank, value) for (rank, _), value in sums.final.items())
        uses.update((rank, part) for (rank, _), each in sums.made.items() for part in each.parts)
        made = {}
        for (rank, value), each in sums.made.items():
            alone = [part for part in each.parts if (rank, part) in self.ready_us and uses[rank, part] == 1]
            base = min(alone, key=lambda part: self.ready_us[rank, part], default=None)
            made[rank, value] = replace(each, base=base)
        return replace(sums, made=made)


#: One local step: the operation, the value that is read and the value that is written.
LocalStep = tuple[Op, int, int]


class AddingUp:
    """How far all ranks are with their sums.

    `apart` : (rank, value) of sums whose steps are made elsewhere, of the rank's own data and of messages: of
    these it is only reported when they are complete.
    """

    def __init__(self, sums: MadeSums, apart: Collection[tuple[int, int]] = ()) -> None:
        self._sums, self._apart = sums, apart
        self._complete = {(rank, value) for (rank, _), value in sums.own.items()}
        self._begun: set[tuple[int, int]] = set()
        self._missing = {key: len(each.parts) for key, each in sums.made.items()}

    def arrive(self, rank: int, values: Iterable[int]) -> tuple[list[list[LocalStep]], list[int]]:
        """What to do when these values have landed.

        Returns
        -------
        Waves of local steps, each to be done after the one before it; and the values that then are complete.
        """
        waves: list[list[LocalStep]] = []
        complete: list[int] = []
        news = list(values)
        while news:
            steps, done = [], []
            for value in news:
                on_base = self._sums.on_base.get((rank, value))
                if on_base is None:
                    complete.append(value)
                self._complete.add((rank, value))
                for user in self._sums.users.get((rank, value), ()):
                    steps += self._add(rank, value, user)
                    if not self._missing[rank, user]:
                        done.append(user)
            if steps:
                waves.append(steps)
            news = done
        return waves, complete

    def _add(self, rank: int, part: int, value: int) -> list[LocalStep]:
        made = self._sums.made[rank, value]
        if (rank, value) in self._apart:
            begun = (rank, value) in self._begun
            self._begun.add((rank, value))
            self._missing[rank, value] -= 1 if begun else 2  # with the first message, the rank's own data
            return []
        if (rank, value) in self._begun:
            self._missing[rank, value] -= 1
            return [(Op.REDUCE, part, value)]
        if made.base is not None and part != made.base:
            return []  # it is added when the base has landed
        self._begun.add((rank, value))
        others = [other for other in made.parts if other != part and (rank, other) in self._complete]
        self._missing[rank, value] -= 1 + len(others)
        begin: list[LocalStep] = [] if part == made.base else [(Op.COPY, part, value)]
        return begin + [(Op.REDUCE, other, value) for other in others]
