"""The channel of every send.

A connection is a link and an instance. Instance j's sends take channel j where they can. A channel holds at
most 32 sending and 32 receiving thread blocks of a rank, and a thread block only so many steps: what does not
fit goes to a higher channel, connections with many steps in several parts, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.order import Event, Kind
from taccl.errors import ProgramLimitError

#: (link, instance)
Connection = tuple[int, int]


def connections_in_order(flow: Flow, events: Sequence[Event]) -> dict[Connection, list[int]]:
    """The sends of each connection, in their order; connections by instance, then link."""
    connections: dict[Connection, list[int]] = {}
    for kind, index in events:
        if kind is Kind.SEND:
            connections.setdefault(flow.sends[index].connection, []).append(index)
    return dict(sorted(connections.items(), key=lambda item: item[0][::-1]))


def cut_by_steps(sends: Sequence[int], steps: Sequence[tuple[int, int]], most: int) -> list[Sequence[int]]:
    """The sends of a connection in as few consecutive parts as fit into thread blocks of `most` steps.

    Parameters
    ----------
    steps : per send, its steps at the sender and at the receiver.
    """
    starts = [0]
    at_sender = at_receiver = 0
    for place, index in enumerate(sends):
        at_sender += steps[index][0]
        at_receiver += steps[index][1]
        if place > starts[-1] and max(at_sender, at_receiver) > most:
            starts.append(place)
            at_sender, at_receiver = steps[index]
    return [sends[start:stop] for start, stop in pairwise([*starts, len(sends)])]


def assign_channels(
    flow: Flow, connections: Mapping[Connection, Sequence[Sequence[int]]], limits: RuntimeLimits
) -> list[int]:
    """The channel of each send; `connections` has the parts of each connection, which take a channel each.

    Raises
    ------
    ProgramLimitError : there are not enough channels.
    """
    channels = [-1] * len(flow.sends)
    sending: dict[tuple[int, int], int] = {}  # (rank, channel) -> thread blocks
    receiving: dict[tuple[int, int], int] = {}
    next_channel: dict[int, int] = {}  # link -> first channel that no part of it has
    full = limits.blocks_per_channel
    pieces = [
        (number, link, part) for (link, _), parts in connections.items() for number, part in enumerate(parts)
    ]
    for _, link, part in sorted(pieces, key=lambda piece: piece[0]):
        src, dst = flow.sends[part[0]].src, flow.sends[part[0]].dst
        channel = next_channel.get(link, 0)
        while sending.get((src, channel), 0) >= full or receiving.get((dst, channel), 0) >= full:
            channel += 1
        if channel >= limits.channels:
            raise _too_many(src, dst, limits)
        next_channel[link] = channel + 1
        sending[src, channel] = sending.get((src, channel), 0) + 1
        receiving[dst, channel] = receiving.get((dst, channel), 0) + 1
        for index in part:
            channels[index] = channel
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
