"""Which messages may not be sent before the receiver's kernel is known to have begun, and which land apart.
Such a message waits until its sender is reported, or it lands apart: where nobody else ever writes, so that
it can be sent at once, if the sender does not end a call before it was reported that the last one has been
read.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taccl.backend.lower_plan.steps import Known, Message, Steps


def find_starts(
    steps: Steps, may_come: Callable[[Message], bool], lands_apart: Callable[[Message], bool]
) -> tuple[frozenset[int], frozenset[int]]:
    """The sends that wait for the start of the receiver, and those that would, but land apart.

    Parameters
    ----------
    may_come : whether a message needs no start, whatever its sender has heard.
    lands_apart : whether it can land apart; then its sender has heard no more of the receiver for it.
    """
    begun = [0] * len(steps.nodes)
    waiting, apart = set(), set()
    for index in steps.order:
        begun[index] = 1 << steps.nodes[index].rank
        for wait in steps.before[index]:
            begun[index] |= begun[wait]
        message = steps.sent.get(index)
        if message is None or begun[index] >> message.dst & 1 or may_come(message):
            continue
        if lands_apart(message):
            apart.add(index)
            continue
        waiting.add(index)
        begun[index] |= 1 << message.dst
    return frozenset(waiting), frozenset(apart)


def known_at_end(steps: Steps) -> list[Known]:
    """By rank, how many steps of each thread block surely are done when its kernel ends."""
    known = [np.zeros(len(steps.blocks), dtype=np.int32) for _ in range(steps.program.num_ranks)]
    for block in steps.blocks:
        if block.nodes:
            np.maximum(known[block.rank], steps.known[block.nodes[-1]], out=known[block.rank])
    return known
