"""Numbers of the hierarchical engine: caps and units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- engine

#: Units of work for each send that is planned and scheduled.
UNITS = 0.2

# --- mixed

#: This many figures for what is left to be spread at the end are tried, and this many plans are kept.
MIXED_LAGS, MIXED_MOST_PLANS = 48, 6
#: This many changes of each are tried, and how often they join two rounds of a group and part one.
MIXED_CHANGES, MIXED_JOINED, MIXED_PARTED = 2000, 0.7, 0.7

# --- rounds

#: This many figures for what is left to be spread at the end are tried, and this many rows of widths are
#: kept.
ROUNDS_LAGS, ROUNDS_MOST_ROWS = 48, 6
