"""Run every rank in a process of its own, in which its agents take turns; memory and counters are shared."""

from __future__ import annotations

import multiprocessing
import random
import signal
from collections.abc import Callable
from multiprocessing.heap import BufferWrapper
from typing import Any

from taccl.backend.execute.agents import End
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.job import Lock, RunJob, WorldT
from taccl.backend.execute.shared import World, shared
from taccl.backend.execute.turns import take_turns
from taccl.backend.execute.watch import ENDED, Nap, watch
from taccl.errors import TacclError, VerificationError


def run_processes(
    job: RunJob[WorldT], world: WorldT, segment: BufferWrapper, deadline: Deadline
) -> tuple[End, ...]:
    """Run a process per rank, whose worlds lie in one segment. However it ends, no process is left.

    Raises
    ------
    VerificationError : they are not at an end in time, though not stuck; or a process died.
    TacclError : what a rank raised.
    """
    context = _context()
    stop, lock, pipes, processes = context.Event(), context.Lock(), [], []
    for rank in range(world.num_ranks):
        here, there = context.Pipe(duplex=False)
        pipes.append(here)
        arguments = (rank, job, segment, stop, lock, there)
        processes.append(context.Process(target=_run_rank, args=arguments, daemon=True))

    def look() -> None:
        deadline.look()
        for rank, process in enumerate(processes):
            if process.exitcode:
                raise VerificationError(f"the process of rank {rank} died with exit code {process.exitcode}")

    try:
        for process in processes:
            process.start()
        watch(world, look)
        stop.set()
        ends = [_received(pipe, look) for pipe in pipes]
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
    for end in ends:
        if isinstance(end, TacclError):
            raise end
    return tuple(ends)


def _received(pipe: Any, look: Callable[[], None]) -> Any:
    while not pipe.poll(0.05):
        look()
    return pipe.recv()


def _context() -> Any:
    """Processes that start from a clean one, not from this one with its threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _run_rank(rank: int, job: RunJob[Any], segment: BufferWrapper, stop: Any, lock: Lock, pipe: Any) -> None:
    """What the process of a rank does; it goes home when nothing will ever move."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    world: World = job.world(shared(segment), is_shared=True)

    def look() -> None:
        world.acts[rank] += 1

    try:
        ranked = job.ranked(world, rank, lambda: None, lock)
        take_turns(ranked.agents, random.Random(f"{job.seed} {rank}"), Nap(world, rank, stop.is_set), look)
        said: End | TacclError = ranked.end()
    except TacclError as error:
        said = error
    world.state[rank] = ENDED
    pipe.send(said)
