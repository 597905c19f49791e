"""The host of a rank: before each call it writes inputs, after it it compares and takes the buffers away.

It rewrites nothing that its rank's own ports still read: `taccl verify` warns where a plan leaves that open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.deadline import blocks_of
from taccl.backend.execute.memory import any_integers
from taccl.backend.execute.reference import Answer, Wanted
from taccl.backend.execute_plan.agents import Wait
from taccl.backend.execute_plan.call import PlanCall
from taccl.backend.execute_plan.memory import World
from taccl.backend.execute_plan.ports import Port
from taccl.backend.program import Buffer
from taccl.backend.verify.mscclpp.wanted import SEND_RECEIVE, senders

_SHOWN = 5


class Answers:
    """NumPy's answer to each call, made when it is requested."""

    def __init__(self, call: PlanCall, look: Callable[[], None]) -> None:
        self.call, self._look = call, look
        self._made: dict[int, Answer] = {}
        requested = call.requested
        routes = senders(requested.num_ranks) or [np.arange(1)]
        self._senders = routes if requested.collective == SEND_RECEIVE else None
        #: The roots that would be right; of sendrecv, numbers of the routes in which ranks may be grouped.
        self.choices = requested.roots if self._senders is None else tuple(range(len(self._senders)))

    def of(self, number: int) -> Answer:
        """The answer to call `number`; those long past are forgotten."""
        if number not in self._made:
            self._made[number] = Answer(self.call.one(number), self._look)
            self._made.pop(number - 4, None)
        return self._made[number]

    @property
    def is_known(self) -> bool:
        """Whether it is known what outputs must hold."""
        return self.call.requested.checkable or self._senders is not None

    def wanted(self, number: int, rank: int, choice: int | None) -> list[Wanted]:
        """What the output of a rank must hold after a call, if a choice is the one."""
        answer = self.of(number)
        if self._senders is not None and choice is not None:
            return [Wanted(0, answer.input_of(int(self._senders[choice][rank])))]
        return answer.wanted(rank, choice)

    def input_counts(self, number: int, rank: int, choice: int | None) -> bool:
        """Whether a caller's input means anything."""
        return self._senders is not None or self.of(number).input_counts(rank, choice)


@dataclass(slots=True)
class Verdict:
    """What a rank's host saw: `wrong` elements and a few `findings` for each choice (`Answers.choices`)."""

    checked: int = 0
    wrong: list[int] = field(default_factory=list)
    findings: list[list[str]] = field(default_factory=list)


class Host:
    """The host of one rank."""

    def __init__(
        self,
        world: World,
        rank: int,
        lanes: int,
        ports: list[Port],
        answers: Answers,
        check: bool,
        look: Callable[[], None],
    ) -> None:
        self.world, self.rank, self.lanes, self.ports = world, rank, lanes, ports
        self.answers, self.check, self.look = answers, check, look
        self.ended = False
        self.waits_for: Wait | None = None
        choices = answers.choices
        self.verdict = Verdict(wrong=[0] * len(choices), findings=[[] for _ in choices])

    def run(self) -> Iterator[Wait | None]:
        """Call after call."""
        world, rank = self.world, self.rank
        for call in range(world.call.calls):
            self._prepare(call)
            yield None
            world.started[rank] = call + 1
            yield Wait(partial(self._has_ended, call))
            if self.check and self.answers.is_known:
                self._compare(call)
            yield Wait(lambda: all(port.is_idle() for port in self.ports))
        self.ended = True

    def _has_ended(self, call: int) -> bool:
        """Whether all lanes of the rank are through with a call."""
        return bool(self.world.ended[self.rank] >= self.lanes * (call + 1))

    def _prepare(self, call: int) -> None:
        """New inputs, and rubbish wherever the caller says nothing: NaN, or any integers."""
        world, rank = self.world, self.rank
        rubbish = np.random.default_rng((world.call.requested.seed, rank, call, 1))
        output = world.user(rank, Buffer.OUTPUT)
        is_float = np.issubdtype(output.dtype, np.floating)
        for block in blocks_of(len(output), self.look):
            size = block.stop - block.start
            output[block] = np.nan if is_float else any_integers(rubbish, output.dtype, size)
        world.user(rank, Buffer.INPUT)[:] = self.answers.of(call).input_of(rank)

    def _compare(self, call: int) -> None:
        requested = self.world.call.requested
        for place, choice in enumerate(self.answers.choices):
            looked = 0
            for part in self.answers.wanted(call, self.rank, choice):
                looked += len(part.value)
                found = self.world.user(self.rank, Buffer.OUTPUT)[part.first : part.first + len(part.value)]
                self._note(place, call, Buffer.OUTPUT, part, found)
            if not place:
                self.verdict.checked += looked
            if not requested.in_place and self.answers.input_counts(call, self.rank, choice):
                given = Wanted(0, self.answers.of(call).input_of(self.rank))
                self._note(place, call, Buffer.INPUT, given, self.world.user(self.rank, Buffer.INPUT))

    def _note(self, place: int, call: int, buffer: Buffer, part: Wanted, found: NDArray[Any]) -> None:
        requested = self.world.call.requested
        bad = np.flatnonzero(self.answers.of(call).differs(found, part.value, part.tolerance))
        if not len(bad):
            return
        self.verdict.wrong[place] += len(bad)
        findings, item = self.verdict.findings[place], requested.item_bytes
        during = f"call {call + 1}, " if self.world.call.calls > 1 else ""
        for chunk in np.unique((part.first + bad) // requested.chunk).tolist():
            if len(findings) >= _SHOWN:
                break
            here = bad[(part.first + bad) // requested.chunk == chunk]
            first, last = int(here[0]), int(here[-1])
            findings.append(
                f"{during}rank {self.rank}: bytes {(part.first + first) * item} .. "
                f"{(part.first + last + 1) * item - 1} of buffer {buffer.value} (chunk {chunk}) are wrong in "
                f"{len(here)} elements; the first is {found[first]}, not {part.value[first]}"
            )
