"""Ranks that run next to each other, in threads or in processes: how each naps, and who sees that all hang.

Each counts its acts, and its looks at waits that found none over, in memory that all share. When nobody has
acted between two moments, and everyone has looked anew since the first and again since the second, nothing
will ever move. So no clock is needed to tell a plan that hangs from one that is slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from taccl.backend.execute.shared import World

#: States of a rank.
RUNNING, ENDED = 0, 1
#: How long a rank naps, at first and at most, and how often the watcher looks (s).
_FIRST_NAP_S, _LONGEST_NAP_S, _LOOK_S = 2e-5, 1e-3, 2e-3


class Nap:
    """What a rank does when none of its agents can go on: look again, after a while that grows."""

    def __init__(self, world: World, rank: int, is_stopped: Callable[[], bool]) -> None:
        self.world, self.rank, self.is_stopped = world, rank, is_stopped
        self._acts, self._seconds = -1, _FIRST_NAP_S

    def __call__(self) -> bool:
        world, rank = self.world, self.rank
        world.looks[rank] += 1
        acts = int(world.acts[rank])
        self._seconds = min(2 * self._seconds, _LONGEST_NAP_S) if acts == self._acts else _FIRST_NAP_S
        self._acts = acts
        time.sleep(self._seconds)
        return not self.is_stopped()


def watch(world: World, look: Callable[[], None]) -> None:
    """Come back when all ranks have ended, or nothing will ever move; `look` may raise."""
    quiet, acts, looks = 0, world.acts.copy(), world.looks.copy()
    while not (world.state == ENDED).all():
        look()
        time.sleep(_LOOK_S)
        if (world.acts != acts).any():
            quiet, acts, looks = 0, world.acts.copy(), world.looks.copy()
        elif ((world.state == ENDED) | (world.looks >= looks + 2)).all():
            quiet, looks = quiet + 1, world.looks.copy()
            if quiet == 2:
                return
