"""All chunks as one, for machines with this many links and so little symmetry that each alone is too much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem, RoutingLimits


def in_one_block(problem: Problem) -> OrbitInstance | None:
    """The problem with one chunk as large as all together, without its symmetry.

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
