"""Thread blocks and steps for all ranks, within the limits of a runtime.

A thread block with too many steps is taken apart, or its line gets one more part on a channel of its
own, until all fit or the channels are used up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.actions import Action, Lane
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.blocks import Block, add_own_copies, make_blocks
from taccl.backend.lower.channels import Line, assign_channels, lines_in_order
from taccl.backend.lower.expand import expand
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.fuse import fuse
from taccl.backend.lower.hazards import drop_implied, hazards, works_in_place
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.number import number_steps, scratch_map
from taccl.backend.lower.order import Event, Kind
from taccl.backend.lower.sizes import Sizes
from taccl.backend.program import RankProgram


@dataclass(frozen=True, eq=False)
class Plan:
    """All of a program that does not depend on a runtime's limits."""

    flow: Flow
    events: list[Event]
    adding: dict[int, Adding]
    layouts: list[RankLayout]
    fused: bool


@dataclass(frozen=True, eq=False)
class _Rank:
    """The actions of one rank in order, what each waits for, and the thread blocks that run them."""

    actions: list[Action]
    waits: list[list[int]]
    blocks: list[Block]


def assemble(plan: Plan, sizes: Sizes, limits: RuntimeLimits) -> tuple[tuple[RankProgram, ...], bool]:
    """The programs of all ranks, and whether they also work in place.

    Raises
    ------
    ProgramLimitError : there are not enough channels.
    """
    lines = lines_in_order(plan.flow, plan.events)
    next_send = _next_sends(plan, lines.values())
    parts: dict[Line, int] = {}
    alone: list[set[Lane]] = [set() for _ in plan.layouts]
    while True:
        channels = assign_channels(plan.flow, lines, parts, limits)
        ranks, in_place = _assemble_once(plan, channels, next_send, alone, limits)
        if not _relieve(plan.flow, lines, ranks, limits.steps, parts, alone):
            break
    scratch = [scratch_map(rank.actions) for rank in ranks]
    programs = tuple(
        number_steps(r, rank.actions, rank.blocks, rank.waits, scratch, sizes) for r, rank in enumerate(ranks)
    )
    return programs, in_place


def _assemble_once(
    plan: Plan,
    channels: Sequence[int],
    next_send: Sequence[float],
    alone: Sequence[set[Lane]],
    limits: RuntimeLimits,
) -> tuple[list[_Rank], bool]:
    expanded = expand(plan.flow, plan.events, plan.layouts, plan.adding, channels, plan.fused)
    filled = []
    for rank, separate in zip(expanded, alone, strict=True):
        blocks = make_blocks(rank.actions, limits.steps, separate)
        if plan.fused:
            fuse(rank, blocks, next_send)
        actions = add_own_copies(rank.actions, blocks, rank.early, rank.late, limits.steps)
        filled.append((actions, blocks, rank.input_shift))
    in_place = all(works_in_place(actions, shift) for actions, _, shift in filled)
    ranks = []
    for actions, blocks, shift in filled:
        waits = hazards(actions, shift if in_place else None)
        ranks.append(_Rank(actions, drop_implied(actions, _block_of(actions, blocks), waits), blocks))
    return ranks, in_place


def _relieve(
    flow: Flow,
    lines: Mapping[Line, Sequence[int]],
    ranks: Sequence[_Rank],
    most_steps: int,
    parts: dict[Line, int],
    alone: Sequence[set[Lane]],
) -> bool:
    """Ask for less in thread blocks with too many steps; whether there were any that can be helped."""
    more: dict[Line, int] = {}
    separated = False
    for number, rank in enumerate(ranks):
        for block in rank.blocks:
            steps = sum(max(1, len(rank.waits[action])) for action in block.actions)
            if steps <= most_steps:
                continue
            if block.recv is not None and block.send is not None:
                alone[number].update((block.recv, block.send))
                separated = True
                continue
            transfers = {rank.actions[a].transfer for a in block.actions if rank.actions[a].lane is not None}
            for line in {flow.transfers[transfer].line for transfer in transfers}:
                now = parts.get(line, 1)
                if now == len(lines[line]):
                    continue
                more[line] = max(more.get(line, 0), now + 1, math.ceil(now * steps / most_steps))
                more[line] = min(more[line], len(lines[line]))
    parts.update(more)
    return separated or bool(more)


def _next_sends(plan: Plan, lines: Iterable[Sequence[int]]) -> list[float]:
    """For each transfer, the position of the next send of its line; infinite for the last."""
    position = {index: at for at, (kind, index) in enumerate(plan.events) if kind is Kind.SEND}
    following = [math.inf] * len(plan.flow.transfers)
    for line in lines:
        for index, after in pairwise(line):
            following[index] = position[after]
    return following


def _block_of(actions: Sequence[Action], blocks: Sequence[Block]) -> list[int]:
    block_of = [-1] * len(actions)
    for number, block in enumerate(blocks):
        for action in block.actions:
            block_of[action] = number
    return block_of
