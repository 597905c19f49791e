"""Thread blocks and steps for all ranks, within the limits of a runtime.

A thread block with too many steps is taken apart, or its connection gets one more part on a channel of its
own, until all fit or the channels are used up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.actions import Action, Endpoint
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.blocks import Block, add_own_copies, make_blocks
from taccl.backend.lower.channels import Connection, assign_channels, connections_in_order, cut_by_steps
from taccl.backend.lower.early_flags import put_copies_behind_sends
from taccl.backend.lower.expand import RankActions, expand
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.fuse import fuse
from taccl.backend.lower.hazards import drop_implied, hazards, works_in_place
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.local_blocks import place_units
from taccl.backend.lower.local_work import LocalWork
from taccl.backend.lower.made_sums import Cell
from taccl.backend.lower.number import number_steps, scratch_map
from taccl.backend.lower.order import Event, Kind
from taccl.backend.lower.sizes import Sizes
from taccl.backend.program import RankProgram


@dataclass(frozen=True, eq=False)
class Plan:
    """All of a program that does not depend on a runtime's limits.

    Parameters
    ----------
    one_way : no thread block both sends and receives.
    local, gathered : what local steps cost, where that is known, and the cells that are summed in units.
    takes_turns : sends of one rank that share a port wait for each other, in the schedule's order. That
        takes steps, so it is given up where the limits do not allow it.
    early_flags : a runtime says that a send is done while threads of it may still read.
    """

    flow: Flow
    events: list[Event]
    adding: dict[int, Adding]
    layouts: list[RankLayout]
    fused: bool
    one_way: bool = False
    local: LocalWork | None = None
    gathered: frozenset[Cell] = frozenset()
    takes_turns: bool = True
    early_flags: bool = False


@dataclass(frozen=True, eq=False)
class _Rank:
    """The actions of one rank in order, what each waits for, and the thread blocks that run them."""

    actions: list[Action]
    waits: list[list[int]]
    blocks: list[Block]


@dataclass(frozen=True, eq=False)
class _Requirements:
    """What has to be kept apart for thread blocks not to be too full: it only ever grows.

    Parameters
    ----------
    parts : the parts of each connection, which take a channel each.
    alone : per rank, endpoints that share a thread block with none.
    copies_apart : ranks that copy their own data in thread blocks for that alone.
    """

    parts: dict[Connection, list[Sequence[int]]]
    alone: list[set[Endpoint]]
    copies_apart: set[int]


def assemble(plan: Plan, sizes: Sizes, limits: RuntimeLimits) -> tuple[tuple[RankProgram, ...], bool]:
    """The programs of all ranks, and whether they also work in place.

    An AlltoAll is never said to: microsoft/msccl refuses such calls, and would not use the file for others.

    Raises
    ------
    ProgramLimitError : there are not enough channels.
    """
    connections = connections_in_order(plan.flow, plan.events)
    next_send = _next_sends(plan, connections.values())
    requirements = _Requirements(
        _first_parts(plan, connections, limits), [set() for _ in plan.layouts], set()
    )
    more = True
    while more:
        channels = assign_channels(plan.flow, requirements.parts, limits)
        ranks, in_place = _assemble_once(plan, channels, next_send, requirements, limits)
        too_many = any(len(rank.blocks) > limits.blocks for rank in ranks)  # and relief adds to them
        more = not too_many and _relieve(plan.flow, connections, ranks, limits.steps, requirements)
    scratch = [scratch_map(rank.actions) for rank in ranks]
    programs = tuple(
        number_steps(r, rank.actions, rank.blocks, rank.waits, scratch, sizes) for r, rank in enumerate(ranks)
    )
    return programs, in_place


def _first_parts(
    plan: Plan, connections: Mapping[Connection, Sequence[int]], limits: RuntimeLimits
) -> dict[Connection, list[Sequence[int]]]:
    """The parts of each connection by its actions alone: waits, which may add nops, are not known yet."""
    sender, receiver = [0] * len(plan.flow.sends), [0] * len(plan.flow.sends)
    anywhere = [0] * len(plan.flow.sends)
    for rank in _expanded(replace(plan, takes_turns=False), anywhere, limits):
        for action in rank.actions:
            if action.endpoint is None:  # it takes no channel
                continue
            side = sender if action.endpoint.sends else receiver
            side[action.send] += 1
    steps = list(zip(sender, receiver, strict=True))
    return {connection: cut_by_steps(sends, steps, limits.steps) for connection, sends in connections.items()}


def _assemble_once(
    plan: Plan,
    channels: Sequence[int],
    next_send: Sequence[float],
    requirements: _Requirements,
    limits: RuntimeLimits,
) -> tuple[list[_Rank], bool]:
    filled = []
    for number, rank in enumerate(_expanded(plan, channels, limits)):
        blocks = make_blocks(rank.actions, limits.steps, requirements.alone[number], plan.one_way)
        if plan.fused:
            fuse(rank, blocks, next_send)
        if plan.local is not None:
            limits = replace(limits, blocks=min(limits.blocks, plan.local.most_blocks))
            place_units(rank.actions, blocks, limits.blocks)
        apart = number in requirements.copies_apart
        actions = add_own_copies(rank.actions, blocks, rank.early, rank.late, limits, apart, plan.local)
        if plan.early_flags:
            actions = put_copies_behind_sends(actions, blocks, rank.input_shift)
        filled.append((actions, blocks, rank.input_shift))
    in_place = plan.flow.schedule.problem.collective.name != "alltoall" and all(
        works_in_place(actions, shift) for actions, _, shift in filled
    )
    ranks = []
    for actions, blocks, shift in filled:
        waits = hazards(actions, shift if in_place else None, quiet_copies=plan.local is not None)
        ranks.append(_Rank(actions, drop_implied(actions, _block_of(actions, blocks), waits), blocks))
    return ranks, in_place


def _expanded(plan: Plan, channels: Sequence[int], limits: RuntimeLimits) -> list[RankActions]:
    """What each rank does, with every send on the channel that is given for it."""
    return expand(
        plan.flow,
        plan.events,
        plan.layouts,
        plan.adding,
        channels,
        plan.fused,
        plan.takes_turns,
        limits.count,
        plan.gathered,
        plan.local,
    )


def _relieve(
    flow: Flow,
    connections: Mapping[Connection, Sequence[int]],
    ranks: Sequence[_Rank],
    most_steps: int,
    requirements: _Requirements,
) -> bool:
    """Ask for less in thread blocks with too many steps; whether there was anything to ask for."""
    steps = _steps_by_send(flow, ranks)
    eased = False
    for number, rank in enumerate(ranks):
        for block in rank.blocks:
            if sum(_num_steps(rank, action) for action in block.actions) <= most_steps:
                continue
            endpoints = {endpoint for endpoint in (block.recv, block.send) if endpoint is not None}
            sends = {rank.actions[action].send for action in block.actions}
            if endpoints and -1 in sends and number not in requirements.copies_apart:
                requirements.copies_apart.add(number)
                eased = True
            elif len(endpoints) == 2 and not endpoints <= requirements.alone[number]:
                requirements.alone[number] |= endpoints
                eased = True
            else:
                for connection in {flow.sends[send].connection for send in sends - {-1}}:
                    eased |= _cut_finer(
                        requirements.parts, connection, connections[connection], steps, most_steps
                    )
    return eased


def _cut_finer(
    parts: dict[Connection, list[Sequence[int]]],
    connection: Connection,
    sends: Sequence[int],
    steps: Sequence[tuple[int, int]],
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


def _steps_by_send(flow: Flow, ranks: Sequence[_Rank]) -> list[tuple[int, int]]:
    """For each send, its steps at the sender and at the receiver, nops included."""
    sender, receiver = [0] * len(flow.sends), [0] * len(flow.sends)
    for rank in ranks:
        for number, action in enumerate(rank.actions):
            if action.endpoint is not None:
                side = sender if action.endpoint.sends else receiver
                side[action.send] += _num_steps(rank, number)
    return list(zip(sender, receiver, strict=True))


def _num_steps(rank: _Rank, action: int) -> int:
    """The step itself, and a nop for every wait but one."""
    return max(1, len(rank.waits[action]))


def _next_sends(plan: Plan, connections: Iterable[Sequence[int]]) -> list[float]:
    """For each send, the position of the next send of its connection; infinite for the last."""
    position = {index: at for at, (kind, index) in enumerate(plan.events) if kind is Kind.SEND}
    following = [math.inf] * len(plan.flow.sends)
    for connection in connections:
        for index, after in pairwise(connection):
            following[index] = position[after]
    return following


def _block_of(actions: Sequence[Action], blocks: Sequence[Block]) -> list[int]:
    block_of = [-1] * len(actions)
    for number, block in enumerate(blocks):
        for action in block.actions:
            block_of[action] = number
    return block_of
