"""How each send of a reduction is added up at its receiver.

Without fused steps, a contribution lands in scratch and a `re` adds it to the *accumulator*. The first
to arrive becomes the accumulator itself: the rank's own data are added to it. So no copy of the
input is needed, and neither the input nor the output is touched before the sum is complete.

With fused steps, the accumulator starts as a copy of the rank's own data, and `rrc` adds to it
on receipt.

Where local steps are known to take time, an accumulator may start as a copy, too, and what lands is added in
one run (see `local_work`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from taccl.backend.lower.flow import Flow, Send
from taccl.backend.lower.made_sums import Cell
from taccl.backend.lower.order import EventKind, Events
from taccl.model.schedule import TOLERANCE_US


class Adding(Enum):
    """How a send is added up."""

    ON_RECEIPT = "one step receives it and adds it to the accumulator"
    FIRST = "it becomes the accumulator"
    APART = "it lands in cells of its own and is added from there"


def plan_additions(flow: Flow, events: Events) -> dict[int, Adding]:
    """The way of each send that adds; what is added to gathered cells always lands apart."""
    plan: dict[int, Adding] = {}
    busy_until: dict[Cell, float] = {}
    begun: set[Cell] = set()
    order = np.flatnonzero(flow.columns.reduce[events.index] & (events.kind != EventKind.SEND))
    for kind, index in zip(events.kind[order].tolist(), events.index[order].tolist(), strict=True):
        send = flow.sends[index]
        cells = [(send.dst, chunk) for chunk in send.chunks]
        if kind == EventKind.RECEIVE:
            if (
                flow.fused
                and _adds_without_waiting(flow, send, cells, busy_until)
                and _holds_none_up(flow, send, cells)
            ):
                plan[index] = Adding.ON_RECEIPT
            for cell in cells:
                busy_until[cell] = max(busy_until.get(cell, 0.0), send.end_us)
        elif index not in plan:
            copied_before = flow.fused and any(cell in flow.own for cell in cells)
            is_first = not copied_before and begun.isdisjoint(cells) and flow.gathered.isdisjoint(cells)
            plan[index] = Adding.FIRST if is_first else Adding.APART
            begun.update(cells)
    return plan


def _adds_without_waiting(
    flow: Flow, send: Send, cells: Sequence[Cell], busy_until: dict[Cell, float]
) -> bool:
    """Whether a fused step would wait for no other contribution, which could hold its sender up."""
    moment = send.end_us if len(cells) == 1 else send.start_us
    return all(cell in flow.own and busy_until.get(cell, 0.0) <= moment + TOLERANCE_US for cell in cells)


def _holds_none_up(flow: Flow, send: Send, cells: Sequence[Cell]) -> bool:
    """Whether no other contribution arrives while a fused step of several chunks still adds to its sum."""
    if len(cells) == 1:
        return True
    return not any(
        send.start_us + TOLERANCE_US < flow.sends[other].end_us < send.end_us - TOLERANCE_US
        for cell in cells
        for other in flow.added[cell]
    )
