"""From a schedule to what each rank does: the passes, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from taccl.backend.lower.actions import Actions, check_actions, without_holes
from taccl.backend.lower.additions import plan_additions
from taccl.backend.lower.assemble import Assembly
from taccl.backend.lower.flow import read_flow
from taccl.backend.lower.hazards import Waits, hazards
from taccl.backend.lower.instances import cut_into_instances
from taccl.backend.lower.layout import chunk_orders, lay_out
from taccl.backend.lower.local_work import LocalWork, with_gathered
from taccl.backend.lower.order import order_events
from taccl.backend.lower.side_by_side import side_by_side
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.lower.unequal import Starts, elements_of, starts_of
from taccl.backend.target import LoweringOptions
from taccl.model.problem import NO_LIMIT
from taccl.model.schedule import Schedule
from taccl.model.units import MB

#: From the actions of a rank to others that do the same.
Pass: TypeAlias = Callable[[Actions], Actions]


@dataclass(frozen=True, eq=False)
class RankWork:
    """What one rank does, for a format that has no thread blocks.

    Parameters
    ----------
    actions : in an order in which each comes after all that it waits for. Those that wait for nothing that is
        left to do may run at once; both ends of a message have one number, in `actions.send`.
    waits : by action, all earlier ones of the rank that it must wait for.
    starts : as `unequal.starts_of`.
    """

    actions: Actions
    waits: Waits
    starts: Starts


def lower_to_actions(
    schedule: Schedule, options: LoweringOptions, passes: Sequence[Pass] = ()
) -> list[RankWork]:
    """What each rank does, for calls out of place. Chunks may be of unequal sizes.

    Parameters
    ----------
    schedule : one that `check` accepts.
    options : of those, the instances and the sizes of calls.
    passes : what the format changes in the actions of a rank, one pass after the other.

    Raises
    ------
    CollectiveError, UnitError : as `taccl.backend.lower.lower`, and `unequal.elements_of`.
    """
    plan = plan_actions(schedule, options)
    expanded = plan.expanded(NO_LIMIT).by_rank(np.zeros(len(plan.flow.columns), dtype=np.int64))
    ranks = [rank.in_one_order(NO_LIMIT) for rank in expanded]
    for change in (*passes, without_holes):
        ranks = [change(actions) for actions in ranks]
    check_actions(ranks)
    elements, _ = elements_of(plan.flow.schedule.problem)
    return [
        RankWork(actions, hazards(actions, [None]), starts_of(plan.flow, elements, rank, actions))
        for rank, actions in enumerate(ranks)
    ]


def plan_actions(
    schedule: Schedule, options: LoweringOptions, fused: bool = False, gathers: bool = True
) -> Assembly:
    """Order and layout, with the places of chunks and the order in groups that need the fewest copies.

    Parameters
    ----------
    options : of those, all but the name, the network and the way to call.
    fused : whether what is received is added and sent on by one step.
    gathers : whether sums may be made in thread blocks of their own, where by the executor that pays.

    Raises
    ------
    CollectiveError : buffers of a collective of one's own are larger than its size.
    UnitError : no size lies between those requested.
    """
    cut, instance = cut_into_instances(side_by_side(schedule), options.instances)
    local = None
    if options.executor is not None:
        chunk_bytes = cut.problem.chunk_mb * MB
        local = LocalWork(
            options.executor, options.protocol, chunk_bytes, schedule.makespan_us, options.instances
        )
    orders = chunk_orders(cut.problem.collective)
    if cut.sends.count.max(initial=1) == 1:
        orders = orders[:1]
    plans = []
    for position in orders:
        flow = read_flow(cut, instance, position, fused)
        events = order_events(flow)
        if local is not None and gathers and not fused:  # fused steps add on receipt, at no cost
            flow = with_gathered(flow, local)
        adding = plan_additions(flow, events)
        plans.append((flow, events, adding, lay_out(flow, events, adding)))
    best = min(plans, key=lambda plan: sum(layout.cost for layout in plan[-1]))
    sizes = sizes_of(
        cut.problem.collective, schedule.problem.size_bytes, options.min_bytes, options.max_bytes
    )
    return Assembly(*best, sizes, options.thread_blocks == "one-way", local)
