"""What an acquisition of a semaphore says of releases, whichever of several blocks was first.

It has gone on after this many releases. Of one block's those are the first; of several blocks' only this many
are certain as the others cannot make up for.
"""

from __future__ import annotations

from collections import Counter

from taccl.backend.machine.order import DATA, Edge, Order
from taccl.backend.verify.mscclpp.acts import Kind, Unfolded

#: Per acquisition, as (semaphore, how many there were before), how many releases of each block come after it.
Later = dict[tuple[int, int], Counter[int]]


class Semaphores:
    """The semaphores of all ranks, from call to call.

    Parameters
    ----------
    later : what is known from a run before; it says that more releases are certain.
    """

    def __init__(self, unfolded: Unfolded, later: Later) -> None:
        self._initial = unfolded.initial
        self._later = later
        self._acquired = [0] * len(unfolded.initial)
        self._released_before = [0] * len(unfolded.initial)
        self._released: list[list[tuple[int, int]]] = [[] for _ in unfolded.initial]
        self._acquisitions: list[tuple[int, int, int]] = []
        self._found: Later = {}
        self._per_call: list[Counter[int]] = [Counter() for _ in unfolded.initial]
        for number, acts in enumerate(unfolded.acts):
            for act in acts:
                if act.kind is Kind.RELEASE:
                    for semaphore in act.semaphores:
                        self._per_call[semaphore][number] += 1

    def end_call(self, order: Order) -> None:
        """All blocks have ended: releases that come after an acquisition of the same call are noted."""
        for semaphore, before, moment in self._acquisitions:
            for released, block in self._released[semaphore]:
                if order.has_reached([released], moment):
                    self._found.setdefault((semaphore, before), Counter())[block] += 1
        self._acquisitions.clear()
        for semaphore, released_now in enumerate(self._released):
            self._released_before[semaphore] += len(released_now)
            released_now.clear()

    def found_later(self) -> Later:
        """What a second run could make use of."""
        return self._found

    def release(self, semaphore: int, moment: int, block: int) -> None:
        """A block releases it, with what it knows."""
        self._released[semaphore].append((moment, block))

    def is_free(self, semaphore: int) -> bool:
        """Whether an acquisition goes on."""
        return len(self._released[semaphore]) >= self._needed(semaphore)

    def has_several(self, semaphore: int) -> bool:
        """Whether several blocks release it."""
        return len(self._per_call[semaphore]) > 1

    def acquire(self, semaphore: int) -> list[Edge]:
        """The releases without which there could not be as many, whatever the other blocks have done."""
        needed = self._needed(semaphore)
        after: Counter[int] = self._later.get((semaphore, self._acquired[semaphore]), Counter())
        self._acquired[semaphore] += 1
        most = {block: count - after[block] for block, count in self._per_call[semaphore].items()}
        edges: list[Edge] = []
        for block, its_most in most.items():
            surely = max(0, needed - (sum(most.values()) - its_most))
            moments = [moment for moment, number in self._released[semaphore] if number == block]
            edges.extend((moment, DATA) for moment in moments[:surely])
        return edges

    def note(self, semaphore: int, moment: int) -> None:
        """The moment of the acquisition just made."""
        self._acquisitions.append((semaphore, self._acquired[semaphore] - 1, moment))

    def _needed(self, semaphore: int) -> int:
        """Releases of this call before which it cannot be acquired once more."""
        return self._acquired[semaphore] + 1 - self._initial[semaphore] - self._released_before[semaphore]
