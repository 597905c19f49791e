"""Numbers of the bounds: caps on what a bound looks at, parts of the budget, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

from taccl.encoding.bounds.cells import Steps

# --- bottleneck

#: Above this many ranks the minimum cuts take longer than they are worth.
BOTTLENECK_MAX_RANKS = 128
#: Units of work for each arc of the network in a minimum cut: 3e-5 to 7e-5 were measured on eleven machines
#: of 16 to 128 ranks, and as many again on a busy core.
BOTTLENECK_UNITS_PER_ARC = 1e-4

# --- broadcast_time

#: More classes of chunks or ranks than this are not looked at.
BROADCAST_TIME_MOST_CLASSES = 8
#: Of more nodes than this, the farthest from a chunk are looked at; fewer where there are many links.
BROADCAST_TIME_MOST_NODES, BROADCAST_TIME_MOST_LINKS_OF_NODES = 8, 100_000

#: Of more nodes of which no two are equivalent the rest is counted as a whole; and the part of the budget.
BY_NODE_MOST, BY_NODE_SHARE = 8, 0.25
#: Units of work for each link, to find out whether two nodes can be exchanged: 26 ms on 32 dgx-h100.
BY_NODE_EXCHANGED = 4e-4

#: How far it looks at first, in times of what is known, and how often it looks three times as far.
BROADCAST_TIME_HORIZON, BROADCAST_TIME_LOOKS = 2.0, 3

# --- center

#: More partitions of the ranks between the two ends of a link than this are not looked at.
CENTER_MOST_CELLS = 2_000_000
#: Units of work for a million of them, each time.
CENTER_UNITS_PER_CELL = 1e-5

# --- cut

#: No more different heads than this, and tails, are tried as thresholds; any choice is valid.
CUT_MOST_THRESHOLDS = 32
#: Units of work for a cut: each row of the demand is looked at a few times.
CUT_UNITS, CUT_UNITS_PER_ROW = 0.3, 2e-5

# --- cuts

#: On machines with more ranks, only ranks that look different are cut off, and at most this many. So are
#: nodes.
CUTS_MOST_RANKS, CUTS_MOST_NODES = 32, 8
#: With more trunks (ports from several ranks to several) than this, one alone is hardly a bottleneck.
CUTS_MOST_TRUNKS = 64
#: Where most chunks start at several ranks each, no more of these than this many are looked at.
CUTS_MOST_ROOTS = 4

# --- fan_out

#: About so many cells are in all the time, and in the shortest send no more than this.
FAN_OUT_CELLS, FAN_OUT_MOST_OF_A_SEND = 600, 64
#: Up to this many chunks every size of a send is looked at by itself; of larger ones, ranges of this part.
FAN_OUT_EACH = 32
#: For any number of chunks: what is sent is rounded up to so many parts of all, and this part of the time.
FAN_OUT_PARTS, FAN_OUT_SHARE = 200, 0.4
#: How far what chunks serve is worked out, in times of what is known; and how often, where that does not do.
FAN_OUT_HORIZON, FAN_OUT_LOOKS = 3.0, 4
#: No more lines than this are looked at, which takes no more seconds than this: of 36 cells of 1 MB on five
#: machines bounds are 8.6% larger in the mean, 8.8% with 1 s.
FAN_OUT_MOST_CUTS, FAN_OUT_MOST_S = 2, 0.6
#: So many forms of the prices are drawn in a round, of which the best are kept; rounds of a line.
FAN_OUT_FORMS, FAN_OUT_KEPT, FAN_OUT_ROUNDS = 10, 3, 30
#: How far they are drawn from the mean at first, in logarithms; a form to begin with (see `fan_out.Prices`).
FAN_OUT_WIDE, FAN_OUT_FIRST = 0.6, (0.2, 0.1, 0.2, 0.5, 0.1, 0.05, 0.3)
#: How much later than what is known the first moment is, as a part of it, for the number of chunks and for
#: any number; and the least that is worth a try.
FAN_OUT_MORE, FAN_OUT_ANY_MORE, FAN_OUT_FINE = 0.08, 0.3, 0.004
#: Rounds without progress after which a moment is left for an earlier one.
FAN_OUT_PATIENCE = 4
#: Units of work for a kind of link and as many cells as the shortest send takes, and for each size of a send,
#: form of the prices and cell.
FAN_OUT_UNITS_PER_BLOCK, FAN_OUT_UNITS = 0.02, 1.2e-5

# --- few_sends

#: Ways of more links than this count as ways of this many: with three sends a rank, six reach 1,092 ranks.
FEW_SENDS_MOST_LINKS = 6
#: A time that is so near to the first possible one is taken for it.
FEW_SENDS_CLOSE = 1e-6

# --- flow

FLOW_MAX_FLOWS = 200_000

# --- helped

#: No more assignments of helpers than this, nor more links in all of them: each takes a tree of its own.
HELPED_MOST_ASSIGNMENTS, HELPED_MOST_LINKS = 16, 200_000

# --- latency

#: Most distances, in the worst case of one kind of limits for each rank.
LATENCY_MOST_CELLS = 2**25
#: With more links, alphas alone are not looked at: distances take a second, and bandwidth says more there.
LATENCY_MOST_LINKS_OF_ALPHAS = 100_000

# --- gather_time

#: For any number of chunks, data is counted in pieces, so many to what takes as long as an alpha; up to this
#: many of a chunk, and pairs of a piece and a link. AllGather of 1 MB on two DGX H100 with 1, 2 and 4 pieces:
#: 5.3, 6.2 and 6.4 us; on eight, a piece a chunk, 8.4 us in 0.2 s.
GATHER_TIME_PIECES_OF_AN_ALPHA, GATHER_TIME_MOST_PIECES, GATHER_TIME_MOST_PAIRS = 8, 8, 500_000

# --- moments

#: More passages of a chunk over a link than this, or pairs of one into a node and a rank there, take seconds
#: to be parted into classes.
MOMENTS_MOST_PASSAGES, MOMENTS_MOST_CROSSINGS = 20_000, 100_000
#: The same of passages, each as often as there are different distances: a Broadcast in 16 chunks on ring:512
#: has 4.2 million, which take 12 s.
MOMENTS_MOST_PARTED = 300_000
#: How many cells a horizon has at most, with fewer where a cell has many variables, and at least.
MOMENTS_MOST_CELLS, MOMENTS_FEWEST_CELLS, MOMENTS_MOST_VARIABLES = 32, 8, 4_000
#: Up to this many chunks every size of a group is looked at by itself, and from there on in steps of one part
#: in this many.
MOMENTS_EACH, MOMENTS_PARTS = 8, 3
#: Windows of this many cells in which ports are busy.
MOMENTS_WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
#: How much more than what is known it looks at first, how much more then, how fast that grows, and what is
#: close enough (`cells.Steps`).
MOMENTS_STEPS = Steps(1e-3, 8e-3, 8.0, 1e-4)
#: How much of the budget that is left a view may have, and no more seconds than this; units of work for a row
#: that is set up.
MOMENTS_SHARE, MOMENTS_MOST_S, MOMENTS_UNITS_PER_ROW = 0.5, 4.0, 0.02

# --- partitions

#: More partitions by the speed of links than this are not looked at.
PARTITIONS_MOST_SPEEDS = 8
#: Cells of a table of chunks and parts that is made at a time.
PARTITIONS_CELLS = 4_000_000

# --- port_turns

#: The next end that is tried lies this much later, and no sooner than such a part of how far it looks.
PORT_TURNS_AHEAD, PORT_TURNS_SOONEST = 1.05, 50
#: Units of work for going through the routes once, and for each of them.
PORT_TURNS_UNITS, PORT_TURNS_UNITS_PER_WAY = 0.05, 2e-4

# --- relay

#: How many times are looked at as that in which something is late, each time nearer to the best of them; the
#: first ones are up to this many times what the cut alone takes, and such a part of it.
RELAY_LOOKS, RELAY_FARTHEST = 24, 1000.0
#: With more groups than this in that time alphas say nothing.
RELAY_MOST_GROUPS = 4000
#: Units of work for a line: 0.004 s of one core.
RELAY_UNITS = 4.0

# --- spanning

#: More kinds of chunks than this are not looked at: each takes a tree of its own.
SPANNING_MOST_KINDS = 64

# --- staged_cut

#: More routes of crossing than this take seconds.
STAGED_CUT_MOST_ROUTES = 60_000
#: More classes of crossings (by the links that they may use) than this: only all together are looked at.
STAGED_CUT_MOST_CLASSES = 4
#: No more cuts than this are looked at, and no more numbers of sums that are collected first.
STAGED_CUT_MOST_CUTS, STAGED_CUT_MOST_FIRST_SUMS = 8, 4
#: What each cut, and each closer look at it, may use of the budget that is left. AllReduce on ndv2-sk-2 with
#: effort 8000: 6.36 us, and 5.58 us with 0.5.
STAGED_CUT_SHARE = 0.8
#: All cuts of a view together are not worth more seconds than this: the first ones say most.
STAGED_CUT_MOST_S = 6.0
#: Without closer looks one cut of each look takes 0.02 to 0.5 s where they say most (AllReduce of 1 MB on two
#: and eight DGX H100, DGX-2, A100; AlltoAll of 4 KB on eight DGX H100, which 0.25 s were too short for).
STAGED_CUT_SOON_S = 0.6
#: How far it looks, in times of what is known; and how often, where what it proves is no sooner.
STAGED_CUT_HORIZON, STAGED_CUT_LOOKS = 2.5, 3

# --- staged_one_group

#: A set of ranks with more routes of a chunk over a link than this is no small model, nor are this many
#: chunks.
ONE_GROUP_MOST_ROUTES, ONE_GROUP_MOST_CHUNKS = 400, 12
#: It looks no further than this many times what is known.
ONE_GROUP_HORIZON = 1.03
#: No model has more than this part of what is left for it, and all of a cut no more seconds than this.
ONE_GROUP_SHARE, ONE_GROUP_MOST_S = 0.3, 6.0
#: A link that takes less than this part of what is known has no place in a model that counts ticks: one that
#: takes no time is in nobody's way, but in a model it would be.
ONE_GROUP_SHORTEST = 1e-9

# --- steps

#: With more pairs of a chunk and a link than this, moments are multiples of a step, of which the horizon has
#: at least this many.
STEPS_LARGE_PAIRS, STEPS_ON_A_GRID = 2_000_000, 1024
#: Machine code of both loops takes some ten seconds, so with less than this left they run as they stand.
STEPS_COMPILING_S = 20.0
#: With more pairs than this, or more links, nobody works through them.
STEPS_MOST_PAIRS, STEPS_MOST_LINKS = 10_000_000, 130_000
#: Units of work for an event, for a link or a group that is looked at there, and for setting up a link, as
#: machine code; and how many times as long both loops take as they stand.
STEPS_UNITS, STEPS_UNITS_PER_LOOK, STEPS_UNITS_PER_LINK, STEPS_SLOWER = 1e-3, 5e-5, 1e-3, 8.0

# --- stream

#: A bound that was asked of an instance is asked again with this many times as much time; where it ended by
#: itself in a tenth of its time, with ten times as much: some steps count their work and not the clock. In
#: 20 s an AlltoAll of 256 KB on eight DGX H100 asked `staged-soon` four times, 1.9 s each, and `staged-cut`,
#: which proves more, never: 7.48 us, now 11.69.
STREAM_AGAIN, STREAM_EARLY = 2.0, 10.0
#: One that was cut short after this part of the time that there is now had no turn worth it, and comes before
#: dearer ones that had none. In 5 s a Scatter of 16 KB on eight DGX H100 asked `gather-time` for 0.14 s,
#: `fan-out`, which needs 0.4, for 0.01, and then `staged-cut` for 1.3: 5.54 us proved, now 6.74.
STREAM_LITTLE = 0.25
#: A bound that can go on where it stopped counts as cut short if no more than this part of its time was left:
#: `staged-cut` gives each cut and look a share of what is left, so it never uses all.
STREAM_CUT = 0.25

# --- strength

#: How much of the time that is left may be spent on prices: other bounds come after.
STRENGTH_SHARE = 1 / 3
#: A price is hardly there if it is less than this part of the largest.
STRENGTH_HARDLY = 1e-4

# --- tree_prices

#: Good enough: within this part of the optimum.
TREE_PRICES_GAP = 1e-3
#: Where ports that look the same have one price there are few prices, so programs are small, and soon exact.
TREE_PRICES_LOOKS_TREES, TREE_PRICES_LOOKS_GAP = 8, 1e-8
#: How many trees the program begins with, how many join it each time, and how many it has at most.
TREE_PRICES_FIRST_TREES, TREE_PRICES_MORE_TREES, TREE_PRICES_MOST_TREES = 128, 8, 320
#: How many trees a mix counts for, next to those that join it.
TREE_PRICES_MIX_TREES = 48
#: How far from the best prices so far to those of the program trees are looked for.
TREE_PRICES_ROUTES = (1.0, 0.3)
#: Units of work for a tree, and for each pair of a link and a port.
TREE_PRICES_UNITS, TREE_PRICES_UNITS_PER_PAIR = 0.3, 3e-4

# --- volume

#: Units of work for a partition: each row of the demand is looked at a few times, and each link.
VOLUME_UNITS, VOLUME_UNITS_PER_ROW = 0.3, 3e-5
#: With more links no halves are looked at before there is time: the 65,280 of switch:256 take 0.1 s.
VOLUME_HALVES_MOST_LINKS = 100_000

# --- whole_flow

#: With more chunks than this through a port, rounding down to whole ones gains next to nothing.
WHOLE_FLOW_MOST_COUNTED = 100
#: A table of ports and counts has no more cells, of 8 bytes and three times at once: half a GiB.
WHOLE_FLOW_MOST_CELLS = 20_000_000
#: The part of the time for the fixed charge, before the integer capacities.
WHOLE_FLOW_FIXED_CHARGE = 0.3
#: And no more seconds for these: what they add they add soon, or other bounds add more.
WHOLE_FLOW_MOST_S = 0.3

# --- orbits

#: How many ranks are marked in one guess at an automorphism, at the most: two on a torus of two dimensions.
ORBITS_MARKS = 4
#: After so many pairs of ranks that look alike and are not, no more are tried (dragonfly:4x4x4 took 3 s).
ORBITS_IN_VAIN = 8

# --- timed_flow

#: More links, or chunks at ranks, take seconds to be parted into orbits.
TIMED_FLOW_MOST_LINKS, TIMED_FLOW_MOST_CELLS = 10_000, 1_000_000
#: How many ways a kind of chunks has, the farthest: where sends have one size, and where they have several.
#: Reduce of 64 KB on fat-tree:8x8:2 7.84 us with one, 8.03 with two and with three; AllReduce on a100
#: x4 and dgx-h100 x8 the same with one as with three.
TIMED_FLOW_WAYS, TIMED_FLOW_WAYS_OF_SIZES = 2, 1
#: How many variables it has at the most: torus:8x8 has 7,900 of several sizes, which take seconds.
TIMED_FLOW_MOST_VARIABLES = 6_000
#: Kinds of chunks that no symmetry takes to each other, at the most.
TIMED_FLOW_KINDS = 4
#: How many cells a horizon has.
TIMED_FLOW_CELLS = 24
#: Sizes of sends are looked at in so many steps, from this part of what takes as long as alpha on. AllReduce
#: of 1 MB on a100 x4: 10.2 us with 5, 10.8 with 8, 11.6 with 12, which take twice as long on eight DGX H100.
TIMED_FLOW_SIZES, TIMED_FLOW_SMALLEST = 8, 0.3
#: Windows of this many cells in which ports are busy, besides those from the beginning and to the end.
TIMED_FLOW_WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16)
#: As `MOMENTS_STEPS`, in long steps: on fabrics it proves up to twice what is known, or it proves nothing.
TIMED_FLOW_STEPS = Steps(1e-2, 0.5, 2.0, 1e-2)
#: How much of the budget that is left a view may have, and no more seconds than this; units of work for a row
#: that is set up.
TIMED_FLOW_SHARE, TIMED_FLOW_MOST_S, TIMED_FLOW_UNITS_PER_ROW = 0.7, 1.0, 0.02

# --- copying

#: More links than this take seconds to be looked at.
COPYING_MOST_LINKS = 130_000
#: How many cells a horizon has at most, and how many spans of equal prices: at first, and then.
COPYING_CELLS = ((60, 15), (130, 26))
#: How horizons are looked at, at first and then (`cells.Steps`).
COPYING_STEPS = (Steps(1e-2, 0.06, 2.0, 0.02), Steps(5e-3, 0.02, 2.0, 7e-3))
#: Up to this many chunks every size of a send is looked at by itself; then ranges of this part.
COPYING_EACH, COPYING_GROWS = 12, 0.08
#: How far it counts what ranks can hold, in times of the horizon.
COPYING_HELD = 1.5
#: Rounds of prices for a horizon; the trees of a round; the rows of a program; how much of the best prices is
#: kept in the next ones.
COPYING_ROUNDS, COPYING_MOST_TREES, COPYING_MOST_ROWS, COPYING_KEPT = 60, 24, 400, 0.4
#: Units of work for a round, and for a look in the loops: 28 ms on a GB200 NVL72, 25 on four DGX H100, 5 on
#: four ranks. With more looks than these a round takes half a second.
COPYING_UNITS, COPYING_UNITS_PER_ENTRY, COPYING_MOST_ENTRIES = 5.0, 2.5e-5, 2e7
#: No more seconds than this for a number of chunks. Any number has such a part of what is left before that,
#: where that is more than so many seconds. AllGather of 4 MB on eight DGX H100: 21.4 us in 4 s, 21.7 in 15.
COPYING_MOST_S, COPYING_ANY_SHARE, COPYING_ANY_S = 6.0, 0.2, 2.5
#: With fewer seconds than this loops are not compiled.
COPYING_COMPILING_S = 30.0

# --- waits

#: Prices of ports that prove less than this part of what others prove are not looked at with waits, nor is
#: this number of chunks where that proves less than this part of what is known.
WAITS_NEAR = 0.7
#: Parts of the time of what waits: for the program, and of the rest for what holds for any number of chunks.
WAITS_PROGRAM, WAITS_ANY = 0.3, 0.5
#: Prices of waiting, for all chunks together, next to 1 for the ports: the coarse ones first.
WAITS_PRICES = tuple(
    4 * 2.0 ** (-power / 2)
    for first, step in ((6, 8), (2, 8), (0, 4), (1, 2))
    for power in range(first, 27, step)
)
#: Units of work to look at one, for each rank and each link or rank, and for each chunk.
WAITS_UNITS = 2e-6
