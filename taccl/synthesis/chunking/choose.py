"""The number of chunks is chosen: the rounds of the search, in their order.

It knows which rounds there are; what each does, `chunk_search` knows.
"""

from __future__ import annotations

from collections.abc import Callable

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.chunking.chunk_search import ChunkSearch
from taccl.synthesis.chunking.trials import Choice, Stated
from taccl.synthesis.search import Observer, Searcher


def choose_chunks(
    state: Callable[[int], Stated],
    options: SearchOptions,
    on_progress: Observer | None = None,
    can_be_used: Callable[[Schedule], object] | None = None,
    budget: Budget | None = None,
    searcher: Searcher | None = None,
    chunk_bytes: int = 1,
) -> Choice[Stated]:
    """Search the number of chunks, and with most of the time the schedule for the best number.

    A trial that fails costs the number that it is about, and nothing that was found.

    Parameters
    ----------
    state : the problem with so many chunks in each part; the size must stay the same.
    options : as for `search`; the budget is for everything together, the gap for the number chosen.
    can_be_used : raises TacclError where a schedule is of no use, such as one too large for a file.
    budget : for everything together; None: what the options say.
    searcher : carries out the searches; None: this process alone.
    chunk_bytes : what a file can hold are chunks of multiples of so many bytes.

    Raises
    ------
    SolverError : an engine that is unknown, or that was asked for by name and does not serve one chunk.
    NoScheduleInTime : no number of chunks gave a schedule.
    KeyboardInterrupt : the user stopped it before there was any; later, the best is kept.
    """
    if options.engine != "auto":
        engine_named(options.engine)
    searching = ChunkSearch(state, options, on_progress, can_be_used, budget, searcher, chunk_bytes)
    try:
        searching.begin_elsewhere()
        searching.first_round()
        searching.hear_elsewhere()
        searching.round_of_books()
        searching.second_round()
        searching.last_round()
    except KeyboardInterrupt:
        if not searching.trials:
            raise
        searching.interrupted = True
    return searching.choice()
