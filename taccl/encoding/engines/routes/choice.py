"""What a chooser of routes hands over: routes, and in which orders they are worth trying."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.encoding.engines.routes.columns import Routes
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget


@dataclass(frozen=True, eq=False)
class Choice:
    """Routes to put in order.

    Parameters
    ----------
    most : how many chunks may share a send in a pipeline, the likeliest number first.
    powers : by which powers of the load the rest of a way may count in a pipeline.
    chance : by what part chance changes how urgent a row is in a pipeline.
    turns_back : whether pipelines are scheduled again from their ends.
    matches : whether matchings are tried, too.
    behind : how much all work that waits for a row may count in a pipeline, next to the rest of its way.
    waves : of pipelines, where the turns say more than those that are usual; empty: the usual ones.
    """

    routes: Routes
    most: tuple[int, ...]
    powers: tuple[float, ...] = (0.0,)
    chance: float = 0.0
    turns_back: bool = False
    matches: bool = False
    behind: tuple[float, ...] = (0.0,)
    waves: tuple[float, ...] = ()


#: Yields routes for an instance, others for each seed; nothing where it finds none in time.
Chooser = Callable[[Instance, int, Budget], Iterator[Choice]]


def powers_of_two(most: int) -> tuple[int, ...]:
    """1, 2, 4, .. up to `most`."""
    return tuple(1 << power for power in range(max(1, most).bit_length()))


def by_phases(
    choose: Callable[[Instance, Budget], Routes | None], instance: Instance, budget: Budget
) -> Routes | None:
    """The routes of a problem with sums by a chooser that only copies: of the reduce phase, read backwards,
    and of the broadcast phase.
    """
    parts = instance.phases
    if parts.reduce_phase is None:
        return choose(instance, budget)
    sums = choose(parts.reduce_phase, budget.share(0.5))
    if sums is None or parts.broadcast_phase is None:
        return None if sums is None else sums.as_sums()
    copies = choose(parts.broadcast_phase, budget)
    return None if copies is None else sums.as_sums().then(copies)
