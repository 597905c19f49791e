"""The timeline of a step: what one GPU computes, and next to it the sums of buckets on their stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.analysis.training.recurrence import RanBucket, Span, TrainingStep
from taccl.analysis.training.stall_report import Planned, Stalled
from taccl.backend.show.timeline import COMPUTE, REDUCE, WAIT, Timeline, labelled_bars
from taccl.model import units

#: Lanes from top to bottom, and the letters of what fills them in text.
_LANES = ("computing", "sums")
_LETTER = {"forward": "F", "backward": "B", "calls": "c", "idle": "-"}
_WIDTH = 88


def step_timeline(found: Stalled, planned: Planned) -> Timeline:
    """A step by one plan, as `taccl show` draws schedules."""
    step, names = planned.step, [layer.name for layer in found.workload.layers]
    spans, buckets = [each for each in step.spans if each.end_us > each.start_us], step.buckets
    words = [*(_word(each, names) for each in spans)]
    words += [
        f"sum of bucket {place}, {each.bucket.num_bytes / units.MB:.2f} MB"
        for place, each in enumerate(buckets)
    ]
    kinds = [WAIT if each.what in ("calls", "idle") else COMPUTE for each in spans] + [REDUCE] * len(buckets)
    every: list[Span | RanBucket] = [*spans, *buckets]
    many = len(every)
    none = np.full(many, -1, dtype=np.int64)
    bars, labels = labelled_bars(
        words,
        lane=np.array([0] * len(spans) + [1] * len(buckets), dtype=np.int64),
        start=np.array([each.start_us for each in every]),
        end=np.array([each.end_us for each in every]),
        source=none,
        bytes=np.array([0.0] * len(spans) + [float(each.bucket.num_bytes) for each in buckets]),
        link=none,
        peer=none,
        kind=np.array(kinds, dtype=np.int64),
        number=np.array([*range(len(spans)), *range(len(buckets))], dtype=np.int64),
        critical=np.array([False] * len(spans) + [each.exposed_us > 0 for each in buckets], dtype=np.bool_),
    )
    facts = (
        ("step", f"{step.step_us:.2f} us"),
        ("computing", f"{step.compute_us:.2f} us"),
        ("exposed", f"{step.exposed_us:.2f} us"),
        ("bound", f"{found.bound_us:.2f} us"),
    )
    return Timeline(
        title=f"a step of {found.workload.name} on {found.machine.name}, by {planned.plan}",
        facts=facts,
        notes=found.notes,
        unit="us",
        span=max([each.end_us for each in every], default=0.0),
        transfers=0,
        node_of=np.zeros(1, dtype=np.int64),
        lane_rank=np.zeros(len(_LANES), dtype=np.int64),
        lane_name=_LANES,
        bars=bars,
        labels=labels,
        arrows=(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)),
        topology=None,
    )


def _word(span: Span, names: list[str]) -> str:
    return span.what if span.layer is None else f"{span.what} of {names[span.layer]}"


def step_lines(step: TrainingStep) -> Iterator[str]:
    """The same as lines of text: a letter for what takes most of its part of the step.

    Of sums it is the last digit of the bucket's number; a point is nothing.
    """
    end_us = max([step.step_us, *(each.end_us for each in step.buckets)])
    rows = (
        [(each.start_us, each.end_us, _LETTER[each.what]) for each in step.spans],
        [(each.start_us, each.end_us, str(place % 10)) for place, each in enumerate(step.buckets)],
    )
    for name, row in zip(_LANES, rows, strict=True):
        yield f"{name:<10} {_line(row, end_us)}"
    yield f"{'':<10} 0{f'{end_us:.0f} us':>{_WIDTH - 1}}"


def _line(row: list[tuple[float, float, str]], end_us: float) -> str:
    cells = np.zeros((len(row) + 1, _WIDTH))
    edges = np.linspace(0.0, end_us, _WIDTH + 1)
    for place, (start_us, stop_us, _) in enumerate(row, start=1):
        cells[place] = np.minimum(edges[1:], stop_us) - np.maximum(edges[:-1], start_us)
    cells[0] = edges[1] * 0.5  # nothing, where all together takes less than half
    letters = ["."] + [letter for _, _, letter in row]
    return "".join(letters[place] for place in cells.argmax(axis=0))
