"""A schedule to `ActionsProgram`: actions with what they wait for, in no thread blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from taccl.backend.flat_json.document import MOST, Action, ActionRank, ActionsProgram, Do, Span
from taccl.backend.lower.actions import (
    BUFFERS,
    COLUMNS,
    COPY,
    OFFSET_BITS,
    PAIRS,
    RECV,
    RECV_REDUCE_COPY,
    REDUCE,
    SCRATCH,
    SEND,
    Actions,
    Place,
    peer_of,
)
from taccl.backend.lower.sizes import Sizes, sizes_of
from taccl.backend.lower.to_actions import RankWork, lower_to_actions
from taccl.backend.lower.unequal import Starts, elements_of
from taccl.backend.target import LoweringOptions
from taccl.errors import UnitError
from taccl.model.collectives import parts_of_call
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.units import format_size

_DO = {SEND: Do.SEND, RECV: Do.RECEIVE, COPY: Do.COPY, REDUCE: Do.REDUCE}
#: Of an action: its operation, source and target, the cells that it moves, and its message.
Row: TypeAlias = tuple[int, Place, Place, int, int]


def lower_flat(schedule: Schedule, options: LoweringOptions) -> ActionsProgram:
    """The actions that carry out a valid schedule.

    Raises
    ------
    CollectiveError : chunks that are no whole number of bytes each, where they are unequal.
    UnitError : see `calls_of`.
    """
    problem = schedule.problem
    collective = problem.collective
    elements, element_bytes = elements_of(problem)
    call_elements = max(1, round(problem.size_bytes / element_bytes))
    size_bytes = problem.size_bytes if problem.sizes is None else call_elements * element_bytes
    sizes = calls_of(problem, size_bytes, options)
    ranks = lower_to_actions(schedule, options, [_received_apart])
    return ActionsProgram(
        name=options.name,
        collective=collective.name,
        root=collective.root,
        chunk_elements=tuple(elements.tolist()),
        sums=tuple(collective.reduces.tolist()),
        call_elements=call_elements,
        element_bytes=element_bytes,
        min_bytes=sizes.min_bytes,
        max_bytes=sizes.max_bytes,
        ranks=tuple(
            ActionRank(
                input=collective.inputs.held(rank),
                output=collective.outputs.held(rank),
                scratch=int(of_rank.starts[2][-1]),
                actions=tuple(_actions(of_rank)),
            )
            for rank, of_rank in enumerate(ranks)
        ),
    )


def refuse_calls(problem: Problem, options: LoweringOptions) -> None:
    """Refuse, before there is a schedule, calls that no file of this problem serves.

    Raises
    ------
    UnitError : see `calls_of`; or numbers that are too large for a file.
    """
    largest = max(problem.size_bytes, calls_of(problem, problem.size_bytes, options).max_bytes)
    if largest > MOST:
        raise UnitError(
            f"a file of actions for calls of up to {format_size(largest)} has too large numbers: "
            f"the most is {format_size(MOST)}",
            hint=f"a --size of {format_size(MOST // 2)} or less, or --no-file",
        )


def calls_of(problem: Problem, size_bytes: int, options: LoweringOptions) -> Sizes:
    """The calls that a file serves.

    Parameters
    ----------
    size_bytes : of the call that it is made for.

    Raises
    ------
    UnitError : no size lies between those requested, or not that of the file's own call.
    """
    collective = problem.collective
    sizes = sizes_of(collective, size_bytes, options.min_bytes, options.max_bytes)
    parts = parts_of_call(collective.name, collective.num_ranks)
    if not sizes.min_bytes <= size_bytes // parts <= sizes.max_bytes:
        own, least, most = map(format_size, (size_bytes // parts, sizes.min_bytes, sizes.max_bytes))
        counted = f", which of {collective.name} are those of one rank's part" if parts > 1 else ""
        raise UnitError(
            f"a file of actions serves the call that it is made for, of {own}, and {least} to {most} are "
            f"requested{counted}",
            hint=f"--min-size and --max-size around {own}",
        )
    return sizes


def _rows(actions: Actions) -> Iterator[Row]:
    columns = (actions.op, actions.src, actions.dst, actions.count, actions.send)
    return zip(*(column.tolist() for column in columns), strict=True)


def _actions(work: RankWork) -> Iterator[Action]:
    actions, (first, others), starts = work.actions, work.waits, work.starts
    peers = peer_of(actions.endpoint).tolist()
    bounds, awaited = first.tolist(), others.tolist()
    for number, (op, source, target, count, message) in enumerate(_rows(actions)):
        do = _DO[op]
        place = source if do.reads else target
        buffer, cell = place >> OFFSET_BITS, place & ((1 << OFFSET_BITS) - 1)
        yield Action(
            do,
            elements=int(starts[buffer][cell + count] - starts[buffer][cell]),
            source=_span(source, starts) if do.reads else None,
            target=_span(target, starts) if do.writes else None,
            peer=peers[number] if do.travels else -1,
            message=message if do.travels else -1,
            after=tuple(awaited[bounds[number] : bounds[number + 1]]),
        )


def _span(place: Place, starts: Starts) -> Span:
    buffer, cell = place >> OFFSET_BITS, place & ((1 << OFFSET_BITS) - 1)
    return Span(BUFFERS[buffer], int(starts[buffer][cell]))


def _received_apart(actions: Actions) -> Actions:
    """Receives that add become receives in scratch of their own, and sums from there.

    What waited for the receive that adds waits for the sum; what that waited for, the new receive waits for.
    """
    adds = actions.op == RECV_REDUCE_COPY
    if not adds.any():
        return actions
    count = actions.count[adds]
    landing = _scratch_end(actions) + np.cumsum(count) - count
    rows = 1 + adds
    last = np.cumsum(rows) - 1
    first, sums = last - adds, last[adds]
    columns = {name: np.repeat(getattr(actions, name), rows) for name in COLUMNS}
    columns["op"][sums], columns["op"][sums - 1] = REDUCE, RECV
    columns["src"][sums] = columns["dst"][sums - 1] = landing
    columns["send"][sums] = columns["endpoint"][sums] = -1
    for name in PAIRS:
        pairs = getattr(actions, name)
        columns[name] = np.stack([first[pairs[:, 0]], last[pairs[:, 1]]], axis=1)
    return replace(actions, **columns)


def _scratch_end(actions: Actions) -> int:
    """The place behind the last cell of scratch that a rank uses."""
    ends = [
        (places + actions.count)[used]
        for used, places in ((actions.reads, actions.src), (actions.writes, actions.dst))
    ]
    return int(np.concatenate(ends).max(initial=SCRATCH))
