"""A schedule to `ActionsProgram`: actions with what they wait for, in no thread blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from taccl.backend.flat_json.document import Action, ActionRank, ActionsProgram, Do, Span
from taccl.backend.lower.actions import (
    BUFFERS,
    COPY,
    OFFSET_BITS,
    RECV,
    REDUCE,
    SEND,
    Actions,
    Place,
    peer_of,
)
from taccl.backend.lower.received_apart import received_apart
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.lower.to_actions import RankWork, lower_to_actions
from taccl.backend.target import LoweringOptions
from taccl.errors import CollectiveError
from taccl.model.collective import IntArray, Placement
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.units import MB

_DO = {SEND: Do.SEND, RECV: Do.RECEIVE, COPY: Do.COPY, REDUCE: Do.REDUCE}
#: Of an action: its operation, source and target, the cells that it moves, and its message.
Row: TypeAlias = tuple[int, Place, Place, int, int]


def lower_flat(schedule: Schedule, options: LoweringOptions) -> ActionsProgram:
    """The actions that carry out a valid schedule.

    Raises
    ------
    CollectiveError : chunks that are no whole number of bytes each, where they are unequal.
    UnitError : no size lies between those requested.
    """
    problem = schedule.problem
    collective = problem.collective
    elements, element_bytes = elements_of(problem)
    sizes = sizes_of(collective, problem.size_bytes, options.min_bytes, options.max_bytes)
    ranks = lower_to_actions(schedule, options, [received_apart])
    unit = elements[0] if problem.sizes is None else elements[0] / problem.sizes[0]
    starts = []
    for rank, work in enumerate(ranks):
        scratch = np.rint(work.cells[2] * unit).astype(np.int64)
        placed = [_placed(rows, rank, elements) for rows in (collective.inputs, collective.outputs)]
        starts.append([np.append(0, np.cumsum(cells)) for cells in (*placed, scratch)])
    return ActionsProgram(
        name=options.name,
        collective=collective.name,
        root=collective.root,
        chunk_elements=tuple(elements.tolist()),
        sums=tuple(collective.reduces.tolist()),
        call_elements=max(1, round(problem.size_bytes / element_bytes)),
        element_bytes=element_bytes,
        min_bytes=sizes.min_bytes,
        max_bytes=sizes.max_bytes,
        ranks=tuple(
            ActionRank(
                input=collective.inputs.held(rank),
                output=collective.outputs.held(rank),
                scratch=int(starts[rank][2][-1]),
                actions=tuple(_actions(of_rank, starts[rank])),
            )
            for rank, of_rank in enumerate(ranks)
        ),
    )


def elements_of(problem: Problem) -> tuple[IntArray, int]:
    """Elements of each chunk, shape (num_chunks,), and bytes of an element.

    Of equal chunks each is one element. Of unequal ones an element is the largest that all are multiples of.

    Raises
    ------
    CollectiveError : unequal chunks that are no whole number of bytes.
    """
    exact = problem.size_mb * MB
    if problem.sizes is None:
        return np.ones(problem.num_chunks, dtype=np.int64), max(1, math.ceil(exact[0]))
    whole = np.rint(exact).astype(np.int64)
    bad = np.flatnonzero((whole < 1) | (np.abs(exact - whole) > 1e-6 * exact))
    if len(bad):
        raise CollectiveError(
            f"chunk {bad[0]} has {exact[bad[0]]:g} bytes, which is no whole number",
            hint="sizes in whole bytes",
        )
    unit = int(np.gcd.reduce(whole))
    return whole // unit, unit


def _placed(placement: Placement, rank: int, elements: IntArray) -> IntArray:
    """Elements of the cells of a buffer; room for no chunk has one."""
    held = np.array(placement.held(rank), dtype=np.int64)
    return np.where(held >= 0, elements[held], 1) if len(held) else held


def _rows(actions: Actions) -> Iterator[Row]:
    columns = (actions.op, actions.src, actions.dst, actions.count, actions.send)
    return zip(*(column.tolist() for column in columns), strict=True)


def _actions(work: RankWork, starts: Sequence[IntArray]) -> Iterator[Action]:
    """The actions of a rank; `starts` has the element at which each cell of each buffer begins."""
    actions, (first, others) = work.actions, work.waits
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


def _span(place: Place, starts: Sequence[IntArray]) -> Span:
    buffer, cell = place >> OFFSET_BITS, place & ((1 << OFFSET_BITS) - 1)
    return Span(BUFFERS[buffer], int(starts[buffer][cell]))
