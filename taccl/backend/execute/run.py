"""One run, whatever acts in it: by turns in this thread, in a thread or in a process for each rank."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.heap import BufferWrapper
from threading import Lock
from typing import Generic

from taccl.backend.execute.agents import End
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.job import RunJob, WorldT, size_of
from taccl.backend.execute.processes import run_processes
from taccl.backend.execute.shared import check_room, local, shared
from taccl.backend.execute.threads import run_threads
from taccl.backend.execute.turns import take_turns
from taccl.errors import TacclError

RANKS_AS = ("threads", "processes", "turns")


@dataclass(frozen=True, eq=False)
class Stage(Generic[WorldT]):
    """A job with its memory, ready to run.

    `segment` : where the memory lies, if processes share it.
    """

    job: RunJob[WorldT]
    world: WorldT
    ranks_as: str
    segment: BufferWrapper | None = None

    @staticmethod
    def of(job: RunJob[WorldT], ranks_as: str, num_ranks: int, look: Callable[[], None]) -> Stage[WorldT]:
        """Take the memory of a run; `look` may raise.

        Raises
        ------
        TacclError : there is not as much here.
        """
        is_shared = ranks_as == "processes"
        size = size_of(job, is_shared=is_shared)
        check_room(size, num_ranks, "a smaller --size, or --backend mpi on several machines")
        segment = BufferWrapper(size) if is_shared else None
        region = local(size) if segment is None else shared(segment, look)
        world = job.world(region, is_shared=is_shared)
        world.begin()
        return Stage(job, world, ranks_as, segment)

    def run(self, deadline: Deadline) -> tuple[End, ...]:
        """Run it; what each rank has to say.

        Raises
        ------
        VerificationError : it is not at an end in time, though not stuck; or an act failed.
        TacclError : the system does not give this many threads.
        """
        job, world = self.job, self.world
        if self.segment is not None:
            deadline.counts("moving data", job.planned, lambda: job.sent(world))
            return run_processes(job, world, self.segment, deadline)
        lock, ranks = Lock(), []
        for rank in range(world.num_ranks):
            deadline.look()
            ranks.append(job.ranked(world, rank, deadline.look, lock))
        deadline.counts("moving data", job.planned, lambda: sum(rank.sent for rank in ranks))
        if self.ranks_as == "threads":
            run_threads(world, ranks, job.seed, deadline)
        else:
            agents = [agent for rank in ranks for agent in rank.agents]
            take_turns(agents, random.Random(job.seed), look=deadline.look)
        return tuple(rank.end() for rank in ranks)


def check_ranks_as(ranks_as: str) -> None:
    """Refuse what is no way to run ranks. Raises `TacclError`."""
    if ranks_as not in RANKS_AS:
        raise TacclError(f"ranks cannot run as {ranks_as!r}", hint="one of " + ", ".join(RANKS_AS))
