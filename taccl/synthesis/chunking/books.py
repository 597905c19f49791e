"""What the books have at several numbers of chunks: no search may end with anything slower.

It knows the textbook engine, and nothing of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from taccl.encoding.engines.registry import engine_named
from taccl.encoding.engines.textbook.engine import fastest
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: Textbooks are built with these numbers of chunks: batches come in powers of two.
_NUMBERS = (1, 2, 4, 8, 16)
#: With more pairs of a chunk and a rank, one number of chunks takes as long as there is.
_MOST_CELLS = 500_000


def numbers_in_books(coarsest: Instance, numbers: Sequence[int]) -> list[int]:
    """Of some numbers of chunks those that textbooks are built with; none where there are no textbooks.

    `coarsest` : the problem with one chunk in each part.
    """
    problem = coarsest.problem
    most = _MOST_CELLS // (problem.num_chunks * problem.num_ranks)
    if not most or not engine_named("textbook").can(coarsest):
        return []
    return [number for number in _NUMBERS if number in numbers and number <= most]


def from_books(
    numbers: Sequence[int], state: Callable[[int], Instance], budget: Budget
) -> Iterator[Schedule]:
    """Textbook schedules with these numbers of chunks, each faster than those before.

    `state` : the problem with so many chunks.
    """
    instances = [state(number) for number in numbers if budget.remaining_s()]
    if instances:
        yield from fastest(instances, budget)
