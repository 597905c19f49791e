"""Numbers of the CP-SAT engine: caps, parts of the time, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- engine

#: Chunks times links: beyond this, even the shortest paths are too many.
MOST_CELLS = 20_000_000
#: With no more candidate transfers than this nothing has to be left out to find good schedules soon.
SMALL = 2_000
#: With more than this, sums and copies are left to be found apart.
MOST_JOINT = 2_000
#: (longest path relative to the shortest, shared sends per link), with shares of the time that is left.
STAGES = ((1.0, 3, 0.35), (1.5, 2, 0.5), (2.0, 4, 1.0))
STAGES_IF_SMALL = ((1.0, 3, 0.15),)
#: Where there are nodes: links between them as in the best schedule, paths inside up to this many times the
#: shortest, shared sends per link, and the part of the time for that.
ALONGSIDE_SLACK, ALONGSIDE_SLOTS, ALONGSIDE_SHARE = 2.0, 4, 0.6
#: A bound that grows by less than this fraction is not worth telling before the end.
REPORTED_GROWTH = 1e-3

# --- proof

#: With more candidate transfers than this, CP-SAT refutes nothing in minutes.
PROOF_MOST_TO_PROVE = 3_000
#: With more than this, it takes too long to count those of them that a schedule has time for.
PROOF_MOST_TO_LOOK_AT = 100_000
#: This many pairs of an item and a send for each second that is left: writing them takes up to half of it.
PROOF_PAIRS_PER_S = 15_000
#: Each question has this share of the time that is left.
PROOF_SHARE = 0.5
#: A bound within this fraction of what could not be decided is near enough.
PROOF_NEAR = 2e-3
#: Taken off a bound, so that float error never puts it above a schedule.
PROOF_ROUNDING = 1e-11

# --- sums_engine

#: More items on links, or more unions of parts at ranks, are too many for any proof in minutes.
SUMS_ENGINE_MOST_ITEMS = 4_000
SUMS_ENGINE_MOST_UNIONS = 4_000
#: Shares of the time that is left: for each size of bundles, for a look for faster programs, for each
#: question, and for what chunks need before it.
(
    SUMS_ENGINE_BUNDLES_SHARE,
    SUMS_ENGINE_FASTEST_SHARE,
    SUMS_ENGINE_QUESTION_SHARE,
    SUMS_ENGINE_NEEDS_SHARE,
) = 0.1, 0.25, 0.4, 0.2
#: The same for a question about what is hardly later than the bound, and for one about the little left open.
SUMS_ENGINE_NEAR_QUESTION_SHARE, SUMS_ENGINE_LAST_QUESTION_SHARE = 0.2, 0.9
#: A bound that grows by less than this fraction is not worth telling before the end.
SUMS_ENGINE_REPORTED_GROWTH = 1e-3

# --- sums_model

#: With more ranks, there are too many sets of them, and routes of dividing them, for a rule about each.
SUMS_MODEL_MOST_RANKS_TO_DIVIDE = 5

# --- solve

#: More pairs of an item and a send than this take 500 MB, and longer to write down than to search. With so
#: many for each second that is left, writing takes a small part of it.
MOST_PAIRS = 100_000
PAIRS_PER_S = 5_000
#: This many are written down in a unit of work.
VARIABLES_WRITTEN_PER_UNIT = 30
