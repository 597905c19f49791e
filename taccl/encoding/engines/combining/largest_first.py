"""Sequences for sums, built send by send: of those that can start first, the one that brings most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.combining.beginnings import some_slow
from taccl.encoding.engines.combining.decode import Decoded
from taccl.encoding.engines.combining.exchange import ExchangeDecoder, OrbitTransfer, State
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.tuning import (
    LARGEST_FIRST_SLOW,
    LARGEST_FIRST_UNITS_PER_GENE,
    LARGEST_FIRST_UNITS_PER_TRANSFER,
)
from taccl.model.collective import BoolArray
from taccl.support.budget import Meter

_SAME_US = 1e-9


@dataclass(frozen=True, eq=False)
class _Rule:
    """What sequences of largest sends first leave out.

    Parameters
    ----------
    usable : per orbit of links, whether it may be used.
    least_here, least_there : per orbit, how many contributions its sender, and its receiver, must have.
    together : whether a link waits until its sender has this many to all of its sums.
    """

    usable: list[bool]
    least_here: list[int]
    least_there: list[int]
    together: bool = False


def largest_first(
    decoder: ExchangeDecoder,
    random: np.random.Generator,
    meter: Meter,
    before: Decoded | None = None,
    hold: int | None = None,
) -> list[SendGene] | None:
    """Genes that complete all sums, if they can: of those that can start first, the one that brings most.

    They go on after `before`. As long as anything else helps, no sum leaves or reaches a rank that has fewer
    than `hold` contributions to it (by default, some number on slow links, of which often only a few are
    used). Then none leaves such a rank, or goes over slow links. None if that takes longer than the budget
    that `meter` looks at.
    """
    genes, state = ([], decoder.start) if before is None else (list(before.genes), before.states[-1])
    for rule in _some_rules(decoder.orbits, random) if hold is None else _rules(decoder.orbits, hold):
        choosing = _Choosing(decoder, rule)
        while (gene := choosing.best(state, random)) is not None:
            step = decoder.step(state, gene)
            if not meter.goes_on(
                LARGEST_FIRST_UNITS_PER_GENE + LARGEST_FIRST_UNITS_PER_TRANSFER * choosing.looked_at
            ):
                return None
            choosing.looked_at = 0
            if step is None:
                break
            genes.append(gene)
            state = step.state
            choosing.forget(gene.orbit)
    return genes


def _rules(orbits: OrbitInstance, hold: int) -> list[_Rule]:
    """One after another, each for when nothing more helps by the one before."""
    link_orbits, slow = orbits.num_link_orbits, _slow(orbits)
    every, held, none = [True] * link_orbits, [hold] * link_orbits, [0] * link_orbits
    fast = every if slow.all() else (~slow).tolist()
    return [_Rule(every, held, held), _Rule(fast, held, none), _Rule(every, none, none)]


def _some_rules(orbits: OrbitInstance, random: np.random.Generator) -> list[_Rule]:
    link_orbits, slow = orbits.num_link_orbits, _slow(orbits)
    largest = int(np.bincount(orbits.problem.topology.node_of).max())
    hold = largest if random.random() < 0.7 else int(random.integers(1, largest + 1))
    held, none = np.where(slow, hold, 0).tolist(), [0] * link_orbits
    usable = some_slow(slow, random).tolist()
    there = held if random.random() < 0.5 else none
    return [_Rule(usable, held, there, bool(random.random() < 0.7)), _Rule([True] * link_orbits, none, none)]


def _slow(orbits: OrbitInstance) -> BoolArray:
    alone = np.array(orbits.alpha_us) + np.array(orbits.chunk_us)
    return np.asarray(alone > LARGEST_FIRST_SLOW * float(alone.min()))


class _Choosing:
    """Chooses largest genes by one rule; figures are kept until a send changes them."""

    def __init__(self, decoder: ExchangeDecoder, rule: _Rule) -> None:
        orbits = decoder.orbits
        self._decoder, self._rule = decoder, rule
        self._link_orbits = [
            orbit for orbit, usable in enumerate(rule.usable) if usable and decoder.transfers[orbit]
        ]
        self._ends = [{*src, *dst} for src, dst in zip(orbits.src.tolist(), orbits.dst.tolist(), strict=True)]
        self._into = [set(dst) for dst in orbits.dst.tolist()]
        self._open: dict[int, _Open] = {}
        self._gain: dict[int, _Gain] = {}
        #: How many transfers were looked at since somebody requested.
        self.looked_at = 0

    def forget(self, moved: int) -> None:
        """Note that a gene over an orbit of links has changed what its receivers have."""
        for orbit in self._link_orbits:
            if not self._into[moved].isdisjoint(self._ends[orbit]):
                self._open.pop(orbit, None)
                self._gain.pop(orbit, None)

    def best(self, state: State, random: np.random.Generator) -> SendGene | None:
        """The gene that brings most contributions for its time, among those that start first."""
        orbits = self._decoder.orbits
        best, best_start, best_value = -1, np.inf, 0.0
        for orbit in self._link_orbits:
            if orbit not in self._open:
                self._open[orbit] = self._look(state, orbit)
            start = max(self._open[orbit].first_us, *[state.free[port] for port in orbits.ports[orbit]])
            if start == np.inf or start > best_start + _SAME_US:
                continue
            if orbit not in self._gain or self._gain[orbit].start_us != start:
                self._gain[orbit] = self._count(state, orbit, start)
            gain = self._gain[orbit].contributions
            value = gain / (orbits.alpha_us[orbit] + orbits.chunk_us[orbit]) * (1 + 0.3 * random.random())
            if gain and (start < best_start - _SAME_US or value > best_value):
                best, best_start, best_value = orbit, start, value
        return None if best < 0 else self._gene(best)

    def _look(self, state: State, orbit: int) -> _Open:
        """Which transfers of an orbit the rule lets go."""
        decoder, rule = self._decoder, self._rule
        self.looked_at += len(decoder.transfers[orbit])
        here, there, transfers = rule.least_here[orbit], rule.least_there[orbit], decoder.transfers[orbit]
        if here or there:
            transfers = [
                transfer
                for transfer in transfers
                if _known(state, transfer.src) >= here and _known(state, transfer.dst) >= there
            ]
        moments = [decoder.ready_us(state, transfer) for transfer in transfers]
        if rule.together and here:
            useful = [late for _, late in moments if late < np.inf]
            everything = useful and len(transfers) == len(decoder.transfers[orbit])
            first = max(useful) if everything else np.inf
        else:
            # An orbit that needs some number of contributions waits for all that its sender will have.
            first = min((late if here else early for early, late in moments), default=np.inf)
        return _Open(
            first, [(transfer, late) for transfer, (_, late) in zip(transfers, moments, strict=True)]
        )

    def _count(self, state: State, orbit: int, start_us: float) -> _Gain:
        """What an orbit brings if it starts then."""
        transfers = [
            transfer
            for transfer, late in self._open[orbit].transfers
            if not self._rule.least_here[orbit] or late <= start_us
        ]
        going = self._decoder.early(state, transfers, start_us)
        return _Gain(start_us, transfers, sum([choice.gain for _, choice in going]))

    def _gene(self, orbit: int) -> SendGene:
        orbits, transfers = self._decoder.orbits, self._gain[orbit].transfers
        waits = self._rule.least_here[orbit] > 0
        if len(transfers) == len(self._decoder.transfers[orbit]):
            return SendGene(orbit, waits)
        stay = np.ones((len(orbits.group), len(orbits.chunks)), dtype=np.bool_)
        stay.flat[[transfer.number for transfer in transfers]] = False
        return SendGene(orbit, waits, stay)


class _Open(NamedTuple):
    """When something useful may go over an orbit; its transfers, and when all that each gives is there."""

    first_us: float
    transfers: list[tuple[OrbitTransfer, float]]


class _Gain(NamedTuple):
    """What an orbit brings from some moment on: the transfers that may go, and contributions."""

    start_us: float
    transfers: list[OrbitTransfer]
    contributions: int


def _known(state: State, place: int) -> int:
    """How many contributions there are."""
    return sum([part.bit_count() for part in state.parts[place]])
