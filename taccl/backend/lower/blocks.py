"""Which thread block runs which action.

A thread block has at most one peer to send to and one to receive from, and no two of a rank share a
peer, direction and channel. So each endpoint of a connection (a peer, a direction, a channel) is one thread
block, and a receiving endpoint may share one with a sending endpoint of its channel where the schedule leaves
each the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.actions import Action, Endpoint, Place, merge_runs, split
from taccl.backend.lower.local_work import LocalWork
from taccl.backend.program import Op
from taccl.schedule import TOLERANCE_US


@dataclass(slots=True)
class Block:
    """A thread block to be: its endpoints, and the numbers of its actions in order."""

    recv: Endpoint | None
    send: Endpoint | None
    actions: list[int]

    @property
    def channel(self) -> int:
        """The channel of its endpoints; 0 for a block that only works locally."""
        endpoint = self.recv or self.send
        return 0 if endpoint is None else endpoint.channel


def make_blocks(
    actions: Sequence[Action], most_steps: int, alone: Collection[Endpoint], one_way: bool
) -> list[Block]:
    """The thread blocks of a rank; endpoints in `alone` share with none, and if `one_way` no two do.

    Endpoints share a thread block only if, in the schedule, it is free whenever one of its actions
    has to start: sharing delays nothing. Endpoints that hand chunks to each other are matched first. Where
    copies of what arrived are more than a thread block has steps, others make them.
    """
    endpoints: dict[Endpoint, list[int]] = {}
    for number, action in enumerate(actions):
        if action.endpoint is not None:
            endpoints.setdefault(action.endpoint, []).append(number)
    blocks: list[Block] = []
    taken: set[Endpoint] = set()
    for recv, send in () if one_way else _candidates(actions, endpoints):
        if recv in taken or send in taken or recv in alone or send in alone:
            continue
        together = endpoints[recv] + endpoints[send]
        if len(together) <= most_steps and _never_late(actions, sorted(together)):
            taken |= {recv, send}
            blocks.append(Block(recv, send, sorted(together)))
    for endpoint, numbers in endpoints.items():
        if endpoint not in taken:
            free = Block(None, endpoint, numbers) if endpoint.sends else Block(endpoint, None, numbers)
            blocks.append(free)
    return blocks + [block for full in blocks for block in _copies_taken_out(actions, full, most_steps)]


def _copies_taken_out(actions: Sequence[Action], block: Block, most_steps: int) -> list[Block]:
    """Blocks for local copies of one that has too many steps, as what arrived may be copied anywhere.

    They are filled to half: the other half is room for the nops that wait for other blocks.
    """
    if len(block.actions) <= most_steps:
        return []
    copies = [number for number in block.actions if actions[number].op is Op.COPY]
    taken = set(copies)
    block.actions = [number for number in block.actions if number not in taken]
    full = max(1, most_steps // 2)
    return [Block(None, None, copies[start : start + full]) for start in range(0, len(copies), full)]


def _candidates(
    actions: Sequence[Action], endpoints: dict[Endpoint, list[int]]
) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Pairs of a receiving and a sending endpoint of one channel, those with most in common first."""
    arrived_on: dict[Place, Endpoint] = {}
    common: dict[tuple[Endpoint, Endpoint], int] = {}
    for action in actions:
        if action.endpoint is None:
            continue
        if action.op.receives:
            arrived_on[action.dst] = action.endpoint
        elif action.op is Op.SEND:
            source = arrived_on.get(action.src)
            if source is not None and source.channel == action.endpoint.channel:
                common[source, action.endpoint] = common.get((source, action.endpoint), 0) + 1
    yield from sorted(common, key=lambda pair: -common[pair])
    sending: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.sends:
            sending.setdefault(endpoint.channel, []).append(endpoint)
    for recv in endpoints:
        if not recv.sends:
            for send in sending.get(recv.channel, ()):
                yield recv, send


def _never_late(actions: Sequence[Action], numbers: Sequence[int]) -> bool:
    free_us = 0.0
    for number in numbers:
        action = actions[number]
        if free_us > action.ready_us + TOLERANCE_US:
            return False
        free_us = max(free_us, action.done_us)
    return True


def add_own_copies(
    actions: list[Action],
    blocks: list[Block],
    early: Sequence[tuple[Place, Place]],
    late: Sequence[tuple[Place, Place]],
    limits: RuntimeLimits,
    apart: bool,
    local: LocalWork | None = None,
) -> list[Action]:
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
    runs = merge_runs(sorted(early, key=_target), limits.count)
    first = [_copy(src, dst, count, -1) for src, dst, count in runs]
    if first:
        for action in actions:
            action.known = tuple(number + len(first) for number in action.known)
            action.held_back = tuple(number + len(first) for number in action.held_back)
        for block in blocks:
            block.actions = [number + len(first) for number in block.actions]
    together = first + actions
    parts = 0 if local is None else _parts_of_copies(late, local, limits.blocks - len(blocks))
    last: list[Action] = []
    for part in split(sorted(late, key=_target), max(1, parts)):
        runs = merge_runs(part, limits.count)
        if parts:
            start = len(together) + len(last)
            blocks.append(Block(None, None, list(range(start, start + len(runs)))))
        last += [_copy(src, dst, count, len(together)) for src, dst, count in runs]
    everything = together + last

    def starts(block: Block) -> float:
        return everything[block.actions[0]].ready_us if block.actions else 0.0

    def ends(block: Block) -> float:
        return -max((everything[number].done_us for number in block.actions), default=0.0)

    _place(list(range(len(first))), blocks, starts, most_steps, apart, in_front=True)
    if not parts:
        _place(list(range(len(together), len(everything))), blocks, ends, most_steps, apart, in_front=False)
    return everything


def _parts_of_copies(late: Sequence[tuple[Place, Place]], local: LocalWork, room: int) -> int:
    """How many thread blocks the copies that no one waits for have to themselves."""
    return min(local.parts_of_copies(len(late)), max(0, room)) if late else 0


def _place(
    numbers: Sequence[int],
    blocks: list[Block],
    merit: Callable[[Block], float],
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
            Block(None, None, list(numbers[start : start + full])) for start in range(0, len(numbers), full)
        ]
        return
    best = max(with_room, key=merit)
    best.actions = [*numbers, *best.actions] if in_front else [*best.actions, *numbers]


def _num_readers(actions: Sequence[Action], blocks: Sequence[Block], cells: set[Place]) -> int:
    """How many thread blocks read some of the cells."""
    return sum(
        any(not cells.isdisjoint(actions[number].reads()) for number in block.actions) for block in blocks
    )


def _copy(src: Place, dst: Place, count: int, position: int) -> Action:
    return Action(Op.COPY, src, dst, count, position, -1, None, 0.0, 0.0)


def _target(pair: tuple[Place, Place]) -> Place:
    return pair[1]
