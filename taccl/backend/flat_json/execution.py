"""Actions run on arrays in a random order that the rules allow, checked against NumPy.

Written apart from verification: what is ready is found action by action, and answers are made of chunks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.call import DTYPES, OPS, REDUCTIONS, usual_bytes
from taccl.backend.execute.outcome import Execution, Outcome
from taccl.backend.execute.reference import any_integers
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute.shared import check_room
from taccl.backend.flat_json.cells import COLUMN, buffer_elements, held_starts
from taccl.backend.flat_json.document import Action, ActionsProgram, Do, Span
from taccl.errors import TacclError
from taccl.model.collectives import plain_name
from taccl.support.arguments import whole_number, word

Array = NDArray[Any]

#: How often the deadline is looked at, and wrong chunks that are named.
_ACTIONS_PER_LOOK, _SHOWN = 64, 10


def run_actions(program: ActionsProgram, requested: RunRequested) -> Iterator[Execution]:
    """One run of a program whose structure is sound.

    Raises
    ------
    TacclError : a call that no file of actions serves.
    VerificationError : there was no time left.
    """
    if requested.in_place:
        raise TacclError("a file of actions serves calls out of place", hint="leave --in-place out")
    if requested.ranks_as not in ("threads", "turns"):
        raise TacclError(f"actions run by turns, not as {requested.ranks_as}", hint="leave --ranks-as out")
    if requested.slots is not None or requested.piece_bytes is not None or requested.calls not in (None, 1):
        raise TacclError("a file of actions has no slots or pieces, and runs once", hint="leave these out")
    whole_number(requested.seed, "a seed", TacclError, least=0, most=2**63 - 1)
    word(requested.dtype, "dtype", DTYPES, TacclError)
    word(requested.op, "op", OPS, TacclError)
    began = time.monotonic()
    call = _Call(program, requested)
    stuck = call.run(random.Random(requested.seed))
    checked, wrong, findings = (0, 0, []) if stuck or not requested.check else call.compared()
    outcome: Outcome = "wrong" if findings else "right" if requested.check else "not checked"
    yield Execution(
        collective=program.collective,
        ranks=len(program.ranks),
        thread_blocks=0,
        steps=program.num_actions,
        mode="out of place",
        size_bytes=program.call_elements * call.items * call.dtype.itemsize,
        dtype=requested.dtype,
        op=requested.op,
        slots=None,
        iterations=1,
        ranks_as="turns",
        verdict="hangs" if stuck else outcome,
        pieces=sum(action.do is Do.SEND for rank in program.ranks for action in rank.actions),
        checked=checked,
        wrong=wrong,
        root=program.root,
        findings=tuple((stuck or findings)[:_SHOWN]),
        seconds=time.monotonic() - began,
    )


def _parts_of_size(program: ActionsProgram) -> int:
    """Parts in the size of a call; the sizes that a file serves are of one part."""
    return len(program.ranks) if plain_name(program.collective) in ("gather", "scatter") else 1


class _Call:
    """The memory of all ranks, and what goes in."""

    def __init__(self, program: ActionsProgram, requested: RunRequested) -> None:
        self.program, self.requested, self.dtype = program, requested, np.dtype(requested.dtype)
        unit = self.dtype.itemsize * program.call_elements
        if requested.size_bytes is None:
            items = round(usual_bytes(program.min_bytes, program.max_bytes, _parts_of_size(program)) / unit)
        else:
            items = requested.size_bytes // unit
        self.items = max(1, items)
        elements = buffer_elements(program)
        room = int(elements.sum()) * self.items * self.dtype.itemsize
        check_room(room, len(program.ranks), "a smaller --size")
        self.memory = [
            [np.zeros(count * self.items, dtype=self.dtype) for count in of_rank]
            for of_rank in elements.tolist()
        ]
        self.parts: dict[int, list[Array]] = {}
        dice = np.random.default_rng(requested.seed)
        for rank, of_rank in enumerate(program.ranks):
            for chunk, held in self._held(rank, 0, of_rank.input):
                known = self.parts.setdefault(chunk, [])
                held[:] = self._random(dice, len(held)) if program.sums[chunk] or not known else known[0]
                known.append(held)

    def _held(self, rank: int, column: int, held: tuple[int, ...]) -> Iterator[tuple[int, Array]]:
        """Each chunk of a buffer, and its items there."""
        starts = [start * self.items for start in held_starts(self.program, held)]
        for chunk, first, end in zip(held, starts, starts[1:], strict=False):
            if chunk >= 0:
                yield chunk, self.memory[rank][column][first:end]

    def _random(self, dice: np.random.Generator, size: int) -> Array:
        if not np.issubdtype(self.dtype, np.floating):
            return any_integers(dice, self.dtype, size)
        if self.requested.op == "prod":  # so near to 1 that no product over- or underflows
            spread = min(1.0, 8.0 / len(self.program.ranks))
            return np.exp2(dice.uniform(-spread, spread, size)).astype(self.dtype)
        return dice.uniform(-1.0, 1.0, size).astype(self.dtype)

    def run(self, chance: random.Random) -> list[str]:
        """Run all actions, any that is ready next; what never became ready, in words."""
        missing = [
            [len(set(action.after)) + (action.do is Do.RECEIVE) for action in rank.actions]
            for rank in self.program.ranks
        ]
        followers = self._followers()
        mail: dict[tuple[int, int, int], Array] = {}
        ready = [
            (rank, index)
            for rank, of_rank in enumerate(missing)
            for index, count in enumerate(of_rank)
            if count == 0
        ]
        done = 0
        while ready:
            position = chance.randrange(len(ready))
            ready[position], ready[-1] = ready[-1], ready[position]
            here = ready.pop()
            self._act(here[0], self.program.ranks[here[0]].actions[here[1]], mail)
            done += 1
            if done % _ACTIONS_PER_LOOK == 0:
                self.requested.deadline.look()
            for rank, index in followers.get(here, ()):
                missing[rank][index] -= 1
                if missing[rank][index] == 0:
                    ready.append((rank, index))
        return [
            f"rank {rank}, action {index} ({self.program.ranks[rank].actions[index].do.value}) never starts"
            for rank, of_rank in enumerate(missing)
            for index, count in enumerate(of_rank)
            if count > 0
        ]

    def _followers(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Of each action those that it lets go on: what waits for it, and of a send its receive."""
        followers: dict[tuple[int, int], list[tuple[int, int]]] = {}
        receives = {
            (action.peer, rank, action.message): (rank, index)
            for rank, of_rank in enumerate(self.program.ranks)
            for index, action in enumerate(of_rank.actions)
            if action.do is Do.RECEIVE
        }
        for rank, of_rank in enumerate(self.program.ranks):
            for index, action in enumerate(of_rank.actions):
                for other in set(action.after):
                    followers.setdefault((rank, other), []).append((rank, index))
                if action.do is Do.SEND:
                    receive = receives[rank, action.peer, action.message]
                    followers.setdefault((rank, index), []).append(receive)
        return followers

    def _act(self, rank: int, action: Action, mail: dict[tuple[int, int, int], Array]) -> None:
        source, target = (
            None if span is None else self._items(rank, span, action.elements)
            for span in (action.source, action.target)
        )
        if action.do is Do.SEND and source is not None:
            mail[rank, action.peer, action.message] = source.copy()
        elif action.do is Do.RECEIVE and target is not None:
            target[:] = mail.pop((action.peer, rank, action.message))
        elif source is not None and target is not None:
            target[:] = source if action.do is Do.COPY else REDUCTIONS[self.requested.op](target, source)

    def _items(self, rank: int, span: Span, elements: int) -> Array:
        first = span.offset * self.items
        return self.memory[rank][COLUMN[span.buffer]][first : first + elements * self.items]

    def compared(self) -> tuple[int, int, list[str]]:
        """Items that were looked at, those that are off, and the chunks that they are in."""
        checked, wrong, findings = 0, 0, []
        answers: dict[int, tuple[Array, Array | None]] = {}
        for rank, of_rank in enumerate(self.program.ranks):
            for chunk, held in self._held(rank, 1, of_rank.output):
                self.requested.deadline.look()
                if chunk not in answers:
                    answers[chunk] = self._answer(chunk)
                value, tolerance = answers[chunk]
                if tolerance is None:
                    off = held != value
                else:
                    off = ~(np.abs(held.astype(value.dtype) - value) <= tolerance)
                checked, wrong = checked + len(held), wrong + int(off.sum())
                if off.any():
                    findings.append(f"chunk {chunk} in the output of rank {rank}: {int(off.sum())} items off")
        return checked, wrong, findings

    def _answer(self, chunk: int) -> tuple[Array, Array | None]:
        """What a chunk must be, and by how much the order of additions may change it; None: not at all."""
        parts = self.parts[chunk]
        op, is_float = self.requested.op, np.issubdtype(self.dtype, np.floating)
        if not self.program.sums[chunk]:
            return parts[0], None
        wide = [part.astype(np.longdouble) if is_float else part for part in parts]
        value: Array = REDUCTIONS[op].reduce(wide, axis=0, dtype=wide[0].dtype)
        if not is_float or op in ("max", "min"):
            return value, None
        size = np.abs(value) if op == "prod" else np.abs(wide).sum(axis=0)
        return value, len(parts) * np.finfo(self.dtype).eps * size
