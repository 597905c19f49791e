"""Numbers of the engine gather-cross-scatter: caps and parts of the time.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- crossing

#: Chunks cross in this many groups at most; in one or two, where that are many units.
CROSSING_MOST_GROUPS, CROSSING_FEW_GROUPS, CROSSING_MANY_UNITS = 4, 2, 16

# --- engine

#: In how many parts chunks travel that came together and want the same, one round after the other.
PARTS = (1, 2, 3, 8)
#: How much later a plan has its turn than the one before it, as a power of its place.
LATER = 1.5
#: More routes of an item over a link are more than CP-SAT decides in seconds.
MOST_ROUTES = 1_500
#: More pairs of places that have links between nodes are too many to try.
MOST_PLACES = 64
#: The part of what is left for each model, and its least and most seconds.
SHARE, LEAST_S, MOST_S = 0.5, 0.3, 12.0

# --- nodes

#: More pairs of a chunk and a rank in the cluster than this are too many.
NODES_MOST_PAIRS = 4_096
