"""The number of chunks: the fastest, by successive halving, or the largest of which a file can be made.

Finer chunks fill a pipeline better and pay more alphas, so large sizes gain and small ones lose; which
number is best, no formula says. So each number gets a short trial, the best few a longer one, and the rest
of the time is for one, as in the successive halving of Jamieson and Talwalkar (2016). The search for a number
begins with the best schedule of a coarser cut, so cutting finer never makes anything slower. Each number is a
problem of its own with a bound of its own; one whose bound is above a time already found cannot win and is
left alone.
"""

from __future__ import annotations

from collections.abc import Callable

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.errors import TacclError
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.autotune.choose import Search
from taccl.synthesis.autotune.chunk_search import ChunkSearch
from taccl.synthesis.autotune.trials import Choice
from taccl.synthesis.autotune.tuning import CHUNKS_LONGER, CHUNKS_SEARCH
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.search import Observer
from taccl.synthesis.searcher import Searcher


def choose_chunks(
    state: Callable[[int], Formulated],
    options: SearchOptions,
    on_progress: Observer | None = None,
    can_be_used: Callable[[Schedule], object] | None = None,
    budget: Budget | None = None,
    searcher: Searcher | None = None,
    chunk_bytes: int = 1,
) -> Choice:
    """Search the number of chunks, and with most of the time the schedule for the best number.

    A trial that fails costs the number that it is about, and nothing that was found.

    Parameters
    ----------
    state : the problem with this many chunks in each part; the size must stay the same.
    options : as for `search`; the budget is for everything together, the gap for the number chosen.
    can_be_used : raises TacclError where a schedule is of no use, such as one too large for a file.
    budget : for everything together; None: what the options say.
    searcher : carries out the searches; None: this process alone.
    chunk_bytes : what a file can hold are chunks of multiples of this many bytes.

    Raises
    ------
    SolverError : an engine that is unknown, or that was requested by name and does not serve one chunk.
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
        searching.round_across_numbers()
        searching.second_round()
        searching.last_round()
    except KeyboardInterrupt:
        if not searching.trials:
            raise
        searching.interrupted = True
    return searching.choice()


def chunks_that_fit(
    chunks: int,
    search_of: Callable[[int], Search],
    lower: Callable[[Schedule, Configuration], object],
    configuration: Configuration,
    options: SearchOptions,
    budget: Budget,
) -> int:
    """A smaller number of chunks of which there is a file; 0: none was found in time.

    Halves, quarters and so on, fewest first, as long as they fit: each takes longer than all before it. What
    is lowered is what list scheduling finds, to which `choose_file` goes back where nothing else fits.

    Parameters
    ----------
    chunks : in each part of the schedule whose file is too large.
    search_of : the searches for another number of chunks; raises TacclError where there is none.
    lower : raises TacclError where a schedule has no file.
    """
    halves = []
    while chunks > 1:
        chunks //= 2
        halves.append(chunks)
    fit, took_s = 0, 0.0
    for number in reversed(halves):
        if budget.remaining_s() <= CHUNKS_LONGER * took_s:
            break
        began_s = budget.read_s()
        try:
            searched = search_of(number)(configuration, options, budget.share(CHUNKS_SEARCH), None, "listed")
            lower(searched.found.schedule, configuration)
        except TacclError:
            break
        fit, took_s = number, budget.read_s() - began_s
    return fit
