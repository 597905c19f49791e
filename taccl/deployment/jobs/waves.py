"""Rounds where all ranks run one program: in a wave each sends at most once, and receives at most once.

Every step is the same on all ranks but for tables: where a rank reads and writes, and whether it takes part.
Nothing in a round is both read and written, so its waves may come one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taccl.backend.program import Buffer
from taccl.backend.rounds.rounds import Local, Message, Place, Rounds

#: The position of a place in the memory of its rank.
_At = Callable[[Place], int]


@dataclass(frozen=True, slots=True)
class Wave:
    """`count` chunks go from rank to rank.

    Parameters
    ----------
    pairs : (source, target), each rank at most once on either side.
    reads, writes : per rank, the position in its memory; 0 where it takes no part.
    receives : per rank, whether it does.
    """

    count: int
    pairs: tuple[tuple[int, int], ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    receives: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Addition:
    """`count` chunks become the sum of others; `terms` : per term, its position by rank."""

    count: int
    terms: tuple[tuple[int, ...], ...]
    writes: tuple[int, ...]
    takes_part: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Waves:
    """A collective: memory of every rank is `inputs`, then `outputs`, then scratch, `total` chunks in all."""

    inputs: int
    outputs: int
    total: int
    steps: tuple[Wave | Addition, ...]


def waves_of(rounds: Rounds) -> Waves:
    """Rounds that are called out of place, as waves."""
    inputs, outputs, scratch = (max(size[k] for size in rounds.sizes) for k in range(3))
    start = {Buffer.INPUT: 0, Buffer.OUTPUT: inputs, Buffer.SCRATCH: inputs + outputs}

    def at(place: Place) -> int:
        return start[place.buffer] + place.offset

    steps: list[Wave | Addition] = [
        _addition(some, rounds.num_ranks, at) for some in _alike(rounds.before, rounds.num_ranks)
    ]
    for each in rounds.rounds:
        steps += [_wave(some, rounds.num_ranks, at) for some in _permutations(each.messages)]
        steps += [_addition(some, rounds.num_ranks, at) for some in _alike(each.after, rounds.num_ranks)]
    return Waves(inputs, outputs, inputs + outputs + scratch, tuple(steps))


def _permutations(messages: tuple[Message, ...]) -> list[list[Message]]:
    """Messages of one length, no two from or to one rank; each in the first wave that has room for it."""
    waves: list[list[Message]] = []
    for message in sorted(messages, key=lambda each: each.count):
        for wave in waves:
            fits = all(each.source != message.source and each.target != message.target for each in wave)
            if fits and wave[0].count == message.count:
                wave.append(message)
                break
        else:
            waves.append([message])
    return waves


def _alike(locals_: tuple[Local, ...], num_ranks: int) -> list[dict[int, Local]]:
    """Sums and copies of as many terms and chunks, one of each rank; those of a rank keep their order."""
    steps: list[dict[int, Local]] = []
    after = [0] * num_ranks
    for local in locals_:
        number = after[local.rank]
        while number < len(steps) and not _is_alike(next(iter(steps[number].values())), local):
            number += 1
        if number == len(steps):
            steps.append({})
        steps[number][local.rank] = local
        after[local.rank] = number + 1
    return steps


def _is_alike(a: Local, b: Local) -> bool:
    return a.count == b.count and len(a.sources) == len(b.sources)


def _wave(messages: list[Message], num_ranks: int, at: _At) -> Wave:
    reads, writes, receives = [0] * num_ranks, [0] * num_ranks, [False] * num_ranks
    for message in messages:
        reads[message.source], writes[message.target] = at(message.read), at(message.written)
        receives[message.target] = True
    pairs = tuple((message.source, message.target) for message in messages)
    return Wave(messages[0].count, pairs, tuple(reads), tuple(writes), tuple(receives))


def _addition(locals_: dict[int, Local], num_ranks: int, at: _At) -> Addition:
    first = next(iter(locals_.values()))
    terms = tuple(
        tuple(at(locals_[rank].sources[k]) if rank in locals_ else 0 for rank in range(num_ranks))
        for k in range(len(first.sources))
    )
    writes = tuple(at(locals_[rank].target) if rank in locals_ else 0 for rank in range(num_ranks))
    return Addition(first.count, terms, writes, tuple(rank in locals_ for rank in range(num_ranks)))
