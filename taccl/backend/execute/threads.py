"""Run every rank in a thread of its own, in which its agents take turns."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from taccl.backend.execute.agents import Ranked
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.shared import World
from taccl.backend.execute.turns import take_turns
from taccl.backend.execute.watch import ENDED, Nap, watch
from taccl.errors import TacclError


class _StoppedError(Exception):
    """Everybody goes home."""


def run_threads(world: World, ranks: Sequence[Ranked], seed: int, deadline: Deadline) -> None:
    """Run all ranks; agents that have not ended afterwards are stuck. However it ends, no thread is left.

    Raises
    ------
    VerificationError : they are not at an end in time, though not stuck.
    TacclError : the system does not give this many threads.
    """
    stop = threading.Event()
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=_work, args=(world, rank, each, seed, deadline, stop, failures), daemon=True)
        for rank, each in enumerate(ranks)
    ]
    started = []

    def look() -> None:
        deadline.look()
        if failures:
            raise failures[0]

    try:
        for thread in threads:
            look()  # starting a thousand takes a while
            thread.start()
            started.append(thread)
        watch(world, look)
    except RuntimeError as error:
        raise TacclError(
            f"{len(threads)} threads cannot be started: {error}", hint="--ranks-as turns"
        ) from None
    finally:
        stop.set()
        for thread in started:
            thread.join()
    if failures:
        raise failures[0]


def _work(
    world: World,
    rank: int,
    ranked: Ranked,
    seed: int,
    deadline: Deadline,
    stop: threading.Event,
    failures: list[BaseException],
) -> None:
    def look() -> None:
        world.acts[rank] += 1
        if stop.is_set():
            raise _StoppedError
        deadline.look()

    try:
        nap = Nap(world, rank, stop.is_set)
        take_turns(ranked.agents, random.Random(f"{seed} {rank}"), nap, look)
    except _StoppedError:
        return
    except BaseException as failure:
        failures.append(failure)
    world.state[rank] = ENDED
