"""Numbers of the hierarchical engine: caps and units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- cluster

#: Plans that are tried even without time, where trees of node 0's chunks look at no more links than this;
#: else one. Two nodes of 64 GPUs look at 516,000, which takes 0.8 s a plan: with --time-limit 3 a call took
#: 15 s, and now 6 to 7. 128 DGX H100 look at 57,000; with one plan their AllGather of 1 MB in 5 s was 882 us,
#: with eight 86.
AT_LEAST, SOON_PLANNED = 8, 200_000

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
