"""Numbers of the engine trees.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- capacity

#: The weight of an even load among links that share a port, next to how busy the busiest port is.
CAPACITY_EVEN = 1e-3
#: The relative gap at which the program of whole chunks may stop.
CAPACITY_GAP = 1e-3

# --- engine

#: Larger programs and searches than this are left to the greedy engine.
MOST_RANK_LINKS = 100_000
MOST_TRANSFERS = 200_000

# --- layers

#: The weight of the sum of all distances next to T.
LAYERS_LOWNESS = 1e-3
