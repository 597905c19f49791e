"""Messages of a round as sends and receives of MPI, on arrays of NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from taccl.deployment.jobs.steps import Exchange, RankRound, View
from taccl.deployment.jobs.under_way import Finish, UnderWay
from taccl.deployment.mpi.world import World

#: Between two ranks only their order distinguishes messages.
_TAG = 7342
_FIRST_NAP_S, _LONGEST_NAP_S = 1e-5, 2e-3


def messages_of(world: World, look: Callable[[], None] | None = None) -> Exchange:
    """Sends and receives of all processes.

    Parameters
    ----------
    look : called now and then while messages are on their way, and may raise; None: MPI waits by itself.
    """
    comm, byte = world.comm, world.mpi.BYTE

    def exchange(each: RankRound, view: View, under_way: UnderWay) -> None:
        for peer, place in each.receives:
            memory = view(place).view(np.uint8)
            under_way.before(memory, writes=True)
            under_way.add(memory, _wait_of(comm.Irecv([memory, byte], peer, _TAG), look), writes=True)
        for peer, place in each.sends:
            memory = view(place).view(np.uint8)
            under_way.before(memory, writes=False)
            under_way.add(memory, _wait_of(comm.Isend([memory, byte], peer, _TAG), look), writes=False)

    return exchange


def _wait_of(request: Any, look: Callable[[], None] | None) -> Finish:
    if look is None:
        whole: Finish = request.Wait
        return whole

    def wait() -> None:
        nap = _FIRST_NAP_S
        while not request.Test():
            look()
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP_S)

    return wait
