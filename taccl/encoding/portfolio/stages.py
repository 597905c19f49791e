"""What `auto` does with a problem: which engines take turns, and for how much of the time each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taccl.encoding.core.paths import shortest_path_sets
from taccl.encoding.engines.combining import bulk, is_for_bulk, smallness
from taccl.encoding.engines.cp import cp, has_few_ways
from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.flows import flows, is_for_flows
from taccl.encoding.engines.greedy import greedy
from taccl.encoding.engines.milp import milp
from taccl.encoding.engines.trees import is_for_trees, trees
from taccl.encoding.symmetry.quotient import quotient
from taccl.problem import Problem


@dataclass(frozen=True)
class Turn:
    """An engine, and its part of the time that is left when its turn comes."""

    engine: Engine
    share: float


#: Engines that find routes at the throughput optimum, and what they are for.
_ROUTED: tuple[tuple[Engine, Callable[[Problem], bool]], ...] = ((trees, is_for_trees), (flows, is_for_flows))
#: The part of the time for those: with many chunks, and with one where ranks are alike.
_MANY_CHUNKS, _ONE_CHUNK = 0.4, 0.1
#: The smaller messages are, the more of the time `bulk` has: at most this.
_MOST_FOR_BULK = 0.6
_CP_FIRST = 0.2
_LEAST_FOR_EXCHANGE = 0.1

#: More pairs of a chunk and a link on ways up to so many times the shortest make a problem too large.
_MOST_WAYS = 60_000
_LONG_WAYS = 1.5

#: More triples of a chunk, a rank and a link make a problem huge.
_HUGE = 200_000_000


def turns(problem: Problem) -> tuple[Turn, ...]:
    """The engines after each other, for a problem that only copies."""
    routed = _routed(problem)
    if is_huge(problem):
        return (*routed, Turn(greedy, 1.0))
    # Where CP has few ways to consider, asking it first often ends the search.
    routed = (*((Turn(cp, _CP_FIRST),) if has_few_ways(problem) else ()), *routed)
    exact: tuple[Turn, ...] = (Turn(milp, 0.3), Turn(cp, 1.0))
    if shortest_path_sets(problem, _LONG_WAYS).sum() > _MOST_WAYS:
        # MILP and CP will leave such a problem alone; their time is greedy's.
        exact = (*exact, Turn(greedy, 1.0))
    if is_for_bulk(problem):
        return (*routed, Turn(greedy, 0.1), Turn(bulk, share_of_bulk(problem)), *exact)
    return (*routed, Turn(greedy, 0.2), *exact)


def _routed(problem: Problem) -> tuple[Turn, ...]:
    share = _MANY_CHUNKS if problem.collective.chunks_per_rank > 1 else _ONE_CHUNK
    if share == _ONE_CHUNK and quotient(problem) is None:
        return ()
    return tuple(Turn(engine, share) for engine, fits in _ROUTED if fits(problem))


def share_of_bulk(problem: Problem) -> float:
    """The part of the time that goes to searching the sequence of few large sends."""
    return _MOST_FOR_BULK * smallness(problem) ** 2


def share_of_exchange(problem: Problem) -> float:
    """The part of the time for an AllReduce as a whole: what its textbook rounds take, at least."""
    return max(_LEAST_FOR_EXCHANGE, share_of_bulk(problem) / 2)


def share_of_sums(problem: Problem) -> float:
    """The part of what is left then for other places for the sums of an AllReduce in two halves."""
    return share_of_bulk(problem) / 2


def is_huge(problem: Problem) -> bool:
    """Whether MILP, CP and the prover had better not even look at it."""
    return problem.num_chunks * problem.num_ranks * problem.topology.num_links > _HUGE
