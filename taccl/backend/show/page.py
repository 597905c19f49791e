"""A timeline as one HTML page that needs nothing else: no network, no other file.

The page is put together from the files next to this module: `page.html`, `page.css` and the scripts.
What is to be shown goes into it as JSON, in columns.
"""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files

import numpy as np

from taccl.backend.show.timeline import KINDS, Timeline

_SCRIPTS = ("data.js", "plot.js", "timeline.js", "ports.js", "topology.js", "main.js")

#: Times are rounded to this part of the whole; a screen has fewer pixels.
_DIGITS = 8


def to_html(timeline: Timeline) -> str:
    """The whole page as text."""
    room = files(__package__)
    parts = {
        "TITLE": html.escape(timeline.title),
        "STYLE": room.joinpath("page.css").read_text(encoding="utf-8"),
        "SCRIPT": "\n".join(room.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS),
        "DATA": _escaped(json.dumps(page_data(timeline), separators=(",", ":"), allow_nan=False)),
    }
    page = room.joinpath("page.html").read_text(encoding="utf-8")
    # All at once, so that nothing that was put in is taken for a placeholder.
    return re.sub("@([A-Z]+)@", lambda place: parts[place[1]], page)


def page_data(timeline: Timeline) -> dict[str, object]:
    """What the scripts read; columns as lists."""
    bars, digits = timeline.bars, _digits(timeline.span)
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


def _digits(span: float) -> int:
    """Decimal places that keep `_DIGITS` digits of the largest time."""
    return _DIGITS - (int(np.floor(np.log10(span))) + 1 if span > 0 else 0)


def _escaped(text: str) -> str:
    """JSON that cannot end the script element that it stands in, nor be read as markup."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
