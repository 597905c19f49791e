"""What an acquisition of a semaphore says of releases, whichever of several blocks was first.

It has gone on after this many releases. Of one block's those are the first; of several blocks' only this many
are certain as the others cannot make up for.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from taccl.backend.machine.acts import Acts, Kind
from taccl.backend.machine.order import DATA, Edge, OrderWriter

#: Per acquisition, as (semaphore, how many there were before), how many releases of each block come after it.
Later = dict[tuple[int, int], Counter[int]]


class Semaphores:
    """The semaphores of all ranks, by their counters, from call to call.

    Parameters
    ----------
    later : what is known from a replay before; it says that more releases are certain.
    """

    def __init__(self, acts: Acts, later: Later) -> None:
        self._initial: list[int] = acts.initial.tolist()
        self._later = later
        self._acquired = [0] * acts.num_counters
        self._released_before = [0] * acts.num_counters
        self._released: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._acquisitions: list[tuple[int, int, int]] = []
        self._found: Later = {}
        self._per_call: defaultdict[int, Counter[int]] = defaultdict(Counter)
        rows = acts.where(Kind.RELEASE)
        for counter, block in zip(acts.gives[rows].tolist(), acts.block[rows].tolist(), strict=True):
            self._per_call[counter][block] += 1

    def end_call(self, order: OrderWriter) -> None:
        """All blocks have ended: releases that come after an acquisition of the same call are noted."""
        for semaphore, before, moment in self._acquisitions:
            for released, block in self._released[semaphore]:
                if order.has_reached([released], moment):
                    self._found.setdefault((semaphore, before), Counter())[block] += 1
        self._acquisitions.clear()
        for semaphore, released_now in self._released.items():
            self._released_before[semaphore] += len(released_now)
            released_now.clear()

    def found_later(self) -> Later:
        """What a second replay could make use of."""
        return self._found

    def release(self, semaphore: int, moment: int, block: int) -> None:
        """A block releases it, with what it knows."""
        self._released[semaphore].append((moment, block))

    def has_several(self, semaphore: int) -> bool:
        """Whether several blocks release it."""
        return len(self._per_call[semaphore]) > 1

    def acquire(self, semaphore: int) -> list[Edge]:
        """The releases without which there could not be as many, whatever the other blocks have done."""
        needed = self._acquired[semaphore] + 1 - self._initial[semaphore] - self._released_before[semaphore]
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
