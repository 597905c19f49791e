"""Which puts are one: what a thread block sends to one peer one after another, where that waits for it all.

Nobody is reported later than it goes on anyway: in between the sender waits for nobody, and the receiver does
nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from taccl.backend.lower_plan.graph import Graph
from taccl.backend.lower_plan.landings import Landings
from taccl.backend.lower_plan.tuning import MAX_OPERANDS
from taccl.backend.program import Op


def find_puts_together(
    graph: Graph, landings: Landings, waiting: Collection[int], waited_for: Collection[int]
) -> dict[int, tuple[int, ...]]:
    """By first send, all sends that become one put of as many ranges of one length, from one buffer.

    Parameters
    ----------
    waiting : sends that wait for another thread block, or until the receiver's kernel has begun.
    waited_for : actions that other thread blocks wait for.
    """
    may_follow = {
        message.send
        for message in graph.messages
        if message.send not in graph.pulls
        and graph.is_near(message)
        and graph.actions[message.send].op is Op.SEND
        and graph.actions[message.receive].op is Op.RECV
    }
    together: dict[int, tuple[int, ...]] = {}
    first_of: dict[int, int] = {}
    for send in sorted(may_follow):
        before = send - 1
        if before not in may_follow or send in waiting or before in waited_for:
            continue
        one, other = graph.sent[before], graph.sent[send]
        if one.connection != other.connection or one.receive + 1 != other.receive:
            continue
        if one.receive in waited_for or one.send not in landings.direct:
            continue
        first = first_of.get(before, before)
        row = (*together.get(first, (first,)), send)
        shapes = {(source.buffer, source.size) for source in (graph.actions[each].source for each in row)}
        if len(row) <= MAX_OPERANDS and len(shapes) == 1 and not _is_of_sum(graph, first):
            together[first], first_of[send] = row, first
    return together


def _is_of_sum(graph: Graph, send: int) -> bool:
    """Whether an action may be sent on with the sum before it, in one operation."""
    action = graph.actions[send]
    earlier = [each.op for each in graph.actions[send - min(2, action.at) : send]]
    return earlier[-1:] == [Op.REDUCE] or earlier == [Op.REDUCE, Op.COPY]
