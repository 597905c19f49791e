"""Numbers of the engine streams: which styles are tried, how often, caps, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

#: Whether the root counts as a holder, and how much what a rank has got counts against its next chunk. With
#: 64 MB a fat tree 8x8:2 takes 1516, 1720 and 2766 us with them, two dgx-h100 250, 243 and 247.
STYLES = ((False, 0.0), (False, 0.01), (True, 0.0))
#: How many of the best numbers of chunks are tried again in other styles and by other chances, how often, and
#: how often in vain. Of 64 MB on eight dgx-h100 six chances made 316 us 297.
MOST_CASES, MOST_AGAIN, MOST_IN_VAIN = 2, 48, 18
#: Finer cuts are not tried once they were slower by this factor this often.
SLOWER, PATIENCE = 1.15, 2
#: Looks of a link at a chunk, at most, and transfers of a schedule: 3 s on a core of AMD EPYC.
MOST_LOOKS, MOST_ROWS = 300_000_000, 400_000
#: Compiling takes no longer, seconds: 9 on a core of AMD EPYC.
COMPILING_S = 20.0
#: Units of work: for each look, and for each transfer of a schedule.
LOOK, ROW = 1e-5, 2e-3
