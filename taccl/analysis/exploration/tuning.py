"""Numbers of an exploration: what is tried first, how the time is shared.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- library

#: Algorithms of libraries are written down for the largest size, cut into these numbers of chunks (one chunk:
#: for the smallest, too), of no more pairs of a chunk and a rank, and as files of these numbers of instances.
LIBRARY_CHUNKS = (1, 4, 16)
LIBRARY_CELLS = 200_000
LIBRARY_INSTANCES = (1, 4, 16)
#: Where files are predicted: the part of the time for finding those that are fastest by links alone, and the
#: units of work for predicting a file, by its transfers, instances and sizes.
LIBRARY_BY_LINKS, LIBRARY_PREDICTING = 0.5, 0.01
#: The part of the time that they may take together.
LIBRARY_SHARE = 0.15
#: Seconds for those next to one result, where it has no limit.
COMPARED_S = 10.0
#: A result that differs by no more from them is as fast.
COMPARED_SAME = 0.01

# --- search

#: Searches of one wave do not know each other's answers. Where work counts, there are this many,
#: whatever the number of processes: the same effort gives the same table on any computer.
WAVE = 4
#: With less time left, no search begins.
LEAST_S = 1.0
#: Of the sizes of a question, the part of which there are searches; the others are served by their curves.
SEARCHED = 0.5
#: Of these searches, the part that goes to sizes spread evenly; the others go where the gap is largest.
ANCHORS = 0.5
#: What a search proves of its numbers of chunks is taken to be about as tight at this many sizes around it.
NEAR = 2
#: A size whose gap is at most this is done.
DONE = 0.005
#: The part of the time for bounds.
BOUNDS_SHARE = 0.1
#: Of curves that differ by no more at a size, that one is taken which serves most sizes.
SAME = 1e-3

# --- processes

#: Seconds between two looks of a process at whether that which began it still lives.
PROCESSES_LOOK_S = 1.0

# --- workers

#: Seconds between two looks at what workers came to, and for their answers after the time of all searches.
WORKERS_LOOK_S, WORKERS_LATE_S = 0.2, 30.0
#: A search that is lost with its worker is begun at most this many times: it may be the one that ends them.
WORKERS_TRIES = 2

# --- shares

#: Where searches end early, at most this many times as many share the time.
MOST_TIMES = 3

#: Without a limit: seconds for each size of each question, and for all at most.
DEFAULT_S_EACH, MOST_DEFAULT_S = 13.0, 840.0
