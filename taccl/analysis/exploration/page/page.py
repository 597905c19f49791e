"""The page as text, one file that needs no network, and what it shows of each question.

That is plain values in columns, how long schedules keep links busy, and packed timelines.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.analysis.exploration.curves import Curve
from taccl.analysis.exploration.envelope import Envelope
from taccl.backend.show import schedule_timeline
from taccl.backend.show.page import page_data, timeline_body, timeline_script
from taccl.model.network import FloatArray
from taccl.model.schedule import SavedSchedule, Schedule
from taccl.support.pages.assemble import assemble, text_of
from taccl.topologies import PhysicalTopology
from taccl.topologies.drawing.page import drawing_of, drawing_script, drawing_style

#: A row of the table, by its columns.
Row = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class QuestionPart:
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


def contents(parts: Sequence[QuestionPart]) -> dict[str, object]:
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


def _question(part: QuestionPart, machines: Sequence[PhysicalTopology]) -> dict[str, object]:
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


def busy_us_per_mb(machine: PhysicalTopology, schedule: Schedule) -> FloatArray:
    """For each link of the machine how long it carries data, microseconds for each MB of the call.

    It is what is sent over the link times the link's beta; alphas, which keep some links busy too, are left
    out: what is left of the time could have been used for data.
    """
    problem = schedule.problem
    megabytes = np.bincount(
        schedule.link, weights=problem.size_mb[schedule.chunk], minlength=problem.topology.num_links
    )
    busy = np.zeros(len(machine.links))
    for link in np.flatnonzero(megabytes).tolist():
        ends = int(problem.topology.src[link]), int(problem.topology.dst[link])
        path = machine.path(*ends) or machine.host_path(*ends)
        if path is None:
            continue
        betas = path.betas or tuple(machine.links[number].beta_us_per_mb for number in path.links)
        for number, beta in zip(path.links, betas, strict=True):
            busy[number] += megabytes[link] * beta
    return busy / (problem.size_bytes / 2**20)


#: Times keep this many digits of the whole: a screen has fewer pixels.
_DIGITS = 6


def packed_timelines(schedules: Iterable[tuple[int, SavedSchedule, tuple[str, ...]]]) -> str:
    """Timelines by their size in bytes, as text: the first, and of each other what is not as in the first.

    `unpacked` of the page reads it: JSON, deflated, in base64.

    Parameters
    ----------
    schedules : size in bytes, schedule, and what is to be said of its times.
    """
    first: object = None
    kept: list[tuple[int, object]] = []
    for size, saved, notes in schedules:
        data = page_data(schedule_timeline(saved, notes), _DIGITS)
        kept.append((size, changed(first, data)))
        first = data if first is None else first
    text = json.dumps(kept, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def changed(before: object, after: object) -> object:
    """What `after` has other than `before`: of dictionaries the entries that differ, of all else all."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    return {key: changed(before.get(key), value) for key, value in after.items() if before.get(key) != value}


_SCRIPTS = ("chart.js", "question.js", "heat.js", "opened.js", "open.js")


def explored_page(
    title: str,
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
    parts: Sequence[QuestionPart],
    timelines: Mapping[str, str],
) -> str:
    """The whole page.

    Parameters
    ----------
    facts : (label, value), shown at the top. notes : sentences that the reader must not miss.
    timelines : for each schedule that is fastest somewhere, what `packed_timelines` made of it.
    """
    data = {"facts": facts, "notes": notes, **contents(parts), "timelines": timelines}
    body = f'{_text("explored.html")}\n<template id="timeline-part">\n{timeline_body()}</template>'
    scripts = (drawing_script(), timeline_script(), *map(_text, _SCRIPTS))
    return assemble(title, body, scripts, data, (drawing_style(), _text("explored.css")))


def _text(name: str) -> str:
    return text_of((__package__, name))
