"""Simulated annealing over sequences of sends (Kirkpatrick et al. 1983), in stages from several beginnings.

A changed sequence is decoded anew; what carries nothing any more drops out. A sequence that leaves a
demand unmet pays for it and may mend later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from taccl.encoding.engines.combining.decode import Decoded, Decoder
from taccl.encoding.engines.combining.orbit_instance import SendGene
from taccl.encoding.engines.combining.tuning import (
    ANNEAL_COLD,
    ANNEAL_UNITS_PER_GENE,
    ANNEAL_WARM,
    MOST_STALE,
    Stages,
)
from taccl.support.budget import UNITS_BETWEEN_LOOKS, Budget


def in_stages(
    found: list[Decoded], stages: Stages, seconds: float, budget: Budget, random: np.random.Generator
) -> Iterator[Decoded]:
    """The best of some sequences, then what each stage finds: from different ones first, then from the best.

    `seconds` : those that the stages' parts are parts of.
    """
    found, stale = list(found), 0
    yield min(found, key=lambda decoded: decoded.value)
    for number, part in enumerate(stages.parts):
        best = min(found, key=lambda decoded: decoded.value)
        share_s = min(budget.remaining_s() - best.finishing_s, part * seconds)
        if share_s <= 0 or stale == MOST_STALE:
            return
        begin = found[number % len(found)] if number < stages.from_others else best
        found.append(anneal(begin, budget.at_most(share_s), random))
        if number >= stages.from_others:
            stale = 0 if found[-1].value < best.value else stale + 1
        yield found[-1]


def anneal(begin: Decoded, budget: Budget, random: np.random.Generator) -> Decoded:
    """The best sequence found from `begin` on, which may be `begin`.

    It cools by the part of the budget that is used, be that time or work.
    """
    best = now = begin
    decoder = begin.decoder
    whole = budget.remaining_s()
    while left := budget.remaining_s():
        units = decoding_units(decoder, now.genes)
        trials = max(1, int(UNITS_BETWEEN_LOOKS / units))
        budget.spend(max(0.0, trials * units - 1))
        warmth = begin.score * ANNEAL_WARM * (ANNEAL_COLD / ANNEAL_WARM) ** (1 - left / whole)
        for _ in range(trials):
            genes, same = _changed(decoder, now, random)
            trial = decoder.decode(genes, now, same)
            if trial.score <= now.score or random.random() < math.exp((now.score - trial.score) / warmth):
                now = trial
                if now.value < best.value:
                    best = now
    return best


def decoding_units(decoder: Decoder, genes: Sequence[SendGene]) -> float:
    """The units of work for decoding a sequence."""
    transfers = math.prod(decoder.orbits.usable.shape[1:])
    return max(1, len(genes)) * (ANNEAL_UNITS_PER_GENE + transfers / decoder.transfers_per_unit)


def _changed(decoder: Decoder, now: Decoded, random: np.random.Generator) -> tuple[list[SendGene], int]:
    """Another sequence, with one or two changes, and how many of its first genes are the same."""
    genes, same = list(now.genes), len(now.genes)
    for _ in range(1 if random.random() < 0.7 else 2):
        same = min(same, _change(decoder, now, genes, random))
    return genes, same


def _change(decoder: Decoder, now: Decoded, genes: list[SendGene], random: np.random.Generator) -> int:
    """Change one thing about the genes; returns the first position that is not as it was."""
    choice, length = random.random(), len(genes)
    if choice < 0.2 or not length:
        place = int(random.integers(length + 1))
        genes.insert(place, SendGene(_some_orbit(decoder, random), bool(random.random() < 0.5)))
        return place
    place = int(random.integers(length))
    if choice < 0.35:
        del genes[place]
    elif choice < 0.6:
        gene = genes.pop(place)
        other = int(random.integers(length))
        genes.insert(other, gene)
        place = min(place, other)
    elif choice < 0.75:
        genes[place] = genes[place]._replace(orbit=_some_orbit(decoder, random), without=None)
    elif choice < 0.85:
        genes[place] = genes[place]._replace(waits=not genes[place].waits)
    elif choice < 0.9:
        genes[place] = genes[place]._replace(without=None)
    elif place < len(now.transfers) and genes[place] is now.genes[place]:
        genes[place] = _without_some(decoder, now, place, random)
    return place


def _some_orbit(decoder: Decoder, random: np.random.Generator) -> int:
    return int(decoder.orbits.odds.searchsorted(random.random()))


def _without_some(decoder: Decoder, now: Decoded, place: int, random: np.random.Generator) -> SendGene:
    """The gene at a place without some of the transfers that it carries.

    Those are one, half of them, or all that share, or do not share, a trait with one of them.
    """
    gene, transfers = now.genes[place], now.transfers[place]
    traits = decoder.traits(gene.orbit)
    carried = np.flatnonzero(transfers)
    choice = random.random()
    if choice < 0.5:
        trait = traits[random.integers(len(traits))].flat[carried]
        leaving = carried[(trait == trait[random.integers(len(carried))]) == (choice < 0.35)]
    else:
        leaving = random.choice(carried, 1 if choice < 0.75 else max(1, len(carried) // 2), replace=False)
    stay = np.zeros_like(transfers)
    stay.flat[leaving] = True
    return gene._replace(without=stay if gene.without is None else stay | gene.without)
