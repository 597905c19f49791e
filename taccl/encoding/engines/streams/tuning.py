"""Numbers of the engine streams: how many trees, how long they are improved, caps, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

#: How many trees carry chunks by turns: few make short periods, many share ports more evenly. NICs and links
#: of a node come in such numbers.
TREES = (1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 32)
#: Sends of all trees in a period, at most: beyond, placing them takes longer than it is worth.
MOST_SENDS = 2048
#: Links that are looked at to grow trees, at most, and transfers of a schedule.
MOST_LOOKS, MOST_ROWS = 300_000_000, 400_000
#: Moves of the annealing for each rank of each tree, and at least so many. Temperatures are parts of what the
#: load of all periods counts: from 0.02 the even loads of grown trees were lost on a torus 8x8, from 0.002
#: their ways became shorter at the same loads.
MOVES_EACH, LEAST_MOVES = 40, 5_000
HOT, COLD = 2e-3, 1e-4
#: How much the longest way counts, next to the load of all periods.
WAYS = 2.0
#: How often each send may be placed, and by what factor a period may be longer than the busiest port is busy.
PLACED_EACH = 12
LONGER = (1.0, 1.03, 1.1, 1.25, 1.5)
#: How much a chunk's turn counts next to the longest way below a send, in parts of all that the busiest port
#: carries; tried where the intervals take longer than the promise by this factor.
WAVES, GOOD = (0.3, 1.0), 1.03
#: The candidates that are put in order, of those that promise most, with as many trees as each other, and how
#: much worse they may promise.
MOST_TIMED, MOST_ALIKE, WORTH = 10, 1, 1.4
#: Compiling takes no longer, seconds: 18 on a core of AMD EPYC that another program shared.
COMPILING_S = 30.0
#: Units of work: for each move, look at a link, placing of a send and transfer of a schedule.
MOVE, LOOK, PLACE, ROW = 1.2e-3, 2e-6, 1e-2, 2e-3
