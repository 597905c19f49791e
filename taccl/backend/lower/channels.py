"""The channel of every send.

A connection is a link and an instance. Instance j's sends take channel j where they can. A channel holds at
most 32 sending and 32 receiving thread blocks of a rank, and a thread block only this many steps: what does
not fit goes to a higher channel, connections with many steps in several parts, one after the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.order import Events
from taccl.errors import ProgramLimitError
from taccl.model.collective import IntArray

#: (link, instance)
Connection = tuple[int, int]


def connections_in_order(flow: Flow, events: Events) -> dict[Connection, IntArray]:
    """The sends of each connection, in their order; connections by instance, then link."""
    columns = flow.columns
    link, instance = columns.link[events.sends], columns.instance[events.sends]
    order = np.lexsort((link, instance))
    begins = np.flatnonzero(np.diff(link[order], prepend=-1) | np.diff(instance[order], prepend=-1))
    return {
        (int(link[order[begin]]), int(instance[order[begin]])): events.sends[order[begin:end]]
        for begin, end in pairwise([*begins.tolist(), len(order)])
    }


def cut_by_steps(sends: IntArray, steps: IntArray, most: int) -> list[IntArray]:
    """The sends of a connection in as few consecutive parts as fit into thread blocks of `most` steps.

    Parameters
    ----------
    steps : per send, its steps at the sender and at the receiver.
    """
    starts = [0]
    so_far = [[0, *column] for column in np.cumsum(np.asarray(steps)[sends], axis=0).T.tolist()]
    while starts[-1] < len(sends):
        start = starts[-1]
        fits = min(bisect_right(column, column[start] + most) - 1 for column in so_far)
        starts.append(max(fits, start + 1))
    return [sends[start:stop] for start, stop in pairwise(starts)]


def assign_channels(
    flow: Flow, connections: Mapping[Connection, Sequence[IntArray]], limits: RuntimeLimits
) -> IntArray:
    """The channel of each send; `connections` has the parts of each connection, which take a channel each.

    Raises
    ------
    ProgramLimitError : there are not enough channels.
    """
    columns = flow.columns
    channels = np.full(len(columns), -1, dtype=np.int64)
    sending: dict[tuple[int, int], int] = {}  # (rank, channel) -> thread blocks
    receiving: dict[tuple[int, int], int] = {}
    next_channel: dict[int, int] = {}  # link -> first channel that no part of it has
    full = limits.blocks_per_channel
    pieces = [
        (number, link, part) for (link, _), parts in connections.items() for number, part in enumerate(parts)
    ]
    for _, link, part in sorted(pieces, key=lambda piece: piece[0]):
        src, dst = int(columns.src[part[0]]), int(columns.dst[part[0]])
        channel = next_channel.get(link, 0)
        while sending.get((src, channel), 0) >= full or receiving.get((dst, channel), 0) >= full:
            channel += 1
        if channel >= limits.channels:
            raise _too_many(src, dst, limits)
        next_channel[link] = channel + 1
        sending[src, channel] = sending.get((src, channel), 0) + 1
        receiving[dst, channel] = receiving.get((dst, channel), 0) + 1
        channels[part] = channel
    return channels


def _too_many(src: int, dst: int, limits: RuntimeLimits) -> ProgramLimitError:
    return ProgramLimitError(
        f"what rank {src} sends to rank {dst} does not fit into {limits.channels} channels",
        findings=[
            f"a thread block holds {limits.steps} steps, and a channel one thread block for each "
            f"direction and peer, at most {limits.blocks_per_channel} per rank and direction"
        ],
        hint="fewer chunks or instances, or --target msccl, which holds 256 steps per thread block",
    )
