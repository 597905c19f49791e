"""The flow engine: a flow that keeps the busiest port least busy, taken apart into paths for whole chunks.

It answers problems in which each chunk goes from one rank to one rank; of others it says nothing. Where
ranks are in one orbit, it answers the quotient (`quotient.py`), so the schedule keeps the symmetry that is
requested; a symmetry that keeps a port in its place has no quotient, and then it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.flow import least_busy_flow
from taccl.encoding.core.flow_paths import Pair, Path, paths_of, whole_chunks
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.routes import Carried, orders
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

#: The weight of the sum of all busy times next to the busiest port: of equally fast flows, the shortest.
_SHORTNESS = 1e-6
#: Larger programs and schedules are left to the greedy engine.
_MOST_FLOWS = 100_000
_MOST_TRANSFERS = 200_000


def serves(instance: Instance) -> Verdict:
    """Whether each chunk is copied from one rank to one rank, on a machine not too large."""
    if not instance.demand.moves_pairwise:
        return no("flows carry chunks from one rank to one rank, and here some go to several")
    if not instance.problem.topology.num_links:
        return no("nothing has to move")
    small = instance.quotient_instance
    if small is None and instance.problem.symmetry:
        return no("the symmetry that is requested keeps a port in its place, so there is no quotient")
    return _is_small_enough(instance.problem if small is None else small.problem)


def _is_small_enough(problem: Problem) -> Verdict:
    sources = len(np.unique(problem.collective.inputs.rank))
    if sources * problem.topology.num_links > _MOST_FLOWS or problem.num_chunks > _MOST_TRANSFERS:
        return no(f"more than {_MOST_FLOWS} flows or {_MOST_TRANSFERS} chunks take too long to solve")
    return YES


def flows(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield schedules on the paths of a flow: single chunks and groups of them, in several orders."""
    if not serves(instance):
        return
    quotient = instance.quotient
    part = instance.quotient_instance or instance
    routes = _routes(part, budget.share(0.5))
    for schedule in orders(part.problem, routes, options.seed, budget) if routes else ():
        if schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule if quotient is None else quotient.lifted(schedule)
            yield Update("flows", best)


def _routes(part: Instance, budget: Budget) -> list[Carried] | None:
    """Which chunks pass which links; None where no flow is found in time."""
    problem, topology = part.problem, part.problem.topology
    every = np.arange(topology.num_pairs)
    busy = topology.port_busy_us(every, problem.chunk_mb) / problem.chunk_mb
    flow = least_busy_flow(problem, part.group, busy, budget, _SHORTNESS)
    if flow is None:
        return None
    chunks = _chunks_of_pairs(problem)
    wanted = np.zeros((problem.num_ranks, problem.num_ranks), dtype=np.int64)
    for pair, each in chunks.items():
        wanted[pair] = len(each)
    paths: dict[Pair, list[Path]] = {}
    for source in np.flatnonzero(wanted.any(axis=1)).tolist():
        paths |= paths_of(problem, source, flow.mb[source] / problem.chunk_mb, wanted[source])
    if paths.keys() != chunks.keys():
        return None
    carried: list[Carried] = []
    for pair, counts in whole_chunks(problem, paths, {pair: len(chunks[pair]) for pair in paths}).items():
        first = 0
        for path, count in zip(paths[pair], counts, strict=True):
            if count:
                together = tuple(chunks[pair][first : first + count])
                carried += [Carried(together, link) for link in path.links]
            first += count
    return carried


def _chunks_of_pairs(problem: Problem) -> dict[Pair, list[int]]:
    """The chunks of each (source, destination) that have to move, in their order."""
    source, target = problem.collective.source, problem.collective.destination
    chunks: dict[Pair, list[int]] = {}
    for chunk in np.flatnonzero(source != target).tolist():
        chunks.setdefault((int(source[chunk]), int(target[chunk])), []).append(chunk)
    return chunks
