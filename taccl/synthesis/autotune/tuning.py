"""Numbers of the autotuner: parts of the budget, caps on trials, units of work.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- choose

#: Parts of what is left: for list scheduling, and for predictions after it; for each look at what is built at
#: once, and for predictions after it; for each search, and for predictions after it.
CHOOSE_LISTED, CHOOSE_LOOK, CHOOSE_SEARCH, CHOOSE_PREDICT = 0.1, 0.25, 0.5, 0.5
#: Of the budget, for the search where there is one configuration only; the rest is for predictions.
CHOOSE_ALONE = 0.75
#: Most configurations whose costs are looked at, and that are searched for, one after another.
CHOOSE_MOST_LOOKS, CHOOSE_MOST_SEARCHES = 3, 4
#: After the first look, configurations that are slower than the best by this factor are left alone.
CHOOSE_PROMISING = 1.5
#: Most transfers of a file that is made in a moment: one of each protocol is made, if the time is up or not.
CHOOSE_SOON = 5_000
#: Most schedules of one search that are lowered.
CHOOSE_FEW = 24

# --- chunk_counts

CHUNK_COUNTS_MOST_CHUNKS = 1024

# --- chunk_search

#: Numbers are left out of which a chunk alone travels for more than this many times a bound for any number
#: that counts bytes, or this part of the best time: they save too little. Broadcast of 16 MB on ring:512 in
#: 5 s: 885 us in 512 chunks; 5,647 in 16 without the first, and 21,856 in 4 without both.
CHUNK_SEARCH_FAR_BEYOND, CHUNK_SEARCH_SAVES = 4.0, 0.5
CHUNK_SEARCH_FEW = 4
#: Of what is left at last, for a number that others are hardly faster than. Of 14 open cells of the plane in
#: 20 s six are faster by 3 to 16% with three quarters, three slower by 2 to 3%. Of 12 such cells the mean gap
#: is 17.3% with that and 15.2% with a half, as the chosen number needs bounds; schedules take as long.
CHUNK_SEARCH_COARSER = 0.5
#: The part within which a second number should have its first schedule: one alone tells nothing of others.
CHUNK_SEARCH_TWO = 0.4
#: The first round ends after this many numbers in a row that were so much slower than the best, or no faster.
CHUNK_SEARCH_PATIENCE = 2
CHUNK_SEARCH_MUCH_SLOWER = 1.25
CHUNK_SEARCH_MOST_IN_VAIN = 4
#: Time of a first schedule grows about with this power of the number of chunks, at the most.
CHUNK_SEARCH_GROWTH = 1.5
#: A schedule of more transfers takes gigabytes, and there are several at a time: it is not made only to see
#: whether finer chunks are faster.
CHUNK_SEARCH_MOST_TRANSFERS = 10_000_000
#: For others, numbers are stated within this part of the budget, up to this many pairs of a chunk and a rank.
CHUNK_SEARCH_AHEAD, CHUNK_SEARCH_MOST_CELLS = 0.05, 5_000_000
#: Units of work: for stating a problem, by outputs (chunks at ranks); for a file, by transfers.
CHUNK_SEARCH_STATING, CHUNK_SEARCH_LOWERING = 1e-3, 2e-2

# --- chunks

#: Part of the time left that list scheduling may take: it goes on looking as long as it may.
CHUNKS_SEARCH = 0.2
#: Twice as many chunks take about this many times as long to search for and to lower.
CHUNKS_LONGER = 2.5

# --- first_look

#: Numbers of chunks, and outputs (chunks at ranks) of one, that a first look goes to at most.
LOOK_MOST_CHUNKS, LOOK_MOST_OUTPUTS = 64, 10_000
#: Textbook schedules of each number, and the part of the time for pipelines of several numbers.
LOOK_ALGORITHMS, LOOK_PIPELINES = 4, 0.5
#: Seconds for list scheduling, and for all that is built at once, at most.
LOOK_LISTED_S, LOOK_BUILT_S = 0.5, 2.0

# --- predictions

#: Units of work: for a file, by transfers; for executing it, by steps in a round.
PREDICTIONS_LOWERING, PREDICTIONS_EXECUTING = 2e-2, 2e-3
#: Seconds for a transfer of an instance before a second file has shown it. On one DGX H100 a file of 896
#: transfers takes 0.13 s and one of 1,792 in two instances 0.5, on a core of Intel Xeon.
PREDICTIONS_S_EACH = 2e-4
#: A file of so many times the transfers of the smallest tells what one takes.
PREDICTIONS_LARGER = 4
#: Events of a plan's operation, each as much work as a step of a program that is executed by machine code.
PREDICTIONS_EVENTS = 64
#: With more outputs, chunks at ranks, no file is predicted unless that is requested. Making and executing one
#: of an AllGather takes a core 0.7 to 1.2 s among 64 GPUs (4,032 transfers of 1 MB), and 12 s among 128 (of
#: 8 MB): a time limit is seconds.
PREDICTIONS_MOST_OUTPUTS = 10_000
#: So with more ranks: a broadcast of 16 MB on DGX H100 takes a core 5 s where 3 are given among 128 GPUs, 7
#: among 256 and 19 among 512, as each look goes over all links.
PREDICTIONS_MOST_RANKS = 128
#: Files that a guess puts behind the best by more than this factor come after all others.
PREDICTIONS_PROMISING = 1.5
#: Of configurations whose guesses differ by no more than this factor, the one with the fewest instances.
PREDICTIONS_NEARLY = 1.15
#: More instances are left alone once this many numbers in a row were so much slower than fewer.
PREDICTIONS_PATIENCE, PREDICTIONS_MUCH_SLOWER = 2, 1.1

# --- seeds

#: The part of what is left after the first round for what is built with several numbers of chunks; on small
#: machines it takes less. dgx-h100 x64: the first schedule of an AllReduce takes 94.8 us, that of textbooks
#: 47.3.
SEEDS_PART = 0.3
#: The same of data of one root, which goes in many chunks; and on machines of more ranks than this, where
#: little else comes to an end. Broadcast of 1 GB in 5 s: on dgx-h100 x32 without its NVSwitches 5,852 us with
#: 0.5, 4,426 to 4,778 with 0.7; on a100 x32 10,984 and 8,815; on two gb200-nvl72, 256 MB, 658 and 552.
#: Elsewhere bounds come later then: of 16 MB on one gb200-nvl72 36.1 us, not 37.6 (49.5).
SEEDS_PART_OF_ONE, SEEDS_PART_OF_ONE_TO_MANY, SEEDS_MANY_RANKS = 0.5, 0.7, 96
#: With more outputs, chunks at ranks, one number of chunks takes as long as there is. AlltoAll of 1 MB on a
#: torus of 8x8 (4,096 outputs) takes 43.3 us in one chunk for each pair, and 30.2 in two.
SEEDS_MOST_OUTPUTS = 500_000
#: What was found is nearly the best up to this many times its time: pipelines of one root take 1.5 to 1.7
#: times as long in half as many chunks, where they are not yet fine enough.
SEEDS_NEARLY = 2.0
#: Of what is left then, this is for engines that are parts of others.
SEEDS_OF_PARTS = 0.25
#: Larger schedules are not refined only to be stated.
SEEDS_MOST_CARRIED = 100_000
#: So many transfers are cut finer in a second, and what takes longer than there is time is left alone. Sends
#: above the largest group are cut one by one: 4.2 million transfers in two took 18 s of 20 (AlltoAll of 1 GB
#: on torus:16x16).
SEEDS_CUT_PER_S = 400_000

# --- templates

#: Several nodes are planned together if this many images are left, and in this many chunks. AllReduce of 1 GB
#: on 2,048 DGX H100: 7,607 us with 8 chunks, 6,417 with 16, 6,151 with 32, 6,156 with 64.
TEMPLATES_LEAST_IMAGES, TEMPLATES_MOST_CHUNKS = 8, 64
#: A file of more transfers is not verified as a whole: what was checked of it is its template.
TEMPLATES_MOST_VERIFIED = 100_000

# --- trials

#: A finer number that is faster than a coarser one by less than this part is not searched longer.
TRIALS_FINER_PAYS = 0.01

# --- tune

#: Where files are predicted: textbook schedules of a number of chunks, and of how many numbers.
TUNE_TEXTBOOKS, TUNE_OF_NUMBERS = 6, 3
#: The part of a search's budget that writing these down takes.
TUNE_WRITING_DOWN = 0.05
#: Seconds to lower a schedule and to verify its file, for each output (a chunk at a rank). On a core of AMD
#: EPYC 0.1 ms of an AllGather on torus:16x16, 0.13 of an AllReduce on switch:128, 0.2 on ring:300, 0.3 of an
#: AlltoAll on torus:8x8.
TUNE_FILE_S_AN_OUTPUT = 1.5e-4
#: As many chunks for each one as are usually chosen where there are so many that their file takes long.
TUNE_CHUNKS_IF_OPEN = 2
#: Units of work for a bound for any number of chunks, where the search has proved none.
TUNE_FOR_ANY_CHUNKS = 600
#: Pairs of a chunk and a rank of which that is proved in a second, and how long it may take when time is up.
#: Of an AllReduce of 1,024 GPUs, 1M, it took 9 s on two busy cores of AMD EPYC.
TUNE_PROVED_PER_S, TUNE_TO_PROVE_ANYWAY_S = 100_000, 1.0
