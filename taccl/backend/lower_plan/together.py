"""Which puts are one: what a thread block sends to one peer one after another, where that waits for it all.
Nobody is reported later than it goes on anyway: in between the sender waits for nobody, and the receiver does
nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from taccl.backend.lower_plan.fits import MAX_OPERANDS
from taccl.backend.lower_plan.places import Aliases, Landings, Place, source
from taccl.backend.lower_plan.steps import Message, Steps
from taccl.backend.program import Op


def find_puts_together(
    steps: Steps,
    names: Aliases,
    landings: Landings,
    through_memory: Collection[Message],
    waiting: Collection[int],
    waited_for: Collection[int],
) -> dict[int, tuple[int, ...]]:
    """By first send, all sends that become one put of as many ranges of one length, from one buffer.

    Parameters
    ----------
    through_memory : messages that are put, between ranks of a node.
    waiting : sends that wait for another thread block, or until the receiver's kernel has begun.
    waited_for : steps that other thread blocks wait for.
    """
    may_follow = {
        message.send
        for message in through_memory
        if steps.nodes[message.send].step.op is Op.SEND and steps.nodes[message.receive].step.op is Op.RECV
    }
    together: dict[int, tuple[int, ...]] = {}
    first_of: dict[int, int] = {}
    for send in sorted(may_follow):
        before = send - 1
        if before not in may_follow or send in waiting or before in waited_for:
            continue
        one, other = steps.sent[before], steps.sent[send]
        if one.connection != other.connection or one.receive + 1 != other.receive:
            continue
        if one.receive in waited_for or one.send not in landings.direct:
            continue
        first = first_of.get(before, before)
        row = (*together.get(first, (first,)), send)
        if (
            len(row) > MAX_OPERANDS
            or _is_of_sum(steps, first)
            or not _are_equivalent(_sent(steps, names, row))
        ):
            continue
        together[first], first_of[send] = row, first
    return together


def _is_of_sum(steps: Steps, send: int) -> bool:
    """Whether a step may be sent on with the sum before it, in one operation."""
    node = steps.nodes[send]
    earlier = steps.nodes[send - min(2, node.at) : send]
    return bool(earlier) and (
        earlier[-1].step.op is Op.REDUCE
        or (len(earlier) == 2 and earlier[0].step.op is Op.REDUCE and earlier[1].step.op is Op.COPY)
    )


def _sent(steps: Steps, names: Aliases, row: Collection[int]) -> list[Place]:
    return [source(steps.nodes[send].step, steps.nodes[send].rank, names) for send in row]


def _are_equivalent(places: Collection[Place]) -> bool:
    return len({(place.buffer, place.size) for place in places}) == 1
