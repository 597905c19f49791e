"""Numbers of the model that were tuned, each with what chose it."""

from __future__ import annotations

# --- demand

#: A part of an AlltoAll is several chunks if it is larger than this many mean parts of the rank that sends or
#: receives most. With half of it, 64 ranks with favourites of their own took 1.4% longer
#: (`benchmarks.alltoallv`).
DEMAND_LARGE = 3
