"""What a sequence of genes comes to where several ranks want a sum: who ends up with whose contributions.

Of each chunk a rank keeps *parts*: sums of disjoint sets of contributions, at first its own alone. A gene
sends the sum of some of the sender's parts, to a receiver who has it as one part more. Which parts follows
from what both have: those that nothing at the receiver overlaps, and also one that does if it brings more
than it displaces (so a whole sum displaces everything, and is a copy). Recursive doubling, dissemination
on any number of ranks (Bruck et al. 1997), one-shot, and sums that are made at one rank and copied from
there are all sequences of such genes; a sum may leave a rank often and be made at many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.combining.decode import MEAN_WEIGHT, Decoded
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.tuning import EXCHANGE_MOST_KNOWN, EXCHANGE_MOST_PARTS
from taccl.model.collective import BoolArray, IntArray
from taccl.model.schedule.partial_sums import contributors

#: The part of the penalty for an incomplete sum that the first missing contribution costs.
_FOR_THE_FIRST = 0.5


class State(NamedTuple):
    """What is where and when.

    Parameters
    ----------
    parts, at : for each rank and deciding chunk, at rank * C + chunk: the sets of contributions of its parts
        (`schedule.partial_sums`), and when each arrives.
    free : when each port is free.
    last : the last arrival.
    """

    parts: list[tuple[int, ...]]
    at: list[tuple[float, ...]]
    free: list[float]
    last: float


class ExchangeChoice(NamedTuple):
    """What a sender gives: the numbers of its parts, their union, and the contributions that are gained.

    `stay` has the numbers of those of the receiver's parts that are not displaced.
    """

    take: tuple[int, ...]
    union: int
    gain: int
    stay: tuple[int, ...]


class ExchangeStep(NamedTuple):
    """What one gene comes to: the state after it, what it carries, shape (G, C), and its sets."""

    state: State
    transfers: BoolArray
    sets: list[int]


class OrbitTransfer(NamedTuple):
    """A transfer that an orbit of links may carry: its number, and where its ends are in a state."""

    number: int
    src: int
    dst: int


class ExchangeDecoder:
    """Decodes sequences for sums."""

    #: Each transfer by itself: sets of contributions are no arrays.
    transfers_per_unit = 500.0

    def __init__(self, orbits: OrbitInstance) -> None:
        self.orbits = orbits
        whole = contributors(orbits.problem.collective)
        chunks = len(orbits.chunks)
        parts: list[tuple[int, ...]] = [
            (1 << rank,) if held else () for rank, row in enumerate(orbits.held.tolist()) for held in row
        ]
        at = [(0.0,) * len(own) for own in parts]
        self.start = State(parts, at, [0.0] * orbits.num_ports, 0.0)
        wanted = orbits.problem.collective.post[orbits.chunks].T.ravel()
        self._wanted = [(place, whole[orbits.chunks[place % chunks]]) for place in np.flatnonzero(wanted)]
        self._most = max(1, *(each.bit_count() for each in whole))
        self._price = max(orbits.alpha_us, default=0.0) + max(orbits.chunk_us, default=0.0)
        self.transfers = [_transfers(orbits, orbit) for orbit in range(orbits.num_link_orbits)]
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], ExchangeChoice | None] = {}

    def traits(self, orbit: int) -> tuple[IntArray, ...]:
        """What transfers may have in common, each of shape (G, C).

        That is where their chunks' owners are, as the first image of the link sees them.
        """
        group, problem = self.orbits.group, self.orbits.problem
        owner = group.rank_map.argsort(axis=1)[:, problem.collective.owner[self.orbits.chunks]]
        bits = [owner >> bit & 1 for bit in range(int(problem.num_ranks - 1).bit_length())]
        return (owner, problem.topology.node_of[owner], *bits)

    def decode(self, genes: Sequence[SendGene], before: Decoded | None = None, same: int = 0) -> Decoded:
        kept: list[SendGene] = []
        transfers: list[BoolArray] = []
        sets: list[list[int]] = []
        states: list[State] = []
        state = self.start
        if before is not None and same:
            state, states = before.states[same], before.states[:same]
            kept, transfers, sets = before.genes[:same], before.transfers[:same], before.sets[:same]
        for gene in genes[same:]:
            step = self.step(state, gene)
            if step is None:
                continue
            states.append(state)
            kept.append(gene)
            transfers.append(step.transfers)
            sets.append(step.sets)
            state = step.state
        states.append(state)
        last, lacking, incomplete, times = state.last, 0, 0, 0.0
        for place, whole in self._wanted:
            lack = whole.bit_count() - sum([part.bit_count() for part in state.parts[place]])
            lacking += lack
            incomplete += lack > 0
            times += last if lack else max(state.at[place], default=0.0)
        price = self._price * (_FOR_THE_FIRST * incomplete + lacking / self._most)
        score = last + price + MEAN_WEIGHT * times / max(1, len(self._wanted))
        return Decoded(self, score, last, lacking, kept, transfers, states, sets)

    def step(self, state: State, gene: SendGene) -> ExchangeStep | None:
        """Decode one gene; None if it carries nothing."""
        orbits, orbit, parts, at = self.orbits, gene.orbit, state.parts, state.at
        transfers = self.transfers[orbit]
        if gene.without is not None:
            stays = gene.without.ravel().tolist()
            transfers = [transfer for transfer in transfers if not stays[transfer.number]]
        going = self._going(parts, transfers)
        if not going:
            return None
        start = max([state.free[port] for port in orbits.ports[orbit]])
        newest = max([at[transfer.src][number] for transfer, choice in going for number in choice.take])
        if newest > start and not gene.waits:
            first = min([at[transfer.src][number] for transfer, choice in going for number in choice.take])
            if early := self.early(state, transfers, max(start, first)):
                going, newest = early, max(start, first)
        start = max(start, newest)
        free = state.free.copy()
        end = orbits.place(orbit, len(going), start, free)
        carried = np.zeros(len(orbits.group) * len(orbits.chunks), dtype=np.bool_)
        carried[[transfer.number for transfer, _ in going]] = True
        new_parts, new_at = parts.copy(), at.copy()
        for transfer, choice in going:
            theirs, since = parts[transfer.dst], at[transfer.dst]
            stay = choice.stay
            new_parts[transfer.dst] = (*[theirs[number] for number in stay], choice.union)
            new_at[transfer.dst] = (*[since[number] for number in stay], end)
            if len(stay) == EXCHANGE_MOST_PARTS:
                _add_two(new_parts, new_at, transfer.dst)
        after = State(new_parts, new_at, free, max(state.last, end))
        shape = len(orbits.group), len(orbits.chunks)
        return ExchangeStep(after, carried.reshape(shape), [choice.union for _, choice in going])

    def _going(
        self, parts: list[tuple[int, ...]], transfers: Sequence[OrbitTransfer]
    ) -> list[tuple[OrbitTransfer, ExchangeChoice]]:
        """The transfers whose receivers gain something."""
        pairs = [(transfer, self.choice(parts[transfer.src], parts[transfer.dst])) for transfer in transfers]
        return [(transfer, choice) for transfer, choice in pairs if choice is not None]

    def early(
        self, state: State, transfers: Sequence[OrbitTransfer], by_us: float
    ) -> list[tuple[OrbitTransfer, ExchangeChoice]]:
        """The same with the parts alone that are at the senders by some moment."""
        going = []
        for transfer in transfers:
            ours, since, theirs = state.parts[transfer.src], state.at[transfer.src], state.parts[transfer.dst]
            if since and max(since) <= by_us:
                if (choice := self.choice(ours, theirs)) is not None:
                    going.append((transfer, choice))
                continue
            there = [number for number, at_us in enumerate(since) if at_us <= by_us]
            if (
                there
                and (choice := self.choice(tuple([ours[number] for number in there]), theirs)) is not None
            ):
                take = tuple([there[number] for number in choice.take])
                going.append((transfer, ExchangeChoice(take, choice.union, choice.gain, choice.stay)))
        return going

    def ready_us(self, state: State, transfer: OrbitTransfer) -> tuple[float, float]:
        """When a sender has the first and the last of what its receiver gains; infinity: never."""
        choice = self.choice(state.parts[transfer.src], state.parts[transfer.dst])
        if choice is None:
            return np.inf, np.inf
        since = state.at[transfer.src]
        moments = [since[number] for number in choice.take]
        return min(moments), max(moments)

    def choice(self, ours: tuple[int, ...], theirs: tuple[int, ...]) -> ExchangeChoice | None:
        """What a rank with some parts gives to one with others; None if the other gains nothing."""
        key = ours, theirs
        if key not in self._known:
            if len(self._known) >= EXCHANGE_MOST_KNOWN:
                self._known.clear()
            self._known[key] = chosen(ours, theirs)
        return self._known[key]


def _transfers(orbits: OrbitInstance, orbit: int) -> list[OrbitTransfer]:
    chunks = len(orbits.chunks)
    image, chunk = np.nonzero(orbits.usable[orbit])
    columns = (
        image * chunks + chunk,
        orbits.src[orbit][image] * chunks + chunk,
        orbits.dst[orbit][image] * chunks + chunk,
    )
    return [OrbitTransfer(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _add_two(parts: list[tuple[int, ...]], at: list[tuple[float, ...]], place: int) -> None:
    """Add up the two oldest parts but the first, mostly a rank's own: others may need all but that."""
    first, one, other, *rest = parts[place]
    parts[place] = (first, one | other, *rest)
    since, one_at, other_at, *rest_at = at[place]
    at[place] = (since, max(one_at, other_at), *rest_at)


def chosen(ours: tuple[int, ...], theirs: tuple[int, ...]) -> ExchangeChoice | None:
    """Those of our parts that each bring more than they displace, or all, whichever brings more together."""
    some = tuple(
        number
        for number, part in enumerate(ours)
        if part.bit_count() > sum([other.bit_count() for other in theirs if other & part])
    )
    best = _given(ours, theirs, some)
    if len(some) < len(ours):
        every = _given(ours, theirs, tuple(range(len(ours))))
        best = every if every.gain > best.gain else best
    return best if best.gain > 0 else None


def _given(ours: tuple[int, ...], theirs: tuple[int, ...], take: tuple[int, ...]) -> ExchangeChoice:
    union = 0
    for number in take:
        union |= ours[number]
    stay = tuple(number for number, other in enumerate(theirs) if not other & union)
    kept = sum([theirs[number].bit_count() for number in stay])
    gain = union.bit_count() + kept - sum([other.bit_count() for other in theirs])
    return ExchangeChoice(take, union, gain, stay)
