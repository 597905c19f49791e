"""Problems of chunks that go from one rank to one, turned round, and their schedules read backwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.encoding.core.sequence import in_sequence
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def turned_round(problem: Problem) -> Problem:
    """The same backwards, on links turned round; of chunks that go from one rank to one."""
    collective = problem.collective
    turned = replace(collective, inputs=collective.outputs, outputs=collective.inputs)
    return replace(problem, topology=problem.topology.reversed(), collective=turned)


def read_backwards(problem: Problem, schedule: Schedule) -> Schedule:
    """A schedule of the problem turned round as one of the problem: the last send first, each soon."""
    order = np.lexsort((schedule.group, -schedule.start_us, -schedule.end_us))
    adds = np.zeros(len(order), dtype=np.bool_)
    return in_sequence(problem, schedule.chunk[order], schedule.link[order], adds, schedule.group[order])
