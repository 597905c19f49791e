"""Which thread block runs which action.

A thread block has at most one peer to send to and one to receive from, and no two of a rank share a
peer, direction and channel. So each endpoint of a connection (a peer, a direction, a channel) is one thread
block, and a receiving endpoint may share one with a sending endpoint of its channel where the schedule leaves
each the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.actions import (
    COPY,
    SEND,
    Actions,
    Place,
    by_first,
    channel_of,
    local_copies,
    merge_runs,
    peer_of,
    split,
)
from taccl.backend.lower.hazards import Waits, numbered_cells
from taccl.backend.lower.local_work import LocalWork
from taccl.model.collective import BoolArray, IntArray
from taccl.model.tolerance import TOLERANCE_US
from taccl.support.jit import Loop


@dataclass(slots=True)
class DraftBlock:
    """A thread block to be: its endpoints (-1 for none), and the numbers of its actions in order."""

    recv: int
    send: int
    actions: list[int]

    @property
    def channel(self) -> int:
        """The channel of its endpoints; 0 for a block that only works locally."""
        return channel_of(max(self.recv, self.send, 0))


@dataclass(frozen=True, eq=False)
class RankBlocks:
    """The actions of one rank in order, what each waits for, and the thread blocks that run them.

    Parameters
    ----------
    waits : waits that follow from others, or from the order in thread blocks, are not there.
    """

    actions: Actions
    waits: Waits
    blocks: list[DraftBlock]

    @property
    def num_steps(self) -> IntArray:
        """Of each action the step itself, and a nop for every wait but one."""
        return np.maximum(1, np.diff(self.waits[0]))

    @cached_property
    def is_waited_for(self) -> BoolArray:
        """Of each action, whether another waits for it."""
        is_waited_for = np.zeros(len(self.actions), dtype=np.bool_)
        is_waited_for[self.waits[1]] = True
        return is_waited_for

    def in_order(self) -> list[DraftBlock]:
        """The blocks as they are numbered: those that others wait for come first."""

        def key(block: DraftBlock) -> tuple[bool, int, int, int]:
            awaited = bool(block.actions) and bool(self.is_waited_for[block.actions].any())
            recv, send = (-1 if each < 0 else peer_of(each) for each in (block.recv, block.send))
            return not awaited, block.channel, recv, send

        return sorted(self.blocks, key=key)


def make_blocks(
    actions: Actions, most_steps: int, alone: Collection[int], one_way: bool, rows: int = 0
) -> list[DraftBlock]:
    """The thread blocks of a rank; endpoints in `alone` share with none, and if `one_way` no two do.

    Endpoints share a thread block only if, in the schedule, it is free whenever one of its actions
    has to start: sharing delays nothing. Endpoints that hand chunks to each other are matched first. Where
    copies of what arrived are more than a thread block has steps, others make them.

    `rows` says how many actions there are at all ranks.
    """
    tied = np.flatnonzero(actions.endpoint >= 0)
    found, first, number = np.unique(actions.endpoint[tied], return_index=True, return_inverse=True)
    rising = np.argsort(first)  # endpoints by their first actions
    endpoints = found[rising]
    own = np.full(len(actions), -1, dtype=np.int64)
    own[tied] = np.argsort(rising)[number]
    begin, numbers = by_first(np.stack([own[tied], tied], axis=1), len(endpoints))
    sends = (endpoints & 1).astype(np.bool_)
    receiving: list[int] = []
    sending: list[int] = []
    if not one_way:
        hands, takes = _handing_on(actions, own, channel_of(endpoints), rows)
        receiving, sending = _pair_up(
            rows,
            begin=begin,
            numbers=numbers,
            sends=sends,
            channel=channel_of(endpoints),
            is_alone=np.isin(endpoints, list(alone)),
            ready_us=actions.ready_us + TOLERANCE_US,
            done_us=actions.done_us,
            hands=hands,
            takes=takes,
            most_steps=most_steps,
        )
    of_endpoint = [each.tolist() for each in np.split(numbers, begin[1:-1])] if len(endpoints) else []
    blocks = [
        DraftBlock(int(endpoints[recv]), int(endpoints[send]), sorted(of_endpoint[recv] + of_endpoint[send]))
        for recv, send in zip(receiving, sending, strict=True)
    ]
    taken = {*receiving, *sending}
    for each, (endpoint, is_sending) in enumerate(zip(endpoints.tolist(), sends.tolist(), strict=True)):
        if each not in taken:
            recv, send = (-1, endpoint) if is_sending else (endpoint, -1)
            blocks.append(DraftBlock(recv, send, of_endpoint[each]))
    return blocks + [block for full in blocks for block in _copies_taken_out(actions, full, most_steps)]


def _copies_taken_out(actions: Actions, block: DraftBlock, most_steps: int) -> list[DraftBlock]:
    """Blocks for local copies of one that has too many steps, as what arrived may be copied anywhere.

    They are filled to half: the other half is room for the nops that wait for other blocks.
    """
    if len(block.actions) <= most_steps:
        return []
    numbers = np.array(block.actions)
    is_copy = actions.op[numbers] == COPY
    block.actions = numbers[~is_copy].tolist()
    copies = numbers[is_copy].tolist()
    full = max(1, most_steps // 2)
    return [DraftBlock(-1, -1, copies[start : start + full]) for start in range(0, len(copies), full)]


def _handing_on(actions: Actions, own: IntArray, channel: IntArray, rows: int) -> tuple[IntArray, IntArray]:
    """Pairs of a receiving and a sending endpoint of one channel that have chunks in common, most first."""
    src, dst, cells = numbered_cells(actions)
    keys = np.array(
        _hand_on(
            rows,
            endpoint=own,
            receives=actions.receives,
            sends=actions.op == SEND,
            src=src,
            dst=dst,
            channel=channel,
            cells=cells,
        ),
        dtype=np.int64,
    )
    pairs, first, common = np.unique(keys, return_index=True, return_counts=True)
    pairs = pairs[np.lexsort((first, -common))]
    return np.divmod(pairs, max(len(channel), 1))


def _hand_on_in_columns(
    endpoint: Sequence[int],
    receives: Sequence[bool],
    sends: Sequence[bool],
    src: Sequence[int],
    dst: Sequence[int],
    channel: Sequence[int],
    cells: int,
) -> list[int]:
    """For each send of what a receive of its channel brought: endpoint there * number of endpoints + here."""
    arrived_on = [-1] * cells
    keys = [0 for _ in range(0)]
    for number in range(len(src)):
        if endpoint[number] < 0:
            continue
        if receives[number]:
            arrived_on[dst[number]] = endpoint[number]
        elif sends[number]:
            source = arrived_on[src[number]]
            if source >= 0 and channel[source] == channel[endpoint[number]]:
                keys.append(source * len(channel) + endpoint[number])
    return keys


def _pair_up_in_columns(
    begin: Sequence[int],
    numbers: Sequence[int],
    sends: Sequence[bool],
    channel: Sequence[int],
    is_alone: Sequence[bool],
    ready_us: Sequence[float],
    done_us: Sequence[float],
    hands: Sequence[int],
    takes: Sequence[int],
    most_steps: int,
) -> tuple[list[int], list[int]]:
    """Receiving and sending endpoints that share a thread block.

    Parameters
    ----------
    begin, numbers : the actions of endpoint k begin at numbers[begin[k]].
    sends, channel, is_alone : of each endpoint.
    ready_us, done_us : of each action.
    hands, takes : pairs of endpoints that are tried before all others.
    """
    receiving = [0 for _ in range(0)]
    sending = [0 for _ in range(0)]
    is_taken = [False] * len(sends)
    senders = [send for send in range(len(sends)) if sends[send]]
    for at in range(len(hands) + len(sends)):
        recv = hands[at] if at < len(hands) else at - len(hands)
        if sends[recv] or is_taken[recv] or is_alone[recv]:
            continue
        for turn in range(1 if at < len(hands) else len(senders)):
            send = takes[at] if at < len(hands) else senders[turn]
            if is_taken[send] or is_alone[send] or channel[send] != channel[recv]:
                continue
            if begin[recv + 1] - begin[recv] + begin[send + 1] - begin[send] > most_steps:
                continue
            if _is_in_time(recv, send, begin, numbers, ready_us, done_us):
                is_taken[recv] = True
                is_taken[send] = True
                receiving.append(recv)
                sending.append(send)
                break
    return receiving, sending


def _is_in_time(
    recv: int,
    send: int,
    begin: Sequence[int],
    numbers: Sequence[int],
    ready_us: Sequence[float],
    done_us: Sequence[float],
) -> bool:
    """Whether a thread block with the actions of both endpoints is free whenever an action has to start."""
    one, other = begin[recv], begin[send]
    free_us = 0.0
    while one < begin[recv + 1] or other < begin[send + 1]:
        if other == begin[send + 1] or (one < begin[recv + 1] and numbers[one] < numbers[other]):
            number = numbers[one]
            one += 1
        else:
            number = numbers[other]
            other += 1
        if free_us > ready_us[number]:
            return False
        free_us = max(free_us, done_us[number])
    return True


_hand_on = Loop(_hand_on_in_columns)
_pair_up = Loop(_pair_up_in_columns, (_is_in_time,))


def add_own_copies(
    actions: Actions,
    blocks: list[DraftBlock],
    early: Sequence[tuple[Place, Place]],
    late: Sequence[tuple[Place, Place]],
    limits: RuntimeLimits,
    apart: bool,
    local: LocalWork | None = None,
) -> Actions:
    """All actions of the rank, with the copies of its own data at the start and the end of some block.

    Copies that others build on go before the block that has its first work last; the others after the
    block that is done first. In place such a copy changes nothing, but has to be ordered with the
    sends from the cells that it writes: at the end it waits for them all, and where that would
    take too many nops, it comes first and they wait for it. If wanted `apart`, or where no block has
    room, there are blocks for copies alone. Where copies are known to take time (`local`), those that no one
    waits for wait for no one, and have blocks of their own from the start.
    """
    most_steps = limits.steps
    if local is None and _num_readers(actions, blocks, {src for src, _ in late}) > most_steps // 2:
        early, late = [*early, *late], []
    first = local_copies(merge_runs(sorted(early, key=itemgetter(1)), limits.count))
    together = first.then(actions)
    if len(first):
        for block in blocks:
            block.actions = [number + len(first) for number in block.actions]
    parts = 0 if local is None else _parts_of_copies(late, local, limits.blocks - len(blocks))
    last: list[tuple[Place, Place, int]] = []
    for part in split(sorted(late, key=itemgetter(1)), max(1, parts)):
        runs = merge_runs(part, limits.count)
        if parts:
            start = len(together) + len(last)
            blocks.append(DraftBlock(-1, -1, list(range(start, start + len(runs)))))
        last += runs
    everything = together.then(local_copies(last)) if last else together
    ready_us, done_us = everything.ready_us, everything.done_us

    def starts(block: DraftBlock) -> float:
        return float(ready_us[block.actions[0]]) if block.actions else 0.0

    def ends(block: DraftBlock) -> float:
        return -float(done_us[block.actions].max(initial=0.0)) if block.actions else 0.0

    _place(list(range(len(first))), blocks, starts, most_steps, apart, in_front=True)
    if not parts:
        _place(list(range(len(together), len(everything))), blocks, ends, most_steps, apart, in_front=False)
    return everything


def _parts_of_copies(late: Sequence[tuple[Place, Place]], local: LocalWork, room: int) -> int:
    """How many thread blocks the copies that no one waits for have to themselves."""
    return min(local.parts_of_copies(len(late)), max(0, room)) if late else 0


def _place(
    numbers: Sequence[int],
    blocks: list[DraftBlock],
    merit: Callable[[DraftBlock], float],
    most_steps: int,
    apart: bool,
    in_front: bool,
) -> None:
    if not numbers:
        return
    with_room = [block for block in blocks if len(block.actions) + len(numbers) <= most_steps]
    if apart or not with_room:
        # Blocks are filled to half: the other half is room for the nops that wait for other blocks.
        full = max(1, most_steps // 2)
        blocks += [
            DraftBlock(-1, -1, list(numbers[start : start + full])) for start in range(0, len(numbers), full)
        ]
        return
    best = max(with_room, key=merit)
    best.actions = [*numbers, *best.actions] if in_front else [*best.actions, *numbers]


def _num_readers(actions: Actions, blocks: Sequence[DraftBlock], cells: set[Place]) -> int:
    """How many thread blocks read some of the cells."""
    if not cells:
        return 0
    sorted_cells = np.array(sorted(cells), dtype=np.int64)
    is_reader = np.zeros(len(actions), dtype=np.bool_)
    for reads, places in ((actions.reads, actions.src), (actions.reads_target, actions.dst)):
        first, end = (np.searchsorted(sorted_cells, each) for each in (places, places + actions.count))
        is_reader |= reads & (end > first)
    return sum(bool(is_reader[block.actions].any()) for block in blocks if block.actions)
