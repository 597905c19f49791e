"""Small AllReduces as a whole: sums that are made at many ranks, and leave a rank more than once.

Where each chunk is wanted by one rank only, nothing is gained by that: of two partial sums that a rank
passes on towards the same rank, the first could as well wait for the second. So a ReduceScatter stays what
it is, an AllGather read backwards, and this is for sums that several ranks want.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.core.equivalent_nodes import equivalent_nodes
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.combining.anneal import decoding_units, in_stages
from taccl.encoding.engines.combining.beginnings import as_genes, rounds
from taccl.encoding.engines.combining.decode import Decoded
from taccl.encoding.engines.combining.engine import is_small
from taccl.encoding.engines.combining.exchange import ExchangeDecoder
from taccl.encoding.engines.combining.largest_first import largest_first
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.relays import by_relays
from taccl.encoding.engines.combining.sends import decisions, soonest, without_unused
from taccl.encoding.engines.combining.subgroups import scattering, subgroups
from taccl.encoding.engines.combining.tuning import (
    SUMS_BEGIN_PART,
    SUMS_FOR_RELAYS,
    SUMS_MOST_OVERTIME,
    SUMS_MOST_RANKS,
    SUMS_MOST_TRANSFERS,
    SUMS_SOON_S,
    SUMS_STAGES,
    SUMS_SYMMETRIES_PER_UNIT,
    SUMS_TRIALS,
    SUMS_TRIALS_OF_SUBGROUPS,
)
from taccl.encoding.engines.engine import YES, Run, Verdict, no
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import SymmetryGroup, kept_by, without_shared_ports
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves_exchange(instance: Instance) -> Verdict:
    """Whether messages are small, all chunks are sums, some wanted in several places, and ranks are few."""
    problem = instance.problem
    if problem.num_ranks > SUMS_MOST_RANKS and equivalent_nodes(problem.topology) is None:
        return no(
            f"a sequence over more than {SUMS_MOST_RANKS} ranks takes too long to decode, "
            "and no nodes are equivalent"
        )
    if not (small := is_small(instance)):
        return small
    if not problem.collective.reduces.all() or instance.phases.broadcast_phase is None:
        return no("it is for sums that several ranks want, and for nothing else next to them")
    if problem.limits.own_first is not None:
        return no("on some link a rank's own chunks have to leave first")
    return YES


def exchange_with(known: Run) -> Run:
    """The engine for a small AllReduce as a whole; `known` is queried for what textbooks have for a node
    alone.
    """

    def exchange(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        return _combine_exchange(known, instance, options, budget, incumbent)

    return exchange


def _combine_exchange(
    known: Run, instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield improving schedules of a small AllReduce until the budget is over; nothing for other problems."""
    if not serves_exchange(instance):
        return
    problem = instance.problem
    best_us = np.inf if incumbent is None else incumbent.makespan_us
    for schedule in by_relays(instance, known, options, budget.share(SUMS_FOR_RELAYS)):
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us, incumbent = schedule.makespan_us, schedule
            yield Update("combining", schedule)
    if problem.num_ranks > SUMS_MOST_RANKS:
        return
    for found in _improving(instance, options, budget, incumbent):
        if found.unmet or found.makespan_us >= best_us - TOLERANCE_US:
            continue
        if found.finishing_s > max(SUMS_SOON_S, SUMS_MOST_OVERTIME * budget.remaining_s()):
            return
        orbits = found.decoder.orbits
        sends = [decisions(orbits, found, apart) for apart in orbits.routes_to_send]
        schedule = soonest(
            without_unused(in_order(problem, expanded(problem, orbits, send))) for send in sends
        )
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield Update("combining", schedule)


def _improving(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Decoded]:
    """The best of the beginnings, then of what searches from them find."""
    random, seconds = np.random.default_rng(options.seed), budget.remaining_s()
    found: list[Decoded] = []
    orbit_instances = list(_orbit_instances(instance))
    topology = instance.problem.topology
    budget.spend(topology.num_links * topology.num_ranks / SUMS_SYMMETRIES_PER_UNIT)
    for orbits in orbit_instances:
        decoder = ExchangeDecoder(orbits)
        share = budget.at_most(SUMS_BEGIN_PART * seconds / len(orbit_instances))
        for genes in _beginnings(decoder, share, random):
            budget.spend(decoding_units(decoder, genes))
            found.append(decoder.decode(genes))
        if found:
            yield min(found, key=lambda decoded: decoded.value)
    if incumbent is not None and (as_it_is := _as_it_is(instance, incumbent)) is not None:
        found.append(as_it_is)
    if found:
        yield from in_stages(_different(found), SUMS_STAGES, seconds, budget, random)


