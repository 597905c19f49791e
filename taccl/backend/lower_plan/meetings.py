"""How many ranks hear that all of them have come, with few channels each: in rounds, each of which adds what
those have heard that one hears from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from taccl.errors import ProgramLimitError

#: Of a round, by member: whom it tells, and whom it hears.
Round: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def find_meeting(count: int, most_peers: int) -> tuple[Round, ...]:
    """Rounds after which each of `count` members knows that all have come; the fewest, then the fewest peers.

    In a grid all members of a row meet, then all of a column, and so on. Where `count` is no product of small
    numbers, each member tells those behind it at multiples of a stride that grows from round to round
    (Hensgen, Finkel and Manber 1988).

    Parameters
    ----------
    most_peers : whom a member tells or hears, in all rounds together.

    Raises
    ------
    ProgramLimitError : it takes more peers, however many rounds there are.
    """
    found = [*_grids(count), *_circles(count)]
    best = min(found, key=lambda rounds: (peers_of(rounds) > most_peers, len(rounds), peers_of(rounds)))
    if peers_of(best) > most_peers:
        few = min(map(peers_of, found))
        raise ProgramLimitError(
            f"{count} members of a switch cannot tell each other that all have come",
            findings=[f"each: {few} memory channels of a thread block; the limit is {most_peers}"],
        )
    return best


def peers_of(rounds: Sequence[Round]) -> int:
    """Whom a member tells or hears, in all rounds together, at most."""
    if not rounds:
        return 0
    members = range(len(rounds[0]))
    return max(len({peer for each in rounds for side in each[member] for peer in side}) for member in members)


def _grids(count: int) -> Iterator[tuple[Round, ...]]:
    """Members as the cells of a grid, for each way to write `count` as a product."""
    for sides in _products(count, 2):
        rounds, stride = [], 1
        for side in sides:
            round_ = []
            for member in range(count):
                first = member - member // stride % side * stride
                row = tuple(first + at * stride for at in range(side) if first + at * stride != member)
                round_.append((row, row))
            rounds.append(tuple(round_))
            stride *= side
        yield tuple(rounds)


def _products(count: int, least: int) -> Iterator[tuple[int, ...]]:
    """Factors of at least `least`, ascending."""
    if count == 1:
        yield ()
    for factor in range(least, count + 1):
        if count % factor == 0:
            yield from ((factor, *rest) for rest in _products(count // factor, factor))


def _circles(count: int) -> Iterator[tuple[Round, ...]]:
    """Members in a circle, signalled at strides that are powers of a base."""
    for base in range(2, 6):
        rounds, stride = [], 1
        while stride < count:
            steps = range(stride, min(count, base * stride), stride)
            rounds.append(
                tuple(
                    (
                        tuple((member + step) % count for step in steps),
                        tuple((member - step) % count for step in steps),
                    )
                    for member in range(count)
                )
            )
            stride *= base
        yield tuple(rounds)
