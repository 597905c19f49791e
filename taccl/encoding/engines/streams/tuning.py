"""Numbers of the engine streams: which styles are tried, how often, caps, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

#: Whether the root counts as a holder, how much what a rank has got counts against its next chunk, how many
#: chunks that only their receiver waits for go as one, and whether chunks leave the root's node once before
#: any leaves it again. With 64 MB a fat tree 8x8:2 takes 1516, 1720 and 2766 us with the first three, two
#: dgx-h100 250, 243 and 247. The others save alphas: 1 MB on two dgx-h100 16.6 -> 15.4 us, on four a100 23.0
#: -> 21.6, 16 MB on eight dgx-h100 109.5 -> 104.3.
STYLES = (
    (False, 0.0, 1, False),
    (False, 0.01, 1, False),
    (True, 0.0, 1, False),
    (True, 0.01, 2, False),
    (True, 0.01, 4, False),
    (False, 0.01, 2, False),
    (True, 0.2, 3, False),
    (True, 0.01, 8, False),
)
#: Next to these where there are two other nodes or more. By two chances, of all with up to 8 chunks as one:
#: 16 MB on eight dgx-h100 102.9 -> 98.3 us, on four 96.3 -> 93.1; 256 MB 972 -> 906 and 932 -> 873. For both
#: of the best two numbers of chunks: 64 MB on four 270.3 -> 262.0, on eight 283.6 -> 271.4.
STYLES_OF_NODES = ((False, 0.01, 1, True), (True, 0.01, 2, True), (True, 0.2, 2, True))
#: How many of the best numbers of chunks are tried in all styles, how many of the best of these pairs by
#: other chances, how often, and how often in vain: with 24, not 60, torus:4x4 takes 13.9, not 12.7 us (1 MB).
MOST_CASES, MOST_PAIRS, MOST_ROUNDS, MOST_IN_VAIN = 2, 4, 24, 60
#: And how often in vain where several numbers of chunks are tried: once all styles of two of them, as help
#: from afar comes next (a Reduce of 256 KB on eight dgx-h100 takes 13.4 us with it, 14.6 without). With 60
#: bounds come late in 5 s: of 4 MB on one gb200-nvl72 10.1 us, not 15.1.
FEW_IN_VAIN = 24
#: Trials in vain end the search once at least this part of its time has passed: on 32 ranks a trial takes 10
#: ms. Of 17 cells of 4 to 16 nodes five are faster so in 8 s, by 0.4 to 3%, none slower.
LEAST_PART = 0.1
#: `Style.help_us` as parts of the time without help, for the best few trials. Broadcast of 4 KB takes 4.92 us
#: without and 4.21 with the first on two dgx-h100, 6.34 and 5.63 on four; of 64 KB on four 8.32 and 7.57.
HELP = (0.95, 0.89, 0.8)
#: Rounds with other seeds, and the most chunks for which there is more than one: Reduce of 64 KB on four
#: dgx-h100 takes 8.11 us after one round and 7.55 after four.
HELP_ROUNDS, HELP_CHUNKS = 4, 8
#: Finer cuts are not tried once they were slower by this factor this often.
SLOWER, PATIENCE = 1.15, 2
#: Transfers of a schedule, at most. Looks grow about with this power of the number of chunks: from 1 to 64 by
#: 51 = 64 ** 0.95 on 128 dgx-h100, from 1 to 256 by 469 = 256 ** 1.11 on torus:16x16.
MOST_ROWS, GROWTH_OF_LOOKS = 400_000, 1.05
#: Seconds of one trial at most, and of how many looks one is that tells what a look takes: 25 ns on
#: torus:32x32, 44 on 128 dgx-h100.
MOST_S, TELLING_LOOKS = 5.0, 1e6
#: Kinds of links by how long a chunk takes, at most: each has a bit for each rank and chunk.
MOST_KINDS = 16
#: A first pipeline is one of no more seconds: in one chunk 1,024 ranks of 128 dgx-h100 take 0.3, where other
#: list scheduling takes 7.
AT_ONCE_S = 1.0
#: Compiling takes no longer, seconds: 20 on a core of AMD EPYC that other programs shared.
COMPILING_S = 30.0
#: Units of work: for each look (20 to 47 ns, of 16 chunks or more), and for each transfer of a schedule.
LOOK, ROW = 3e-5, 2e-3
#: For each link looked at for a path, and for each transfer in groups: 0.5 and 5 ms on eight dgx-h100. A rank
#: takes as long as so many links: a path on a ring of 600 takes 1 ms.
WAY, DELIVERED_ROW, OF_RANK = 1.2e-4, 1e-2, 10
#: The longest path, in links: `Deliveries` recurses once for each link.
MOST_HOPS = 200

#: How sharply prices of ports rise with their loads, the price of an idle port next to 1 for the busiest, and
#: how often each way is chosen.
POWER, LEAST_PRICE, TURNS = 8.0, 1e-4, 3
#: How many paths each rank has, and how much less an alpha counts on a link that is used already. With 64 MB
#: eight dgx-h100 take 198 us by the first and 254 by the second, two dgx2 497 and 476, gb200-nvl72 141 and
#: 108; two dgx-h100 take 180 us with one path each, and 167 with two.
DELIVERED = ((1, 0.0), (1, 0.5), (2, 0.0), (2, 0.5))
#: Sizes of the Broadcast whose tree a Scatter uses, in parts of one rank.
SOONEST = (1, 2, 4)
#: Chunks of a first group, and by what factor the next is larger: of all up to 6 and 4 these were the best
#: for some machine. Then how many ranks' chunks a group may hold: eight dgx-h100 need 2 for 16 MB.
FIRST, GROWTH, RANKS = (1, 3), (1.0, 1.5, 3.0), (2, 4)
#: Chunks, and ranks times links, at most: 384 paths of 1 ms each on 16 dgx-h100.
MOST_DELIVERED, MOST_PRICED = 2048, 3_000_000
