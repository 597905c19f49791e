"""Where the sums of an AllReduce are made, for small messages on several nodes.

What crosses a NIC pays its alpha once for the sums and once for the copies. If the sums of a node are
all made where its NIC is, nothing has to be spread and collected again in between. And if two ranks
share a NIC, each of which may only carry its own chunks, one can carry sums while the other carries
copies: half of the sums are made on the one node and half on the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import merged
from taccl.encoding.core.update import Update
from taccl.encoding.engines.combining.engine import searched, serves
from taccl.encoding.engines.combining.tuning import OWNERS_PASSES
from taccl.encoding.engines.engine import Verdict, no
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves_owners(instance: Instance) -> Verdict:
    """Whether sums are wanted in several places, and both phases are for message combining."""
    parts = instance.phases
    if parts.reduce_phase is None or parts.broadcast_phase is None:
        return no("it is for sums that several ranks want")
    return serves(parts.reduce_phase) and serves(parts.broadcast_phase)


def combine_at_owners(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield improving schedules of a small AllReduce, with sums made in several places.

    Nothing for other problems.
    """
    if not serves_owners(instance):
        return
    best = np.inf if incumbent is None else incumbent.makespan_us
    choices = list(_choices(instance))
    for most, part in OWNERS_PASSES:
        of_pass = budget.share(part)
        times: list[tuple[float, int]] = []
        for number, owners in enumerate(choices[:most]):
            if not budget.remaining_s():
                return
            times.append((np.inf, number))
            share = of_pass.share(1 / (min(most, len(choices)) - number))
            for schedule in _with_owners(instance, owners, options, share):
                times[-1] = min(times[-1], (schedule.makespan_us, number))
                if schedule.makespan_us < best - TOLERANCE_US:
                    best = schedule.makespan_us
                    yield Update("combining", schedule)
        choices = [choices[number] for _, number in sorted(times)]


def _with_owners(
    instance: Instance, owners: IntArray, options: SearchOptions, budget: Budget
) -> Iterator[Schedule]:
    """The best reduce phase that is found in half of the time, with better and better broadcast phases."""
    parts = instance.phases_at(owners)
    assert parts.reduce_phase is not None and parts.broadcast_phase is not None
    sums = list(searched(parts.reduce_phase, options, budget.share(0.5), None))
    if sums:
        for copies in searched(parts.broadcast_phase, options, budget, None):
            yield merged(instance.problem, sums[-1], copies)


def _choices(instance: Instance) -> Iterator[IntArray]:
    """Where sums may be made, each of shape (num_chunks,); none where only at the chunks' own owners."""
    owner, node_of = instance.problem.collective.owner, instance.problem.topology.node_of
    ranks = instance.problem.topology.equal_nodes
    if ranks is None:
        return
    nodes, size = ranks.shape
    local = np.empty(len(node_of), dtype=np.int64)
    local[ranks] = np.arange(size)
    yield ranks[local[owner] % nodes, local[owner]]
    group = instance.group
    for relay in range(size):
        owners = ranks[node_of[owner], relay]
        if (owners[group.chunk_map] == group.rank_map[:, owners]).all():
            yield owners
    yield owner
