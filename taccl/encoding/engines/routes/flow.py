"""A flow that keeps the busiest port least busy, taken apart into paths for whole chunks."""

from __future__ import annotations

import numpy as np

from taccl.encoding.core.flow import least_busy_flow
from taccl.encoding.core.flow_paths import FlowPath, Pair, paths_of, whole_chunks
from taccl.encoding.engines.routes.columns import Routes, copies_of, turns
from taccl.encoding.engines.routes.tuning import FLOW_SHORTNESS, MOST_RANK_LINKS, MOST_TRANSFERS
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def has_flow(part: Instance) -> bool:
    """Whether each chunk goes from one rank to one, all are of one size, and the program is not too large."""
    problem = part.problem
    sources = len(np.unique(problem.collective.inputs.rank))
    return (
        part.demand.moves_pairwise
        and problem.sizes is None
        and sources * problem.topology.num_links <= MOST_RANK_LINKS
        and problem.num_chunks <= MOST_TRANSFERS
    )


def flow(part: Instance, budget: Budget) -> Routes | None:
    """Which chunks pass which links; None where no flow is found in time."""
    problem, topology = part.problem, part.problem.topology
    every = np.arange(topology.num_pairs)
    busy = topology.port_busy_us(every, problem.chunk_mb) / problem.chunk_mb
    least = least_busy_flow(problem, part.group, busy, budget, FLOW_SHORTNESS)
    if least is None:
        return None
    chunks = _chunks_of_pairs(problem)
    wanted = np.zeros((problem.num_ranks, problem.num_ranks), dtype=np.int64)
    for pair, each in chunks.items():
        wanted[pair] = len(each)
    paths: dict[Pair, list[FlowPath]] = {}
    for source in np.flatnonzero(wanted.any(axis=1)).tolist():
        paths |= paths_of(problem, source, least.mb[source] / problem.chunk_mb, wanted[source])
    if paths.keys() != chunks.keys():
        return None
    carried: list[tuple[list[int], int, int]] = []
    company = 0
    many = {pair: len(chunks[pair]) for pair in paths}
    for pair, counts in whole_chunks(problem, paths, many, budget).items():
        first = 0
        for path, count in zip(paths[pair], counts, strict=True):
            carried += [(chunks[pair][first : first + count], link, company) for link in path.links]
            first, company = first + count, company + 1
    return copies_of(carried, turns(problem.collective.source))


def _chunks_of_pairs(problem: Problem) -> dict[Pair, list[int]]:
    """The chunks of each (source, destination) that have to move, in their order."""
    source, target = problem.collective.source, problem.collective.destination
    chunks: dict[Pair, list[int]] = {}
    for chunk in np.flatnonzero(source != target).tolist():
        chunks.setdefault((int(source[chunk]), int(target[chunk])), []).append(chunk)
    return chunks
