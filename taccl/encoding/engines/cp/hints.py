"""A known schedule as a hint to the joint model."""

from __future__ import annotations

from taccl.encoding.sending_model.hints import Hints
from taccl.encoding.sending_model.joint import JointModel
from taccl.model.schedule import Schedule


def add_hint(model: JointModel, schedule: Schedule) -> None:
    """Hint every variable with what the schedule does, as far as the model can say it.

    The model makes each sum once, so it can say nothing of a schedule that does not.
    """
    if schedule.sums is not None:
        return
    hints, at, chunks = Hints(model.sending), model.sending.at, model.sending.problem.num_chunks
    items = (schedule.chunk + chunks * schedule.reduce).tolist()
    hints.hint_sends(schedule, items)
    ends = hints.in_ticks(schedule.end_us)
    for item, rank, when in zip(items, schedule.dst.tolist(), ends, strict=True):
        hints.hint(at[item, rank], when, largest=True)
    adds = schedule.reduce
    passes_on = set(zip(schedule.chunk[adds].tolist(), schedule.src[adds].tolist(), strict=True))
    for (chunk, rank), root in model.sending.root.items():
        hints.hint(root, (chunk, rank) not in passes_on)
        if (chunk, rank) not in passes_on:
            hints.hint(at[chunk, rank], hints.value(at[chunks + chunk, rank]) or 0, largest=True)
    hints.add()
