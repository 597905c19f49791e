"""Problems that can be drawn on a napkin, and good schedules for them."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.api import make_problem
from taccl.encoding.core.options import SearchOptions
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.synthesis.search import search

#: A machine, a collective, chunks in each part.
_NAPKINS = (
    ("ring:3", "allgather", 1),
    ("ring-oneway:3", "allgather", 2),
    ("switch:4", "alltoall", 1),
    ("mesh:2x2", "broadcast", 2),
    ("ring:4", "reducescatter", 1),
    ("full:3", "allreduce", 1),
)
#: Units of work for a schedule.
_EFFORT = 400


def napkin_problems() -> Iterator[Problem]:
    """Six collectives of 3 MB on six machines of three or four ranks."""
    for machine, collective, chunks in _NAPKINS:
        yield make_problem(collective, topology=machine, size="3MB", chunks=chunks).problem


def napkin_schedules() -> Iterator[Schedule]:
    """A good schedule for each of `napkin_problems`; the same ones in each call."""
    for problem in napkin_problems():
        yield search(problem, SearchOptions(effort=_EFFORT)).schedule
