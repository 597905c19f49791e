"""Reverse a problem in which each chunk goes from one rank to one, and read its schedules backwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.encoding.core.sequence import in_sequence
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def turned_round(problem: Problem) -> Problem:
    """The problem with time and links reversed. Each chunk has one source and one destination, which swap."""
    collective = problem.collective
    turned = replace(collective, inputs=collective.outputs, outputs=collective.inputs)
    return replace(problem, topology=problem.topology.reversed(), collective=turned)


def read_backwards(problem: Problem, schedule: Schedule) -> Schedule:
    """Read a schedule of the reversed problem backwards: last sends first, each as early as it can be."""
    order = np.lexsort((-schedule.group, -schedule.start_us, -schedule.end_us))
    adds = np.zeros(len(order), dtype=np.bool_)
    return in_sequence(problem, schedule.chunk[order], schedule.link[order], adds, schedule.group[order])
