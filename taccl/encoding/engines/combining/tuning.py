"""Numbers of message combining: caps, parts of the time, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

from typing import NamedTuple


class Stages(NamedTuple):
    """Searches after each other: their parts of the time, and how many begin from different sequences.

    The others begin from the best.
    """

    parts: tuple[float, ...]
    from_others: int


# --- anneal

#: The temperature of the annealing at its beginning and its end, as a fraction of the time of the first
#: sequence.
ANNEAL_WARM, ANNEAL_COLD = 0.005, 0.0002
#: What decoding a sequence takes, in units of work for each gene, next to what its transfers take.
ANNEAL_UNITS_PER_GENE = 0.008

# --- decode

#: This many transfers of a gene are decoded at once, as arrays, in a unit of work.
DECODE_TRANSFERS_PER_UNIT = 100_000.0
#: The weight of an alpha next to a chunk's own time when paths are compared: of equal ones, that with fewer
#: hops.
DECODE_HOP_WEIGHT = 1e-3

# --- engine

#: With no more links for each rank, annealing is what tells soonest how fast a number of chunks can be.
FEW_LINKS = 12
#: Numbers of chunks that are searched one after another.
ACROSS = (1, 2)
#: More transfers than this make decoding a sequence too slow to search.
MOST_TRANSFERS = 4_000_000
#: Symmetries are found in a unit of work for this many pairs of a rank and a link.
SYMMETRIES_PER_UNIT = 5_000
#: The searches after each other, as parts of the time: short ones from several beginnings, then long ones
#: from the best; and those after which the rest of the time is for hops.
STAGES = Stages((0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2), from_others=6)
STAGES_BEFORE_HOPS = Stages((0.05, 0.05, 0.05, 0.05), from_others=4)
#: With less time than this, seconds, all of it is for hops.
HOPS_ALONE_S = 1.0
#: The search ends when this many stages in a row, each from the best sequence, found nothing better.
MOST_STALE = 2
TRIALS, BEGIN_PART = 40, 0.1
#: Units of work for each rank that has to be brought a chunk, where that goes over as few links as can be.
UNITS_BY_DISTANCE = 0.05
#: Units of work for each gene of a sequence of doubling, and for each link and chunk of an orbit next to it.
UNITS_PER_DOUBLED, UNITS_PER_CELL = 0.036, 1.7e-5
#: Units of work for decoding a gene, for each chunk at each rank: 0.45 ms on 256 ranks. A sequence that takes
#: no more than this many is decoded without a look at the time. AllGather of 16 MB on mesh:16x16, in two
#: chunks, has 5,000 genes: three of them took 15 s of 5.
UNITS_PER_COPIED, ALWAYS_DECODED = 7e-6, 100.0
#: For chunks that one rank wants, sequences of AllGathers are beginnings: how large their chunks are, next to
#: those of the problem, and the part of the time for each.
GOSSIP_WEIGHTS = (1.0, 4.0, 16.0)
GOSSIP_PART = 0.05

# --- exchange

#: A rank keeps at most this many partial sums of a chunk; before it has more, it adds up two of them.
EXCHANGE_MOST_PARTS = 10
#: The cache of choices is emptied when it holds this many.
EXCHANGE_MOST_KNOWN = 300_000

# --- fullest

#: A link whose chunk takes this many times as long as the fastest one's is slow.
LARGEST_FIRST_SLOW = 2.0
#: Units of work for choosing a gene, and for each of the transfers that have to be looked at anew for it.
LARGEST_FIRST_UNITS_PER_GENE, LARGEST_FIRST_UNITS_PER_TRANSFER = 0.02, 0.004

# --- hops

#: The temperature of the annealing of hops, as a part of the time of the first sequence.
HOPS_WARM, HOPS_COLD = 0.02, 3e-4
#: The weight of the mean end of a port's work. Of nine problems as below, by 400,000 trials and four chances
#: each, times are 0.8% less in the mean with 0.3 than with 0; AllGather of 4 MB on torus:8x8 takes 24.47 us,
#: not 24.97.
HOPS_OF_PORTS = 0.3
#: Odds of changes: a hop goes in another send, over another link, two change sends, sends are joined or
#: parted; the rest, a send is moved. Of seven problems on tori, two NDv2 and two MI250X, by 100,000 trials
#: and six chances each, times are 0.5% less in the mean than with (0.3, 0.3, 0.15, 0.1), and within 0.7% of
#: those with five others. Twice or half as warm: 0.8% more, and as much.
HOPS_ODDS = (0.3, 0.4, 0.1, 0.12)
#: Places that sends are moved by, and how often a hop goes in a new send: with 0.03 and 0.25 in place of 0.1
#: times are 0.2 and 0.9% more.
HOPS_NEAR, HOPS_NEW = 8, 0.1
#: Of the time each run has one part in so many, trials no fewer and no more than these. AllGather on
#: torus:8x8, two runs each: of 1 MB 8.92 us with 200,000 trials, 8.74 and 8.59 with 1,000,000; of 4 MB 24.97
#: and 25.16, 24.47 and 24.97.
HOPS_RUNS, HOPS_LEAST_TRIALS, HOPS_MOST_TRIALS = 2, 2_000, 2_000_000
#: From how many of the best sequences runs begin, before one that begins from the best so far; and after how
#: many rounds of these without anything better the search ends.
HOPS_BEGINNINGS, HOPS_MOST_STALE = 2, 2
#: Sends at most, in those of the beginning, next to one of each orbit.
HOPS_ROOM = 1.5
#: Units of work for a trial, and for each hop and send in it; seconds between two looks for Ctrl-C.
HOPS_UNITS_PER_TRIAL, HOPS_UNITS_PER_HOP = 3e-4, 1e-5
HOPS_SLICE_S = 0.2
#: Compiling takes no longer, seconds.
HOPS_COMPILING_S = 30.0

# --- relays

#: This many transfers are put in order, twice, in a second; fewer than this many always are in time.
RELAYS_IN_ORDER_PER_S, RELAYS_MANY = 10_000, 20_000
#: The part of the time for what is known of a node; combining has the rest.
RELAYS_FOR_KNOWN = 0.3
#: Into this many blocks the chunks of a relay are cut.
RELAYS_BLOCKS = (1, 2, 4)

# --- owners

#: Successive halving: of the choices of owners, this many have a trial in each pass, for that part of the
#: time.
OWNERS_PASSES = ((16, 0.25), (3, 0.35), (1, 1.0))

# --- sums

#: On more ranks than this, decoding one sequence takes too long to search.
SUMS_MOST_RANKS = 64
#: Orbit instances with more pairs of a link and a chunk (one of each orbit) than this
#: have all chunks in one block.
SUMS_MOST_TRANSFERS = 30_000
#: The part of the time for sums at relays of nodes, where there are several: each is searched on one node.
SUMS_FOR_RELAYS = 0.3
#: The parts of the time: for beginnings, and then for searches from different ones and from the best.
SUMS_BEGIN_PART = 0.15
SUMS_STAGES = Stages((0.08, 0.08, 0.08, 0.08, 0.08, 0.1, 0.1, 0.2, 0.2), from_others=5)
SUMS_TRIALS, SUMS_TRIALS_OF_SUBGROUPS = 24, 4
#: Symmetries, by two orders of candidates, are found in a unit of work for this many pairs of rank and link.
SUMS_SYMMETRIES_PER_UNIT = 750
#: About how many seconds it takes to turn one row of a sequence into a checked schedule. A sequence that
#: would take more than this many times what is left of the budget is given up, unless it takes less than
#: `SUMS_SOON_S`.
SUMS_ROW_S, SUMS_MOST_OVERTIME, SUMS_SOON_S = 1e-4, 3.0, 0.5

# --- subgroups

#: How many sequences are tried for the scattering inside subgroups of one size.
SUBGROUPS_TRIALS = 8
