"""Message combining: the sequence of sends is searched, and what each carries follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.combining.anneal import anneal, decoding_units, in_stages
from taccl.encoding.engines.combining.beginnings import as_genes, as_genes_on, by_distance, doubling, gossip
from taccl.encoding.engines.combining.decode import BroadcastDecoder, Decoded, Decoder, PathDecoder
from taccl.encoding.engines.combining.hops import by_hops, is_compiled, knows
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.sends import soonest
from taccl.encoding.engines.combining.tuning import (
    ACROSS,
    ALWAYS_DECODED,
    BEGIN_PART,
    FEW_LINKS,
    GOSSIP_PART,
    GOSSIP_WEIGHTS,
    HOPS_ALONE_S,
    HOPS_COMPILING_S,
    MOST_TRANSFERS,
    STAGES,
    STAGES_BEFORE_HOPS,
    SYMMETRIES_PER_UNIT,
    TRIALS,
    UNITS_BY_DISTANCE,
    UNITS_PER_CELL,
    UNITS_PER_COPIED,
    UNITS_PER_DOUBLED,
    Stages,
)
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.instance import Instance
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import UNITS_PER_S, Budget

#: Where more than this of a chunk's time on the links is alpha, messages are small.
SMALL = 0.05


def is_small(instance: Instance) -> Verdict:
    """Whether alphas are much of the time of a chunk."""
    if instance.latency_fraction > SMALL:
        return YES
    return no(f"messages are not small: alpha is no more than {100 * SMALL:g}% of a chunk's time on any link")


def serves(instance: Instance) -> Verdict:
    """Whether messages are small, and each chunk goes from one rank to all or from one to one."""
    if not (small := is_small(instance)):
        return small
    if not (instance.demand.broadcasts or instance.demand.moves_pairwise):
        return no("it combines chunks that go from one rank to all, or from one to one")
    return YES


def tells_chunks(instance: Instance) -> bool:
    """Whether hops are soon where they do best, for they need not search for two phases."""
    return _has_one_phase(instance) and _are_few_and_the_same(instance)


def cuts(instance: Instance) -> Sequence[int]:
    """Numbers of chunks for a search of several: of two phases 1, where hops soon are where they do best."""
    if _has_one_phase(instance):
        return ACROSS
    return ACROSS[:1] if _are_few_and_the_same(instance) else ()


def _are_few_and_the_same(instance: Instance) -> bool:
    """Whether all ranks look the same and have few links: there a million changes of hops lead far."""
    topology = instance.problem.topology
    if topology.num_links > FEW_LINKS * topology.num_ranks:
        return False
    return len(instance.assumed_group()) == topology.num_ranks


def _has_one_phase(instance: Instance) -> bool:
    return None in (instance.phases.reduce_phase, instance.phases.broadcast_phase)


def combine(
    instance: Instance, options: SearchOptions, budget: Budget, best: Schedule | None
) -> Iterator[Update]:
    """Yield improving schedules until the budget is over; nothing where `serves` says no."""
    if serves(instance):
        for schedule in searched(instance, options, budget, best):
            yield Update("combining", schedule)


def combine_at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """The first schedules of `combine`: on hundreds of ranks they are there long before a greedy one."""
    if serves(instance):
        for schedule in searched(instance, options, budget.share(0.0), incumbent, at_once=True):
            yield Update("combining", schedule)


def searched(
    instance: Instance,
    options: SearchOptions,
    budget: Budget,
    best: Schedule | None,
    at_once: bool = False,
) -> Iterator[Schedule]:
    """Better and better schedules than `best`, of a problem that is for message combining.

    Nothing if finding the symmetries, or one sequence, would take longer than the budget, unless it is to
    answer `at_once`.
    """
    problem = instance.problem
    units = problem.topology.num_links * problem.num_ranks / SYMMETRIES_PER_UNIT
    if not at_once and units / UNITS_PER_S > budget.remaining_s():
        return
    budget.spend(units)
    if problem.num_chunks * problem.topology.num_links > MOST_TRANSFERS * len(instance.assumed_group()):
        return
    orbits = instance.once(_orbits)
    genes = problem.num_ranks / orbits.links.shape[1]  # as many at least as ranks need to receive something
    if not at_once and genes * _units_per_gene(orbits) / UNITS_PER_S > budget.remaining_s():
        return
    for decoded in _improving(instance, best, options, budget, at_once):
        schedule = soonest(
            in_order(problem, decoded.decisions(orbits, apart)) for apart in orbits.routes_to_send
        )
        if best is None or schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield best


def _units_per_gene(orbits: OrbitInstance) -> float:
    """Of a sequence of `doubling`."""
    return UNITS_PER_DOUBLED + UNITS_PER_CELL * orbits.usable.size


def _orbits(instance: Instance) -> OrbitInstance:
    """The problem by its orbits, under the symmetries that it has or is found to have.

    `instance.once(_orbits)`.
    """
    return OrbitInstance.of(instance.problem, instance.assumed_group())


def _pays_to_decode(decoder: Decoder, genes: Sequence[SendGene], budget: Budget | None) -> bool:
    """Spend what it takes to decode a sequence, if that is long; False: there is no time for it.

    `budget` : None, whether there is time or not.
    """
    units = decoding_units(decoder, genes)
    if isinstance(decoder, BroadcastDecoder):  # each gene has a copy of when each chunk is where
        units += len(genes) * UNITS_PER_COPIED * decoder.orbits.held.size
    if budget is None or units < ALWAYS_DECODED:
        return True
    if units / UNITS_PER_S > budget.remaining_s():
        return False
    budget.spend(units)
    return True


def _improving(
    instance: Instance, best: Schedule | None, options: SearchOptions, budget: Budget, at_once: bool
) -> Iterator[Decoded]:
    """Better and better sequences that meet every demand."""
    random, seconds = np.random.default_rng(options.seed), budget.remaining_s()
    orbits = instance.once(_orbits)
    decoder: Decoder = BroadcastDecoder(orbits) if instance.demand.broadcasts else PathDecoder(orbits)
    deciding = None if at_once else budget
    beginnings = _beginnings(instance, best, budget, random, deciding)
    found = [decoder.decode(genes) for genes in beginnings if _pays_to_decode(decoder, genes, deciding)]
    if not found:
        return
    has_time = budget.counts_work or is_compiled() or budget.remaining_s() > HOPS_COMPILING_S
    goes_on_by_hops = has_time and knows(orbits) and not at_once
    stages, meeting = STAGES, [each for each in found if not each.unmet]
    if goes_on_by_hops:
        stages = Stages((), 0) if meeting and seconds < HOPS_ALONE_S else STAGES_BEFORE_HOPS
    last: Decoded | None = None
    for decoded in in_stages(sorted(found, key=_value), stages, seconds, budget, random):
        if not decoded.unmet:
            meeting.append(decoded)
            if last is None or decoded.value < last.value:
                last = decoded
                yield decoded
    if goes_on_by_hops and meeting:
        yield from by_hops(meeting, budget, random)


def _value(decoded: Decoded) -> tuple[int, float]:
    return decoded.value


def _beginnings(
    instance: Instance,
    best: Schedule | None,
    budget: Budget,
    random: np.random.Generator,
    deciding: Budget | None,
) -> Iterator[list[SendGene]]:
    """The best schedule, as it is and as a sequence, and some that bring something of all ranks to all.

    `deciding` : whether there is time to decode one; None: it is, in any case.
    """
    seconds, orbits = budget.remaining_s(), instance.once(_orbits)
    if best is not None:
        yield as_genes(orbits, best, with_chunks=True)
        yield as_genes(orbits, best)
    units = UNITS_BY_DISTANCE * int(orbits.wanted.sum())
    if deciding is None or units / UNITS_PER_S < budget.remaining_s():
        budget.spend(units)
        yield by_distance(orbits)
    if instance.demand.broadcasts:
        part = budget.at_most(BEGIN_PART * seconds)
        for decoded in _doublings(BroadcastDecoder(orbits), part, random, deciding):
            yield decoded.genes
        return
    for gossiping in instance.once(_gossips):
        decoder = BroadcastDecoder(gossiping)
        part = budget.at_most(BEGIN_PART * seconds)
        for doubled in _doublings(decoder, part, random, deciding)[:1]:
            best_gossip = anneal(doubled, budget.at_most(GOSSIP_PART * seconds), random)
            yield as_genes_on(orbits, best_gossip.genes, decoder.orbits)


def _gossips(instance: Instance) -> tuple[OrbitInstance, ...]:
    """AllGathers of chunks of different sizes on the same machine; `instance.once(_gossips)`."""
    problems = [gossip(instance.problem, weight) for weight in GOSSIP_WEIGHTS]
    group = Instance(problems[0]).assumed_group()  # what a symmetry is does not depend on the size of a chunk
    return tuple(OrbitInstance.of(problem, group) for problem in problems)


def _doublings(
    decoder: BroadcastDecoder, budget: Budget, random: np.random.Generator, deciding: Budget | None
) -> list[Decoded]:
    """Sequences of `doubling` of different times, the best first: at least one, and more as time allows.

    Nothing where `deciding` has no time to decode one.
    """
    genes = doubling(decoder.orbits, random, few=False)
    if not _pays_to_decode(decoder, genes, deciding):
        return []
    trials, meter = [decoder.decode(genes)], budget.meter()
    units = _units_per_gene(decoder.orbits)
    while len(trials) < TRIALS and meter.goes_on(units * len(trials[-1].genes)):
        trials.append(decoder.decode(doubling(decoder.orbits, random)))
    different = {round(trial.score, 6): trial for trial in trials}
    return sorted(different.values(), key=_value)
