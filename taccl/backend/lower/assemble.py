"""The actions of all ranks in thread blocks of one peer, within the limits of a runtime.

A thread block with too many steps is taken apart, or its connection gets one more part on a channel of its
own, until all fit or the channels are used up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.actions import Actions, check_actions
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.blocks import DraftBlock, RankBlocks, add_own_copies, make_blocks
from taccl.backend.lower.channels import Connection, assign_channels, connections_in_order, cut_by_steps
from taccl.backend.lower.early_flags import put_copies_behind_sends
from taccl.backend.lower.expand import Expansion, RankActions, count_by_send, expand
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.fuse import fuse
from taccl.backend.lower.hazards import copies_onto_itself, drop_implied, hazards, works_in_place
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.local_work import LocalWork
from taccl.backend.lower.order import EventKind, Events
from taccl.backend.lower.sizes import Sizes
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray


def place_units(actions: Actions, blocks: list[DraftBlock], most_blocks: int) -> None:
    """Give each sum unit a thread block of its own, and where there are no more, one that receives.

    Those that receive take the units by turns, so that no thread block sums much more than the others.
    """
    units: dict[int, list[int]] = {}
    rows = np.flatnonzero(actions.unit >= 0)
    for number, unit in zip(rows.tolist(), actions.unit[rows].tolist(), strict=True):
        units.setdefault(unit, []).append(number)
    room = max(0, most_blocks - len(blocks))
    takers = [block for block in blocks if block.recv >= 0]
    local = [DraftBlock(-1, -1, []) for _ in range(min(room, len(units)))]
    takers = local + takers
    for turn, numbers in enumerate(units.values()):
        taker = takers[turn % len(takers)]
        taker.actions = sorted([*taker.actions, *numbers])
    blocks += local


@dataclass(frozen=True, eq=False)
class Assembly:
    """All of a program that does not depend on a runtime's limits.

    Parameters
    ----------
    one_way : no thread block both sends and receives.
    local : what local steps cost, where that is known.
    takes_turns : sends of one rank that share a port wait for each other, in the schedule's order. That
        takes steps, so it is given up where the limits do not allow it.
    early_flags : a runtime says that a send is done while threads of it may still read.
    """

    flow: Flow
    events: Events
    adding: dict[int, Adding]
    layouts: list[RankLayout]
    sizes: Sizes
    one_way: bool = False
    local: LocalWork | None = None
    takes_turns: bool = True
    early_flags: bool = False

    def expanded(self, most_chunks: int) -> Expansion:
        """What each rank does, whatever channels sends take; `most_chunks` : that one action moves."""
        return expand(self.flow, self.events, self.layouts, self.adding, most_chunks, self.local)


@dataclass(frozen=True, eq=False)
class _Requirements:
    """What has to be kept apart for thread blocks not to be too full: it only ever grows.

    Parameters
    ----------
    parts : the parts of each connection, which take a channel each.
    alone : per rank, endpoints that share a thread block with none.
    copies_apart : ranks that copy their own data in thread blocks for that alone.
    """

    parts: dict[Connection, list[IntArray]]
    alone: list[set[int]]
    copies_apart: set[int]


#: Of a program that also works in place, and of one that does not: whether it is called in place, every way.
Calls: TypeAlias = Callable[[bool], Sequence[bool]]


@dataclass(frozen=True, eq=False)
class Assembled:
    """The ranks of a program in thread blocks, and whether it is called in place, every way."""

    ranks: list[RankBlocks]
    calls: Sequence[bool]


def assemble(plan: Assembly, limits: RuntimeLimits, calls: Calls) -> Assembled:
    """What all ranks do, in thread blocks.

    Raises
    ------
    ProgramLimitError : there are not enough channels; and whatever `calls` raises.
    """
    connections = connections_in_order(plan.flow, plan.events)
    next_send = _next_sends(plan, connections.values())
    expansion = plan.expanded(limits.count)
    steps = expansion.steps_by_send()  # without waits, which may add nops and are not known yet
    parts = {each: cut_by_steps(sends, steps, limits.steps) for each, sends in connections.items()}
    requirements = _Requirements(parts, [set() for _ in plan.layouts], set())
    more = True
    while more:
        channels = assign_channels(plan.flow, requirements.parts, limits)
        ranks = expansion.by_rank(channels)
        check_actions([rank.actions for rank in ranks])
        made = _assemble_once(plan, ranks, next_send, requirements, limits, calls)
        too_many = any(len(rank.blocks) > limits.blocks for rank in made.ranks)  # and relief adds to them
        more = not too_many and _relieve(plan.flow, connections, made.ranks, limits.steps, requirements)
    return made


def _assemble_once(
    plan: Assembly,
    expanded: Sequence[RankActions],
    next_send: FloatArray,
    requirements: _Requirements,
    limits: RuntimeLimits,
    calls: Calls,
) -> Assembled:
    rows = sum(len(rank.actions) for rank in expanded)
    left = plan.events.at[EventKind.SEND]
    filled = []
    for number, rank in enumerate(expanded):
        if plan.takes_turns:
            rank.actions = rank.actions.taking_turns()
        blocks = make_blocks(rank.actions, limits.steps, requirements.alone[number], plan.one_way, rows)
        if plan.flow.fused:
            fuse(rank, blocks, left, next_send, rows)
        if plan.local is not None:
            limits = replace(limits, blocks=min(limits.blocks, plan.local.most_blocks))
            place_units(rank.actions, blocks, limits.blocks)
        apart = number in requirements.copies_apart
        actions = add_own_copies(rank.actions, blocks, rank.early, rank.late, limits, apart, plan.local)
        if plan.early_flags:
            actions = put_copies_behind_sends(actions, blocks, rank.input_shift, rows)
        filled.append((actions, blocks, rank.input_shift))
    chosen = calls(
        plan.flow.schedule.problem.collective.name != "alltoall"
        and all(works_in_place(actions, shift, rows) for actions, _, shift in filled)
    )
    ranks = []
    for whole, blocks, shift in filled:
        actions = whole if False in chosen else _without_own_copies(whole, blocks, shift)
        shifts = [shift if in_place else None for in_place in chosen]
        if plan.local is None:
            shifts = shifts[-1:]  # what is ordered in place is ordered apart
        waits = hazards(actions, shifts, plan.local is not None, rows)
        waits = drop_implied(actions, _block_of(actions, blocks), waits, rows)
        ranks.append(RankBlocks(actions, waits, blocks))
    return Assembled(ranks, chosen)


def _without_own_copies(actions: Actions, blocks: Sequence[DraftBlock], input_shift: int) -> Actions:
    """The actions, and blocks, without copies that change nothing in place."""
    stays = ~copies_onto_itself(actions, input_shift)
    number = np.cumsum(stays) - 1
    for block in blocks:
        block.actions = [int(number[action]) for action in block.actions if stays[action]]
    return actions.take(np.flatnonzero(stays))


def _relieve(
    flow: Flow,
    connections: Mapping[Connection, IntArray],
    ranks: Sequence[RankBlocks],
    most_steps: int,
    requirements: _Requirements,
) -> bool:
    """Ask for less in thread blocks with too many steps; whether there was anything to ask for."""
    steps = _steps_by_send(flow, ranks)
    eased = False
    for number, rank in enumerate(ranks):
        num_steps = rank.num_steps
        for block in rank.blocks:
            if not block.actions or num_steps[block.actions].sum() <= most_steps:
                continue
            endpoints = {endpoint for endpoint in (block.recv, block.send) if endpoint >= 0}
            sends = set(rank.actions.send[block.actions].tolist())
            if endpoints and -1 in sends and number not in requirements.copies_apart:
                requirements.copies_apart.add(number)
                eased = True
            elif len(endpoints) == 2 and not endpoints <= requirements.alone[number]:
                requirements.alone[number] |= endpoints
                eased = True
            else:
                for connection in _connections(flow, sends - {-1}):
                    eased |= _cut_finer(
                        requirements.parts, connection, connections[connection], steps, most_steps
                    )
    return eased


def _cut_finer(
    parts: dict[Connection, list[IntArray]],
    connection: Connection,
    sends: IntArray,
    steps: IntArray,
    most_steps: int,
) -> bool:
    """Cut a connection into more parts than it has, if its sends are enough for that."""
    least_spare, spare = 0, 2 * ((most_steps - 1) // 2)
    if len(cut_by_steps(sends, steps, most_steps - spare)) <= len(parts[connection]):
        return False
    while least_spare < spare:  # less room for steps never makes fewer parts
        middle = 2 * ((least_spare + spare) // 4)
        if len(cut_by_steps(sends, steps, most_steps - middle)) > len(parts[connection]):
            spare = middle
        else:
            least_spare = middle + 2
    parts[connection] = cut_by_steps(sends, steps, most_steps - spare)
    return True


def _connections(flow: Flow, sends: Iterable[int]) -> set[Connection]:
    link, instance = flow.columns.link, flow.columns.instance
    return {(int(link[send]), int(instance[send])) for send in sends}


def _steps_by_send(flow: Flow, ranks: Sequence[RankBlocks]) -> IntArray:
    """For each send, its steps at the sender and at the receiver, nops included."""
    send, endpoint = (
        np.concatenate([getattr(rank.actions, name) for rank in ranks]) for name in ("send", "endpoint")
    )
    steps = np.concatenate([rank.num_steps for rank in ranks])
    there = endpoint >= 0
    return count_by_send(send[there], endpoint[there] & 1 == 1, steps[there], len(flow.columns))


def _next_sends(plan: Assembly, connections: Iterable[IntArray]) -> FloatArray:
    """For each send, the position of the next send of its connection; infinite for the last."""
    left = plan.events.at[EventKind.SEND]
    following = np.full(len(plan.flow.columns), math.inf)
    for connection in connections:
        following[connection[:-1]] = left[connection[1:]]
    return following


def _block_of(actions: Actions, blocks: Sequence[DraftBlock]) -> IntArray:
    block_of = np.full(len(actions), -1, dtype=np.int64)
    for number, block in enumerate(blocks):
        block_of[block.actions] = number
    return block_of
