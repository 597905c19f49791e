"""What the plan asks of a problem, beside whether an engine serves it: how large it is, and of which kind.

It knows instances, and how much engines can cope with; which row asks for what it must not know (`stages`).
"""

from __future__ import annotations

from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.registry import COPIES_AND_SUMS
from taccl.encoding.instance import Instance

#: A problem with so many pairs of a chunk and a link is small: CP may be expected to end the search in
#: seconds.
SMALL = 2_000
#: More pairs of a chunk and a link on paths up to so many times the shortest make a problem too large for
#: MILP and CP.
MOST_ON_PATHS = 60_000
_LONG_PATHS = 1.5
#: More triples of a chunk, a rank and a link make a problem huge.
_HUGE = 200_000_000
#: That it is not, in words.
NOT_HUGE = f"at most {_HUGE:,} triples of a chunk, a rank and a link"
#: Engines that decide about every transfer have no turn where there are more outputs: one chunk of each of
#: 2,048 ranks at all of them.
MOST_PLACES = 2**22


def always(_: Instance) -> Verdict:
    """On every problem that the engine serves."""
    return YES


def is_huge(instance: Instance) -> bool:
    """Whether MILP, CP and the prover had better not even look at it."""
    problem = instance.problem
    return problem.num_chunks * problem.num_ranks * problem.topology.num_links > _HUGE


def not_huge(instance: Instance) -> Verdict:
    """Whether MILP and CP may look at it, or why not."""
    return no(f"more than {_HUGE:,} triples of a chunk, a rank and a link") if is_huge(instance) else YES


def has_not_too_many_places(instance: Instance) -> Verdict:
    """Whether engines may decide about every transfer, or why not."""
    if len(instance.problem.collective.outputs) > MOST_PLACES:
        return no(f"more than {MOST_PLACES:,} outputs")
    return YES


def is_small(instance: Instance) -> Verdict:
    """Whether CP may be done with it in seconds, or why not."""
    problem = instance.problem
    if problem.num_chunks * problem.topology.num_links > SMALL:
        return no(f"more than {SMALL:,} pairs of a chunk and a link")
    return not_huge(instance)


def has_pieces_or_quotient(instance: Instance) -> Verdict:
    """Whether there is something to spread over several ways, or one rank says what all do; or why not."""
    if instance.problem.collective.chunks_per_rank > 1 or instance.quotient is not None:
        return YES
    return no("one chunk per rank, and ranks are not in one orbit")


def has_one_piece(instance: Instance) -> bool:
    """Whether each rank has a single chunk."""
    return instance.problem.collective.chunks_per_rank == 1


def too_many_paths(instance: Instance) -> Verdict:
    """Whether MILP and CP leave their time, for they decline it, or why not."""
    if is_huge(instance):
        return no("it had all the time before")
    if instance.path_sets(_LONG_PATHS).sum() > MOST_ON_PATHS:
        return YES
    return no(f"CP uses the time: no more than {MOST_ON_PATHS:,} pairs of a chunk and a link on short paths")


def knows_phases(instance: Instance) -> bool:
    """Whether the problem uses nothing but copies and sums, so that its phases say all there is to say."""
    return instance.features <= COPIES_AND_SUMS


def has_other_features(instance: Instance) -> Verdict:
    """Whether its phases do not say all there is to say, or why not."""
    return no("other engines know this problem") if knows_phases(instance) else YES


def has_two_phases(instance: Instance) -> bool:
    """Whether sums are copied on."""
    return instance.phases.reduce_phase is not None and instance.phases.broadcast_phase is not None
