"""Numbers of this room, each with the measurement that chose it."""

from __future__ import annotations

#: Sets of chunks that are looked at: each with each takes 0.4 s where all are nested.
SIDE_BY_SIDE_MOST_SETS = 2_000
