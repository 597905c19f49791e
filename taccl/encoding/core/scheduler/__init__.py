"""One list scheduler: when sends start whose routes are given, on columns and compiled.

graph       sends, and what each waits for
sequence    in a given sequence, each as early as possible
pipeline    whatever can go goes, by keys
matching    as many as can go together, the most urgent first
"""

from taccl.encoding.core.scheduler.graph import (
    Cells,
    Graph,
    Sends,
    busy_us,
    durations_us,
    graph_of,
    sends_of_rows,
    sends_that_wait,
    tails_of_rows,
    tails_us,
)
from taccl.encoding.core.scheduler.matching import matched
from taccl.encoding.core.scheduler.pipeline import Beside, Timed, is_compiled, pipelined
from taccl.encoding.core.scheduler.sequence import starts_in_sequence

__all__ = [
    "Beside",
    "Cells",
    "Graph",
    "Sends",
    "Timed",
    "busy_us",
    "durations_us",
    "graph_of",
    "is_compiled",
    "matched",
    "pipelined",
    "sends_of_rows",
    "sends_that_wait",
    "starts_in_sequence",
    "tails_of_rows",
    "tails_us",
]
