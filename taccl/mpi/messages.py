"""Messages of a round as sends and receives of MPI, on arrays of NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from taccl.jobs.steps import Exchange, RankRound, View
from taccl.mpi.world import World

#: Between two ranks messages are told apart by their order alone.
_TAG = 7342
_FIRST_NAP_S, _LONGEST_NAP_S = 1e-5, 2e-3


def messages_of(world: World, look: Callable[[], None] | None = None) -> Exchange:
    """Sends and receives of all processes.

    Parameters
    ----------
    look : called now and then while messages are on their way, and may raise; None: MPI waits by itself.
    """
    comm, byte = world.comm, world.mpi.BYTE

    def exchange(each: RankRound, view: View) -> None:
        requests = [
            comm.Irecv([view(place).view(np.uint8), byte], peer, _TAG) for peer, place in each.receives
        ]
        requests += [comm.Isend([view(place).view(np.uint8), byte], peer, _TAG) for peer, place in each.sends]
        if look is None:
            world.mpi.Request.Waitall(requests)
        else:
            _wait(world, requests, look)

    return exchange


def _wait(world: World, requests: list[Any], look: Callable[[], None]) -> None:
    nap = _FIRST_NAP_S
    while not world.mpi.Request.Testall(requests):
        look()
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP_S)
