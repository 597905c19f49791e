"""A semaphore for each wait of a thread block for another of its rank that nothing else keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taccl.backend.lower_plan.graph import Action, Graph, Known


@dataclass(frozen=True, eq=False)
class Semaphores:
    """Semaphores by number.

    Parameters
    ----------
    count : by rank.
    acquires, releases : by action, those that it waits for before, and that it signals after.
    waits : by action, the actions that it so waits for.
    """

    count: list[int]
    acquires: dict[int, list[int]]
    releases: dict[int, list[int]]
    waits: dict[int, list[int]]


def find_semaphores(
    graph: Graph, known: Known, waits_of: Callable[[Action], Sequence[int]] | None = None
) -> Semaphores:
    """All of them.

    Parameters
    ----------
    known : what an action knows to be done with data and all.
    waits_of : the actions that one has to wait for; None: those directly before it.
    """
    made = Semaphores([0] * len(graph.node_of), {}, {}, {})
    for action in graph.actions:
        waits = graph.before[action.index] if waits_of is None else waits_of(action)
        for wait in waits:
            other = graph.actions[wait]
            if other.block == action.block or other.rank != action.rank:
                continue
            if any(known[each, other.block] > other.at for each in waits if each != wait):
                continue
            made.releases.setdefault(wait, []).append(made.count[action.rank])
            made.acquires.setdefault(action.index, []).append(made.count[action.rank])
            made.waits.setdefault(action.index, []).append(wait)
            made.count[action.rank] += 1
    return made
