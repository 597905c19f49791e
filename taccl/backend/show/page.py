"""A timeline as a page for the browser, and as a part of other pages."""

from __future__ import annotations

import numpy as np

from taccl.backend.show.timeline import KINDS, Timeline
from taccl.support.pages.assemble import assemble, text_of

_SCRIPTS = ("data.js", "plot.js", "timeline.js", "ports.js", "topology.js", "main.js")

#: Times keep this many digits of the whole; a screen has fewer pixels.
_DIGITS = 8


def to_html(timeline: Timeline) -> str:
    """The whole page as text."""
    scripts = (timeline_script(), _text("open.js"))
    return assemble(timeline.title, timeline_body(), scripts, page_data(timeline))


def timeline_body() -> str:
    """The markup that `openTimeline` fills."""
    return _text("timeline.html")


def timeline_script() -> str:
    """The function `openTimeline(data, signal)`: it shows what `page_data` made until the signal ends it."""
    inner = "\n".join(map(_text, _SCRIPTS))
    return f"function openTimeline(data, signal) {{\n{inner}\n}}"


def _text(name: str) -> str:
    return text_of((__package__, name))


def page_data(timeline: Timeline, kept: int = _DIGITS) -> dict[str, object]:
    """What the scripts read; columns as lists.

    Parameters
    ----------
    kept : digits of the largest time; all times have as many decimal places.
    """
    bars, digits = timeline.bars, _digits(timeline.span, kept)
    names = ("lane", "track", "slot", "slots", "source", "label", "link", "peer", "kind", "number")
    columns: dict[str, object] = {name: getattr(bars, name).tolist() for name in names}
    return {
        "title": timeline.title,
        "facts": timeline.facts,
        "notes": timeline.notes,
        "unit": timeline.unit,
        "span": timeline.span,
        "transfers": timeline.transfers,
        "nodeOf": timeline.node_of.tolist(),
        "lanes": {"rank": timeline.lane_rank.tolist(), "name": timeline.lane_name},
        "kinds": KINDS,
        "labels": timeline.labels,
        "bars": columns
        | {
            "start": np.round(bars.start, digits).tolist(),
            "end": np.round(bars.end, digits).tolist(),
            "bytes": bars.bytes.tolist(),
            "critical": np.flatnonzero(bars.critical).tolist(),
        },
        "arrows": [column.tolist() for column in timeline.arrows],
        "topology": _topology(timeline),
    }


def _topology(timeline: Timeline) -> dict[str, object] | None:
    topology = timeline.topology
    if topology is None:
        return None
    return {
        "name": topology.name,
        "occupancy": topology.occupancy,
        "src": topology.src.tolist(),
        "dst": topology.dst.tolist(),
        "alpha": topology.alpha_us.tolist(),
        "beta": topology.beta_us_per_mb.tolist(),
        "ports": topology.ports,
        "portBetas": topology.port_betas,
        "portNames": topology.port_names,
    }


def _digits(span: float, kept: int) -> int:
    """Decimal places that keep this many digits of the largest time."""
    return kept - (int(np.floor(np.log10(span))) + 1 if span > 0 else 0)
