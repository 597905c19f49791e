"""From a sequence of sums to the sends of a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.encoding.engines.combining.decode import Decoded
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance
from taccl.model.collective import BoolArray
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.schedule.derivation import derive
from taccl.model.schedule.partial_sums import OWN, PartialSums, as_sets, contributors


def decisions(orbits: OrbitInstance, decoded: Decoded, apart: bool) -> Iterator[Decision]:
    """The sends of a sequence of sums, in its order. What arrives a second time is left out.

    `apart` is as in `OrbitInstance.decisions`.
    """
    whole = contributors(orbits.problem.collective)
    dst = orbits.problem.topology.dst.tolist()
    arrived: set[tuple[int, int, int]] = set()
    several = orbits.problem.max_group
    for gene, transfers, sets in zip(decoded.genes, decoded.transfers, decoded.sets, strict=True):
        most = 1 if apart and orbits.one_by_one[gene.orbit] else several
        for chunks, carried, link in _images(orbits, gene.orbit, transfers, sets):
            new = [
                (chunk, each)
                for chunk, each in zip(chunks, carried, strict=True)
                if (chunk, dst[link], each) not in arrived
            ]
            arrived.update((chunk, dst[link], each) for chunk, each in new)
            for first in range(0, len(new), most):
                group = new[first : first + most]
                named = tuple(0 if each == whole[chunk] else each for chunk, each in group)
                yield Decision(tuple(chunk for chunk, _ in group), link, any(named), named)


def _images(
    orbits: OrbitInstance, orbit: int, transfers: BoolArray, sets: list[int]
) -> Iterator[tuple[list[int], list[int], int]]:
    """The chunks, sets and link of each image of a gene."""
    group = orbits.group
    image, column = np.nonzero(transfers)
    sums = PartialSums.of_sets(sets, orbits.problem.num_ranks)
    # On the first link: the chunks and contributions whose images these are.
    first = group.chunk_map.argsort(axis=1)[image, orbits.chunks[column]]
    members = np.take_along_axis(sums.members[sums.of_row], group.rank_map[image], axis=1)
    order = first.argsort()
    first, members = first[order], members[order]
    for chunk_map, rank_map, link in zip(group.chunk_map, group.rank_map, orbits.links[orbit], strict=True):
        moved = np.empty_like(members)
        moved[:, rank_map] = members
        yield chunk_map[first].tolist(), as_sets(moved), int(link)


def soonest(schedules: Iterable[Schedule]) -> Schedule:
    """The schedule that ends first; of those that end together the first, which has the fewest sends."""
    best, *others = schedules
    for other in others:
        if other.makespan_us < best.makespan_us - TOLERANCE_US:
            best = other
    return best


def without_unused(schedule: Schedule) -> Schedule:
    """The schedule without rows that no output is made of, each send as early as possible."""
    facts = derive(schedule)
    look = [row for made_of in facts.outputs.values() for row in made_of if row != OWN]
    used = set(look)
    for row in look:
        for part in facts.rows[row]:
            if part != OWN and part not in used:
                used.add(part)
                look.append(part)
    if len(used) == len(schedule):
        return schedule
    kept = schedule.take(np.array(sorted(used), dtype=np.int64))
    return in_order(schedule.problem, decisions_of(kept))
