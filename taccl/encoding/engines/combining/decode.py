"""What a sequence of genes comes to: which chunks each send carries, and when each arrives.

`BroadcastDecoder` is for chunks that every rank wants: a gene carries all that its sender has, or will
have, and its receiver lacks. `PathDecoder` is for chunks that one rank wants: read from its end, the
sequence gives the cheapest path that each chunk can still take. `exchange.ExchangeDecoder` is for sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.tuning import (
    DECODE_HOP_WEIGHT,
    DECODE_TRANSFERS_PER_UNIT,
    SUMS_ROW_S,
)
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray

#: The weight of the mean arrival next to the last one: it tells apart sequences that end at the same time.
MEAN_WEIGHT = 1e-2
_SAME_US = 1e-9


@dataclass(frozen=True, eq=False)
class Decoded:
    """A sequence without the genes that carry nothing, and what it comes to.

    Parameters
    ----------
    decoder : whose sequence it is.
    score : what the search makes small: the time, a little of the mean arrival, and a price for
        each demand that is not met.
    makespan_us : the last arrival.
    unmet : demands of the deciding chunks that are not met.
    genes, transfers : the genes that carry something, and what they carry, each of shape (G, C).
    states : for decoders that can go on from the middle: what is where before each gene, and at the end.
    sets : for sums, the contributions that each of the transfers carries, in their order.
    """

    decoder: Decoder
    score: float
    makespan_us: float
    unmet: int
    genes: list[SendGene]
    transfers: list[BoolArray]
    states: list[Any]
    sets: list[list[int]] = field(default_factory=list)

    @property
    def value(self) -> tuple[int, float]:
        """What a better sequence has less of."""
        return self.unmet, self.score

    @property
    def finishing_s(self) -> float:
        """About how many seconds it takes to make a checked schedule of its sums."""
        return SUMS_ROW_S * sum([len(sets) for sets in self.sets]) * len(self.decoder.orbits.group)

    def decisions(self, orbits: OrbitInstance, apart: bool) -> list[Decision]:
        """The sends of a sequence of copies, in its order; `apart` as in `OrbitInstance.decisions`."""
        arrival = np.zeros(orbits.held.shape, dtype=np.int64)
        decisions: list[Decision] = []
        for number, (gene, transfers) in enumerate(zip(self.genes, self.transfers, strict=True), start=1):
            decisions += orbits.decisions(gene.orbit, transfers, arrival, apart)
            image, chunk = np.nonzero(transfers)
            arrival[orbits.dst[gene.orbit][image], chunk] = number
        return decisions


_State = tuple[FloatArray, list[float], float]


class Decoder(Protocol):
    """Decodes the sequences of one orbit instance; about this many transfers of genes in a unit of work."""

    orbits: OrbitInstance
    transfers_per_unit: float

    def decode(self, genes: Sequence[SendGene], before: Decoded | None = None, same: int = 0) -> Decoded:
        """Decode the genes, of which the first `same` are those of `before`."""
        ...

    def traits(self, orbit: int) -> tuple[IntArray, ...]:
        """What transfers of a gene may have in common, each of shape (G, C)."""
        ...


class BroadcastDecoder:
    """For chunks that every rank wants.

    Where a link carries its sender's own chunks first, the first gene over it carries them alone.
    """

    transfers_per_unit = DECODE_TRANSFERS_PER_UNIT

    def __init__(self, orbits: OrbitInstance) -> None:
        self.orbits = orbits
        self._start = np.where(orbits.held, 0.0, np.inf)
        self._price = max(orbits.alpha_us, default=0.0) + max(orbits.chunk_us, default=0.0)

    def traits(self, orbit: int) -> tuple[IntArray, ...]:
        return self.orbits.traits

    def decode(self, genes: Sequence[SendGene], before: Decoded | None = None, same: int = 0) -> Decoded:
        orbits = self.orbits
        kept: list[SendGene] = []
        carried: list[BoolArray] = []
        states: list[_State] = []
        arrive, free, last = self._start, [0.0] * orbits.num_ports, 0.0
        if before is not None and same:
            kept, carried, states = before.genes[:same], before.transfers[:same], before.states[:same]
            arrive, free, last = before.states[same]
        for gene in genes[same:]:
            orbit = gene.orbit
            at, to = arrive.take(orbits.src[orbit], axis=0), arrive.take(orbits.dst[orbit], axis=0)
            # A gene carries what arrives at the sender before it arrives at the receiver.
            transfers = (at < to) & (to == np.inf) & orbits.usable[orbit]
            own = orbits.own[orbit]
            if own is not None and (transfers & own).any():
                transfers &= own
            elif gene.without is not None:
                transfers &= ~gene.without
            times = at[transfers]
            if not times.size:
                continue
            states.append((arrive, free, last))
            start = max([free[port] for port in orbits.ports[orbit]])
            newest = float(times.max())
            if newest > start and not gene.waits:
                start = max(start, float(times.min()))
                if newest > start:
                    transfers &= at <= start
                    times = at[transfers]
            else:
                start = max(start, newest)
            free = free.copy()
            end = orbits.place(orbit, times.size, start, free)
            to[transfers] = end
            arrive = arrive.copy()
            arrive[orbits.dst[orbit]] = to
            last = max(last, end)
            kept.append(gene)
            carried.append(transfers)
        states.append((arrive, free, last))
        times = arrive[orbits.wanted]
        missing = times == np.inf
        unmet = int(np.count_nonzero(missing))
        mean = float(np.where(missing, last, times).sum()) / max(1, times.size)
        score = last + unmet * self._price + MEAN_WEIGHT * mean
        return Decoded(self, score, last, unmet, kept, carried, states)


class PathDecoder:
    """For chunks that one rank wants: each takes the cheapest path that the sequence has.

    Of equally cheap sends it takes the earliest. Where a link carries its sender's own chunks first, the
    first gene over it carries them alone, and the others carry none of them.
    """

    transfers_per_unit = DECODE_TRANSFERS_PER_UNIT

    def __init__(self, orbits: OrbitInstance) -> None:
        self.orbits = orbits
        self._source = orbits.held.argmax(axis=0)
        self._target = np.where(orbits.wanted.any(axis=0), orbits.wanted.argmax(axis=0), self._source)
        self._each = np.arange(len(orbits.chunks))
        self._price = max(orbits.alpha_us, default=0.0) + max(orbits.chunk_us, default=0.0)
        self._cost = np.full(orbits.held.shape, np.inf)
        self._cost[self._target, self._each] = 0.0
        hop = np.array(orbits.chunk_us) + DECODE_HOP_WEIGHT * np.array(orbits.alpha_us)
        self._hop = np.where(orbits.usable, hop[:, None, None], np.inf)
        self._from = orbits.src[:, :, None]

    def traits(self, orbit: int) -> tuple[IntArray, ...]:
        return self.orbits.traits

    def decode(self, genes: Sequence[SendGene], before: Decoded | None = None, same: int = 0) -> Decoded:
        orbits = self.orbits
        taken, cost = self._cheapest_paths(genes)
        unmet = int(np.count_nonzero(cost[self._source, self._each] == np.inf))
        rank, at, free, last = self._source.copy(), np.zeros(len(self._each)), [0.0] * orbits.num_ports, 0.0
        kept, carried = [], []
        for gene, takes in zip(genes, taken, strict=True):
            orbit = gene.orbit
            transfers = takes & (self._from[orbit] == rank)
            image, going = transfers.nonzero()
            if not going.size:
                continue
            start = max([float(at[going].max()), *[free[port] for port in orbits.ports[orbit]]])
            end = orbits.place(orbit, going.size, start, free)
            at[going] = end
            last = max(last, end)
            rank[going] = orbits.dst[orbit][image]
            kept.append(gene)
            carried.append(transfers)
        score = last + unmet * self._price + MEAN_WEIGHT * float(at.sum()) / max(1, at.size)
        return Decoded(self, score, last, unmet, kept, carried, [])

    def _cheapest_paths(self, genes: Sequence[SendGene]) -> tuple[list[BoolArray], FloatArray]:
        """For each gene, the transfers on a cheapest path from their sender; the costs from all ranks."""
        orbits, cost = self.orbits, self._cost.copy()
        first = {gene.orbit: place for place, gene in reversed(list(enumerate(genes)))}
        taken: list[BoolArray] = []
        for place, gene in reversed(list(enumerate(genes))):
            src = orbits.src[gene.orbit]
            stay, go = cost.take(src, axis=0), cost.take(orbits.dst[gene.orbit], axis=0)
            go += self._hop[gene.orbit]
            if gene.without is not None:
                go[gene.without] = np.inf
            own = orbits.own[gene.orbit]
            if own is not None:
                go[own != (place == first[gene.orbit])] = np.inf
            # The small margin takes a gene now rather than an equally cheap one later; inf < inf stays false.
            taken.append(go < stay + _SAME_US)
            cost[src] = np.minimum(stay, go)
        return taken[::-1], cost
