"""Whether a permutation of the ranks is an automorphism of a problem: its network, its rules, its collective.

The network and its rules are checked by `taccl.model.automorphism`, as they are for sketches.
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.symmetry.action import Action
from taccl.model.automorphism import Broken, network_map
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


def action_of(problem: Problem, ranks: IntArray) -> Action | Broken:
    """What the automorphism that moves every rank r to `ranks[r]` does; or why there is none."""
    ranks = np.asarray(ranks, dtype=np.int64)
    found = network_map(ranks, problem.topology, problem.limits)
    if isinstance(found, Broken):
        return found
    chunks = problem.chunk_map(ranks)
    if chunks is None:
        return Broken(f"it changes the {problem.collective.name}")
    return Action(ranks, found.links, found.ports, found.pairs, chunks, found.is_exact)


def is_automorphism(problem: Problem, ranks: IntArray) -> bool:
    """Whether moving every rank r to `ranks[r]` leaves topology, limits and collective as they were."""
    return isinstance(action_of(problem, ranks), Action)
