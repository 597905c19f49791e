"""Numbers of the engine routes: how prices move, which orders are tried, caps, units of work.

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
#: About this many arcs are looked at in 0.1 to 0.2 s: 100 to 190 ns each among 256 ranks.
CHOOSE_ARCS_BETWEEN_LOOKS = 1_000_000
#: Irrational turns, so that trees and ties differ.
CHOOSE_GOLDEN, CHOOSE_PLASTIC = 0.6180339887498949, 0.7548776662466927

# --- across

#: The part of what is left for each number of chunks, how many in a row may be no faster, and how many times
#: as long a finer one takes to its first schedule.
ACROSS_SHARE, ACROSS_IN_VAIN, ACROSS_LONGER = 0.5, 2, 2.0
#: With less time paths and trees are left to others. The first use in a process reads machine code for up to
#: 0.4 s, which a later turn would have to. AllReduce of 2 MB on tpu-v4:4x4x4 in 5 s 24.4 us, and 25.9 where
#: 0.3 s of them are for trees.
ACROSS_PATHS_S, ACROSS_TREES_S = 0.2, 1.0

# --- pairs

#: About this many links are looked at in a round; the portions are as small as that allows.
PAIRS_LOOKS = 30_000_000
#: How often every portion is routed, and how sharply prices rise each time.
PAIRS_SHARPNESS = (8.0, 24.0, 60.0)
#: The same where each chunk is routed once more, one by one. Of 64 x 64 parts by Zipf 1.2 on dgx-h100 x8 the
#: busiest port has 771 us then, and 897 to 928 us before (bound: 726).
PAIRS_ALONE_SHARPNESS = (100.0, 200.0)
#: By what part chance changes how urgent a row is, there: 0.1 is often 1% faster than 0.001.
PAIRS_ALONE_CHANCE = 0.1
#: Chunks are not routed one by one where more links have to be looked at; this many are in a unit of work.
PAIRS_ALONE_LOOKS, PAIRS_ALONE_LOOKS_PER_UNIT = 100_000_000, 32_000
#: What a path's own time counts next to the price of its ports.
PAIRS_SHORTNESS = 0.02
#: Relative differences by which equally short paths are distinguished.
PAIRS_TIES = 1e-4
#: How much the way from the source counts in choosing trees, where nodes have several ranks.
PAIRS_BLENDS = (0.3, 1.0)

# --- capacity

#: The weight of an even load among links that share a port, next to how busy the busiest port is.
CAPACITY_EVEN = 1e-3
#: The relative gap at which the program of whole chunks may stop.
CAPACITY_GAP = 1e-3

# --- layers

#: The weight of the sum of all distances next to T.
LAYERS_LOWNESS = 1e-3

# --- load program

#: How often in turn routes are looked for at new prices that do not make the busiest port less busy by this
#: part. (Two nodes of eight H100: 3,909 us at once, 3,835 after fifty times, with shares for 48 routes.)
LOAD_PROGRAM_VAIN, LOAD_PROGRAM_GAIN = 6, 1e-3
#: How sharply prices rise with loads before the first program.
LOAD_PROGRAM_SHARPNESS = 8.0
#: A route is worth having that costs less than those of its kind by this part.
LOAD_PROGRAM_WORTH = 1e-4
#: Weights of a route's own time next to the load of the busiest port, and how often roots have routes at
#: rising prices first. Eight GPUs with eight servers end at 5,537 us with (1e-2, 0) and 5,810 with (1e-2, 2);
#: of two nodes of eight H100 the busiest port has 4,864 us with the one and 3,964 with the other.
LOAD_PROGRAM_TRIALS = ((1e-2, 0), (1e-2, 2), (0.5, 0))
#: No more programs are solved once the busiest port is busy for no longer than the bound and this part of it.
LOAD_PROGRAM_NEAR = 0.02
#: How much work that waits counts, in turn. 72 GPUs below a switch, 72 chunks of 1 GB: 2,663 us with 1, and
#: 2,801 with 0 and the best wave. Two nodes of eight H100, 512 chunks: 4,541 us with 0.3, 4,584 with 0.
LOAD_PROGRAM_BEHIND = (1.0, 0.0, 0.3)
#: By what part chance changes how urgent a row is, after the first orders.
LOAD_PROGRAM_CHANCE = 0.03
#: The same for the way from the root to where an arc begins, as a part of its price.
LOAD_PROGRAM_DEPTH = 1e-3
#: Larger products of kinds of chunks, roots and pairs of ranks are left to shortest paths; this many, each
#: times the ranks, are in a unit of work.
LOAD_PROGRAM_MOST_CELLS, LOAD_PROGRAM_CELLS_PER_UNIT = 4_000_000, 20_000
#: A program of more of these than are passed in about a second has an answer only where there is time: an
#: AllGather on 64 H100 has 24 million, 5.5 s, and an AllReduce with 64 roots as many.
LOAD_PROGRAM_AT_ONCE = 4_000_000

# --- branching

#: Trees of least price are tried without each of this many ranks that they may pass.
BRANCHING_MOST_LEFT_OUT = 8

# --- choosers: linear programs

#: Larger programs and searches than this are left to prices.
MOST_RANK_LINKS = 100_000
MOST_TRANSFERS = 200_000
#: The weight of the sum of all busy times next to the busiest port: of equally fast flows, the shortest.
FLOW_SHORTNESS = 1e-6

# --- shortest

#: With more outputs and contributions than this, trees for each take longer than anybody waits.
MOST_ROWS_ALONE = 2**19
#: Where there is a schedule already, sums whose parts stay apart are ordered of no more than these: of
#: 83,000, in 576 chunks among 72 GPUs below a switch that sums, that takes minutes.
MOST_ROWS_APART = 4_096

# --- spanning: shapes of trees

SHALLOW = (0.3, 0.2)
#: Shallow trees come first where routes are shorter by this factor and ports hardly busier (few trees balance
#: loads roughly), and last where they are not.
SHORTER, BUSIER = 0.85, 1.15
#: Trees by which groupings are compared before all are chosen.
SCOUTS = 32
#: The part of the time that these may take, for each shape.
FOR_SCOUTS = 1 / 8

# --- orders

#: The most chunks that share a send.
MOST_TOGETHER = 64
#: Waves, in parts of the time that the busiest port is busy, the likeliest first: where chunks are summed and
#: copied, and where they go one way.
WAVES_BOTH = (0.6, 0.3, 1.0, 0.1, 0.03, 0.0)
WAVES_ONE = (0.03, 0.0, 0.1, 0.3, 0.6, 1.0)
#: Waves where turns are moments: those of a matching.
CROSSINGS_WAVES = (2.0, 0.5, 8.0)
#: How much the load of the ports on the rest of a chunk's way counts next to its time, by a power of the
#: load: where each chunk goes to one rank.
POWERS = (0.0, 1.0, 2.0, 8.0)
#: By what part chance changes how urgent a row is, there.
CHANCE = 1e-3
#: How much noise a matching is perturbed with, in turn.
CHANCES = (0.0, 2.0, 0.5, 100.0)
#: Groupings that are matched, of those that promise most.
MOST_GROUPINGS = 4
#: Copies next to their routes that are looked at, those of the last chunks: more would be only memory.
MOST_OPEN = 20_000_000

# --- search

#: Routes whose first order is worse than the best by more than this part are given up.
WORSE = 0.03
#: A pipeline is scheduled again from its end if it is not worse than the best that was not by more than this
#: part; until this many times in turn it came out no faster; schedules are made of what gains this part.
WORTH_TURNING, VAIN, STEP = 0.01, 2, 0.003
#: The part of the time for each linear program.
FOR_PROGRAM = 0.2
#: The part of the time for the quotient: it has fewer transfers, and mostly the better schedules.
FOR_QUOTIENT = 0.6
#: How often all routes are tried, with others each time.
SEEDS = 8
#: Units of work for each transfer that is scheduled, and for an order of however few: one of ten transfers
#: takes 0.6 ms of a core. Without the latter, 100 units on a ring of four took 800 to 1,000 ms.
UNITS, UNITS_OF_AN_ORDER = 2e-3, 0.5
#: An order that takes longer, in seconds, is not begun where it would not be there in time.
SLOW_S = 0.05
#: One that takes longer by its rows is not begun, though none was timed yet: 250,000 rows. Smaller first ones
#: are begun, and look at the time meanwhile.
LONG_S = 0.5
#: More transfers take seconds.
MANY = 500_000
#: A problem of chunks that go to one rank each is left at its quotient, where there is one, from here on.
MOST_TWICE = 20_000
#: Chunks for which routes are chosen in a second: 40,000 on hub:200 take 2.6 s, 65,000 on torus:16x16 2.2 and
#: 250,000 on hub:500 3.4.
CHOSEN_PER_S = 25_000
#: Routes of so few pairs of a chunk and a rank are chosen in a moment: of 16,384 on 16 DGX H100, in 1.5 s.
CHOSEN_SOON = 1_000
#: Compiling takes no longer, seconds: 27 on a core of AMD EPYC.
COMPILING_S = 30.0

# --- promise

#: The part of a chunk's way that a pipeline takes longer than its busiest port: measured on meshes.
PROMISE_ENDS = 0.75
