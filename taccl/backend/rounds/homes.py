"""Where each rank keeps what it has: in its input, where the output is wanted, or in scratch.

What is received and what is read in a round must not share chunks, for both happen at once. So a chunk may be
written in a round only if its last reader was done in an earlier one; sums between rounds come one after the
other. What is wanted in a chunk of the output that is not free in time (in place, while the input there is
still to be sent) waits in scratch, and is copied behind the last round. What a rank has in the input, and
needs elsewhere after its place is written, is copied away before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.backend.machine.expected import Expectation
from taccl.backend.rounds.dataflow import Dataflow, made_of

#: A moment: the round (0: before the first), and in it 0 for its messages, then the sums behind them.
Moment = tuple[int, int]
_END: Moment = (2**60, 0)
_START: Moment = (0, 0)


@dataclass(frozen=True, eq=False)
class Buffers:
    """The memory of one rank as positions: the caller's buffers, then scratch.

    Parameters
    ----------
    inputs, outputs : where they begin, and where they end. user : positions in both together.
    """

    inputs: range
    outputs: range

    @property
    def user(self) -> int:
        return max(self.inputs.stop, self.outputs.stop)


@dataclass(frozen=True, eq=False)
class Homes:
    """Where everything lies.

    Parameters
    ----------
    buffers : per rank. moment : per holding, when its rank has it. home : per holding, its position.
    before, after : copies (rank, from, to) before the first round and behind the last.
    scratch : per rank, chunks of it.
    """

    buffers: tuple[Buffers, ...]
    moment: list[Moment]
    home: list[int]
    before: list[tuple[int, int, int]]
    after: list[tuple[int, int, int]]
    scratch: list[int]


def buffers_of(wanted: Expectation, pieces: int, in_place: bool) -> tuple[Buffers, ...]:
    """The buffers of all ranks, in pieces of chunks."""
    made = []
    sizes = zip(wanted.input_size, wanted.output_size, wanted.in_place_shift, strict=True)
    for inputs, outputs, shift in ((int(a) * pieces, int(b) * pieces, int(c) * pieces) for a, b, c in sizes):
        first, then = (max(0, shift), max(0, -shift)) if in_place else (0, inputs)
        made.append(Buffers(range(first, first + inputs), range(then, then + outputs)))
    return tuple(made)


def find_homes(flow: Dataflow, levels: Sequence[int], buffers: tuple[Buffers, ...]) -> Homes:
    """A home for each holding."""
    return _Finding(flow, levels, buffers).found()


class _Finding:
    """Homes, given out in the order of time."""

    def __init__(self, flow: Dataflow, levels: Sequence[int], buffers: tuple[Buffers, ...]) -> None:
        self.flow, self.buffers = flow, buffers
        self.moment = _moments(flow, levels)
        self.wants: list[list[int]] = [[] for _ in flow.holdings]
        self.wanted_at: dict[tuple[int, int], int] = {}
        for rank, offset, holding in flow.outputs:
            self.wants[holding].append(buffers[rank].outputs[offset])
            self.wanted_at[rank, buffers[rank].outputs[offset]] = holding
        self.readers: list[list[Moment]] = [[] for _ in flow.holdings]
        for number, made in enumerate(flow.holdings):
            for each in made_of(made):
                self.readers[each].append(self.moment[number])
        self.home = [-1] * len(flow.holdings)
        self.before: list[tuple[int, int, int]] = []
        self.after: list[tuple[int, int, int]] = []
        #: Per rank and position, when its last reader is done.
        self.busy_until: list[list[Moment]] = [[] for _ in buffers]

    def found(self) -> Homes:
        by_moment: dict[Moment, list[int]] = {}
        for number, moment in enumerate(self.moment):
            by_moment.setdefault(moment, []).append(number)
        self._inputs(by_moment.pop(_START, []))
        for moment in sorted(by_moment):
            self._at(moment, by_moment[moment])
        for number, wants in enumerate(self.wants):
            rank = self.flow.holdings[number].rank
            self.after += [(rank, self.home[number], place) for place in wants if place != self.home[number]]
        scratch = [
            max(0, len(busy) - buffers.user)
            for busy, buffers in zip(self.busy_until, self.buffers, strict=True)
        ]
        return Homes(self.buffers, self.moment, self.home, self.before, self.after, scratch)

    def _last_read(self, number: int) -> Moment:
        """When the last reader of a holding is done, copies behind the last round among them."""
        if any(place != self.home[number] for place in self.wants[number]):
            return _END
        return _END if self.wants[number] else max(self.readers[number], default=self.moment[number])

    def _inputs(self, numbers: list[int]) -> None:
        """Inputs lie where they are, unless they are needed when another has to be there."""
        away = []
        for number in numbers:
            holding = self.flow.holdings[number]
            place = self.buffers[holding.rank].inputs[holding.offset]
            self.home[number] = place
            other = self.wanted_at.get((holding.rank, place))
            if other not in (None, number) and any(want != place for want in self.wants[number]):
                away.append(number)
        for number, place in zip(away, self._room(_START, away), strict=True):
            rank = self.flow.holdings[number].rank
            self.before.append((rank, self.home[number], place))
            self.home[number] = place
        for number in numbers:
            self._occupy(number)

    def _at(self, moment: Moment, numbers: list[int]) -> None:
        """What ranks have from a moment on."""
        homeless = []
        for number in numbers:
            place = self._wanted_place(number, moment)
            if place is None:
                place = self._term_to_replace(number, moment)
            if place is None:
                homeless.append(number)
                continue
            self.home[number] = place
            self._occupy(number)
        homeless.sort(key=self._beside)
        for number, place in zip(homeless, self._room(moment, homeless), strict=True):
            self.home[number] = place
        for number in homeless:
            self._occupy(number)

    def _wanted_place(self, number: int, moment: Moment) -> int | None:
        """Where it is wanted, if that is free, or becomes so by this sum."""
        rank, replaced = self.flow.holdings[number].rank, self._replaced(number, moment)
        return next(
            (want for want in self.wants[number] if want in replaced or self._is_free(rank, want, moment)),
            None,
        )

    def _term_to_replace(self, number: int, moment: Moment) -> int | None:
        """A term in scratch, or where the caller expects a result, that the sum is written over."""
        buffers = self.buffers[self.flow.holdings[number].rank]
        return next(
            (
                place
                for place in self._replaced(number, moment)
                if place >= buffers.user or place in buffers.outputs
            ),
            None,
        )

    def _replaced(self, number: int, moment: Moment) -> list[int]:
        """Where terms lie that nobody reads from now on but this sum."""
        terms = self.flow.holdings[number].terms
        return [
            self.home[term]
            for term in terms
            if not self.wants[term]
            and max(self.readers[term]) == moment
            and self.readers[term].count(moment) == 1
            and terms.count(term) == 1
        ]

    def _beside(self, number: int) -> tuple[int, int, int]:
        """What comes from one rank, or is made of neighbours, shall lie in one row."""
        holding = self.flow.holdings[number]
        first = made_of(holding)[0]
        return holding.rank, self.flow.holdings[first].rank, self.home[first]

    def _room(self, moment: Moment, numbers: list[int]) -> list[int]:
        """Scratch for some holdings: a row of it for all that come to a rank from one rank."""
        places: list[int] = []
        start = 0
        while start < len(numbers):
            rank, source = self.flow.holdings[numbers[start]].rank, self._from(numbers[start])
            end = start
            while end < len(numbers) and self._from(numbers[end]) == source:
                end += 1
            first = self._free_row(rank, end - start, moment)
            for place in range(first, first + end - start):
                self._set_busy(rank, place, _END)
                places.append(place)
            start = end
        return places

    def _from(self, number: int) -> tuple[int, int]:
        holding = self.flow.holdings[number]
        made = made_of(holding)
        return holding.rank, self.flow.holdings[made[0]].rank if made else holding.rank

    def _free_row(self, rank: int, length: int, moment: Moment) -> int:
        busy, first = self.busy_until[rank], self.buffers[rank].user
        row = first
        for place in range(first, len(busy)):
            if busy[place] >= moment:
                row = place + 1
            elif place + 1 - row == length:
                return row
        return row

    def _is_free(self, rank: int, place: int, moment: Moment) -> bool:
        busy = self.busy_until[rank]
        return place >= len(busy) or busy[place] < moment

    def _occupy(self, number: int) -> None:
        self._set_busy(self.flow.holdings[number].rank, self.home[number], self._last_read(number))

    def _set_busy(self, rank: int, place: int, until: Moment) -> None:
        busy = self.busy_until[rank]
        if place >= len(busy):
            busy.extend([(-1, 0)] * (place + 1 - len(busy)))
        busy[place] = until


def _moments(flow: Dataflow, levels: Sequence[int]) -> list[Moment]:
    """A message arrives with its round; a sum is behind its terms, those of the same round too."""
    moments: list[Moment] = []
    for number, holding in enumerate(flow.holdings):
        after = max((moments[term] for term in holding.terms), default=_START)
        same = after[1] + 1 if after[0] == levels[number] and holding.terms else 0
        moments.append((levels[number], same if holding.terms else 0))
    return moments
