"""The timelines of one schedule at all sizes where it is fastest, small enough for a page."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable

from taccl.backend.show import schedule_timeline
from taccl.backend.show.page import page_data
from taccl.model.schedule import SavedSchedule

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
