"""The greedy engine: many cheap passes under different policies, keeping the best.

The first pass gives a valid schedule at once, at any scale; the others are a search over policies
and random ties. It knows nothing of optimality: its bound is 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from taccl.encoding.distance import distances_us
from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.greedy.flood import Policy, Terrain, flood
from taccl.encoding.greedy.route import spread_routes
from taccl.encoding.symmetry import SymmetryGroup, symmetry_group
from taccl.problem import Problem
from taccl.schedule import Schedule

_CONGESTION = (1.0, 0.0, 0.3, 3.0)
_GROUPS = (1, 10**9, 2, 4)
_HOLDS = (1, 2, 3, 4, 6, 8, 16)


def greedy(
    problem: Problem, options: SolveOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield improving schedules, the first one always, until all rounds or the budget are over."""
    random = np.random.default_rng(options.seed)
    best = None if incumbent is None else incumbent.makespan_us
    for number, (terrain, policy) in enumerate(_trials(problem, random)):
        if number and not budget.remaining_s():
            return
        schedule = flood(terrain, policy, random)
        if schedule is not None and (best is None or schedule.makespan_us < best):
            best = schedule.makespan_us
            yield Update("greedy", schedule)


def _trials(problem: Problem, random: np.random.Generator) -> Iterator[tuple[Terrain, Policy]]:
    """Every policy once without noise, cheap differences first; then with noise, without end."""
    symmetry = symmetry_group(problem)
    policies = _policies(bool(problem.topology.internode.any()))
    for noise in itertools.chain([0.0], itertools.repeat(0.5)):
        for congestion in _CONGESTION if _routed_chunks(problem) else (0.0,):
            terrain = _terrain(problem, symmetry, congestion, random)
            for policy in policies:
                yield terrain, Policy(**{**vars(policy), "noise": noise})


def _policies(has_internode: bool) -> list[Policy]:
    wide = [
        Policy(group, internode_group, internode_hold, defer)
        for internode_hold in (_HOLDS if has_internode else (1,))
        for internode_group in (_GROUPS if has_internode else (1,))
        for group in _GROUPS
        for defer in (True, False)
    ]
    return sorted(wide, key=lambda policy: policy.internode_hold > 1)


def _routed_chunks(problem: Problem) -> list[int]:
    """Chunks with one source and one other rank that wants them: these get a fixed way."""
    collective = problem.collective
    single = (collective.pre.sum(axis=1) == 1) & (collective.post.sum(axis=1) == 1)
    moves = ~(collective.pre & collective.post).any(axis=1)
    return [int(chunk) for chunk in np.flatnonzero(single & moves)]


def _terrain(
    problem: Problem, symmetry: SymmetryGroup, congestion: float, random: np.random.Generator
) -> Terrain:
    topology = problem.topology
    duration = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    usable = np.array([problem.usable(chunk) for chunk in range(problem.num_chunks)], dtype=np.bool_)
    left = np.zeros((problem.num_chunks, problem.num_ranks))
    routes = spread_routes(problem, symmetry, _routed_chunks(problem), congestion, random)
    for chunk, way in routes.items():
        usable[chunk] = False
        usable[chunk, way] = True
        left[chunk, topology.src[way]] = np.cumsum(duration[way][::-1])[::-1]
    return Terrain(problem, symmetry, distances_us(topology, duration), usable, left)
