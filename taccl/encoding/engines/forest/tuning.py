"""Numbers of the engine forest: how prices move, caps, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- choose

#: Roots that are tried for a tree whose root may be any rank: fewer on large networks.
CHOOSE_MOST_ROOTS, CHOOSE_LEAST_ROOTS, CHOOSE_ROOT_ARCS = 16, 2, 4_000
#: This many pairs of a tree and an arc, and at least this many trees, are enough to balance loads.
CHOOSE_TREE_ARCS, CHOOSE_LEAST_TREES = 1_000_000, 256
#: How much dearer a tree may be for each rank on its longest way.
CHOOSE_DEPTH = 0.03
#: By what part a root may be farther from the farthest rank than the middle is.
CHOOSE_OFF_CENTRE = 0.1
#: Relative differences of prices by which equal arcs are distinguished, another way for each tree.
CHOOSE_TIES = 1e-6
CHOOSE_SHARPNESS = (2.0, 8.0)
#: About this many arcs are looked at in half a second.
CHOOSE_ARCS_BETWEEN_LOOKS = 5_000_000
#: Irrational turns, so that trees and ties differ.
CHOOSE_GOLDEN, CHOOSE_PLASTIC = 0.6180339887498949, 0.7548776662466927

# --- engine

SHALLOW = (0.3, 0.2)
#: Shallow trees come first where routes are shorter by this factor and ports hardly busier (few trees balance
#: loads roughly), and last where they are not.
SHORTER, BUSIER = 0.85, 1.15
#: The most chunks that share a tree, so that they can share sends.
MOST_TOGETHER = 64
#: Waves, in parts of the time that a chunk keeps the busiest port busy, the likeliest first: where chunks go
#: up and down, and where they go one way.
WAVES_BOTH = (0.6, 0.3, 1.0, 0.1, 0.03, 0.0)
WAVES_ONE = (0.03, 0.0, 0.1, 0.3, 0.6, 1.0)
#: Trees by which groupings are compared before all are chosen.
SCOUTS = 32
#: The part of the time that these may take, for each shape.
FOR_SCOUTS = 1 / 8
#: A way that is worse than the best by more than this part with the wave that was best is given up.
WORSE = 0.03
#: A pipeline is scheduled again from its end if it is not worse than the best that was not by more than this
#: part; until this many times in turn it came out no faster; schedules are made of what gains this part.
WORTH_TURNING, VAIN, STEP = 0.01, 2, 0.003
#: The part of the time for the quotient: it has fewer transfers, and mostly the better schedules.
FOR_QUOTIENT = 0.6
#: How often all routes are tried, with other trees each time.
SEEDS = 4
#: Units of work for each transfer that is scheduled.
UNITS = 2e-3
#: More transfers take seconds.
MANY = 500_000

# --- pipeline

#: How much less urgent a copy next to the tree is than any in it.
PIPELINE_LATER_US = 1e12
#: This many copies next to trees are looked at, those of the last chunks: more would be only memory.
PIPELINE_MOST_OPEN = 20_000_000

# --- promise

#: The part of a chunk's way that a pipeline takes longer than its busiest port: measured on meshes.
PROMISE_ENDS = 0.75
