"""What one rank does by a template, as actions and as text: made of its own transfers alone.

A chunk is an element. Work is done where a chunk's number is its offset: in the output, or for a
ReduceScatter in scratch. A rank that adds nothing to its contribution sends it from its input; else the first
partial sum lands where the work is done, and further ones behind it, in places that are used again.

Transfers are looked at in the order in which they leave or arrive. An action waits for what wrote its chunks,
and one that writes waits for what reads them; so any executor's order gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from taccl.backend.flat_json.document import Action, ActionRank, ActionsProgram, Do, Span
from taccl.backend.flat_json.writer import lines_of_actions
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.program import Buffer
from taccl.backend.target import LoweringOptions
from taccl.errors import VerificationError
from taccl.model.template import RankTransfers, Template
from taccl.model.tolerance import TOLERANCE_US
from taccl.model.units import MB


@dataclass(frozen=True)
class _Message:
    """A send or receive of consecutive chunks: `number` among those between the two ranks."""

    start_us: float
    end_us: float
    is_sent: bool
    peer: int
    number: int
    first: int
    count: int
    is_sum: bool

    @property
    def moment(self) -> tuple[float, bool]:
        """When its action stands in the list: what arrives comes before what leaves with it."""
        return (self.start_us if self.is_sent else self.end_us - TOLERANCE_US), self.is_sent


def actions_of_rank(template: Template, rank: int) -> ActionRank:
    """The actions of one rank of the whole.

    Raises
    ------
    CollectiveError : there is no such rank.
    VerificationError : a rank sends what it does not have, which a template that passed its check does not.
    """
    work = _Work(template, rank)
    for message in sorted(_messages(template.of_rank(rank)), key=lambda each: each.moment):
        (work.send if message.is_sent else work.receive)(message)
    return work.done()


def _messages(rows: RankTransfers) -> Iterator[_Message]:
    """The groups of a rank as messages of consecutive chunks, with the same numbers at both ends."""
    order = np.lexsort((rows.chunk, rows.group))
    columns = (rows.group, rows.chunk, rows.src, rows.dst, rows.start_us, rows.end_us, rows.reduce)
    cells = list(zip(*(column[order].tolist() for column in columns), strict=True))
    found = []
    for (group, *_), rows_of_group in groupby(cells, key=lambda cell: (cell[0], cell[2], cell[3])):
        inside = list(rows_of_group)
        # Consecutive chunks that are all sums, or all copies.
        for _, numbered in groupby(enumerate(inside), key=lambda each: (each[1][1] - each[0], each[1][6])):
            run = [cell for _, cell in numbered]
            found.append((run[0], len(run), group))
    found.sort(key=lambda each: (each[0][4], each[2], each[0][1]))
    many: dict[tuple[int, int], int] = {}
    for (_, chunk, src, dst, start_us, end_us, is_sum), count, _ in found:
        number = many.get((src, dst), 0)
        many[src, dst] = number + 1
        sent = src == rows.rank
        yield _Message(start_us, end_us, sent, dst if sent else src, number, chunk, count, is_sum)


@dataclass
class _Work:
    """The actions of a rank so far.

    Parameters
    ----------
    wrote : of chunks that are where the work is done, the action after which they are there.
    read : of such chunks, the sends that read them.
    landings : places behind the work, by their size: from when on each is free, where, and by which action.
    """

    template: Template
    rank: int
    actions: list[Action] = field(default_factory=list)
    wrote: dict[int, int] = field(default_factory=dict)
    read: dict[int, list[int]] = field(default_factory=dict)
    landings: dict[int, list[tuple[float, int, int]]] = field(default_factory=dict)
    landed: int = 0

    def __post_init__(self) -> None:
        self.pieces = self.template.part.problem.collective.chunks_per_rank
        self.total = self.template.num_ranks * self.pieces
        self.own = range(self.rank * self.pieces, (self.rank + 1) * self.pieces)
        self.scatters = self.template.collective == "reducescatter"
        self.gathers = self.template.collective == "allgather"
        if self.gathers:
            self._do(Do.COPY, self.pieces, self._input(self.own[0]), self._place(self.own[0]))
            self._has_written(self.own)

    def send(self, message: _Message) -> None:
        """Send chunks from the input, if they are as they were there, or from where the work is done."""
        chunks = range(message.first, message.first + message.count)
        made = [chunk for chunk in chunks if chunk in self.wrote]
        mine = not self.gathers or (chunks[0] in self.own and chunks[-1] in self.own)
        if mine and (not made or self.gathers):
            self._travel(Do.SEND, message, self._input(message.first), ())
            return
        if len(made) < len(chunks):
            if not message.is_sum or self.gathers:
                raise VerificationError(
                    f"rank {self.rank} sends chunk {min({*chunks} - {*made})}, which it has not got",
                    hint="please report this",
                )
            self._bring(chunk for chunk in chunks if chunk not in self.wrote)
        number = self._travel(Do.SEND, message, self._place(message.first), self._after(chunks))
        for chunk in chunks:
            self.read.setdefault(chunk, []).append(number)

    def receive(self, message: _Message) -> None:
        """Receive copies or partial sums; these are added to the rank's own contributions."""
        chunks = range(message.first, message.first + message.count)
        place = self._place(message.first)
        if not message.is_sum:
            waits = {reader for chunk in chunks for reader in self.read.get(chunk, ())}
            self._travel(Do.RECEIVE, message, place, (*self._after(chunks), *waits))
        elif not any(chunk in self.wrote for chunk in chunks):
            arrived = self._travel(Do.RECEIVE, message, place, ())
            self._do(Do.REDUCE, message.count, self._input(message.first), place, (arrived,))
        else:
            self._bring(chunk for chunk in chunks if chunk not in self.wrote)
            landing, freed = self._landing(message)
            arrived = self._travel(Do.RECEIVE, message, landing, freed)
            self._do(Do.REDUCE, message.count, landing, place, (arrived, *self._after(chunks)))
            self.landings[message.count].append((message.end_us, landing.offset, len(self.actions) - 1))
        self._has_written(chunks)

    def done(self) -> ActionRank:
        """All that the rank does."""
        everything = tuple(range(self.total))
        if self.scatters:
            self._do(
                Do.COPY,
                self.pieces,
                self._place(self.own[0]),
                Span(Buffer.OUTPUT, 0),
                self._after(self.own),
            )
        return ActionRank(
            input=tuple(self.own) if self.gathers else everything,
            output=tuple(self.own) if self.scatters else everything,
            scratch=self.landed + (self.total if self.scatters else 0),
            actions=self.actions,
        )

    def _place(self, chunk: int) -> Span:
        return Span(Buffer.SCRATCH if self.scatters else Buffer.OUTPUT, chunk)

    def _input(self, chunk: int) -> Span:
        return Span(Buffer.INPUT, chunk - self.own[0] if self.gathers else chunk)

    def _after(self, chunks: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted({self.wrote[chunk] for chunk in chunks if chunk in self.wrote}))

    def _has_written(self, chunks: Iterable[int]) -> None:
        for chunk in chunks:
            self.wrote[chunk] = len(self.actions) - 1

    def _bring(self, chunks: Iterable[int]) -> None:
        """Copy contributions to where the work is done."""
        for chunk in chunks:
            self._do(Do.COPY, 1, self._input(chunk), self._place(chunk))
            self._has_written([chunk])

    def _landing(self, message: _Message) -> tuple[Span, tuple[int, ...]]:
        """Where a partial sum may land, and the action after which it may."""
        places = self.landings.setdefault(message.count, [])
        for number, (free_us, offset, freed) in enumerate(places):
            if free_us <= message.start_us:
                del places[number]
                return Span(Buffer.SCRATCH, offset), (freed,)
        self.landed += message.count
        first = self.total if self.scatters else 0
        return Span(Buffer.SCRATCH, first + self.landed - message.count), ()

    def _travel(self, do: Do, message: _Message, span: Span, after: tuple[int, ...]) -> int:
        action = Action(
            do,
            message.count,
            source=span if do.reads else None,
            target=span if do.writes else None,
            peer=message.peer,
            message=message.number,
            after=tuple(sorted({*after})),
        )
        self.actions.append(action)
        return len(self.actions) - 1

    def _do(self, do: Do, many: int, source: Span, target: Span, after: tuple[int, ...] = ()) -> None:
        self.actions.append(Action(do, many, source, target, after=tuple(sorted({*after}))))


def text_of_ranks(template: Template, options: LoweringOptions, ranks: range | None = None) -> Iterator[str]:
    """The pieces of a file of these ranks, one or more for each, made one by one; None: of all.

    Of some ranks it is a file of its own format, which says which; of all it is one like any other.

    Raises
    ------
    CollectiveError : a rank that there is not.
    UnitError : no size lies between those requested.
    """
    problem = template.part.problem
    sizes = sizes_of(problem.collective, problem.size_bytes, options.min_bytes, options.max_bytes)
    chunks = template.num_ranks * problem.collective.chunks_per_rank
    header = ActionsProgram(
        name=options.name,
        collective=template.collective,
        root=None,
        chunk_elements=(1,) * chunks,
        sums=(problem.collective.is_reduction,) * chunks,
        call_elements=chunks,
        element_bytes=max(1, math.ceil(problem.chunk_mb * MB)),
        min_bytes=sizes.min_bytes,
        max_bytes=sizes.max_bytes,
        ranks=(),
    )
    every = range(template.num_ranks) if ranks is None else ranks
    only = None if ranks is None else (ranks.start, template.num_ranks)
    return lines_of_actions(header, (actions_of_rank(template, rank) for rank in every), only)
