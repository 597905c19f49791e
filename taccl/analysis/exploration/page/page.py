"""The page as text: one file that needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taccl.analysis.exploration.page.contents import Part, contents
from taccl.backend.show.page import timeline_body, timeline_script
from taccl.support.pages.assemble import assemble, text_of
from taccl.topologies.drawing.page import drawing_script, drawing_style

_SCRIPTS = ("chart.js", "question.js", "heat.js", "opened.js", "open.js")


def explored_page(
    title: str,
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
    parts: Sequence[Part],
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
