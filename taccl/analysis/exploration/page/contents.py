"""What the page shows of each question, as plain values in columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taccl.analysis.exploration.curves import Curve
from taccl.analysis.exploration.envelope import Envelope
from taccl.analysis.exploration.page.loads import busy_us_per_mb
from taccl.topologies import PhysicalTopology
from taccl.topologies.drawing.page import drawing_of

#: A row of the table, by its columns.
Row = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Part:
    """One question with its rows of the table.

    Parameters
    ----------
    best : one row for each size. searches : one row for each search.
    names : of the curves that are fastest somewhere.
    """

    envelope: Envelope
    best: Sequence[Row]
    searches: Sequence[Row]
    names: Mapping[Curve, str]


def contents(parts: Sequence[Part]) -> dict[str, object]:
    """The questions, their machines, each once, and what each schedule keeps busy there."""
    machines: list[PhysicalTopology] = []
    for part in parts:
        if part.envelope.question.machine not in machines:
            machines.append(part.envelope.question.machine)
    return {
        "machines": [drawing_of(machine) for machine in machines],
        "questions": [_question(part, machines) for part in parts],
        "busy": {
            name: [
                round(us, 6)
                for us in busy_us_per_mb(part.envelope.question.machine, curve.answer.saved.schedule)
            ]
            for part in parts
            for curve, name in part.names.items()
        },
    }


def _question(part: Part, machines: Sequence[PhysicalTopology]) -> dict[str, object]:
    question = part.envelope.question
    return {
        "name": question.name,
        "machine": machines.index(question.machine),
        "best": columns(part.best),
        "searches": columns(part.searches),
        "library": [{"name": name, "us": us} for name, us in _library(part.envelope).items()],
    }


def columns(rows: Sequence[Row]) -> dict[str, list[object]]:
    """One list for each column."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _library(envelope: Envelope) -> dict[str, list[float | None]]:
    """For each algorithm of libraries its least time at each size, however it is cut."""
    least: dict[str, list[float]] = {}
    for curve in envelope.library:
        known = least.setdefault(curve.name, [math.inf] * len(curve.times_us))
        least[curve.name] = list(map(min, known, curve.times_us))
    return {name: [us if math.isfinite(us) else None for us in times] for name, times in least.items()}
