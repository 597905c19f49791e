"""Run every rank in a process of its own, in which its agents take turns; memory and counters are shared."""

from __future__ import annotations

import multiprocessing
import random
import signal
from multiprocessing.heap import BufferWrapper
from threading import Lock
from typing import Any

import numpy as np

from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.turns import take_turns
from taccl.backend.execute_plan.agents import Waiting
from taccl.backend.execute_plan.call import PlanCall
from taccl.backend.execute_plan.host import Answers
from taccl.backend.execute_plan.memory import WORD, World
from taccl.backend.execute_plan.ranked import End, agents_of, leftovers, planned, stuck_of
from taccl.backend.execute_plan.watch import ENDED, Nap, watch
from taccl.errors import TacclError, VerificationError


def run_processes(call: PlanCall, check: bool, deadline: Deadline) -> End:
    """Run a process per rank. However it ends, no process is left.

    Raises
    ------
    VerificationError : it is not at an end in time, though not stuck; or a process died.
    """
    context = _context()
    segment = BufferWrapper(World.words(call) * WORD)
    world = _world(call, segment)
    world.data[:] = 0
    world.begin()
    deadline.counts("moving data", planned(call), lambda: 0)
    stop, pipes, processes = context.Event(), [], []
    for rank in range(call.plan.num_ranks):
        here, there = context.Pipe(duplex=False)
        pipes.append(here)
        processes.append(
            context.Process(target=_run_rank, args=(rank, call, segment, check, stop, there), daemon=True)
        )

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
        ends = []
        for pipe in pipes:
            while not pipe.poll(0.05):
                look()
            ends.append(pipe.recv())
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
    for end in ends:
        if isinstance(end, TacclError):
            raise end
    stuck = tuple(text for end in ends for text in end.stuck)
    return End(
        sent=sum(end.sent for end in ends),
        verdicts=tuple(verdict for end in ends for verdict in end.verdicts),
        stuck=stuck,
        notes=() if stuck else leftovers(world),
    )


def _context() -> Any:
    """Processes that start from a clean one, not from this one with its threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _world(call: PlanCall, segment: Any) -> World:
    words = np.frombuffer(segment.create_memoryview(), dtype=np.uint32)
    return World(call, words[: World.words(call)])


def _run_rank(rank: int, call: PlanCall, segment: Any, check: bool, stop: Any, pipe: Any) -> None:
    """What the process of a rank does; it goes home when nothing will ever move."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    world = _world(call, segment)

    def look() -> None:
        world.acts[rank] += 1

    try:
        ranked = agents_of(world, rank, Answers(call, lambda: None), check, lambda: None, Lock())
        dice = random.Random(f"{call.requested.seed} {rank}")
        take_turns(ranked.agents, Waiting(), dice, Nap(world, rank, stop.is_set), look)
        said: End | TacclError = End(ranked.sent, (ranked.host.verdict,), stuck_of([ranked]))
    except TacclError as error:
        said = error
    world.state[rank] = ENDED
    pipe.send(said)
