"""What engines need of a problem, next to that they serve it: how large it may be, and of which kind."""

from __future__ import annotations

from collections.abc import Sequence

from taccl.encoding.engines.engine import YES, Need, Verdict, no, usual_cuts
from taccl.encoding.engines.tuning import (
    NEEDS_HUGE,
    NEEDS_MANY_CHUNKS,
    NEEDS_MOST_OUTPUTS,
    NEEDS_OF_HEAVY,
    NEEDS_OF_LARGE,
    NEEDS_SMALL,
)
from taccl.encoding.instance import Instance

#: Problems that use no more than this are what most engines know.
COPIES_AND_SUMS = frozenset({"reductions"})


def is_huge(instance: Instance) -> bool:
    """Whether engines that search all schedules, or think about each transfer, had better not look at it."""
    problem = instance.problem
    return problem.num_chunks * problem.num_ranks * problem.topology.num_links > NEEDS_HUGE


def is_small(instance: Instance) -> bool:
    """Whether a proof may be expected in seconds."""
    problem = instance.problem
    return problem.num_chunks * problem.topology.num_links <= NEEDS_SMALL and not is_huge(instance)


def has_many_chunks(instance: Instance) -> bool:
    """Whether there are more chunks than a step for each transfer is sensible for."""
    return instance.problem.num_chunks > NEEDS_MANY_CHUNKS


def is_large_message(instance: Instance) -> bool:
    """Whether bandwidth counts more than alpha."""
    return instance.latency_fraction < NEEDS_OF_LARGE


def _is_heavy(instance: Instance) -> bool:
    """Whether bytes count on the slowest links, and come from several ranks, or go to each by themselves."""
    slowest_us = instance.durations_us.max(initial=0.0)
    alpha_us = instance.problem.topology.alpha_us[instance.durations_us == slowest_us].max(initial=0.0)
    counts = bool(alpha_us < NEEDS_OF_HEAVY * slowest_us)
    return counts and (instance.demand.moves_pairwise or not instance.is_of_one_root)


def heavy_cuts(instance: Instance) -> Sequence[int]:
    """Numbers of chunks of which each is heavy, where it is one of these; else none."""
    return usual_cuts(instance) if _is_heavy(instance) else ()


def knows_phases(instance: Instance) -> bool:
    """Whether the problem uses nothing but copies and sums, so that its phases say all there is to say."""
    return instance.features <= COPIES_AND_SUMS


def _not_huge(instance: Instance) -> Verdict:
    return no(f"more than {NEEDS_HUGE:,} triples of a chunk, a rank and a link") if is_huge(instance) else YES


def _few_outputs(instance: Instance) -> Verdict:
    if len(instance.problem.collective.outputs) > NEEDS_MOST_OUTPUTS:
        return no(f"more than {NEEDS_MOST_OUTPUTS:,} outputs")
    return YES


def _alphas_count(instance: Instance) -> Verdict:
    return no("bandwidth counts more than alpha") if is_large_message(instance) else YES


ALPHAS_COUNT = Need("alphas that count next to bandwidth", _alphas_count)
NOT_HUGE = Need(f"at most {NEEDS_HUGE:,} triples of a chunk, a rank and a link", _not_huge)
FEW_OUTPUTS = Need(f"at most {NEEDS_MOST_OUTPUTS:,} outputs", _few_outputs)
