"""An engine's answers for several numbers of chunks: a short search of each, and a longer one of the best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.engine import AcrossChunks, Run
from taccl.encoding.engines.tuning import BY_CUTS_LEAST_S
from taccl.encoding.instance import Instance
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def by_cuts(run: Run) -> AcrossChunks:
    """The engine for several numbers of chunks: as much of the time for each, and for the best again.

    With little time in all it leaves that to engines that build.
    """

    def answers(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
        in_turn = sorted(instances, key=lambda each: each.problem.num_chunks)
        best, best_us = None, math.inf
        if budget.remaining_s() < BY_CUTS_LEAST_S:
            return
        for place in range(len(in_turn) + 1):
            left = len(in_turn) + 1 - place
            instance = in_turn[place] if left > 1 else best
            if instance is None or not budget.remaining_s():
                return
            options, share = SearchOptions(seed=int(left == 1)), budget.share(1 / left)
            for update in run(instance, options, share, None):
                if update.schedule is not None and update.schedule.makespan_us < best_us - TOLERANCE_US:
                    best, best_us = instance, update.schedule.makespan_us
                    yield update.schedule

    return answers
