"""Numbers of the large neighbourhood search: sizes of windows, limits of each solve.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- choose

#: This many sends at most leave their places in the orders of ports.
CHOOSE_MOST_MOVABLE = 200
#: This many cuts of bundles at most are made for one window.
CHOOSE_MOST_CUTS = 6

# --- engine

#: With more transfers than this, writing a window down takes longer than it is worth.
MOST_TRANSFERS = 20_000
#: By how much windows grow and shrink.
GROW, SHRINK = 1.3, 0.8
#: The part of the time for one window, and its limits in seconds.
PART, LEAST_S, MOST_S = 0.08, 0.5, 5.0
#: A window that took less than this part of its time was small.
SOON = 0.3
#: How often a kind is drawn that did not help, relative to one that always does.
ALWAYS_DRAWN = 0.15
FORGET = 0.8
WORKERS = 1
#: A window of more rows than this for each second that is left is not begun, nor one of more than this many;
#: nor is one of so many sends written down: 16,000 of a Gather on dgx-h100 x16 take 3.8 s.
ROWS_PER_S, MOST_ROWS = 4_000, 10_000

# --- rules

#: Of more sends than this the number of those that end last is not counted.
RULES_MOST_COUNTED = 1_000
