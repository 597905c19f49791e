"""Of a file that is too large: how many chunks would fit, which is known because it was tried.

It knows searches, budgets and that lowering may refuse; why a file is too large it must not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from taccl.encoding.core.options import SearchOptions
from taccl.errors import TacclError
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.autotune.choose import HasProblem, Search
from taccl.synthesis.autotune.ways import Way

_Stated = TypeVar("_Stated", bound=HasProblem)

#: Part of the time left that list scheduling may take: it goes on looking as long as it may.
_SEARCH = 0.2
#: Twice as many chunks take about so many times as long to search for and to lower.
_LONGER = 2.5


def chunks_that_fit(
    chunks: int,
    search_of: Callable[[int], Search[_Stated]],
    lower: Callable[[Schedule, Way], object],
    way: Way,
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
        if budget.remaining_s() <= _LONGER * took_s:
            break
        began_s = budget.read_s()
        try:
            searched = search_of(number)(way, options, budget.share(_SEARCH), None, True)
            lower(searched.found.schedule, way)
        except TacclError:
            break
        fit, took_s = number, budget.read_s() - began_s
    return fit
