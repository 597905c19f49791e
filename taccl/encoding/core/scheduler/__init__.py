"""One list scheduler: when sends start whose routes are given, on columns and compiled.

graph       sends, and what each waits for
slots       what waits for memory of helpers
sequence    in a given sequence, each as early as possible
pipeline    whatever can go goes, by keys
matching    as many as can go together, the most urgent first
"""

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.scheduler.graph import (
    Cells,
    SendGraph,
    Sends,
    busy_us,
    durations_us,
    graph_of,
    ready_of_rows,
    sends_of_rows,
    sends_that_wait,
    tails_of_rows,
    tails_us,
    work_behind_us,
    work_of_sends,
)
from taccl.encoding.core.scheduler.matching import matched
from taccl.encoding.core.scheduler.pipeline import Detours, Timed, is_compiled, pipelined
from taccl.encoding.core.scheduler.sequence import starts_in_sequence
from taccl.encoding.core.scheduler.slots import in_slots
from taccl.support.jit import ahead_of_time


def warm_up() -> None:
    """Make machine code of all loops, where there is none: it takes some 15 seconds, once on a computer."""
    costs = Costs(1, *(np.array(each) for each in ([0, 1], [0], [0.0], [1.0], [0.0], [1.0])))
    sends = sends_that_wait(np.zeros(1, np.int64), np.ones(1), np.zeros(1), [()])
    with ahead_of_time():
        tails = tails_us(graph_of(sends), durations_us(sends, costs))
        starts_in_sequence(sends, costs)
        pipelined(graph_of(sends), costs, -tails)
        matched(graph_of(sends), costs, tails)


__all__ = [
    "Cells",
    "Detours",
    "SendGraph",
    "Sends",
    "Timed",
    "busy_us",
    "durations_us",
    "graph_of",
    "in_slots",
    "is_compiled",
    "matched",
    "pipelined",
    "ready_of_rows",
    "sends_of_rows",
    "sends_that_wait",
    "starts_in_sequence",
    "tails_of_rows",
    "tails_us",
    "warm_up",
    "work_behind_us",
    "work_of_sends",
]
