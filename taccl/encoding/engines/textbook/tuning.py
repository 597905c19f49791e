"""Numbers of the textbook engine: caps, parts of the time, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- bruck

#: Up to this number shortest addition chains are searched; beyond, chains come from the binary method.
BRUCK_MOST_SEARCHED = 64

# --- cycles

#: This many rings at most together, and this many walks at one speed.
CYCLES_MOST_RINGS, CYCLES_MOST_WALKS = 8, 4
#: On larger machines a search takes too long: there is only rank order.
CYCLES_MOST_RANKS, CYCLES_MOST_LINKS = 512, 20_000

# --- engine

#: About this many sends are written down in a second, and this many timed.
WRITTEN_PER_S, TIMED_PER_S = 2_400_000, 100_000
#: This many are written down and timed even without any time, so that a busy machine has textbook schedules
#: too.
SURELY_WRITTEN, SURELY_TIMED = 240_000, 8_000
#: Where there is no time, the most promising is timed all the same if it promises less than this part of what
#: there is, and is no more work than this: an AllReduce of 512 ranks in a second.
MUCH_FASTER, ONE_TIMED = 0.75, 250_000
#: How many are timed for a first schedule on large machines, as an estimate knows no sends that wait behind
#: others: an AlltoAll of 16 MB on fat-tree:16x16:2 takes 8,393 us by what promises most, and 749 by the next.
#: And how many sends at most: AlltoAll on dgx-h100 x64 has 110,000, which take 0.4 s; an AllReduce on
#: torus:8x8x8 of 123,000, each of which says what it carries, takes 2.9 s.
FEW_AT_ONCE, TIMED_AT_ONCE = 2, 120_000
#: So many of those that promise most by a rough estimate are written down in any case, none of more sends:
#: AlltoAll of 512 ranks deals 262,144 parts, which takes 0.2 s.
FIRST_WRITTEN, ONE_WRITTEN = 3, 1_000_000
#: Algorithms of at most this many sends take no time worth counting, and come in the order of the books.
SOON_WRITTEN = 60_000
#: Where all algorithms together are more sends, those that promise most by a rough estimate come first.
#: Those that take this many times the best estimate so far, roughly, are left out. dgx-h100 x64, AllReduce of
#: 1 MB: 142 of 313 are written down in 2.1 s and not all in 9.5 s, and the best is among them.
MANY_TO_WRITE, ROUGHLY_WORTH = 2_400_000, 2.0
#: Writing down a send of this many parts, and timing one of this many chunks, takes twice as long as of none.
PARTS_AS_WRITTEN, CHUNKS_AS_TIMED = 30, 8
#: With more sends than this, trying a second order of them takes longer than it is worth.
MOST_TO_REORDER = 40_000
#: The same of chunks in sends: AlltoAll of 512 ranks, 786,432, takes 0.5 s in one order and 3 s in two.
MOST_CHUNKS_TO_REORDER = 400_000
#: Those are timed as columns, which takes this many times less.
COLUMNS_AS_TIMED = 6
#: Where alpha keeps no port busy, up to so many chunks are sent one by one: AllGather of 256 KB on
#: fat-tree:8x8:2 in 5 s 10.99 -> 10.49 us, on dragonfly:4x4x2 16.27 -> 14.28. An AllReduce, whose sends say
#: what they carry, takes longer to time so: of 1 MB on fat-tree:4x4 43.7 us, and 42.1 without.
MOST_APART = 10_000
#: Copies that are read backwards as sums take so many times as long: ReduceScatter of 8,064 sends 0.46 s.
BACKWARDS_AS_TIMED = 3
#: Dealing a chunk to its part takes as long as writing down this many sends.
DEALT_AS_WRITTEN = 2
#: More transfers than this are never timed: the quotient is, if there is one, and this many images of its
#: transfers are written in a second. AlltoAll on ring:300 has 6,750,000, written in 2 s.
MOST_ROWS, LIFTED_PER_S = 3_000_000, 2_000_000
#: The part of what is left then for timing them; the rest is for their images.
OF_QUOTIENT = 0.5
#: A stage is kept that carries no more units than this, 1 MB: 64 ranks' AllGather in 8 batches.
KEPT_UNITS_OF_A_STAGE = 32_768
#: Of several numbers of chunks, the part of the time for finding out which algorithms are promising.
FOR_PROMISE = 0.3
#: The part of the time in which each of these is timed once, so that its time corrects its other estimates.
#: AllGather of 16 MB on dragonfly:4x4x2 takes 692.1 us in 5 s without, and 654.1 with it.
FOR_ONCE_EACH = 0.25
#: The part of the time for writing down.
WRITING = 0.5
#: More batches are tried as long as they promise no more than this many times the time of fewer.
PROMISING = 1.3
#: With more chunks an algorithm may fill its gaps, or deal them evenly to its variants: it is worth a try if
#: it takes no more than this many times the least, and is among the first this many.
WORTH, MOST_PROMISING = 2.0, 12
#: After this many sends were timed, the engine ends when this many candidates in a row were no better, or
#: when the estimate of the next is this many times the best time.
BEFORE_HOPELESS, MOST_IN_VAIN, HOPELESS = 40_000, 30, 1.3

#: What libraries run, which no answer may be slower than, is expected to take this part of its estimate
#: until it was timed. A ring both ways for 16 MB on fat-tree:8x8:2 is estimated at 433 us and takes 333.5,
#: where others take 345: in 5 s a ReduceScatter ended before it.
LIBRARIES_SOONER = 0.75

#: However few sends there are, an estimate takes as long as writing down this many, and writing down a batch
#: that it needs as long as this many more: 0.12 ms and 0.95 ms, with 0.3 us for each send, fitted to twelve
#: problems of 8 to 72 ranks on a busy core.
AN_ESTIMATE_AS_WRITTEN, A_BATCH_AS_WRITTEN = 250, 1_500
#: So many pairs of a step and a port take an estimate as long: 17 ns each, 10 ms for a chain of 512 ranks.
CELLS_AS_WRITTEN = 24

# --- gateways

#: With more sends across from each GPU than this, rails are mostly as good.
GATEWAYS_MOST_SENDS = 4
#: How many numbers of turns are tried, from the fewest that serve all nodes on, two at least, and in how many
#: ways each. dgx-h100 x32, AlltoAll of 4 MB: 119.8 us without, 112.9 in four turns, 108.2 in six.
GATEWAYS_TURNS, GATEWAYS_OF_SO_MANY_TURNS = 3, 2
#: Where nodes need more turns than this, these are mostly rails, and there are many ways.
GATEWAYS_MOST_TURNS = 8

# --- grid

#: Shapes of one machine as a torus, and of its nodes.
GRID_MOST_SHAPES = 12

# --- leaders

#: This many ranks of a node are tried as its leaders, the cheapest routes between nodes first.
LEADERS_MOST_LEADERS = 4
#: Paths to leaders are not looked for on larger machines.
LEADERS_MOST_RANKS = 512

# --- node_rounds

#: In how many rounds at most, and how many choices of radices there are of the fewest.
NODE_ROUNDS_MOST, NODE_ROUNDS_RADICES = 6, 2

# --- offsets

#: Finding 24 offsets for so many ranks takes 0.08 s, and 40 for twice as many 0.4 s; that many rounds of it.
OFFSETS_MOST_RANKS, OFFSETS_SWEEPS = 256, 50
#: How many numbers of steps are tried, of those that the fewest blocks promise most for.
OFFSETS_TRIED = 3

# --- pipelines

#: In how many batches at most, and how many times the first the largest is. dgx2 x2, AllReduce of 1 MB: 3
#: batches 27.3 us, 2 28.7, 4 27.9, 1 33.0; of 16 MB: 7 batches 269 us.
PIPELINES_MOST_BATCHES, PIPELINES_STEEPEST = 8, 4

# --- shortest_ways

#: With longer ways, of more links than this, rings and grids have their own algorithms.
SHORTEST_WAYS_MOST_LINKS = 4
