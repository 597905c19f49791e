"""Numbers of TACCL's routing program: caps and limits of its solves.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- engine

#: More pairs of a chunk and a link on short paths are left to the greedy engine, and more than this many for
#: each second that is left, in which a part of them is written down.
MOST_ON_PATHS = 60_000
ON_PATHS_PER_S = 10_000
#: This many transfers of a pass take a unit of work.
PASSED_PER_UNIT = 20
#: The part of the time for routes; the rest is for their order.
FOR_ROUTES = 0.5
#: Tried in turn: short routes first, then longer ones; chunks alone, then sharing their alphas.
SLACKS = (1.0, 1.5, 2.0)
ALPHA_SHARES = (1.0, 0.25)
GROUPS = (1, 2, 4, 8, 10**9)
HOLDS = (1, 2, 4, 8)

# --- routing

#: How much a connection or a transfer weighs against the finishing time.
ROUTING_PREFERENCE = 1e-4
#: This many pairs of a chunk and a link are written down in a unit of work.
ROUTING_WRITTEN_PER_UNIT = 50
#: A routing within this fraction of the best one is good enough: the orders decide about more than that.
ROUTING_GAP = 1e-3
