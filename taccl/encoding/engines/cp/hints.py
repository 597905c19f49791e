"""A known schedule as a hint to the joint model, so that its search starts from something good."""

from __future__ import annotations

from typing import Any

import numpy as np

from taccl.encoding.sending_model.joint import JointModel
from taccl.model.network import FloatArray
from taccl.model.schedule import Schedule


def add_hint(model: JointModel, schedule: Schedule) -> None:
    """Hint every variable with what the schedule does, as far as the model can say it.

    The model makes each sum once, so it can say nothing of a schedule that does not.
    """
    if schedule.sums is not None:
        return
    known: dict[int, tuple[Any, int]] = {}

    def hint(variable: Any, value: int) -> None:
        known[variable.index] = variable, int(value)

    chunks, at = model.problem.num_chunks, model.sending.at
    start, end = _in_ticks(model, schedule.start_us), _in_ticks(model, schedule.end_us)
    items = (schedule.chunk + chunks * schedule.reduce).tolist()
    rows = {pair: row for row, pair in enumerate(zip(items, schedule.link.tolist(), strict=True))}
    sends = schedule.sends
    for (item, link), own in model.alone.items():
        row = rows.get((item, link))
        hint(own.active, row is not None and sends.count[sends.of_row[row]] == 1)
        if row is not None:
            hint(own.start, start[row])
    for (link, phase), slots in model.slots.items():
        on_link = [row for (item, over), row in rows.items() if over == link and item // chunks == phase]
        shared = sorted({int(sends.of_row[r]) for r in on_link if sends.count[sends.of_row[r]] > 1})
        shared.sort(key=lambda send: float(sends.start_us[send]))
        for k, slot in enumerate(slots):
            active = k < len(shared)
            hint(slot.active, active)
            members = {items[r] for r in on_link if active and sends.of_row[r] == shared[k]}
            for item, member in slot.members.items():
                hint(member, item in members)
            if active:
                row = int(sends.first_row[shared[k]])
                hint(slot.start, start[row])
                hint(slot.end, end[row])
    for item, rank, when in zip(items, schedule.dst.tolist(), end, strict=True):
        cell = at[item, rank]
        hint(cell, max(when, known.get(cell.index, (cell, 0))[1]))
    passes_on = set(
        zip(schedule.chunk[schedule.reduce].tolist(), schedule.src[schedule.reduce].tolist(), strict=True)
    )
    for (chunk, rank), root in model.sending.root.items():
        hint(root, (chunk, rank) not in passes_on)
        if (chunk, rank) not in passes_on:
            _, made = known.get(at[chunks + chunk, rank].index, (None, 0))
            hint(at[chunk, rank], made)
    for variable, value in known.values():
        model.cp.add_hint(variable, value)


def _in_ticks(model: JointModel, us: FloatArray) -> list[int]:
    ticks: list[int] = np.floor(us / model.ticks.tick_us + 1e-6).astype(np.int64).tolist()
    return ticks
