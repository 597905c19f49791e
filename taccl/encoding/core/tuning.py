"""Numbers that engines and bounds share: what solvers may use, and units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- ask

#: z3 counts them, and milliseconds, in 32 bits.
ASK_MOST = 2**32 - 2
#: z3 is reported again and again to stop, this many seconds apart: it ignores an interrupt that comes before
#: its search.
ASK_AGAIN_S = 0.05

# --- by_pulp

#: Seconds beyond the limit for reading an answer; then the solver is taken for one that hangs.
BY_PULP_GRACE_S = 1.0
#: Part of the limit that is kept for writing the answer, and at most this many seconds of it.
BY_PULP_WRITING, BY_PULP_MOST_WRITING_S = 0.1, 1.0

# --- cp_sat

#: CP-SAT proves less with fewer, even on two cores.
CP_SAT_WORKERS = 8
#: What CP-SAT calls a deterministic second takes it about this many of one core.
CP_SAT_S_PER_DETERMINISTIC_S = 4.0

# --- distance

#: Links are followed one by one if they are fewer than one in this many pairs of ranks. More are multiplied
#: as a matrix, which few links take too many times: 150 on a ring of 300 ranks, 1.2 s.
DISTANCE_SPARSE = 16

# --- earliest

#: Distances are for no more sizes than this; others count as the next smaller one.
EARLIEST_MOST_SIZES = 16

# --- flow_paths

#: Other ways for a chunk of this many paths are weighed in a unit of work.
FLOW_PATHS_TRIED_PER_UNIT = 60

# --- linear

#: HiGHS takes some 500 bytes for each entry of the rows: more than this would be 1.5 GiB.
LINEAR_MOST_ENTRIES = 3_000_000
#: This many entries are handed over and presolved in a second; nobody looks at the time meanwhile.
LINEAR_ENTRIES_PER_S = 500_000
#: Units of work of a simplex iteration: this many entries of the rows and rows for each unit.
LINEAR_PER_ITERATION_UNIT = 50_000
#: HiGHS counts iterations up to this.
LINEAR_MOST_ITERATIONS = 2**31 - 1
#: The same of a look, between which HiGHS solves linear programs: 1 unit and 1 for this many entries.
LINEAR_PER_LOOK_UNIT = 1_500

# --- list_scheduling

#: With at least this much time a pass makes machine code of its loop, where that is not there: it takes 12 s
#: on a slow core of AMD EPYC.
LIST_SCHEDULING_COMPILING_S = 40.0
#: A pass counts how often it looks at a chunk that waits: so often until it asks the budget, and so often in
#: a unit of work. In a millisecond of 26 problems it is 600 to 32,000 times, of most 1,000 to 5,000.
LIST_SCHEDULING_LOOKS_AT_ONCE, LIST_SCHEDULING_LOOKS_PER_UNIT = 100_000, 5_000

# --- matchings

#: Large entries are matched before smaller ones: down from the largest sum, by this factor each time.
MATCHINGS_COARSER = 4.0

# --- mirror_image

#: Phases with more pairs of a link and a port are not compared, as each turn does it: 33,000 take 8 ms.
MIRROR_IMAGE_MOST_PAIRS = 200_000

# --- options

#: However long it took to state a problem, this many seconds of the time limit are for the search.
OPTIONS_LEAST_FOR_SEARCH_S = 1.0

# --- phases

#: About this many sends are put in order in a unit of work.
PHASES_LISTED_PER_UNIT = 50
#: With this many rows each takes twice as long to list.
PHASES_WAITING_DOUBLES = 25_000
#: Schedules of more rows than this are merged in one order, without an object for each send.
PHASES_MANY_ROWS = 20_000

# --- pipeline

#: Between two looks at the clock this many sends are taken up: 0.3 s on 65,000 links of a dragonfly.
PIPELINE_LOOKS = 500_000

# --- ticks

#: Costs with larger denominators are measured ones, and not worth an exact tick.
TICKS_LARGEST_DENOMINATOR = 10**7