def _different(found: list[Decoded]) -> list[Decoded]:
    """One of each time, the best first."""
    ordered = sorted(found, key=lambda decoded: decoded.value)
    return list({round(decoded.score, 6): decoded for decoded in reversed(ordered)}.values())[::-1]


def _as_it_is(instance: Instance, schedule: Schedule) -> Decoded | None:
    """A schedule on an orbit instance that keeps no symmetries but its own; None if that is too large."""
    problem, group = instance.problem, kept_by(schedule, instance.assumed_group())
    if problem.num_chunks * problem.topology.num_links > SUMS_MOST_TRANSFERS * len(group):
        return None
    decoder = ExchangeDecoder(OrbitInstance.of(problem, group))
    return decoder.decode(as_genes(decoder.orbits, schedule, with_chunks=True))


def _orbit_instances(instance: Instance) -> Iterator[OrbitInstance]:
    """The problem with the symmetries that it has, and with others where those do not go together.

    Also with fewer: in a symmetry that exchanges two ranks with one NIC, both use it where one might do.
    """
    problem, groups = instance.problem, list[SymmetryGroup]()
    for exchanges_first in (False, True):
        group = instance.assumed_group(exchanges_first)
        for part in (group, without_shared_ports(problem.topology, group)):
            if not any(np.array_equal(part.rank_map, other.rank_map) for other in groups):
                groups.append(part)
    transfers = problem.num_chunks * problem.topology.num_links
    fitting = [group for group in groups if transfers <= SUMS_MOST_TRANSFERS * len(group)]
    yield from (OrbitInstance.of(problem, group) for group in fitting)
    if not fitting and (block := in_one_block(problem)) is not None:
        yield block


def _beginnings(
    decoder: ExchangeDecoder, budget: Budget, random: np.random.Generator
) -> Iterator[list[SendGene]]:
    """Textbook rounds, and largest sends first, also after scattering in subgroups."""
    orbits = decoder.orbits
    yield from rounds(orbits)
    yield from _largest_first_of(decoder, SUMS_TRIALS, budget.share(0.5), random)
    # One block cannot be scattered.
    for subgroup_of in subgroups(orbits.problem) if orbits.problem.num_chunks > 1 else ():
        if not budget.remaining_s():
            return
        genes = scattering(orbits, subgroup_of, random)
        if genes is not None:
            size = orbits.problem.num_ranks // len(np.unique(subgroup_of))
            yield from _largest_first_of(
                decoder, SUMS_TRIALS_OF_SUBGROUPS, budget, random, decoder.decode(genes), size
            )


def _largest_first_of(
    decoder: ExchangeDecoder,
    trials: int,
    budget: Budget,
    random: np.random.Generator,
    before: Decoded | None = None,
    hold: int | None = None,
) -> Iterator[list[SendGene]]:
    meter = budget.meter()
    for _ in range(trials):
        genes = largest_first(decoder, random, meter, before, hold)
        if genes is None:
            return
        yield genes


def in_one_block(problem: Problem) -> OrbitInstance | None:
    """The problem with one chunk as large as all together, without its symmetry.

    That is for machines with many links and little symmetry that each chunk alone is too much.
    None if chunks differ in more than their owners, or do not fit in one send.
    """
    collective, limits = problem.collective, problem.limits
    owners = np.unique(collective.owner)
    if problem.num_chunks > problem.max_group or not all(
        (rows == rows[0]).all()
        for rows in (
            collective.pre,
            collective.post,
            np.ones((1, 1)) if limits.may_use is None else limits.may_use[owners],
        )
    ):
        return None
    may_use = None if limits.may_use is None else np.tile(limits.may_use[owners[:1]], (problem.num_ranks, 1))
    one = replace(
        problem,
        collective=collective.only(np.arange(problem.num_chunks) == 0, f"{collective.name} in one block"),
        chunk_mb=problem.chunk_mb * problem.num_chunks,
        limits=RoutingLimits(may_use=may_use),
        symmetry=(),
    )
    return OrbitInstance.of(one, Instance(one).group)


def expanded(problem: Problem, orbits: OrbitInstance, decisions: Iterable[Decision]) -> Iterator[Decision]:
    """The sends of an orbit instance of the problem, with all chunks where that has one block."""
    if orbits.problem.num_chunks == problem.num_chunks:
        yield from decisions
        return
    every = tuple(range(problem.num_chunks))
    for decision in decisions:
        sums = None if decision.sums is None else decision.sums * len(every)
        yield replace(decision, chunks=every, sums=sums)
