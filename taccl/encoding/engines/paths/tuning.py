"""Numbers of the engine paths: how prices move, caps, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- choose

#: About this many links are looked at in a round; the portions are as small as that allows.
CHOOSE_LOOKS = 30_000_000
#: How often every portion is routed, and how sharply prices rise each time.
CHOOSE_SHARPNESS = (8.0, 24.0, 60.0)
#: What a path's own time counts next to the price of its ports.
CHOOSE_SHORTNESS = 0.02
#: Relative differences by which equally short paths are distinguished.
CHOOSE_TIES = 1e-4

# --- engine

#: The most chunks that share a send.
MOST_TOGETHER = 64
#: How much the load of the ports on the rest of a chunk's way counts next to its time, by a power of the
#: load.
POWERS = (0.0, 1.0, 2.0, 8.0)
#: How much the way from the source counts in choosing trees, where nodes have several ranks.
BLENDS = (0.3, 1.0)
#: By what part chance changes how urgent a step is.
CHANCE = 1e-3
#: A problem with more chunks than this is left at its quotient, where there is one.
MOST_TWICE = 20_000
#: How often all routes are tried, with other paths each time.
SEEDS = 8
#: Units of work for each transfer that is scheduled.
UNITS = 2e-3
