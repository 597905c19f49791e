"""Numbers of the engines that are one module: caps and units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- by_cuts

#: With less time for all numbers of chunks none is searched: AllReduce of 256 KB on torus:4x4 by 1,000 units
#: of work is 6.62 us with a twentieth of a second for hops, and 5.62 with all that for textbooks.
BY_CUTS_LEAST_S = 0.1

# --- by_phases

#: The part of the time for schedules of the quotient.
BY_PHASES_QUOTIENT = 0.5
#: A problem with more pairs of a chunk and a rank is answered by its quotient alone, where it has one.
BY_PHASES_LARGE = 5_000
#: Pairs of a chunk and a rank whose phases are stated, and routed to a first look at the budget, in a second:
#: of an AllReduce of 1,024 GPUs, 1M, that took 9 s on two busy cores of AMD EPYC.
BY_PHASES_STATED_PER_S = 100_000
#: Single sends are merged with care once, where that takes no more than this part of the time, and where the
#: phases have left so much of what was set apart for it.
BY_PHASES_MOST_FOR_CARE, BY_PHASES_LEAST_FOR_CARE = 0.4, 0.8
#: A first schedule is merged with care whether there is time or not, if that takes less than this. Of 128
#: ranks behind a fat tree it takes 3 s, of 64 0.6 s.
BY_PHASES_CARE_AT_ONCE_S = 1.0
#: Rows of a schedule that are read backwards in a second, and the part of the time that this may take; fewer
#: rows than this are read at once.
BY_PHASES_MIRRORED_PER_S, BY_PHASES_FOR_MIRROR, BY_PHASES_MANY_ROWS = 100_000, 0.2, 20_000

# --- engine

#: Numbers of chunks with which engines build schedules at once, and finer ones for what all ranks are dealt.
#: Broadcast of 16 KB on fat-tree:8x8:2 takes 7.88 us without 64, and 7.25 with it.
ENGINE_CUTS, ENGINE_FINER_CUTS = (1, 2, 4, 8, 16), (64, 256, 1024)

# --- needs

#: More triples of a chunk, a rank and a link make a problem huge.
NEEDS_HUGE = 200_000_000
#: Engines that decide about every transfer have no turn where there are more outputs: one chunk of each of
#: 2,048 ranks at all of them.
NEEDS_MOST_OUTPUTS = 2**22
#: With more chunks that go from one rank to one, paths are there sooner than a step for each transfer takes.
NEEDS_MANY_CHUNKS = 500_000
#: A message is large if alpha is no more than this part of a chunk's time.
NEEDS_OF_LARGE = 0.2
#: A chunk is heavy if alpha is no more than this part of its time on the slowest link.
NEEDS_OF_HEAVY = 0.5
#: A problem with this many pairs of a chunk and a link is small: a search of all schedules may be expected to
#: end in seconds.
NEEDS_SMALL = 2_000

# --- part_of_all

#: With more transfers an AllGather takes too long to be made for one rank's part of it.
PART_OF_ALL_MOST_ROWS = 300_000
#: The most chunks for each rank where a whole is built for several numbers of chunks, as in textbooks.
PART_OF_ALL_MOST_CHUNKS = 16
