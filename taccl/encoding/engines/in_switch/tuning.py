"""Numbers of this engine, each with the measurement that chose it."""

from __future__ import annotations

#: A chunk takes its next step this many chunks later: its owner's links have served their turn then. 1 GB of
#: 128 chunks on dgx-h100: 4,748 us with 1, 4,093 with 2, 4,175 with 3, 4,230 with 4. Where doors take turns,
#: it counts chunks of a door: 64 MB of 256 chunks by CollNet on 4 nodes of 4 ranks take 1,651 us, and 3,543
#: if chunks of all doors count.
LATER = 2
#: Units of work for a chunk over a link, written down and timed both times.
HOP = 0.04
#: And behind a step that takes k times as long as the shortest, this many times k - 1 chunks later; each is
#: tried, what mostly is the best at first. AllReduce along rails: two dgx-h100, 1 GB of 16 chunks 5,945 us
#: with 0, 4,298 with 1.5, 4,381 with 2; four, by the ring, 1 GB of 8 chunks 9,892, 6,159 and 5,290; eight,
#: 256 MB of 2 chunks 3,525 with 0, 2,133 with 0.5.
SLOWER = (1.5, 0.5, 2.0)
#: Schedules of more transfers are not kept for other searches of the same instance.
MOST_KEPT = 100_000
