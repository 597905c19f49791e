"""Phases that are mirror images: copies read backwards are the sums, so one search answers both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.encoding.core.tuning import MIRROR_IMAGE_MOST_PAIRS
from taccl.model.collective import IntArray, Placement
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def same_links(one: Problem, other: Problem) -> IntArray | None:
    """For each link of `one` that of `other` with the same ends, costs and ports, if both ask for the same.

    None: they differ, or have features or limits, or are so large that nobody looks.
    """
    if one.topology.num_pairs > MIRROR_IMAGE_MOST_PAIRS or not (_is_plain(one) and _is_plain(other)):
        return None
    if not _ask_the_same(one, other):
        return None
    return _same_links(one.topology, other.topology)


def as_same(schedule: Schedule, problem: Problem, links: IntArray) -> Schedule:
    """A schedule of one of two such problems as one of the other, by `same_links`."""
    return replace(schedule, problem=problem, link=links[schedule.link])


def _is_plain(problem: Problem) -> bool:
    """Whether nothing but links, ports and demands decides what a schedule is."""
    limits = (problem.limits.may_use, problem.limits.own_first, problem.limits.link_preference)
    is_free = all(each is None for each in limits)
    return is_free and not problem.features and problem.topology.port_betas is None


def _ask_the_same(one: Problem, other: Problem) -> bool:
    if (one.chunk_mb, one.max_group) != (other.chunk_mb, other.max_group):
        return False
    mine, theirs = one.collective, other.collective
    same_inputs = np.array_equal(_cells(mine.inputs), _cells(theirs.inputs))
    return same_inputs and np.array_equal(_cells(mine.outputs), _cells(theirs.outputs))


def _cells(placement: Placement) -> IntArray:
    order = np.lexsort((placement.rank, placement.chunk))
    return np.stack([placement.chunk[order], placement.rank[order]])


def _same_links(one: LogicalTopology, other: LogicalTopology) -> IntArray | None:
    if one.num_links != other.num_links or one.occupancy != other.occupancy:
        return None
    mine, theirs = (np.lexsort((each.dst, each.src)) for each in (one, other))
    for name in ("src", "dst", "alpha_us", "beta_us_per_mb"):
        if not np.array_equal(getattr(one, name)[mine], getattr(other, name)[theirs]):
            return None
    links = np.empty(one.num_links, dtype=np.int64)
    links[mine] = theirs
    shared = sorted(sorted(links[list(each)].tolist()) for each in one.port_links)
    return links if shared == sorted(sorted(each) for each in other.port_links) else None
