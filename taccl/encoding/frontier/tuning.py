"""Numbers of the frontier: caps on its instances, and turns of its search.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- points

#: The part of what is left that one question may take.
POINTS_SHARE = 0.6

# --- rounds

#: How many chunks the slowest link may carry in a round, so that 3 : 2 is possible.
ROUNDS_MOST_OF_SLOWEST = 4
#: Up to this many ranks, every set of ranks is tried as a cut.
ROUNDS_ALL_CUTS_RANKS = 10

# --- solve

#: Instances are decided in turns: how many seconds the first turn of each has, and by what factor later ones
#: grow.
SOLVE_FIRST_TURN_S = 2.0
SOLVE_LONGER = 3.0
#: With more routes to share the rounds among the steps than this, only the evenest are tried.
SOLVE_MOST_COMPOSITIONS = 40
#: This many of them are requested before the question that leaves the division to the solver.
SOLVE_BEFORE_OPEN = 3
#: With more divisions than this, none is requested: listing and sorting them would take too long.
SOLVE_MOST_SORTED = 5000
#: Above this many (chunk, link, step), building one instance takes longer than a minute.
SOLVE_MOST_SENDS = 200_000
#: This many of them are written down in a second.
SOLVE_SENDS_PER_S = 8_000
