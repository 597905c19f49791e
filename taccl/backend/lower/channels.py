"""The channel of every transfer.

Instance j's transfers take channel j where they can. A channel holds at most 32 sending and 32
receiving thread blocks of a rank, and a thread block only so many steps: what does not fit goes to a
higher channel, lines with many steps in several parts, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.order import Event, Kind
from taccl.errors import ProgramLimitError

#: (link, instance)
Line = tuple[int, int]


def lines_in_order(flow: Flow, events: Sequence[Event]) -> dict[Line, list[int]]:
    """The transfers of each line in the order of their sends; lines by instance, then link."""
    lines: dict[Line, list[int]] = {}
    for kind, index in events:
        if kind is Kind.SEND:
            lines.setdefault(flow.transfers[index].line, []).append(index)
    return dict(sorted(lines.items(), key=lambda item: item[0][::-1]))


def assign_channels(
    flow: Flow, lines: Mapping[Line, Sequence[int]], parts: Mapping[Line, int], limits: RuntimeLimits
) -> list[int]:
    """The channel of each transfer, when each line is cut into `parts[line]` (default 1) in time.

    Raises
    ------
    ProgramLimitError : there are not enough channels.
    """
    channels = [-1] * len(flow.transfers)
    sending: dict[tuple[int, int], int] = {}  # (rank, channel) -> thread blocks
    receiving: dict[tuple[int, int], int] = {}
    next_channel: dict[int, int] = {}  # link -> first channel that no part of it has
    pieces = [(part, line) for line in lines for part in range(parts.get(line, 1))]
    for part, line in sorted(pieces, key=lambda piece: piece[0]):
        transfers = lines[line]
        number = parts.get(line, 1)
        mine = transfers[len(transfers) * part // number : len(transfers) * (part + 1) // number]
        if not mine:
            continue
        src, dst = flow.transfers[mine[0]].src, flow.transfers[mine[0]].dst
        channel = next_channel.get(line[0], 0)
        full = limits.blocks_per_channel
        while sending.get((src, channel), 0) >= full or receiving.get((dst, channel), 0) >= full:
            channel += 1
        if channel >= limits.channels:
            raise ProgramLimitError(
                f"the transfers from rank {src} to rank {dst} do not fit into {limits.channels} channels",
                findings=[
                    f"a channel holds {full} peers of a rank, a thread block {limits.steps} steps; "
                    f"rank {src} sends {len(transfers)} times to rank {dst}"
                ],
                hint="fewer chunks or instances, or a --target with more steps per thread block (msccl)",
            )
        next_channel[line[0]] = channel + 1
        sending[src, channel] = sending.get((src, channel), 0) + 1
        receiving[dst, channel] = receiving.get((dst, channel), 0) + 1
        for index in mine:
            channels[index] = channel
    return channels
