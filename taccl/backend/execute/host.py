"""The host of a rank: it writes inputs before a call, and compares outputs after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.agents import RankVerdict
from taccl.backend.execute.call import Call
from taccl.backend.execute.deadline import blocks_of
from taccl.backend.execute.reference import ReferenceAnswer, Wanted, any_integers
from taccl.backend.program import Buffer
from taccl.model.collective import IntArray

_SHOWN = 5
#: Calls in a row have inputs of seeds so far apart.
_NEXT_SEED = 7919


class UserMemory(Protocol):
    """The buffers that callers hand over."""

    def user(self, rank: int, buffer: Buffer) -> NDArray[Any]:
        """The elements of a rank's input or output."""
        ...

    def unwritten(self, rank: int) -> NDArray[Any]:
        """The elements that hold anything before a call; the input may be among them."""
        ...


class Answers:
    """NumPy's answer to each call of a series, made when it is requested.

    Parameters
    ----------
    call : the first one; each of the others has its own inputs.
    look : called every now and then while data is made or compared, and may raise.
    senders : of sendrecv, the choices whose outputs would be right: per rank, whose input it gets.
    """

    def __init__(self, call: Call, look: Callable[[], None], senders: Sequence[IntArray] = ()) -> None:
        self.call, self.look, self._senders = call, look, senders
        self._made: dict[int, ReferenceAnswer] = {}
        #: The roots that would be right; of sendrecv, numbers of `senders`.
        self.choices = tuple(range(len(senders))) if senders else call.roots

    def of(self, number: int) -> ReferenceAnswer:
        """The answer to call `number`, from 0; those long past are forgotten."""
        if number not in self._made:
            seed = (self.call.seed + number * _NEXT_SEED) % 2**63
            self._made[number] = ReferenceAnswer(replace(self.call, seed=seed), self.look)
            self._made.pop(number - 4, None)
        return self._made[number]

    @property
    def is_known(self) -> bool:
        """Whether it is known what outputs must hold."""
        return self.call.checkable or bool(self._senders)

    def wanted(self, number: int, rank: int, choice: int | None) -> list[Wanted]:
        """What the output of a rank must hold after a call, if a choice is the one."""
        answer = self.of(number)
        if self._senders and choice is not None:
            return [Wanted(0, answer.input_of(int(self._senders[choice][rank])))]
        return answer.wanted(rank, choice)

    def input_counts(self, number: int, rank: int, choice: int | None) -> bool:
        """Whether a caller's input means anything, and so must be left as it was."""
        return bool(self._senders) or self.of(number).input_counts(rank, choice)


class Host:
    """The host of one rank, for a series of calls."""

    def __init__(self, memory: UserMemory, rank: int, answers: Answers, calls: int = 1) -> None:
        self.memory, self.rank, self.answers, self.calls = memory, rank, answers, calls
        choices = answers.choices
        self.verdict = RankVerdict(wrong=[0] * len(choices), findings=[[] for _ in choices])

    def prepare(self, call: int) -> None:
        """New inputs, and rubbish wherever the caller says nothing: NaN, or any integers."""
        rubbish = np.random.default_rng((self.answers.call.seed, self.rank, call, 1))
        unwritten = self.memory.unwritten(self.rank)
        is_float = np.issubdtype(unwritten.dtype, np.floating)
        for block in blocks_of(len(unwritten), self.answers.look):
            size = block.stop - block.start
            unwritten[block] = np.nan if is_float else any_integers(rubbish, unwritten.dtype, size)
        self.memory.user(self.rank, Buffer.INPUT)[:] = self.answers.of(call).input_of(self.rank)

    def compare(self, call: int) -> None:
        """Note what is wrong after a call, for each choice that may be the one."""
        output = self.memory.user(self.rank, Buffer.OUTPUT)
        for index, choice in enumerate(self.answers.choices):
            for part in self.answers.wanted(call, self.rank, choice):
                self.verdict.checked += 0 if index else len(part.value)
                self._note(
                    index, call, Buffer.OUTPUT, part, output[part.first : part.first + len(part.value)]
                )
            if not self.answers.call.in_place and self.answers.input_counts(call, self.rank, choice):
                given = Wanted(0, self.answers.of(call).input_of(self.rank))
                self._note(index, call, Buffer.INPUT, given, self.memory.user(self.rank, Buffer.INPUT))

    def _note(self, index: int, call: int, buffer: Buffer, part: Wanted, found: NDArray[Any]) -> None:
        bad = np.flatnonzero(self.answers.of(call).differs(found, part.value, part.tolerance))
        if not len(bad):
            return
        self.verdict.wrong[index] += len(bad)
        findings, item, size = (
            self.verdict.findings[index],
            self.answers.call.item_bytes,
            self.answers.call.chunk,
        )
        during = f"call {call + 1}, " if self.calls > 1 else ""
        for chunk in np.unique((part.first + bad) // size).tolist():
            if len(findings) >= _SHOWN:
                break
            here = bad[(part.first + bad) // size == chunk]
            first, last = int(here[0]), int(here[-1])
            findings.append(
                f"{during}rank {self.rank}: chunk {chunk} of buffer {buffer.value} is wrong in {len(here)} "
                f"of {size} elements, in bytes {(part.first + first) * item} .. "
                f"{(part.first + last + 1) * item - 1}; the first is {found[first]}, not {part.value[first]}"
            )
