"""Numbers of the engine greedy: weights, caps, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- along_trees

#: What it counts that a sender has a chunk later, next to the time of the link.
ALONG_TREES_LATENESS = 0.25
#: What tells links of equal cost apart, next to their cost: far below what they differ by otherwise.
ALONG_TREES_TIE = 1e-7
#: With more rows than this the quotient is answered, where there is one.
ALONG_TREES_MANY_ROWS = 1_000_000
#: With no more than this many offers, all that have a chunk make theirs anew in every step; with more, only
#: the one that was taken up and the one that it reached do (`grown`).
ALONG_TREES_MOST_OFFERS = 2**25
#: About this many rows take a unit of work.
ALONG_TREES_ROWS_PER_UNIT = 300

# --- engine

CONGESTION = (1.0, 0.0, 0.3, 3.0)
GROUPS = (1, 10**9, 2, 4, 8)
HOLDS = (1, 2, 4, 8)
TAPERS = (1.0, 0.5)
#: How many of the best trials are worth varying.
KEPT = 6
#: So many passes come before matchings where there are no switches. Where chunks are for one rank, as many
#: have the routes of the first pass, and as many the same for shared sends, before others are found. Greedy
#: alone in 0.2 s, mean of three seeds: AlltoAll of 256 KB on two NDv2 193 us with routes as they come, 123
#: so; of 100 KB on two p4d 71 and 53; of 64 KB on pcie:2x4 16.9 and 19.0.
SOON = 40
#: The part of the time for schedules of the quotient.
QUOTIENT = 0.4
#: With more triples of a chunk, a rank and a link than this, there is one pass, and none where a schedule is
#: known.
LARGE = 2 * 10**8
#: With more pairs of a chunk and a link, or more places where a chunk is or is wanted, a pass takes seconds.
MOST_LINKS_AT_ONCE, MOST_PLACES_AT_ONCE = 500_000, 10_000

# --- match

#: The largest sizes: each moment looks at all pairs of a link and a chunk, each send at the distances between
#: all ranks for its chunk.
MATCH_MOST_PAIRS = 4_000_000
MATCH_MOST_DISTANCES = 400_000_000
#: This many pairs of a free link and a chunk are weighed in a unit of work.
MATCH_PAIRS_PER_UNIT = 200_000
#: Measured links all differ a little: links whose times are within a class are treated as equal.
MATCH_CLASSES_PER_DOUBLING = 4

# --- rarest_first

#: How much random noise changes the rarity of a chunk, relative to it.
RAREST_FIRST_CHANCE = 0.2
#: This many pairs of a rank and a chunk are looked at in a unit of work.
RAREST_FIRST_PAIRS_PER_UNIT = 500_000

# --- route

#: This many links are weighed for one path in a unit of work.
ROUTE_LINKS_PER_UNIT = 10_000
#: The least length of a link, so that a detour over links that cost nothing is no shortest path.
ROUTE_SHORTEST_US = 1e-6
