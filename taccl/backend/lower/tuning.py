"""Numbers of this room, each with the measurement that chose it."""

from __future__ import annotations

#: Sets of chunks of a class that are looked at, those that most sends take: each with each of 1,000 pairs
#: takes 0.1 s of one core of AMD EPYC, of 2,000 pairs 0.5 s.
SIDE_BY_SIDE_MOST_SETS = 1_000
