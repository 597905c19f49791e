"""Instances: every chunk cut into k, each k-th of the data sent by thread blocks of its own.

A transform of the schedule, so that no later pass knows of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.model.collective import Collective, IntArray
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.schedule import Schedule

#: A chunk lies at its number, in and out, at all ranks that have it.
_ONE_VECTOR = ("allreduce", "broadcast", "reduce")


def cut_into_instances(schedule: Schedule, instances: int) -> tuple[Schedule, IntArray]:
    """The schedule with `instances` copies of each row, and the instance of each row.

    Instance j takes the j-th of k equal stretches of every part, cut into as many pieces as the
    part was. So chunks that were neighbours within a part stay neighbours, and groups of them stay
    contiguous. Where all ranks have one vector (AllReduce, Broadcast, Reduce), that is cut as one part,
    so that groups across parts stay contiguous, too. Chunks of a collective of one's own are cut in place
    instead: nothing is known of their parts.

    The times are those of the whole chunks: they give the order of the program, and are no longer
    a schedule that `check` accepts.
    """
    if instances == 1:
        return schedule, np.zeros(len(schedule), dtype=np.int64)
    problem = schedule.problem
    collective = problem.collective
    number = np.repeat(np.arange(instances), len(schedule))
    rows = np.tile(np.arange(len(schedule)), instances)
    if collective.name in COLLECTIVES:
        finer = make_collective(
            collective.name, collective.num_ranks, collective.chunks_per_rank * instances, collective.root
        )
        pieces = collective.num_chunks if collective.name in _ONE_VECTOR else collective.chunks_per_rank
        part, piece = np.divmod(schedule.chunk[rows], pieces)
        chunk = (part * instances + number) * pieces + piece
    else:
        finer = cut_in_place(collective, instances)
        chunk = schedule.chunk[rows] * instances + number
    num_groups = int(schedule.group.max(initial=-1)) + 1
    cut = replace(
        schedule.take(rows),
        problem=replace(
            problem,
            collective=finer,
            chunk_mb=problem.chunk_mb / instances,
            sizes=None if problem.sizes is None else np.repeat(problem.sizes, instances),
        ),
        chunk=chunk,
        group=schedule.group[rows] + number * num_groups,
    )
    return cut, number


def cut_in_place(collective: Collective, instances: int) -> Collective:
    """The collective with each chunk cut into this many, which lie where it lay."""
    return replace(
        collective,
        chunks_per_rank=collective.chunks_per_rank * instances,
        chunks_per_size=collective.chunks_per_size * instances,
        inputs=collective.inputs.cut(instances),
        outputs=collective.outputs.cut(instances),
        reduces=np.repeat(collective.reduces, instances),
        owner=np.repeat(collective.owner, instances),
        in_place_shift=collective.in_place_shift * instances,
    )
