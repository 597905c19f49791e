"""A known schedule as a hint to the joint model, so that its search starts from something good."""

from __future__ import annotations

from taccl.encoding.cp.model import JointModel
from taccl.schedule import Schedule


def add_hint(model: JointModel, schedule: Schedule) -> None:
    """Hint every variable with what the schedule does, as far as the model can say it."""
    hint, tick = model.cp.add_hint, model.tick_us
    rows = {
        pair: row
        for row, pair in enumerate(zip(schedule.chunk.tolist(), schedule.link.tolist(), strict=True))
    }
    sends = schedule.sends
    for (chunk, link), own in model.alone.items():
        row = rows.get((chunk, link))
        single = row is not None and sends.count[sends.of_row[row]] == 1
        hint(own.active, single)
        if row is not None:
            hint(own.start, int(schedule.start_us[row] / tick))
    for link, slots in model.slots.items():
        on_link = [row for (_, over), row in rows.items() if over == link]
        shared = sorted({int(sends.of_row[r]) for r in on_link if sends.count[sends.of_row[r]] > 1})
        shared.sort(key=lambda send: float(sends.start_us[send]))
        for k, slot in enumerate(slots):
            active = k < len(shared)
            hint(slot.active, active)
            members = {int(schedule.chunk[r]) for r in on_link if active and sends.of_row[r] == shared[k]}
            for chunk, member in slot.members.items():
                hint(member, chunk in members)
            if active:
                hint(slot.start, int(sends.start_us[shared[k]] / tick))
                hint(slot.end, int(sends.end_us[shared[k]] / tick))
    arrivals = zip(schedule.chunk.tolist(), schedule.dst.tolist(), schedule.end_us.tolist(), strict=True)
    ends = {model.at[chunk, rank].index: (model.at[chunk, rank], end) for chunk, rank, end in arrivals}
    for cell, end in ends.values():
        hint(cell, int(end / tick))
