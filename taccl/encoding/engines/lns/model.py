r"""A window as a model: what is inside is decided anew, by the side of all that stays.

Time is counted in ticks. A *bundle* b is chunks that travel equivalent; an *item* i is a bundle as a copy, or
as a partial sum. Of a send s over a link l, kept(s) are the chunks that stay in it, members(s) the open items
that may be in it; |i| is the chunks of i.

    start[s], end[s]   of each send: one that stays, one of an open item alone, one that open items may share
    active[s]          whether it takes place; one that stays does
    in[i, s]           open item i travels in s
    n[s]               the chunks in s, at most as many as a send may have
    at[i, r]           when open item i is at rank r; of a partial sum, when all that comes there has come
    root[b, r]         whether the sum of an opened bundle is made at rank r
    late[s]            whether s ends no earlier than the known schedule, at `last`

    minimise T, and among equal T the sum over s of late[s]

    duration        n[s] = |kept(s)| + sum over i of |i| in[i, s],  end[s] = start[s] + alpha_l + n[s] beta_l
    one kind        in[copy of b, s] + in[sum of b, s] <= 1
    shared          in[i, s]  =>  active[s],   active[s]  =>  sum over i of in[i, s] >= 2
    one root        sum over r of root[b, r] = 1,   root[b, r]  =>  at[copy of b, r] >= at[sum of b, r]
    received once   of copies, sum over s into r of in[i, s] = 1 - root[b, r] where r wants b, or a row that
                    stays takes it on from there;  <= 1 elsewhere
    held first      in[i, s]  <=  root[b, r] + sum over s' into r of in[i, s']      for s out of r, elsewhere
    passed on once  of sums, sum over s out of r of in[i, s] = 1 - root[b, r]
    presence        in[i, s]  =>  start[s] >= at[i, src(l)]  and  at[i, dst(l)] >= end[s]
                    start[s] >= at[j, src(l)], or the end of a send that stays, for all that kept(s) needs
    ports           intervals of alpha + n[s] beta (pipelined: n[s] beta) on a port do not overlap;
                    start[s']  >=  start[s] + busy[s]     for s before s' there, if neither may move
    own first       the sender's own chunks end before any other starts, where the sketch says so
    the end         T >= end[s];   late[s]  or  end[s] <= last - 1

The known schedule passes every rule, if no copy comes to a rank that has it: each of its sends stays, or is
one that open items have alone or share. So it is the hint, and a window has a solution from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taccl.encoding.core.ticks import Ticks
from taccl.encoding.engines.lns.apart import Apart
from taccl.encoding.engines.lns.clock import clock_of
from taccl.encoding.engines.lns.presence import what_is_sent_is_there_before
from taccl.encoding.engines.lns.rules import (
    a_send_has_a_bundle_once,
    a_send_lasts_as_long_as_its_chunks_take,
    a_shared_send_has_several_items,
    a_sum_is_made_at_one_rank,
    copies_come_once_and_sums_leave_once,
    everything_ends_in_time,
    own_chunks_go_first,
    ports_serve_one_at_a_time,
)
from taccl.encoding.engines.lns.sends import Sending
from taccl.encoding.engines.lns.variables import variables_of
from taccl.encoding.engines.lns.window import Neighbourhood, Window, neighbourhood_of

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, eq=False)
class WindowModel:
    """The model of a window, and the keys to read it by.

    Parameters
    ----------
    cp : what CP-SAT is given.
    around : the window in the known schedule.
    sendings : all sends, those that stay first.
    """

    cp: cp_model.CpModel
    around: Neighbourhood
    sendings: list[Sending]


def build(
    apart: Apart,
    starts_us: list[float],
    window: Window,
    ticks: Ticks,
    last: int,
    allowed: Callable[[int, int], bool],
) -> WindowModel:
    """The model of all schedules in a window's neighbourhood that end within `last` ticks.

    `apart` is the known schedule, `starts_us` has the starts of its sends. A tick is at least one for every
    transfer (`ticks_of`); `allowed` says whether the chunks of a bundle may travel over a link.
    """
    around = neighbourhood_of(apart, window)
    variables = variables_of(around, clock_of(apart.problem, ticks, starts_us, last), allowed)
    for sending in variables.sends.every:
        if not sending.has_known_count:
            a_send_lasts_as_long_as_its_chunks_take(variables, sending)
            a_send_has_a_bundle_once(variables, sending)
            a_shared_send_has_several_items(variables, sending)
    for bundle in sorted(window.opened):
        if around.is_reduced(bundle):
            a_sum_is_made_at_one_rank(variables, bundle)
    copies_come_once_and_sums_leave_once(variables)
    what_is_sent_is_there_before(variables)
    ports_serve_one_at_a_time(variables)
    own_chunks_go_first(variables)
    late = everything_ends_in_time(variables)
    variables.cp.minimize(variables.finish * (len(late) + 1) + sum(late))
    return WindowModel(variables.cp, around, variables.sends.every)
